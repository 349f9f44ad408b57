"""DPD-SPEC-007: a given topic is where alerts can be published."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SPEC-007",
    severity=Severity.ERROR,
    title="a given alert topic is in the region and the account of the deployment",
    sources=(
        "Amazon Managed Service for Prometheus user guide, alert manager: topics of the same account and region",
    ),
)
def topic_is_reachable(deployment: Deployment) -> Iterator[Problem]:
    """The alert manager would accept another topic and publish nothing."""
    arn = deployment.platform.alerts.topic_arn
    if arn is None:
        return
    region, account = arn.split(":")[3:5]
    if region != deployment.region:
        yield _elsewhere(arn, "region", given=region, wanted=deployment.region)
    if deployment.account and account != deployment.account:
        yield _elsewhere(arn, "account", given=account, wanted=deployment.account)


def _elsewhere(arn: str, what: str, *, given: str, wanted: str) -> Problem:
    return Problem(
        path="platform.alerts.topic_arn",
        says=f"the alert manager publishes to no other {what}",
        given=f"`topic_arn: {arn}`, {what} `{given}`",
        limit=f"`{wanted}`",
        fix=f"give a topic of `{wanted}`, or remove `topic_arn` to have one made",
    )
