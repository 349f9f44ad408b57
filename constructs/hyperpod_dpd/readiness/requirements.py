"""What a wait waits for, as plain values: constructs write them into templates, the poller judges them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

from hyperpod_dpd.catalog.instances import instance_type
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.arguments import checked, checked_fields


class Requirement(Protocol):
    """Something that must be so before a deployment goes on."""

    IS: ClassVar[str]

    def as_event(self) -> dict[str, Any]:
        """Return the requirement as the poller reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Nodes of one HyperPod instance group."""

    name: str
    count: int
    """How many must be usable."""
    devices: Mapping[str, int]
    """Extended resources that each of them must offer, such as `nvidia.com/gpu`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesHealthy:
    """Nodes run, have passed their health checks, have joined Kubernetes and offer their devices."""

    IS: ClassVar[str] = "nodes-healthy"
    groups: Sequence[NodeGroup]

    def as_event(self) -> dict[str, Any]:
        """Return the requirement as the poller reads it."""
        groups = [
            {"name": group.name, "count": group.count, "devices": dict(group.devices)}
            for group in self.groups
        ]
        return {"is": self.IS, "groups": groups}


@dataclass(frozen=True, slots=True, kw_only=True)
class AddonActive:
    """An EKS add-on works: CloudFormation goes on as soon as it is `DEGRADED`."""

    IS: ClassVar[str] = "addon-active"
    name: str

    def as_event(self) -> dict[str, Any]:
        """Return the requirement as the poller reads it."""
        return {"is": self.IS, "name": self.name}


@checked_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """Every pod of a workload's newest revision is available."""

    IS: ClassVar[str] = "rollout"
    kind: Literal["deployment", "daemonset", "statefulset"] = "deployment"
    namespace: str
    name: str

    def as_event(self) -> dict[str, Any]:
        """Return the requirement as the poller reads it."""
        return {"is": self.IS, "kind": self.kind, "namespace": self.namespace, "name": self.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAnswers:
    """A ready pod stands behind a Service."""

    IS: ClassVar[str] = "service-answers"
    namespace: str
    name: str

    def as_event(self) -> dict[str, Any]:
        """Return the requirement as the poller reads it."""
        return {"is": self.IS, "namespace": self.namespace, "name": self.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookAnswers:
    """An admission webhook answers when an object of its kind is created, which is rehearsed and not done."""

    IS: ClassVar[str] = "webhook-answers"
    plural: str
    body: Mapping[str, Any]
    """The object, with `apiVersion` and `metadata.namespace`; the webhook must accept it."""

    def as_event(self) -> dict[str, Any]:
        """Return the requirement as the poller reads it."""
        namespace = self.body["metadata"]["namespace"]
        path = f"/apis/{self.body['apiVersion']}/namespaces/{namespace}/{self.plural}"
        return {"is": self.IS, "path": path, "body": dict(self.body)}


@checked_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class JobComplete:
    """A Job has ended well; if not, the wait fails with what its pod wrote to its termination message."""

    IS: ClassVar[str] = "job-complete"
    namespace: str
    name: str

    def as_event(self) -> dict[str, Any]:
        """Return the requirement as the poller reads it."""
        return {"is": self.IS, "namespace": self.namespace, "name": self.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceState:
    """A custom resource whose controller writes one word into `status.state`."""

    IS: ClassVar[str] = "resource-state"
    group: str
    version: str
    plural: str
    namespace: str
    name: str
    complete: str
    """Word that ends the wait."""
    failed: str
    """Word that fails it, with the messages of the resource's conditions."""

    def as_event(self) -> dict[str, Any]:
        """Return the requirement as the poller reads it."""
        return {
            "is": self.IS,
            "path": f"/apis/{self.group}/{self.version}/namespaces/{self.namespace}/{self.plural}/{self.name}",
            "complete": self.complete,
            "failed": self.failed,
        }


@checked
def nodes_of(deployment: Deployment) -> NodesHealthy:
    """Return that the GPU groups of `deployment` are complete, with every GPU and every EFA device.

    A group that is content with fewer nodes (`minimum`) is complete with these.

    Raises:
        UnknownCatalogEntryError: the catalog has no such instance type.
    """
    groups = []
    for group in deployment.hyperpod.instance_groups:
        row = instance_type(group.instance_type)
        wanted = group.minimum or group.count
        groups.append(
            NodeGroup(
                name=group.name,
                count=wanted,
                devices={"nvidia.com/gpu": row.gpus, "vpc.amazonaws.com/efa": row.efa_devices},
            )
        )
    return NodesHealthy(groups=tuple(groups))
