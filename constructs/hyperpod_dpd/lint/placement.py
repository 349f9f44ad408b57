"""Where the scheduler may put a pod."""

from typing import Final

from hyperpod_dpd.lint.model import Pod, Worker
from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.lint.policies import selects
from hyperpod_dpd.serving.names import INSTANCE_GROUP_LABEL

ZONE_LABELS: Final = (
    "topology.k8s.aws/zone-id",
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
)
HOST_LABEL: Final = "kubernetes.io/hostname"


def can_meet(prefill: Worker, decode: Worker) -> bool:
    """Whether a prefill and a decode worker may come to lie on one node."""
    first, second = prefill.pod, decode.pod
    if first is None or second is None:
        return False
    if _keeps_away(first, second) or _keeps_away(second, first):
        return False
    ours, theirs = _selector(first), _selector(second)
    if any(key in theirs and theirs[key] != value for key, value in ours.items()):
        return False
    return prefill.instance is None or prefill.gpus + decode.gpus <= prefill.instance.gpus


def _keeps_away(pod: Pod, other: Pod) -> bool:
    terms = pod.node.get("affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    return any(
        term.text_at("topologyKey") == HOST_LABEL
        and term.get("labelSelector") is not None
        and selects(term.get("labelSelector"), other.labels)
        and _in_namespace(term, pod, other)
        for term in (() if terms is None else terms.items)
    )


def _in_namespace(term: Node, pod: Pod, other: Pod) -> bool:
    named = term.get("namespaces")
    if named is not None:
        return other.namespace in {each.text for each in named.items}
    return pod.namespace == other.namespace or term.get("namespaceSelector") is not None


def _selector(pod: Pod) -> dict[str, str]:
    found = pod.node.get("nodeSelector")
    return {} if found is None else {key: value.text or "" for key, value in found.pairs.items()}


def pinned_zone(pod: Pod) -> Node | None:
    """Return the zone that the pod's node selector or its required node affinity names."""
    for label in ZONE_LABELS:
        found = pod.node.get("nodeSelector", label)
        if found is not None:
            return found
    for value, label in _required(pod):
        if label in ZONE_LABELS:
            return value
    return None


def places_by_zone(pod: Pod) -> bool:
    """Whether the pod's zone is decided by something that this set can show."""
    if pinned_zone(pod) is not None or pod.node.get("nodeSelector", INSTANCE_GROUP_LABEL) is not None:
        return True
    if any(label == INSTANCE_GROUP_LABEL for _, label in _required(pod)):
        return True
    terms = pod.node.get("affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    return any(term.text_at("topologyKey") in ZONE_LABELS for term in (() if terms is None else terms.items))


def _required(pod: Pod) -> list[tuple[Node, str]]:
    terms = pod.node.get(
        "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"
    )
    found = []
    for term in () if terms is None else terms.items:
        expressions = term.get("matchExpressions")
        for each in () if expressions is None else expressions.items:
            values = each.get("values")
            if each.text_at("operator") == "In" and values is not None and len(values.items) == 1:
                found.append((values.items[0], each.text_at("key") or ""))
    return found
