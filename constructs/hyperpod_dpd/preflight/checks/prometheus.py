"""PRE-OBS-001: Amazon Managed Prometheus is there, for metrics."""

from collections.abc import Iterator

from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    if not account.offers("amp"):
        yield Problem(
            path="platform.scraping",
            says="Amazon Managed Prometheus is not in the region",
            given=f"`scraping: collector` in `{deployment.region}`",
            fix="`scraping: prometheus-operator` with a Prometheus of yours, or another region",
        )
        return
    # nothing to compare: an account that may not use the service is denied
    account.client("amp").list_workspaces(maxResults=1)


CHECK = Check(
    id="PRE-OBS-001",
    title="Amazon Managed Prometheus is in the region",
    calls=(Call(service="amp", operation="ListWorkspaces"),),
    look=_look,
    applies=lambda deployment: (
        deployment.platform.scraping == "collector" or deployment.platform.observability_addon
    ),
)
