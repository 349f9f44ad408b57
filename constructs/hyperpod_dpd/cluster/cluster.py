"""EKS as HyperPod needs it."""

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, DependencyGroup, IConstruct, IDependable

from hyperpod_dpd.catalog.eks import AddonPhase
from hyperpod_dpd.cluster.addons import Addons, NetworkPolicies
from hyperpod_dpd.cluster.administrators import Administrators
from hyperpod_dpd.cluster.control_plane import control_plane
from hyperpod_dpd.cluster.system_nodes import SystemNodeGroup
from hyperpod_dpd.network import ClusterNetwork
from hyperpod_dpd.spec import Cluster
from hyperpod_dpd.spec.arguments import checked
from hyperpod_dpd.spec.value import NonEmptyStr


@jsii.implements(ec2.IConnectable)
class DpdCluster(Construct):
    """An EKS cluster that HyperPod groups can join.

    Attributes:
        cluster: the cluster.
        oidc_provider: IAM identity provider of its service accounts.
        system_nodes: nodes for controllers.
        ready: system nodes, add-ons and security group rules, to depend on.
    """

    cluster: eks.Cluster
    oidc_provider: eks.OidcProviderNative
    system_nodes: eks.Nodegroup
    ready: IDependable

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        spec: Cluster,
        network: ClusterNetwork,
        name: NonEmptyStr,
        network_policies: NetworkPolicies = "enforced",
        log_retention_days: int = 90,
        removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    ) -> None:
        """Create the cluster.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            spec: version, endpoint, administrators, system nodes, add-on versions.
            network: where it lives: a `DpdNetwork`, or your own as an `ExistingNetwork`.
            name: name of the EKS cluster.
            network_policies: whether the CNI enforces network policies.
            log_retention_days: days that control-plane logs are kept.
            removal_policy: what happens to the cluster, its keys and logs when the stack goes.

        Raises:
            UnknownCatalogEntryError: HyperPod does not support the Kubernetes version, or an add-on has no version
                for it.
            ValueError: the system nodes are not amd64.
        """
        super().__init__(scope, construct_id)
        self.cluster = control_plane(
            self,
            spec=spec,
            network=network,
            name=name,
            log_retention_days=log_retention_days,
            removal_policy=removal_policy,
        )
        self.oidc_provider = eks.OidcProviderNative(
            self, "OidcProvider", url=self.cluster.cluster_open_id_connect_issuer_url
        )
        Administrators(self, "Administrators", cluster=self.cluster, principals=spec.administrators)
        before_nodes = self._addons(AddonPhase.BEFORE_NODES, spec, network_policies)
        nodes = SystemNodeGroup(
            self, "SystemNodes", spec=spec.system_nodes, cluster=self.cluster, network=network
        )
        self.system_nodes = nodes.group
        self.system_nodes.node.add_dependency(before_nodes.ready)
        on_nodes = self._addons(AddonPhase.SYSTEM_NODES, spec, network_policies)
        on_nodes.node.add_dependency(self.system_nodes)
        rules = self._open_between(network)
        self.ready = DependencyGroup(nodes, before_nodes.ready, on_nodes.ready, *rules)
        if removal_policy is not cdk.RemovalPolicy.DESTROY:
            _keep(self.oidc_provider, nodes, *rules)

    @property
    def connections(self) -> ec2.Connections:
        """Connections of the control plane; port 443 is the Kubernetes API."""
        return self.cluster.connections

    def _addons(self, phase: AddonPhase, spec: Cluster, network_policies: NetworkPolicies) -> Addons:
        return Addons(
            self,
            f"Addons-{phase}",
            phase=phase,
            spec=spec,
            cluster=self.cluster,
            network_policies=network_policies,
        )

    def _open_between(self, network: ClusterNetwork) -> tuple[cdk.CfnResource, ...]:
        """Open the way between GPU nodes and system nodes: they are in different security groups.

        Otherwise GPU pods reach neither DNS nor webhooks on system nodes. Putting GPU nodes into the cluster's own
        group instead would break EFA, for that group has no egress to itself.
        """
        gpu = network.efa_security_group.security_group_id
        system = self.cluster.cluster_security_group_id
        return (
            ec2.CfnSecurityGroupIngress(
                self,
                "SystemToGpu",
                group_id=gpu,
                source_security_group_id=system,
                ip_protocol="-1",
                description="system nodes and control plane to GPU nodes",
            ),
            ec2.CfnSecurityGroupIngress(
                self,
                "GpuToSystem",
                group_id=system,
                source_security_group_id=gpu,
                ip_protocol="-1",
                description="GPU nodes to system nodes: DNS, webhooks",
            ),
        )


def _keep(*scopes: IConstruct) -> None:
    """Let every resource of `scopes` outlive the stack, as the cluster does: without nodes it has no DNS.

    Only deletion is stopped. A replaced node group goes, and an administrator who leaves the deployment loses access.
    """
    for scope in scopes:
        for child in scope.node.find_all():
            if isinstance(child, cdk.CfnResource):
                child.cfn_options.deletion_policy = cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE
                child.cfn_options.update_replace_policy = cdk.CfnDeletionPolicy.DELETE
