"""Planted problems of the account, its bootstrap, names, secrets, images and certificates."""

from datetime import timedelta

from tests.preflight.aws import ACCOUNT_ID, NOW, Refusal
from tests.preflight.plant import Planted, but, decision_on, hub, only_buckets

PLANTED = {
    "another-account": Planted(
        check="PRE-ACC-001",
        path="account",
        deployment="default",
        changes={"account": "999999999999"},
        says=("given `account: 999999999999`", f"computed account `{ACCOUNT_ID}`", "--profile"),
    ),
    "another-region": Planted(
        check="PRE-ACC-001",
        path="region",
        region="us-west-2",
        says=("given `region: us-east-1`", "computed asked about `us-west-2`"),
    ),
    "region-not-enabled": Planted(
        check="PRE-ACC-002",
        path="region",
        answers={
            ("ec2", "DescribeRegions"): {
                "Regions": [{"RegionName": "us-east-1", "OptInStatus": "not-opted-in"}]
            }
        },
        says=("the region is `not-opted-in`", "aws account enable-region --region-name us-east-1"),
    ),
    "not-bootstrapped": Planted(
        check="PRE-CDK-001",
        path="region",
        answers={("ssm", "GetParameter"): Refusal(code="ParameterNotFound")},
        says=(
            "not bootstrapped",
            f"help: `cdk bootstrap aws://{ACCOUNT_ID}/us-east-1`",
            "`organization.bootstrap_qualifier`",
        ),
    ),
    "not-bootstrapped-as-the-organization-does": Planted(
        check="PRE-CDK-001",
        path="region",
        changes={"organization__bootstrap_qualifier": "bank"},
        # an account with the CDK's own bootstrap beside
        answers={
            ("ssm", "GetParameter"): lambda parameters: (
                {"Parameter": {"Value": "30"}}
                if parameters["Name"] == "/cdk-bootstrap/hnb659fds/version"
                else Refusal(code="ParameterNotFound")
            )
        },
        says=(
            "no parameter `/cdk-bootstrap/bank/version`",
            f"help: `cdk bootstrap aws://{ACCOUNT_ID}/us-east-1 --qualifier bank`",
        ),
    ),
    "restricted-bootstrap-of-the-organization": Planted(
        check="PRE-CDK-002",
        path="hyperpod",
        changes={"organization__bootstrap_qualifier": "bank"},
        answers=decision_on("implicitDeny", action="sagemaker:CreateCluster"),
        says=("`cdk-bank-cfn-exec-role-123456789012-us-east-1`",),
    ),
    "old-bootstrap": Planted(
        check="PRE-CDK-001",
        path="region",
        answers={
            ("ssm", "GetParameter"): lambda parameters: (
                {"Parameter": {"Value": "5"}}
                if parameters["Name"] == "/cdk-bootstrap/hnb659fds/version"
                else Refusal(code="ParameterNotFound")
            )
        },
        says=("too old", "computed bootstrap version 5", "limit at least 6"),
    ),
    "restricted-bootstrap": Planted(
        check="PRE-CDK-002",
        path="hyperpod",
        answers=decision_on("implicitDeny", action="sagemaker:CreateCluster"),
        says=(
            "`cdk-hnb659fds-cfn-exec-role-123456789012-us-east-1`",
            "denied: `sagemaker:CreateCluster`",
            "--cloudformation-execution-policies",
        ),
    ),
    "service-control-policy": Planted(
        check="PRE-CDK-002",
        path="hyperpod",
        answers=decision_on("implicitDeny", action="eks:CreateCluster", organization=False),
        says=("a service control policy keeps CloudFormation from", "denies `eks:CreateCluster`"),
    ),
    **{
        f"left-over-{kind}": Planted(
            check="PRE-NAM-002",
            path="name",
            answers={
                ("cloudformation", "DescribeStacks"): Refusal(code="ValidationError"),
                ("s3", "HeadBucket"): Refusal(code="404", status=404),
                ("secretsmanager", "DescribeSecret"): Refusal(code="ResourceNotFoundException"),
                ("logs", "DescribeLogGroups"): {"logGroups": [{"logGroupName": "/aws/eks/another/cluster"}]},
                **answers,
            },
            says=("an earlier deployment of this name left it", *says),
        )
        for kind, answers, says in (
            (
                "bucket",
                {("s3", "HeadBucket"): only_buckets(f"hyperpod-tls-llama-3-3-70b-p5-{ACCOUNT_ID}-us-east-1")},
                (
                    f"given `hyperpod-tls-llama-3-3-70b-p5-{ACCOUNT_ID}-us-east-1`",
                    f"`aws s3 rb s3://hyperpod-tls-llama-3-3-70b-p5-{ACCOUNT_ID}-us-east-1`",
                ),
            ),
            (
                "secret",
                {("secretsmanager", "DescribeSecret"): {"Name": "any"}},
                ("`hyperpod-dpd/llama-3-3-70b-p5/huggingface`", "--force-delete-without-recovery"),
            ),
            (
                "log-group",
                {
                    ("logs", "DescribeLogGroups"): {
                        "logGroups": [{"logGroupName": "/aws/vendedlogs/prometheus/llama-3-3-70b-p5"}]
                    }
                },
                ("given `/aws/vendedlogs/prometheus/llama-3-3-70b-p5`", "`aws logs delete-log-group "),
            ),
        )
    },
    "eks-name-taken": Planted(
        check="PRE-NAM-001",
        path="name",
        answers={("eks", "DescribeCluster"): {"cluster": {"name": "llama-3-3-70b-p5"}}},
        says=("name of the EKS cluster is taken", "given `llama-3-3-70b-p5`"),
    ),
    "hyperpod-name-taken": Planted(
        check="PRE-NAM-001",
        path="hyperpod.cluster_name",
        changes={"hyperpod__cluster_name": "training"},
        answers={},
        says=("name of the HyperPod cluster is taken", "gives its capacity away"),
    ),
    "secret-absent": Planted(
        check="PRE-SEC-001",
        path="model.source.token_secret",
        besides=("routing.api_keys_secret",),
        deployment="hub",
        answers={("secretsmanager", "DescribeSecret"): Refusal(code="ResourceNotFoundException")},
        says=(
            "the secret does not exist",
            "given `token_secret: hub-token`",
            "`dpd secret set hub-token --create",
        ),
    ),
    "secret-empty": Planted(
        check="PRE-SEC-001",
        path="routing.api_keys_secret",
        deployment="hub",
        answers={
            ("secretsmanager", "GetSecretValue"): lambda parameters: (
                {"SecretString": " \n" if parameters["SecretId"] == "api-keys" else "hf_x"}
            )
        },
        says=(
            "the secret is empty",
            "given `api_keys_secret: api-keys`",
            "`dpd secret set api-keys --region",
        ),
    ),
    "secret-without-a-value": Planted(
        check="PRE-SEC-001",
        path="model.source.token_secret",
        deployment="hub",
        changes={"routing__api_keys_secret": None},
        answers={("secretsmanager", "GetSecretValue"): Refusal(code="ResourceNotFoundException")},
        says=("the secret is empty",),
    ),
    "own-secret-empty": Planted(
        check="PRE-SEC-001",
        path="model.imported_from.token_secret",
        answers={("secretsmanager", "GetSecretValue"): Refusal(code="ResourceNotFoundException")},
        says=(
            "the secret is empty",
            "`dpd secret set hyperpod-dpd/llama-3-3-70b-p5/huggingface --region us-east-1`",
        ),
    ),
    "secret-deleted": Planted(
        check="PRE-SEC-001",
        path="model.source.token_secret",
        besides=("routing.api_keys_secret",),
        deployment="hub",
        answers={("secretsmanager", "DescribeSecret"): {"Name": "hub-token", "DeletedDate": NOW}},
        says=("scheduled for deletion", "restore-secret"),
    ),
    "image-absent": Planted(
        check="PRE-IMG-001",
        path="platform.images.worker",
        deployment="images",
        answers={("ecr", "DescribeImages"): Refusal(code="ImageNotFoundException")},
        says=(f"registry of {ACCOUNT_ID} in `us-east-1` has no such image",),
    ),
    "repository-absent": Planted(
        check="PRE-IMG-001",
        path="platform.images.worker",
        deployment="images",
        answers={("ecr", "DescribeImages"): Refusal(code="RepositoryNotFoundException")},
        says=("has no such repository",),
    ),
    "public-image-absent": Planted(
        check="PRE-IMG-001",
        path="serving.engine.image",
        deployment="images",
        web=hub(404),
        says=("vllm:server-hyperpod-cuda-v1.1`", "`public.ecr.aws` answers 404"),
    ),
    "certificate-pending": Planted(
        check="PRE-TLS-001",
        path="routing.load_balancer.certificate_arn",
        deployment="closed",
        answers=but(("acm", "DescribeCertificate"), Status="PENDING_VALIDATION"),
        says=("status `PENDING_VALIDATION`", "limit `ISSUED`"),
    ),
    "certificate-ends": Planted(
        check="PRE-TLS-001",
        path="routing.load_balancer.certificate_arn",
        deployment="closed",
        answers=but(("acm", "DescribeCertificate"), NotAfter=NOW + timedelta(days=3)),
        says=("it ends 2026-12-03", "limit at least 14 days"),
    ),
    "certificate-absent": Planted(
        check="PRE-TLS-001",
        path="routing.load_balancer.certificate_arn",
        deployment="closed",
        answers={("acm", "DescribeCertificate"): Refusal(code="ResourceNotFoundException")},
        says=("the certificate does not exist",),
    ),
    "certificate-elsewhere": Planted(
        check="PRE-TLS-001",
        path="routing.load_balancer.certificate_arn",
        deployment="closed",
        changes={
            "routing__load_balancer__certificate_arn": (
                f"arn:aws:acm:us-west-2:{ACCOUNT_ID}:certificate/12345678-1234-1234-1234-123456789012"
            )
        },
        says=("computed `us-west-2`", "limit `us-east-1`"),
    ),
}
