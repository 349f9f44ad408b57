"""Default deny, and exactly the flows that a deployment needs."""

from collections.abc import Iterable, Mapping
from typing import Any

from constructs import Construct

from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.flows import (
    Addresses,
    Flow,
    ForeignPods,
    Peer,
    Pods,
    PodsOfEveryDeployment,
    Ports,
)
from hyperpod_dpd.serving.names import Component
from hyperpod_dpd.serving.objects import api_object
from hyperpod_dpd.spec import Deployment


class NetworkPolicies(Construct):
    """One policy that denies everything per namespace, and one per component that opens its flows."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        flows: Iterable[Flow],
        namespaces: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Create the policies.

        Args:
            scope: chart that takes the objects.
            construct_id: id of this construct in `scope`.
            deployment: the deployment.
            flows: what is opened.
            namespaces: namespaces to close, with the labels of what is in them but belongs to no component; by default
                those of the deployment. None at all closes nothing, and opens `flows` of components in namespaces that
                somebody else has closed.
        """
        super().__init__(scope, construct_id)
        self._deployment = deployment
        own = (names.system_namespace(deployment), names.workers_namespace(deployment))
        self._labels = dict.fromkeys(own, names.labels(deployment)) if namespaces is None else namespaces
        wanted = tuple(flows)
        if not self._labels:
            for source in dict.fromkeys(flow.source for flow in wanted):
                assert isinstance(source, Pods), "only pods open connections"
                self._add_subject(source, wanted)
        for namespace in self._labels:
            self._add(
                Pods(namespace=namespace),
                "default-deny",
                {"policyTypes": ["Ingress", "Egress"]},
                component=None,
            )
            subjects = dict.fromkeys(
                peer
                for flow in wanted
                for peer in (flow.source, flow.destination)
                if isinstance(peer, Pods) and peer.namespace == namespace
            )
            for subject in sorted(subjects, key=lambda pods: pods.component or ""):
                self._add_subject(subject, wanted)

    def _add_subject(self, subject: Pods, flows: tuple[Flow, ...]) -> None:
        ingress = [
            {"from": _peers(flow.source, subject, self._deployment), "ports": _ports(flow.ports)}
            for flow in flows
            if flow.destination == subject
        ]
        egress = [
            {"to": _peers(flow.destination, subject, self._deployment), "ports": _ports(flow.ports)}
            for flow in flows
            if flow.source == subject
        ]
        rules: dict[str, Any] = {"policyTypes": []}
        for kind, entries in (("Ingress", ingress), ("Egress", egress)):
            if entries:
                rules["policyTypes"].append(kind)
                rules[kind.lower()] = entries
        name = subject.component.value if subject.component else "every-pod"
        self._add(subject, name, rules, component=subject.component)

    def _add(self, subject: Pods, name: str, rules: dict[str, Any], *, component: Component | None) -> None:
        api_object(
            self,
            f"{subject.namespace}-{name}",
            api_version="networking.k8s.io/v1",
            kind="NetworkPolicy",
            name=name,
            namespace=subject.namespace,
            labels=names.labels(self._deployment, component)
            if component
            else self._labels[subject.namespace],
            spec={"podSelector": _pod_selector(subject, self._deployment), **rules},
        )


def _pod_selector(pods: Pods, deployment: Deployment) -> dict[str, Any]:
    return {"matchLabels": names.selector(deployment, pods.component)} if pods.component else {}


def _peers(peer: Peer, subject: Pods, deployment: Deployment) -> list[dict[str, Any]]:
    match peer:
        case Pods():
            here = {"podSelector": _pod_selector(peer, deployment)}
            if peer.namespace == subject.namespace:
                return [here]
            return [{"namespaceSelector": _namespace_selector(peer.namespace), **here}]
        case ForeignPods():
            entry: dict[str, Any] = {"namespaceSelector": _namespace_selector(peer.namespace)}
            if peer.labels:
                entry["podSelector"] = {"matchLabels": dict(peer.labels)}
            return [entry]
        case PodsOfEveryDeployment():
            project = {names.PART_OF_LABEL: names.PART_OF}
            return [
                {
                    "namespaceSelector": {"matchLabels": project},
                    "podSelector": {"matchLabels": dict((peer.label,))},
                }
            ]
        case Addresses():
            return [_ip_block(cidr, peer.excluded) for cidr in peer.cidrs]


def _namespace_selector(namespace: str) -> dict[str, Any]:
    return {"matchLabels": {names.NAMESPACE_NAME_LABEL: namespace}}


def _ip_block(cidr: str, excluded: tuple[str, ...]) -> dict[str, Any]:
    block: dict[str, Any] = {"cidr": cidr}
    if excluded:
        block["except"] = list(excluded)
    return {"ipBlock": block}


def _ports(ranges: tuple[Ports, ...]) -> list[dict[str, Any]]:
    return [
        {"protocol": ports.protocol, "port": ports.first}
        | ({"endPort": ports.last} if ports.last > ports.first else {})
        for ports in ranges
    ]
