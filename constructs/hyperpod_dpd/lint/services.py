"""Services of the set: what they select, and what reaches them from outside."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.lint.model import KubernetesObject, ManifestSet, Pod, labels_of
from hyperpod_dpd.lint.node import Node

_OPEN_TYPES: Final = ("LoadBalancer", "NodePort")


def selected(service: KubernetesObject, pod: Pod) -> bool:
    """Whether `service` sends its traffic to `pod`."""
    selector = labels_of(service.node.get("spec", "selector"))
    return (
        bool(selector)
        and service.namespace == pod.namespace
        and all(pod.labels.get(key) == value for key, value in selector.items())
    )


def services_of(manifests: ManifestSet, pod: Pod) -> Iterator[KubernetesObject]:
    """Yield the Services that send traffic to `pod`."""
    return (service for service in manifests.of_kind("Service") if selected(service, pod))


def public(manifests: ManifestSet, service: KubernetesObject) -> bool:
    """Whether clients outside the cluster reach `service`."""
    if service.node.text_at("spec", "type") in _OPEN_TYPES:
        return True
    return any(
        service.name in _backends(ingress.node)
        for ingress in manifests.of_kind("Ingress")
        if ingress.namespace == service.namespace
    )


def named(manifests: ManifestSet, host: str, namespace: str) -> KubernetesObject | None:
    """Return the Service that `host` means to a pod in `namespace`."""
    parts = host.split(".")
    name, place = parts[0], parts[1] if len(parts) > 1 else namespace
    for service in manifests.of_kind("Service"):
        if (service.name, service.namespace) == (name, place):
            return service
    return None


def target_port(service: KubernetesObject, port: int) -> Node | None:
    """Return the entry of `service` that listens on `port`; a headless Service passes every port on."""
    listed = service.node.get("spec", "ports")
    for entry in () if listed is None else listed.items:
        given = entry.get("port")
        if given is not None and given.number == port:
            return entry
    return None


def _backends(node: Node) -> set[str]:
    return {
        name
        for each in node.walk()
        if (service := each.get("service")) is not None and (name := service.text_at("name"))
    }
