"""Which connections the NetworkPolicies of the set let through."""

from collections.abc import Iterator, Mapping
from typing import Final

from hyperpod_dpd.lint.model import KubernetesObject, ManifestSet, Pod, labels_of
from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.serving.names import NAMESPACE_NAME_LABEL
from hyperpod_dpd.spec.value import record

_EVERYWHERE: Final = ("0.0.0.0/0", "::/0")


def closed_by(manifests: ManifestSet, source: Pod, target: Pod, port: int) -> KubernetesObject | None:
    """Return a policy that keeps `source` from TCP `port` of `target`, or None where the way is open."""
    for way in (
        _Way(direction="Egress", peer_key="to", held=source, other=target, target=target, port=port),
        _Way(direction="Ingress", peer_key="from", held=target, other=source, target=target, port=port),
    ):
        selecting = [
            policy
            for policy in manifests.of_kind("NetworkPolicy")
            if policy.namespace == way.held.namespace
            and way.direction in _types(policy)
            and selects(policy.node.get("spec", "podSelector"), way.held.labels)
        ]
        opened = any(
            _lets_through(manifests, policy, rule, way)
            for policy in selecting
            for rule in _rules(policy, way.direction)
        )
        if selecting and not opened:
            # the policy that opens something is the one that forgot this; a bare default-deny forgets nothing
            return max(selecting, key=lambda policy: len(_rules(policy, way.direction)))
    return None


@record
class _Way:
    """One end of a connection, which policies hold."""

    direction: str
    peer_key: str
    held: Pod
    other: Pod
    target: Pod
    port: int


def selects(selector: Node | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects `labels`; an empty one selects everything."""
    if selector is None:
        return True
    wanted = labels_of(selector.get("matchLabels"))
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    expressions = selector.get("matchExpressions")
    return all(_expression(each, labels) for each in (() if expressions is None else expressions.items))


def _expression(expression: Node, labels: Mapping[str, str]) -> bool:
    key, operator = expression.text_at("key") or "", expression.text_at("operator")
    listed = expression.get("values")
    values = {value.text for value in (() if listed is None else listed.items)}
    match operator:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels


def _types(policy: KubernetesObject) -> frozenset[str]:
    given = policy.node.get("spec", "policyTypes")
    if given is not None:
        return frozenset(each.text or "" for each in given.items)
    return frozenset({"Ingress", "Egress"} if policy.node.get("spec", "egress") else {"Ingress"})


def _rules(policy: KubernetesObject, direction: str) -> tuple[Node, ...]:
    found = policy.node.get("spec", direction.lower())
    return () if found is None else found.items


def _lets_through(manifests: ManifestSet, policy: KubernetesObject, rule: Node, way: _Way) -> bool:
    peers, ports = rule.get(way.peer_key), rule.get("ports")
    if (
        peers is not None
        and peers.items
        and not any(_peer(manifests, policy, each, way.other) for each in peers.items)
    ):
        return False
    return ports is None or not ports.items or any(_port(each, way.target, way.port) for each in ports.items)


def _peer(manifests: ManifestSet, policy: KubernetesObject, peer: Node, other: Pod) -> bool:
    block = peer.get("ipBlock")
    if block is not None:
        # pods get their addresses later: only a block of all addresses is known to hold them
        return block.text_at("cidr") in _EVERYWHERE and block.get("except") is None
    namespaces, pods = peer.get("namespaceSelector"), peer.get("podSelector")
    if namespaces is None:
        in_namespace = other.namespace == policy.namespace
    else:
        in_namespace = selects(namespaces, _namespace_labels(manifests, other.namespace))
    return in_namespace and selects(pods, other.labels)


def _namespace_labels(manifests: ManifestSet, name: str) -> Mapping[str, str]:
    labels = {NAMESPACE_NAME_LABEL: name}
    for each in manifests.of_kind("Namespace"):
        if each.name == name:
            labels |= each.labels
    return labels


def _port(entry: Node, target: Pod, port: int) -> bool:
    if (entry.text_at("protocol") or "TCP") != "TCP":
        return False
    given = entry.get("port")
    if given is None:
        return True
    first = given.number
    if first is None:
        return port in _named(target, given.text or "")
    last = entry.get("endPort")
    return first <= port <= ((last.number if last is not None else None) or first)


def _named(target: Pod, name: str) -> Iterator[int]:
    for container in target.containers:
        listed = container.node.get("ports")
        for entry in () if listed is None else listed.items:
            number = entry.get("containerPort")
            if entry.text_at("name") == name and number is not None and number.number is not None:
                yield number.number
