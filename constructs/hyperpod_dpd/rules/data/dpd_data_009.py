"""DPD-DATA-009: log retention is one that CloudWatch knows."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment

# fmt: off
_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653)
# fmt: on


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
        if days not in _DAYS:
            longer = next((known for known in _DAYS if known > days), _DAYS[-1])
            yield Problem(
                path=path,
                says="CloudWatch Logs does not know this retention",
                given=f"{days} days",
                limit=", ".join(map(str, _DAYS)),
                fix=f"set {longer}",
            )
