"""PRE-HP-001: HyperPod's service-linked role exists, or may be created."""

from collections.abc import Iterator

from botocore.exceptions import ClientError

from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap, creates_cluster
from hyperpod_dpd.preflight.failure import code_of
from hyperpod_dpd.preflight.simulation import SIMULATION_CALL, refused
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment

_ROLE = "AWSServiceRoleForSageMakerHyperPod"
_PATH = "/aws-service-role/hyperpod.sagemaker.amazonaws.com/"
_MISSING = ("NoSuchEntity", "NoSuchEntityException")


def _role_arn(deployment: Deployment) -> tuple[str, ...]:
    return (f"arn:aws:iam::{deployment.account or '*'}:role{_PATH}{_ROLE}",)


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    try:
        account.client("iam").get_role(RoleName=_ROLE)
    except ClientError as error:
        if code_of(error) not in _MISSING:
            raise
        yield from _may_be_created(deployment, account)


def _may_be_created(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    try:
        yield from refused(
            deployment,
            account,
            ("iam:CreateServiceLinkedRole",),
            path="hyperpod",
            what_for=f"creating HyperPod's service-linked role `{_ROLE}`",
        )
    except ClientError as error:
        if code_of(error) not in _MISSING:
            raise
        yield Gap(
            what=f"that `{_ROLE}` may be created",
            why="it does not exist, and neither does the role that `cdk bootstrap` creates",
            fix="`aws iam create-service-linked-role --aws-service-name hyperpod.sagemaker.amazonaws.com`",
        )


CHECK = Check(
    id="PRE-HP-001",
    title="HyperPod's service-linked role exists or may be created",
    calls=(Call(service="iam", operation="GetRole", on=_role_arn), SIMULATION_CALL),
    look=_look,
    applies=creates_cluster,
)
