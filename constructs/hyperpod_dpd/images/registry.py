"""The account's own registry, whose repositories builds make and share."""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam


def account_registry(stack: cdk.Stack) -> str:
    """Return the account's own registry in the region of `stack`."""
    return f"{stack.account}.dkr.ecr.{stack.region}.{stack.url_suffix}"


def push_statements(stack: cdk.Stack, repository: str) -> list[iam.PolicyStatement]:
    """Return what `images/repository.sh` and a push need; `repository` is a name, or a prefix that ends with `*`."""
    return [
        # a registry token belongs to the account, not to a repository
        iam.PolicyStatement(actions=["ecr:GetAuthorizationToken"], resources=["*"]),
        iam.PolicyStatement(
            actions=[
                "ecr:BatchCheckLayerAvailability",
                "ecr:BatchGetImage",
                "ecr:CompleteLayerUpload",
                "ecr:CreateRepository",
                "ecr:DescribeImages",
                "ecr:DescribeRepositories",
                "ecr:InitiateLayerUpload",
                "ecr:PutImage",
                "ecr:UploadLayerPart",
            ],
            resources=[stack.format_arn(service="ecr", resource="repository", resource_name=repository)],
        ),
    ]
