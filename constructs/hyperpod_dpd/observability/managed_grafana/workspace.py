"""A workspace of Amazon Managed Grafana that may read one Prometheus workspace, and what is imported into it."""

import aws_cdk as cdk
from aws_cdk import aws_grafana as grafana
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from hyperpod_dpd.catalog.grafana import MANAGED_GRAFANA
from hyperpod_dpd.observability.managed_grafana.dashboard_import import DashboardImport
from hyperpod_dpd.observability.metrics_workspace import MetricsWorkspace
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.arguments import checked


class ManagedGrafana(Construct):
    """Needs IAM Identity Center, whose users and groups are let in by hand or with `aws grafana update-permissions`.

    Attributes:
        workspace: the workspace.
        url: its address.
        imported: the resource that has put data source and dashboards in.
    """

    workspace: grafana.CfnWorkspace
    url: str
    imported: cdk.CustomResource

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        metrics: MetricsWorkspace,
        log_key: kms.IKey,
        removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    ) -> None:
        """Create the workspace and import the dashboards.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            deployment: the owner of the cluster, after which the workspace is called.
            metrics: what the dashboards show.
            log_key: key of the import's log.
            removal_policy: whether workspace and log outlive the stack.
        """
        super().__init__(scope, construct_id)
        role = _role(self)
        granted = metrics.grant_read(role)
        self.workspace = grafana.CfnWorkspace(
            self,
            "Workspace",
            name=deployment.name,
            description=f"Dashboards of {deployment.name}: disaggregated serving on SageMaker HyperPod",
            account_access_type="CURRENT_ACCOUNT",
            authentication_providers=["AWS_SSO"],
            permission_type="CUSTOMER_MANAGED",
            # without it a workspace gets an older one, which cannot read the dashboards
            grafana_version=MANAGED_GRAFANA.version,
            role_arn=role.role_arn,
        )
        self.workspace.apply_removal_policy(removal_policy)
        self.workspace.node.add_dependency(role)
        self.url = f"https://{self.workspace.attr_endpoint}"
        self.imported = DashboardImport(
            self,
            "Dashboards",
            workspace_id=self.workspace.attr_id,
            url=self.url,
            prometheus_url=metrics.url,
            log_key=log_key,
            log_retention_days=deployment.platform.log_retention_days,
            removal_policy=removal_policy,
        ).resource
        # the import asks the data source, and that needs the role's rights
        granted.apply_before(self.imported)


def _role(scope: Construct) -> iam.Role:
    stack = cdk.Stack.of(scope)
    workspaces = stack.format_arn(service="grafana", resource="/workspaces", resource_name="*")
    return iam.Role(
        scope,
        "Role",
        description="Reads metrics for the dashboards of Amazon Managed Grafana",
        assumed_by=iam.ServicePrincipal(
            "grafana.amazonaws.com",
            conditions={
                "StringEquals": {"aws:SourceAccount": stack.account},
                "ArnLike": {"aws:SourceArn": workspaces},
            },
        ),
    )
