"""PRE-DAT-004: the bucket for the operator's certificates exists."""

from collections.abc import Iterator

from botocore.exceptions import ClientError

from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.preflight.failure import code_of
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment


def _bucket(deployment: Deployment) -> str | None:
    operator = deployment.platform.inference_operator
    return operator.tls_bucket if operator else None


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    bucket = _bucket(deployment)
    try:
        account.client("s3").head_bucket(Bucket=bucket)
    except ClientError as error:
        if code_of(error) not in ("404", "NoSuchBucket"):
            raise
        yield Problem(
            path="platform.inference_operator.tls_bucket",
            says="the bucket for generated certificates does not exist",
            given=f"`tls_bucket: {bucket}`",
            fix="create it, or remove `tls_bucket` to have one made",
        )


CHECK = Check(
    id="PRE-DAT-004",
    title="the bucket for generated certificates exists",
    calls=(
        Call(
            service="s3",
            operation="HeadBucket",
            on=lambda deployment: (f"arn:aws:s3:::{_bucket(deployment)}",),
        ),
    ),
    look=_look,
    applies=lambda deployment: _bucket(deployment) is not None,
)
