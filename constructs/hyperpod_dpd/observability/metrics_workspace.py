"""The workspace of Amazon Managed Service for Prometheus that a cluster's metrics and alerts go through."""

from collections.abc import Mapping
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_aps as aps
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct

from hyperpod_dpd.derive.kept_names import metrics_log
from hyperpod_dpd.observability.alert_manager import alert_manager_definition
from hyperpod_dpd.security.logs import log_group
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.arguments import checked

WRITES: Final = ("aps:RemoteWrite",)
READS: Final = ("aps:QueryMetrics", "aps:GetSeries", "aps:GetLabels", "aps:GetMetricMetadata")


class MetricsWorkspace(Construct):
    """A workspace whose alert manager publishes to a topic and whose failures to do so are logged.

    Attributes:
        workspace: the workspace.
        arn: its ARN.
        url: its address, without a slash or `/api/v1` at the end.
        bindings: what reviewed YAML wants to know about it.
    """

    workspace: aps.CfnWorkspace
    arn: str
    url: str
    bindings: Mapping[Binding, str]

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        topic: sns.ITopic,
        log_key: kms.IKey,
        removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    ) -> None:
        """Create the workspace.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            deployment: the owner of the cluster, after which the workspace is called.
            topic: where alerts go; its account and region must be the workspace's.
            log_key: key of the log.
            removal_policy: whether metrics and log outlive the stack.
        """
        super().__init__(scope, construct_id)
        region = cdk.Stack.of(self).region
        log = log_group(
            self,
            "Log",
            name=metrics_log(deployment.name),
            key=log_key,
            retention_days=deployment.platform.log_retention_days,
            removal_policy=removal_policy,
        )
        key = kms.Key(
            self,
            "Key",
            description=f"Metrics of {deployment.name}",
            enable_key_rotation=True,
            removal_policy=removal_policy,
        )
        self.workspace = aps.CfnWorkspace(
            self,
            "Workspace",
            alias=deployment.name,
            # the service takes grants on it when the workspace is made; who writes or reads needs no right to it
            kms_key_arn=key.key_arn,
            alert_manager_definition=alert_manager_definition(
                topic_arn=topic.topic_arn, region=region, nights_off=deployment.platform.nights_off
            ),
            # a rule that cannot be evaluated and an alert that cannot be published show nowhere else
            logging_configuration=aps.CfnWorkspace.LoggingConfigurationProperty(
                log_group_arn=log.log_group_arn
            ),
        )
        self.workspace.apply_removal_policy(removal_policy)
        self.workspace.node.add_dependency(topic)
        self.arn = self.workspace.attr_arn
        # `attr_prometheus_endpoint` ends with a slash, which the collector's and the add-on's configuration must not have
        self.url = (
            f"https://aps-workspaces.{region}.amazonaws.com/workspaces/{self.workspace.attr_workspace_id}"
        )
        self.bindings = {Binding.AMP_WORKSPACE_URL: self.url}

    def grant_write(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let `grantee` write samples."""
        return self._grant(grantee, WRITES)

    def grant_read(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let `grantee` query."""
        return self._grant(grantee, READS)

    def _grant(self, grantee: iam.IGrantable, actions: tuple[str, ...]) -> iam.Grant:
        return iam.Grant.add_to_principal(grantee=grantee, actions=list(actions), resource_arns=[self.arn])
