"""DPD-DATA-009: log retention is one that CloudWatch knows."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.log_retention import RETENTION_DAYS, retention_of_at_least
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-DATA-009",
    severity=Severity.ERROR,
    title="log retentions are periods that CloudWatch Logs knows",
    sources=("AWS::Logs::LogGroup RetentionInDays",),
)
def retention_is_known(deployment: Deployment) -> Iterator[Problem]:
    """CloudWatch Logs takes 22 periods and refuses all others."""
    for path, days in (
        ("network.flow_log_retention_days", deployment.network.flow_log_retention_days),
        ("platform.log_retention_days", deployment.platform.log_retention_days),
    ):
        if days not in RETENTION_DAYS:
            yield Problem(
                path=path,
                says="CloudWatch Logs does not know this retention",
                given=f"{days} days",
                limit=", ".join(map(str, RETENTION_DAYS)),
                fix=f"set {retention_of_at_least(days)}",
            )
