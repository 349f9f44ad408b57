"""PRE-CDK-002: CloudFormation may create what the stacks hold."""

from collections.abc import Iterator

from botocore.exceptions import ClientError

from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.check import Check, Gap, creates_cluster
from hyperpod_dpd.preflight.failure import code_of
from hyperpod_dpd.preflight.simulation import SIMULATION_CALL, refused
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment

# the first calls of each stack, and what the create handler of AWS::SageMaker::Cluster lists in its schema
_ACTIONS = (
    "ec2:CreateVpc",
    "ec2:CreateSubnet",
    "ec2:CreateSecurityGroup",
    "eks:CreateCluster",
    "eks:CreateAddon",
    "eks:CreateAccessEntry",
    "eks:AssociateAccessPolicy",
    "eks:DescribeCluster",
    "iam:CreateRole",
    "iam:PassRole",
    "kms:CreateKey",
    "s3:CreateBucket",
    "sagemaker:CreateCluster",
    "sagemaker:DescribeCluster",
    "sagemaker:AddTags",
    "sagemaker:ListTags",
    "sagemaker:BatchAddClusterNodes",
    "sagemaker:BatchDeleteClusterNodes",
)


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    try:
        yield from refused(
            deployment, account, _ACTIONS, path="hyperpod", what_for="creating network, cluster and HyperPod"
        )
    except ClientError as error:
        # without bootstrap there is no role; PRE-CDK-001 says so
        if code_of(error) not in ("NoSuchEntity", "NoSuchEntityException"):
            raise
        yield Gap(
            what="that CloudFormation may create what the stacks hold",
            why="the role that `cdk bootstrap` creates is not there",
            fix="`cdk bootstrap`, then run it again",
        )


CHECK = Check(
    id="PRE-CDK-002",
    title="CloudFormation may create what the stacks hold",
    calls=(SIMULATION_CALL,),
    look=_look,
    applies=creates_cluster,
)
