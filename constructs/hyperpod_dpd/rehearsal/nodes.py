"""Where the scheduler would put each pod, on the nodes that the deployment has."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hyperpod_dpd.catalog.instances import instance_type
from hyperpod_dpd.catalog.node_reserve import NODE_RESERVE
from hyperpod_dpd.catalog.system_nodes import system_instance
from hyperpod_dpd.lint.model import EFA, GPU, Pod
from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.lint.placement import HOST_LABEL
from hyperpod_dpd.lint.policies import selects
from hyperpod_dpd.lint.quantity import gib
from hyperpod_dpd.rehearsal.below import items, pairs
from hyperpod_dpd.rehearsal.pods import PodPlan
from hyperpod_dpd.rehearsal.trouble import Kind, Trouble, trouble
from hyperpod_dpd.serving.names import INSTANCE_GROUP_LABEL
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.value import record

_SYSTEM_DEFAULT: Final = (4.0, 16.0)
"""vCPUs and GiB of a system node whose type the catalog does not know."""

_BYTES: Final = frozenset({"memory", "ephemeral-storage", "hugepages-2Mi", "hugepages-1Gi"})
_NUMBER: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)(m)?")
_MOST_REPLICAS: Final = 64

_NOT_MODELLED: Final = frozenset({"ephemeral-storage", "hugepages-2Mi", "hugepages-1Gi"})
"""How much of these a node has is not in the catalog."""


@dataclass(slots=True, kw_only=True)
class LocalNode:
    """A node of the cluster, with what is still free on it."""

    name: str
    labels: Mapping[str, str]
    taints: Sequence[tuple[str, str, str]]
    """Key, value and effect."""

    free: dict[str, float]
    pods: list[PodPlan] = field(default_factory=list)


@record
class Placement:
    """Nodes of the pods of one workload, as many as it has replicas; None: nowhere to go."""

    plan: PodPlan
    nodes: tuple[str, ...]


def nodes_of(deployment: Deployment) -> list[LocalNode]:
    """Return the nodes of `deployment`: its instance groups and its system nodes."""
    nodes = []
    for group in deployment.hyperpod.instance_groups:
        instance = instance_type(group.instance_type)
        threads = group.threads_per_core / 2
        nodes += [
            LocalNode(
                name=f"{group.name}-{index}",
                labels={
                    INSTANCE_GROUP_LABEL: group.name,
                    "node.kubernetes.io/instance-type": group.instance_type,
                    HOST_LABEL: f"{group.name}-{index}",
                    "kubernetes.io/arch": "amd64",
                    "kubernetes.io/os": "linux",
                    "topology.k8s.aws/zone-id": deployment.zone_id(group),
                    **(group.labels or {}),
                },
                taints=[(taint.key, taint.value, taint.effect) for taint in group.taints],
                free={
                    "cpu": instance.vcpus * threads - NODE_RESERVE.vcpus,
                    "memory": instance.memory_gib * (1 - NODE_RESERVE.memory_share),
                    GPU: instance.gpus,
                    EFA: instance.efa_devices,
                },
            )
            for index in range(group.count)
        ]
    return [*nodes, *_system_nodes(deployment)]


def _system_nodes(deployment: Deployment) -> Iterator[LocalNode]:
    group = deployment.cluster.system_nodes
    row = system_instance(group.instance_type)
    cpus, memory_gib = (row.allocatable_cpus, row.allocatable_gib) if row else _SYSTEM_DEFAULT
    zones = deployment.network.cluster_zone_ids
    for index in range(group.count):
        yield LocalNode(
            name=f"system-{index}",
            labels={
                "node.kubernetes.io/instance-type": group.instance_type,
                HOST_LABEL: f"system-{index}",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "topology.k8s.aws/zone-id": zones[index % len(zones)],
            },
            taints=(),
            free={"cpu": cpus, "memory": memory_gib, GPU: 0, EFA: 0},
        )


def schedule(plans: Sequence[PodPlan], nodes: Sequence[LocalNode]) -> tuple[list[Placement], list[Trouble]]:
    """Put every pod on a node, the hungriest first, and say which find none and why."""
    placements, troubles = [], []
    accepted = []
    for plan in plans:
        wrong = _refused(plan)
        troubles += wrong
        accepted += [] if wrong else [plan]
    for plan in sorted(accepted, key=lambda each: -_asked(each).get(GPU, 0)):
        chosen: list[str] = []
        for _ in range(plan.replicas):
            node, reasons = _place(plan, nodes)
            if node is None:
                troubles.append(_pending(plan, nodes, reasons, len(chosen)))
                break
            for resource, amount in _asked(plan).items():
                node.free[resource] = node.free.get(resource, 0.0) - amount
            node.pods.append(plan)
            chosen.append(node.name)
        placements.append(Placement(plan=plan, nodes=tuple(chosen)))
    return placements, troubles


def _refused(plan: PodPlan) -> list[Trouble]:
    """Return what the API server does not accept, and what is too much for one machine."""
    found = [
        trouble(
            Kind.REFUSED,
            given,
            f"`{name}` of {plan.owner.title} is no quantity: `{given.shown()}`",
            "write a number such as `8`, `500m` or `64Gi`",
        )
        for container in plan.containers
        for kind in ("requests", "limits")
        for name, given in pairs(container.node, "resources", kind).items()
        if _amount(name, given) is None
    ]
    if not 0 <= plan.replicas <= _MOST_REPLICAS:
        found.append(
            trouble(
                Kind.ELSEWHERE,
                plan.owner.node,
                f"{plan.owner.title} has {plan.replicas} replicas; one machine rehearses up to {_MOST_REPLICAS}",
                "rehearse with fewer",
            )
        )
    return found


def _pending(plan: PodPlan, nodes: Sequence[LocalNode], reasons: Counter[str], placed: int) -> Trouble:
    why = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    return trouble(
        Kind.PENDING,
        plan.pod.node,
        f"pod {placed + 1} of {plan.replicas} of {plan.owner.title} has no node: 0/{len(nodes)} nodes are available: "
        f"{why}",
        "ask for what the nodes of the deployment's instance groups have, or give the group more nodes",
    )


def _place(plan: PodPlan, nodes: Sequence[LocalNode]) -> tuple[LocalNode | None, Counter[str]]:
    reasons: Counter[str] = Counter()
    for node in nodes:
        why = _why_not(plan, node, nodes)
        if not why:
            return node, reasons
        reasons.update(why)
    return None, reasons


def _why_not(plan: PodPlan, node: LocalNode, nodes: Sequence[LocalNode]) -> list[str]:
    """Return the scheduler's reasons in its own words."""
    pod = plan.pod
    if not _matches(pod, node):
        return ["node(s) didn't match Pod's node affinity/selector"]
    if not _tolerates(pod, node):
        return ["node(s) had untolerated taint(s)"]
    if not _keeps_apart(plan, node, nodes):
        return ["node(s) didn't match pod anti-affinity rules"]
    return [
        f"Insufficient {resource}"
        for resource, amount in _asked(plan).items()
        if amount > node.free.get(resource, 0.0)
    ]


