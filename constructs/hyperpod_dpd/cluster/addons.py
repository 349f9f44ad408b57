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
            eks.CfnAddon(
                self,
                row.name,
                addon_name=row.name,
                addon_version=addon_version(spec, row.name),
                cluster_name=cluster.cluster_name,
                resolve_conflicts="OVERWRITE",
                # a cluster that outlives its stack keeps its network plugin
                preserve_on_delete=True,
                configuration_values=configurations.get(row.name),
            )
            for row in addons()
            if row.phase is phase
        ]
        self.ready: IDependable = DependencyGroup(*resources)


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
