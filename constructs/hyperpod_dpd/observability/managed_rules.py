"""The rules of a deployment in Amazon Managed Service for Prometheus."""

from aws_cdk import aws_aps as aps
from constructs import Construct

from hyperpod_dpd.observability.rules import definition, rule_groups
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.arguments import checked
from hyperpod_dpd.spec.value import NonEmptyStr


class ManagedRules(Construct):
    """A rule groups namespace, named like the deployment: several share a workspace.

    Attributes:
        namespace: the rules.
    """

    namespace: aps.CfnRuleGroupsNamespace

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        workspace_arn: NonEmptyStr,
        disaggregates: bool = True,
    ) -> None:
        """Create the namespace.

        Args:
            scope: construct that takes it.
            construct_id: id of this construct in `scope`.
            deployment: the deployment.
            workspace_arn: ARN of the workspace that the collector writes to.
            disaggregates: False while a baseline is on the cluster.

        Raises:
            UnresolvedError: something that the deployment names does not exist or does not go together.
            ValueError: an SLO is beyond the last bucket of its histogram.
        """
        super().__init__(scope, construct_id)
        groups = rule_groups(deployment, disaggregates=disaggregates)
        self.namespace = aps.CfnRuleGroupsNamespace(
            self,
            "namespace",
            name=deployment.name,
            workspace=workspace_arn,
            data=definition(groups, deployment=deployment),
        )
