"""PRE-CDK-001: the region is bootstrapped for the CDK, recently enough."""

from collections.abc import Iterator

from botocore.exceptions import ClientError

from hyperpod_dpd.catalog.cdk import BOOTSTRAP
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call, arn
from hyperpod_dpd.preflight.check import Check, Gap, creates_cluster
from hyperpod_dpd.preflight.failure import code_of
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    where = f"aws://{account.account_id}/{deployment.region}"
    try:
        answer = account.client("ssm").get_parameter(Name=BOOTSTRAP.version_parameter)
    except ClientError as error:
        if code_of(error) != "ParameterNotFound":
            raise
        yield Problem(
            path="region",
            says="the region is not bootstrapped for the CDK",
            given=f"`{where}`, which has no parameter `{BOOTSTRAP.version_parameter}`",
            fix=f"`cdk bootstrap {where}`",
        )
        return
    version = int(answer["Parameter"]["Value"])
    if version < BOOTSTRAP.minimum_version:
        yield Problem(
            path="region",
            says="the CDK bootstrap is too old",
            given=f"`{where}`",
            computed=f"bootstrap version {version}",
            limit=f"at least {BOOTSTRAP.minimum_version}",
            fix=f"`cdk bootstrap {where}`",
        )


CHECK = Check(
    id="PRE-CDK-001",
    title="the CDK bootstrap is recent enough for the templates",
    calls=(
        Call(
            service="ssm",
            operation="GetParameter",
            on=lambda deployment: (arn(deployment, "ssm", f"parameter{BOOTSTRAP.version_parameter}"),),
        ),
    ),
    look=_look,
    applies=creates_cluster,
)
