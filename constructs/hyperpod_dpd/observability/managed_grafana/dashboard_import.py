"""The step of a deployment that puts data source and dashboards into a workspace, and fails with Grafana's own words."""

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from hyperpod_dpd.catalog.grafana import MANAGED_GRAFANA
from hyperpod_dpd.observability.dashboards import BOARDS, as_json
from hyperpod_dpd.security.function import own_function

_HANDLER: Final = Path(__file__).parent / "handler" / "index.py"
_FUNCTION_TIMEOUT_MINUTES: Final = 10
# longer than the function, so that it is the function that says what was wrong
_SERVICE_TIMEOUT_MINUTES: Final = 15

_ACTIONS: Final = (
    "grafana:CreateWorkspaceServiceAccount",
    "grafana:CreateWorkspaceServiceAccountToken",
    "grafana:DeleteWorkspaceServiceAccount",
)


class DashboardImport(Construct):
    """Runs when a dashboard, the workspace or the data source changes. Deleting it leaves the workspace as it is.

    Attributes:
        resource: the custom resource; whatever needs the dashboards depends on it.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        workspace_id: str,
        url: str,
        prometheus_url: str,
        log_key: kms.IKey,
        log_retention_days: int,
        removal_policy: cdk.RemovalPolicy,
    ) -> None:
        """Create the function and run it.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            workspace_id: id of the Grafana workspace.
            url: address of the Grafana workspace.
            prometheus_url: address of the Prometheus workspace, without `/api/v1`.
            log_key: key of the function's log.
            log_retention_days: days that this log is kept.
            removal_policy: whether this log outlives the stack.
        """
        super().__init__(scope, construct_id)
        stack = cdk.Stack.of(self)
        workspace_arn = stack.format_arn(
            service="grafana", resource="/workspaces", resource_name=workspace_id
        )
        dashboards = {f"{board.uid}.json": as_json(board) for board in BOARDS}
        with _package(dashboards) as folder:
            function, _ = own_function(
                self,
                folder=folder,
                description="Imports data source and dashboards into Amazon Managed Grafana",
                statements=[iam.PolicyStatement(actions=list(_ACTIONS), resources=[workspace_arn])],
                timeout=cdk.Duration.minutes(_FUNCTION_TIMEOUT_MINUTES),
                log_key=log_key,
                log_retention_days=log_retention_days,
                removal_policy=removal_policy,
            )
        self.resource = cdk.CustomResource(
            self,
            "Resource",
            resource_type="Custom::GrafanaDashboards",
            service_token=function.function_arn,
            service_timeout=cdk.Duration.minutes(_SERVICE_TIMEOUT_MINUTES),
            properties={
                "WorkspaceId": workspace_id,
                "Url": url,
                "DataSourceType": MANAGED_GRAFANA.prometheus_data_source,
                "PrometheusUrl": prometheus_url,
                "Region": stack.region,
                # new dashboards are only new code, and code alone makes no update
                "Dashboards": _digest(dashboards),
            },
        )
        self.resource.node.add_dependency(function)


@contextmanager
def _package(dashboards: dict[str, str]) -> Iterator[Path]:
    """Yield a folder with the handler and the dashboards that it imports."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(_HANDLER, folder)
        for file, text in dashboards.items():
            (folder / file).write_text(text, encoding="utf-8")
        yield folder


def _digest(dashboards: dict[str, str]) -> str:
    return hashlib.sha256("\0".join(dashboards.values()).encode()).hexdigest()