def _asked(plan: PodPlan) -> dict[str, float]:
    """Return what one pod requests: CPUs, memory in GiB, devices."""
    asked: dict[str, float] = {}
    for container in plan.containers:
        resources = container.node.get("resources")
        if resources is None:
            continue
        # a limit without a request is the request
        for kind in ("limits", "requests"):
            for name, given in pairs(resources, kind).items():
                if name in _NOT_MODELLED or (
                    kind == "limits" and resources.get("requests", name) is not None
                ):
                    continue
                asked[name] = asked.get(name, 0.0) + (_amount(name, given) or 0.0)
    return asked


def _amount(name: str, given: Node) -> float | None:
    """Return a quantity: memory in GiB, everything else as a number; None where it is none."""
    if name in _BYTES:
        return gib(given)
    found = _NUMBER.fullmatch(given.text or "")
    if found is None:
        return None
    return float(found.group(1)) / (1000 if found.group(2) else 1)


def _matches(pod: Pod, node: LocalNode) -> bool:
    selector = pairs(pod.node, "nodeSelector")
    if any(node.labels.get(key) != value.text for key, value in selector.items()):
        return False
    terms = pod.node.get(
        "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"
    )
    # a term has the form of a label selector
    return terms is None or any(selects(term, node.labels) for term in terms.items)


def _tolerates(pod: Pod, node: LocalNode) -> bool:
    tolerations = items(pod.node, "tolerations")
    return all(
        effect == "PreferNoSchedule" or any(_tolerated(each, key, value, effect) for each in tolerations)
        for key, value, effect in node.taints
    )


def _tolerated(toleration: Node, key: str, value: str, effect: str) -> bool:
    if toleration.text_at("effect") not in (None, "", effect):
        return False
    named = toleration.text_at("key")
    if toleration.text_at("operator") == "Exists":
        return named in (None, "", key)
    return named == key and (toleration.text_at("value") or "") == value


def _keeps_apart(plan: PodPlan, node: LocalNode, nodes: Sequence[LocalNode]) -> bool:
    """Required anti-affinity, from both sides, within the topology that it names."""
    for other in nodes:
        for neighbour in other.pods:
            for first, second in ((plan, neighbour), (neighbour, plan)):
                for key in _anti_affinity(first, second):
                    if node.labels.get(key) is not None and node.labels.get(key) == other.labels.get(key):
                        return False
    return True


def _anti_affinity(plan: PodPlan, other: PodPlan) -> Iterator[str]:
    for term in items(
        plan.pod.node, "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
    ):
        namespaces = term.get("namespaces")
        listed = {plan.namespace} if namespaces is None else {each.text for each in namespaces.items}
        if other.namespace in listed and selects(term.get("labelSelector"), other.labels):
            yield term.text_at("topologyKey") or HOST_LABEL
