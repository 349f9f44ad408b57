"""EKS add-ons that need no GPU node."""

import json
from collections.abc import Mapping
from typing import Any, Literal

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, DependencyGroup, IDependable

from hyperpod_dpd.catalog.eks import AddonPhase, addons
from hyperpod_dpd.cluster.system_nodes import SYSTEM_NODE_LABELS
from hyperpod_dpd.derive.addons import addon_version
from hyperpod_dpd.spec import Cluster

NetworkPolicies = Literal["enforced", "rendered-only"]


class Addons(Construct):
    """The add-ons of one phase, each pinned.

    `eks.Addon` knows no conflict resolution, and without `OVERWRITE` the add-on that replaces EKS's self-managed
    CoreDNS fails (aws/containers-roadmap 1411).

    Attributes:
        ready: every add-on, to depend on.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        phase: AddonPhase,
        spec: Cluster,
        cluster: eks.Cluster,
        network_policies: NetworkPolicies,
    ) -> None:
        """Create the add-ons of `phase`.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            phase: which add-ons.
            spec: the cluster, with its versions.
            cluster: the cluster that gets them.
            network_policies: whether the CNI enforces network policies.
        """
        super().__init__(scope, construct_id)
        configurations = _configurations(network_policies)
        resources = [
            pinned_addon(
                self,
                row.name,
                spec=spec,
                cluster_name=cluster.cluster_name,
                # a cluster that outlives its stack keeps its network plugin
                preserve_on_delete=True,
                configuration_values=configurations.get(row.name),
            )
            for row in addons()
            if row.phase is phase
        ]
        self.ready: IDependable = DependencyGroup(*resources)


def pinned_addon(
    scope: Construct,
    name: str,
    *,
    spec: Cluster,
    cluster_name: str,
    version: str | None = None,
    configuration_values: str | None = None,
    service_account_role_arn: str | None = None,
    preserve_on_delete: bool | None = None,
) -> eks.CfnAddon:
    """Return the add-on `name` in the given version, or in that of the cluster or of the catalog.

    It has been created when EKS has taken it, and may be `DEGRADED`; what needs its pods waits for them.
    """
    return eks.CfnAddon(
        scope,
        name,
        addon_name=name,
        addon_version=version or addon_version(spec, name),
        cluster_name=cluster_name,
        resolve_conflicts="OVERWRITE",
        preserve_on_delete=preserve_on_delete,
        configuration_values=configuration_values,
        service_account_role_arn=service_account_role_arn,
    )


def _configurations(network_policies: NetworkPolicies) -> Mapping[str, str]:
    values: dict[str, Any] = {
        "vpc-cni": {"enableNetworkPolicy": "true"}
        if network_policies == "enforced"
        # without policies to enforce, the agent only crash-loops on HyperPod nodes (sunilpp/hyperpod-quickstart 942394e)
        else {"enableNetworkPolicy": "false", "nodeAgent": {"enabled": False}},
        # a GPU group that is scaled to zero must not take DNS with it
        "coredns": {"nodeSelector": SYSTEM_NODE_LABELS},
    }
    return {name: json.dumps(value, sort_keys=True) for name, value in values.items()}
