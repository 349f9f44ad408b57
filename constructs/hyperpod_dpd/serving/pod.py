"""The one helper for pods that cdk8s-plus-27 gets wrong: GPU workers, and everything held to `restricted`.

It writes `CAP_IPC_LOCK`, which Kubernetes does not know, has no word for `nvidia.com/gpu`, and sets neither a
seccomp profile nor `drop: ALL`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hyperpod_dpd.serving.engine import EnvironmentVariable, Probe, Probes, Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A volume together with the one place where the container sees it."""

    name: str
    path: str
    source: Mapping[str, Any]
    """Volume source as Kubernetes writes it, such as `{"emptyDir": {}}`."""
    read_only: bool = False

    def as_volume(self) -> dict[str, Any]:
        """Return the entry of `spec.volumes`."""
        return {"name": self.name, **self.source}

    def as_mount(self) -> dict[str, Any]:
        """Return the entry of `volumeMounts`."""
        return {"name": self.name, "mountPath": self.path} | ({"readOnly": True} if self.read_only else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Privilege:
    """What a container may do beyond the minimum."""

    root: bool = False
    capabilities: tuple[str, ...] = ()
    """Added capabilities, without the `CAP_` prefix."""
    privileged: bool = False
    read_only_root: bool = True

    def as_dict(self) -> dict[str, Any]:
        """Return the container's `securityContext`."""
        user = {"runAsUser": 0} if self.root else {"runAsNonRoot": True}
        if self.privileged:
            return {**user, "privileged": True, "readOnlyRootFilesystem": self.read_only_root}
        capabilities: dict[str, Any] = {"drop": ["ALL"]}
        if self.capabilities:
            capabilities["add"] = list(self.capabilities)
        return {
            **user,
            "allowPrivilegeEscalation": False,
            "capabilities": capabilities,
            "readOnlyRootFilesystem": self.read_only_root,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container, complete."""

    name: str
    image: str
    command: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    environment: tuple[Mapping[str, Any], ...] = ()
    ports: tuple[Mapping[str, Any], ...] = ()
    resources: Mapping[str, Any] = field(default_factory=dict)
    probes: Mapping[str, Any] = field(default_factory=dict)
    lifecycle: Mapping[str, Any] = field(default_factory=dict)
    privilege: Privilege = Privilege()
    volumes: tuple[Volume, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the container; what is empty is left out."""
        parts = {
            "name": self.name,
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "command": list(self.command),
            "args": list(self.arguments),
            "env": list(self.environment),
            "ports": list(self.ports),
            "resources": self.resources,
            **self.probes,
            "lifecycle": self.lifecycle,
            "securityContext": self.privilege.as_dict(),
            "volumeMounts": [volume.as_mount() for volume in self.volumes],
        }
        return {key: value for key, value in parts.items() if value not in ([], {})}


def pod_spec(
    *,
    service_account: str,
    api_token: bool,
    containers: Iterable[Container],
    init_containers: Iterable[Container] = (),
    volumes: Iterable[Volume],
    grace_seconds: int,
    node_selector: Mapping[str, str] | None = None,
    affinity: Mapping[str, Any] | None = None,
    tolerations: Iterable[Mapping[str, Any]] = (),
    user: int | None = None,
) -> dict[str, Any]:
    """Return a pod's `spec`; what is empty is left out.

    Args:
        service_account: ServiceAccount of the pod.
        api_token: whether the pod gets a token of the API server.
        containers: containers of the pod.
        init_containers: containers that run to their end before.
        volumes: volumes of all of them.
        grace_seconds: time between the request to end and the kill, `preStop` included.
        node_selector: labels of nodes on which it may run.
        affinity: affinity as Kubernetes writes it.
        tolerations: taints that do not keep it away.
        user: user and group id of every container that does not say otherwise.
    """
    identity = {"runAsUser": user, "runAsGroup": user, "fsGroup": user} if user is not None else {}
    parts = {
        "serviceAccountName": service_account,
        "automountServiceAccountToken": api_token,
        # a Service called `vllm` would otherwise set VLLM_PORT to an address (vllm#34199)
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": grace_seconds,
        "securityContext": {**identity, "seccompProfile": {"type": "RuntimeDefault"}},
        "nodeSelector": dict(node_selector or {}),
        "affinity": dict(affinity or {}),
        "tolerations": [dict(toleration) for toleration in tolerations],
        "initContainers": [container.as_dict() for container in init_containers],
        "containers": [container.as_dict() for container in containers],
        "volumes": [volume.as_volume() for volume in volumes],
    }
    return {key: value for key, value in parts.items() if value not in ([], {})}


def environment_entry(variable: EnvironmentVariable) -> dict[str, Any]:
    """Return the entry of `env`."""
    if variable.field_path is not None:
        return {"name": variable.name, "valueFrom": {"fieldRef": {"fieldPath": variable.field_path}}}
    assert variable.value is not None, "a variable has a value or a field path"
    return {"name": variable.name, "value": variable.value}


def secret_entry(name: str, *, secret: str, key: str) -> dict[str, Any]:
    """Return an entry of `env` whose value comes from a Secret."""
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def worker_resources(wanted: Resources) -> dict[str, Any]:
    """Return requests and limits of a worker.

    Devices, memory, huge pages and disk have equal ones: the device plugins and huge pages demand it. CPU has no
    limit, because throttling the threads that feed the GPUs costs more than it protects on a node of their own.
    """
    exact: dict[str, Any] = {
        "nvidia.com/gpu": wanted.gpus,
        "vpc.amazonaws.com/efa": wanted.efa_devices,
        "hugepages-2Mi": f"{wanted.huge_pages_mib}Mi" if wanted.huge_pages_mib else 0,
        "memory": f"{wanted.memory_gib}Gi",
        "ephemeral-storage": f"{wanted.ephemeral_storage_gib}Gi",
    }
    limits = {name: amount for name, amount in exact.items() if amount}
    return {"requests": {"cpu": wanted.cpus, **limits}, "limits": limits}


def http_probe(probe: Probe, port: str) -> dict[str, Any]:
    """Return a probe that asks `port`, a port name, over HTTP."""
    return {
        "httpGet": {"path": probe.path, "port": port},
        "periodSeconds": probe.period_seconds,
        "timeoutSeconds": probe.timeout_seconds,
        "failureThreshold": probe.failure_threshold,
    }


def http_probes(probes: Probes, port: str) -> dict[str, Any]:
    """Return all three probes by their field names."""
    return {
        "startupProbe": http_probe(probes.startup, port),
        "readinessProbe": http_probe(probes.readiness, port),
        "livenessProbe": http_probe(probes.liveness, port),
    }


def empty_dir(*, memory: bool = False, size_gib: int | None = None) -> dict[str, Any]:
    """Return the source of a volume that lives as long as its pod."""
    source: dict[str, Any] = {}
    if memory:
        source["medium"] = "Memory"
    if size_gib is not None:
        source["sizeLimit"] = f"{size_gib}Gi"
    return {"emptyDir": source}


def config_map(name: str) -> dict[str, Any]:
    """Return the source of a volume that shows a ConfigMap's keys as files."""
    return {"configMap": {"name": name}}
