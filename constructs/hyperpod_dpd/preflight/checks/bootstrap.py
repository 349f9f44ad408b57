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
    bootstrap = BOOTSTRAP.of(deployment)
    given = deployment.organization.bootstrap_qualifier
    command = f"`cdk bootstrap {where}{f' --qualifier {given}' if given else ''}`"
    try:
        answer = account.client("ssm").get_parameter(Name=bootstrap.version_parameter)
    except ClientError as error:
        if code_of(error) != "ParameterNotFound":
            raise
        yield Problem(
            path="region",
            says="the region is not bootstrapped for the CDK",
            given=f"`{where}`, which has no parameter `{bootstrap.version_parameter}`",
            fix=command
            if given
            else f"{command}, or give `organization.bootstrap_qualifier` if it has another qualifier",
        )
        return
    version = int(answer["Parameter"]["Value"])
    if version < bootstrap.minimum_version:
        yield Problem(
            path="region",
            says="the CDK bootstrap is too old",
            given=f"`{where}`",
            computed=f"bootstrap version {version}",
            limit=f"at least {bootstrap.minimum_version}",
            fix=command,
        )


CHECK = Check(
    id="PRE-CDK-001",
    title="the CDK bootstrap is recent enough for the templates",
    calls=(
        Call(
            service="ssm",
            operation="GetParameter",
            on=lambda deployment: (
                arn(deployment, "ssm", f"parameter{BOOTSTRAP.of(deployment).version_parameter}"),
            ),
        ),
    ),
    look=_look,
    applies=creates_cluster,
)
