"""Which Kubernetes objects differ between the renderings of two deployments."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from hyperpod_dpd.serving.profile import profile_of
from hyperpod_dpd.serving.render import render
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.value import record

Objects = Mapping[tuple[str, str, str], dict[str, Any]]
"""Objects by kind, namespace and name."""


class Fate(StrEnum):
    """What happens to an object."""

    CREATED = "created"
    REMOVED = "removed"
    CHANGED = "changed"
    PODS_REPLACED = "changed, pods replaced"


@record
class ObjectChange:
    """One Kubernetes object."""

    kind: str
    namespace: str
    """Empty for an object of the whole cluster."""
    name: str
    fate: Fate

    @property
    def title(self) -> str:
        """Kind and full name."""
        return f"{self.kind} {f'{self.namespace}/' if self.namespace else ''}{self.name}"


def object_changes(old: Deployment, new: Deployment) -> tuple[ObjectChange, ...]:
    """Render both deployments on the backend of each and return the objects that differ, sorted.

    Raises:
        DeploymentRefusedError: the rules refuse one of them on its backend.
        UnresolvedError: something that one of them names does not exist or does not go together.
        IdleTimeoutTooLongError: a load balancer cannot wait for the longest answer.
    """
    return tuple(sorted(_changes(_objects(old), _objects(new)), key=lambda each: (each.fate, each.title)))


def _objects(deployment: Deployment) -> Objects:
    found = {}
    for entry in render(deployment, profile_of(deployment)).objects:
        metadata = entry["metadata"]
        found[entry["kind"], metadata.get("namespace", ""), metadata["name"]] = entry
    return found


def _changes(old: Objects, new: Objects) -> Iterator[ObjectChange]:
    for key in {**old, **new}:
        before, after = old.get(key), new.get(key)
        if before != after:
            kind, namespace, name = key
            yield ObjectChange(kind=kind, namespace=namespace, name=name, fate=_fate(before, after))


def _fate(before: dict[str, Any] | None, after: dict[str, Any] | None) -> Fate:
    if before is None:
        return Fate.CREATED
    if after is None:
        return Fate.REMOVED
    # a Deployment replaces its pods exactly when the template differs
    if before["kind"] == "Deployment" and before["spec"]["template"] != after["spec"]["template"]:
        return Fate.PODS_REPLACED
    return Fate.CHANGED
