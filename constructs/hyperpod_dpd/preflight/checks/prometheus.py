"""PRE-OBS-001: Amazon Managed Prometheus is there, for metrics."""

from collections.abc import Iterator

from botocore.exceptions import EndpointConnectionError

from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    try:
        # nothing to compare: an account that may not use the service is denied
        account.client("amp").list_workspaces(maxResults=1)
    except EndpointConnectionError as error:
        # other services of the region have answered, and botocore's list of endpoints names every region
        yield Problem(
            path="platform.scraping",
            says="Amazon Managed Prometheus has no endpoint in the region",
            given=f"`scraping: {deployment.platform.scraping}` in `{deployment.region}`",
            computed=f"nothing answers at `{error.kwargs['endpoint_url']}`",
            fix="choose another region, or `scraping: prometheus-operator` with a Prometheus of yours",
        )


CHECK = Check(
    id="PRE-OBS-001",
    title="Amazon Managed Prometheus is in the region",
    calls=(Call(service="amp", operation="ListWorkspaces"),),
    look=_look,
    applies=lambda deployment: (
        deployment.platform.scraping == "collector" or deployment.platform.observability_addon
    ),
)
