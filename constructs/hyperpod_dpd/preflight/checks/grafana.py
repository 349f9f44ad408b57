"""PRE-OBS-002: Amazon Managed Grafana is in the region, and IAM Identity Center to log in with."""

from collections.abc import Iterator

from botocore.exceptions import ClientError, EndpointConnectionError

from hyperpod_dpd.catalog.regions import region, regions
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    if not region(deployment.region).managed_grafana:
        yield Problem(
            path="platform.grafana",
            says="Amazon Managed Grafana is not in the region",
            given=f"`grafana: managed` in `{deployment.region}`",
            limit=", ".join(f"`{row.name}`" for row in regions() if row.managed_grafana),
            fix="`grafana: self-hosted`, which renders dashboards as ConfigMaps, or another region",
        )
    else:
        account.client("grafana").list_workspaces(maxResults=1)
    if not _identity_center(deployment, account):
        yield Problem(
            path="platform.grafana",
            says="nobody could log in: the account sees no IAM Identity Center",
            given="`grafana: managed`",
            computed=f"no instance in {len(regions())} regions",
            fix="enable IAM Identity Center in the organization, or write `grafana: self-hosted`",
        )


def _identity_center(deployment: Deployment, account: Account) -> bool:
    """Whether there is an instance: it lives in one region, and only that region tells."""
    others = [row.name for row in regions() if row.name != deployment.region]
    for name in (deployment.region, *others):
        try:
            if account.client("sso-admin", region=name).list_instances()["Instances"]:
                return True
        except EndpointConnectionError:
            continue
        except ClientError as error:
            # a region that the account has not enabled has no instance
            if name == deployment.region or error.response["Error"]["Code"] != "UnrecognizedClientException":
                raise
    return False


CHECK = Check(
    id="PRE-OBS-002",
    title="Amazon Managed Grafana and IAM Identity Center are there",
    calls=(
        Call(service="grafana", operation="ListWorkspaces"),
        Call(service="sso-admin", operation="ListInstances"),
    ),
    look=_look,
    applies=lambda deployment: deployment.platform.grafana == "managed",
)
