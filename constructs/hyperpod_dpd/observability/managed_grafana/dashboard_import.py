"""The step of a deployment that puts data source and dashboards into a workspace, and fails with Grafana's own words."""

import hashlib
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from hyperpod_dpd.catalog.grafana import MANAGED_GRAFANA
from hyperpod_dpd.observability.dashboards import BOARDS, as_json
from hyperpod_dpd.security.logs import log_group

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
        log = log_group(
            self, "Log", key=log_key, retention_days=log_retention_days, removal_policy=removal_policy
        )
        workspace_arn = stack.format_arn(
            service="grafana", resource="/workspaces", resource_name=workspace_id
        )
        dashboards = {f"{board.uid}.json": as_json(board) for board in BOARDS}
        function = self._function(log, workspace_arn, dashboards)
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

    def _function(
        self, log: logs.LogGroup, workspace_arn: str, dashboards: dict[str, str]
    ) -> lambda_.Function:
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[log.log_group_arn]
            )
        )
        role.add_to_policy(iam.PolicyStatement(actions=list(_ACTIONS), resources=[workspace_arn]))
        with TemporaryDirectory() as folder:
            shutil.copy(_HANDLER, folder)
            for name, text in dashboards.items():
                (Path(folder) / name).write_text(text, encoding="utf-8")
            code = lambda_.Code.from_asset(folder)
            # the folder is copied when the function takes the code
            function = lambda_.Function(
                self,
                "Function",
                description="Imports data source and dashboards into Amazon Managed Grafana",
                runtime=lambda_.Runtime.PYTHON_3_14,
                handler="index.handler",
                code=code,
                role=role,
                log_group=log,
                timeout=cdk.Duration.minutes(_FUNCTION_TIMEOUT_MINUTES),
                memory_size=256,
            )
        # the first request must not meet a role without its policy
        function.node.add_dependency(role)
        return function


def _digest(dashboards: dict[str, str]) -> str:
    return hashlib.sha256("\0".join(dashboards.values()).encode()).hexdigest()
