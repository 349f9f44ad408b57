"""The workers of one role on one instance group: Deployment, ConfigMap and disruption budget."""

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

import cdk8s_plus_27 as kplus
from constructs import Construct

from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.serving.engine import ConfigFile, EngineConfiguration
from hyperpod_dpd.serving.model_delivery import ModelDelivery, model_delivery, script, sync_container
from hyperpod_dpd.serving.names import CONFIG_DIRECTORY, Component
from hyperpod_dpd.serving.objects import api_object, leave_out, metadata
from hyperpod_dpd.serving.pod import (
    Container,
    Privilege,
    Volume,
    config_map,
    empty_dir,
    environment_entry,
    http_probes,
    pod_spec,
    worker_resources,
)
from hyperpod_dpd.spec import Deployment, InstanceGroup

DRAIN_SCRIPT: Final = "drain.py"

LEAST_QUIET_SECONDS: Final = 5
"""Idle time before a worker ends: by then the router has read that the pod leaves."""

SHUTDOWN_SECONDS: Final = 60
"""Time from SIGTERM to exit of an engine that has nothing left to do, and of CUDA's clean-up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """On which nodes workers run, and how many.

    The group also says the zone: every group of a deployment is in one, because EFA does not leave it (DPD-NET-003).
    A selector by zone would only repeat that.
    """

    group: InstanceGroup
    replicas: int
    scaled: bool = False
    """Whether an autoscaler sets the number of workers; then no manifest may set it back."""
    surge: Literal[0, 1] = 0
    """Workers that a rolling update starts before it ends old ones. One that has no place would wait for ever."""
    avoids: Component | None = None
    """Component that must not share a node with them: EFA does not loop back within a host."""


class Workers(Construct):
    """Workers of one role on one instance group.

    The pods run as UID 0 with `IPC_LOCK` and nothing else, write only to the pod's own directories, hold no token
    of the API server, and leave only when nothing that they work on would be lost.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        component: Component,
        engine: EngineConfiguration,
        placement: Placement,
        name: str | None = None,
    ) -> None:
        """Create the objects.

        Args:
            scope: chart that takes the objects.
            construct_id: id of this construct in `scope`.
            deployment: the deployment.
            component: role of the workers; the Service of the same name selects them.
            engine: what runs inside.
            placement: where and how many.
            name: name of the objects; by default the component's.
        """
        super().__init__(scope, construct_id)
        name = name or component.value
        pod = _Pod(deployment, name, engine, placement)
        self.grace_seconds = pod.grace_seconds
        """Longest time that one of the workers may take to end."""
        self.progress_deadline_seconds = pod.progress_deadline_seconds
        """Longest time until one of the workers has been replaced and serves."""
        labels = names.labels(deployment, component)
        selector = {**names.selector(deployment, component), **_group_label(name, component)}
        namespace = names.workers_namespace(deployment)
        config = kplus.ConfigMap(
            self,
            "config",
            metadata=metadata(name, namespace=namespace, labels=labels),
            data={file.name: file.text for file in pod.files},
        )
        leave_out(config, "/immutable")
        api_object(
            self,
            "deployment",
            api_version="apps/v1",
            kind="Deployment",
            name=name,
            namespace=namespace,
            labels=labels,
            spec={
                **({} if placement.scaled else {"replicas": placement.replicas}),
                "revisionHistoryLimit": 3,
                "progressDeadlineSeconds": pod.progress_deadline_seconds,
                "strategy": _strategy(placement),
                "selector": {"matchLabels": selector},
                "template": {
                    "metadata": {
                        "labels": {**labels, **selector, names.GENERATION_LABEL: generation_label(engine)},
                        "annotations": {names.CONFIG_HASH_ANNOTATION: config_hash(pod.files)},
                    },
                    "spec": pod.spec(),
                },
            },
        )
        api_object(
            self,
            "budget",
            api_version="policy/v1",
            kind="PodDisruptionBudget",
            name=name,
            namespace=namespace,
            labels=labels,
            spec=disruption_budget(selector),
        )


class WorkerService(Construct):
    """Headless Service over the workers of one role and one generation.

    The router reads its EndpointSlices and talks to each pod by address. One that is not ready is not published:
    it would be asked for its models and then for tokens. Selecting the generation takes workers out that could
    not exchange KV cache with the new ones, on both sides at once.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        component: Component,
        generation: str,
    ) -> None:
        super().__init__(scope, construct_id)
        service = kplus.Service(
            self,
            "service",
            metadata=metadata(
                component.value,
                namespace=names.workers_namespace(deployment),
                labels=names.labels(deployment, component),
            ),
            type=kplus.ServiceType.CLUSTER_IP,
            cluster_ip="None",
            ports=[
                kplus.ServicePort(
                    name=names.WORKER_HTTP_PORT_NAME,
                    port=names.WORKER_HTTP_PORT,
                    target_port=names.WORKER_HTTP_PORT,
                )
            ],
        )
        leave_out(service, "/spec/externalIPs")
        selector = {**names.selector(deployment, component), names.GENERATION_LABEL: generation}
        for label, value in selector.items():
            service.select_label(label, value)


class WorkerServiceAccount(Construct):
    """The ServiceAccount of every worker; EKS Pod Identity gives it the right to read the weights."""

    def __init__(self, scope: Construct, construct_id: str, *, deployment: Deployment) -> None:
        super().__init__(scope, construct_id)
        kplus.ServiceAccount(
            self,
            "account",
            metadata=metadata(
                names.WORKER_SERVICE_ACCOUNT,
                namespace=names.workers_namespace(deployment),
                labels=names.labels(deployment),
            ),
            automount_token=False,
        )


def worker_image(engine: EngineConfiguration) -> str:
    """Return the image of a worker, or its binding where this deployment builds it."""
    return engine.image or Binding.WORKER_IMAGE.placeholder


def generation_label(engine: EngineConfiguration) -> str:
    """Return the label that every worker of a generation carries.

    An image that is built for the deployment is known by its digest only once it is bound; it is part of what both
    roles must have in common.
    """
    if engine.image is not None:
        return engine.generation
    return f"{engine.generation}-{Binding.WORKER_IMAGE_ID.placeholder}"


def disruption_budget(selector: dict[str, str]) -> dict[str, Any]:
    """Return the `spec` of a PodDisruptionBudget that lets one pod go at a time.

    `minAvailable` of the only replica would block node patching for ever; a pod that does not work never blocks it.
    """
    return {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": selector},
    }


def config_hash(files: Iterable[ConfigFile]) -> str:
    """Return a digest of `files`: names and texts."""
    text = json.dumps({file.name: file.text for file in files}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _group_label(name: str, component: Component) -> dict[str, str]:
    """Tell the Deployments of one component apart: without it each would count the other's pods."""
    return {} if name == component.value else {names.WORKERS_LABEL: name}


def _strategy(placement: Placement) -> dict[str, Any]:
    return {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": placement.surge, "maxUnavailable": 1 - placement.surge},
    }


class _Pod:
    """The pod of a worker, put together from its engine, its weights and its place."""

    def __init__(
        self, deployment: Deployment, name: str, engine: EngineConfiguration, placement: Placement
    ) -> None:
        self._deployment = deployment
        self._name = name
        self._engine = engine
        self._placement = placement
        self._model: ModelDelivery = model_delivery(deployment)
        self.files = (
            *engine.files,
            ConfigFile(name=DRAIN_SCRIPT, text=script(DRAIN_SCRIPT)),
            *self._model.files,
        )

    @property
    def grace_seconds(self) -> int:
        return self._drain_seconds + SHUTDOWN_SECONDS

    @property
    def progress_deadline_seconds(self) -> int:
        """Time in which one worker must have left and its successor must have loaded the weights."""
        startup = self._engine.probes.startup
        return self.grace_seconds + startup.period_seconds * startup.failure_threshold + 600

    @property
    def _quiet_seconds(self) -> int:
        if self._engine.kv_transfer_config is None:
            return LEAST_QUIET_SECONDS
        serving = self._deployment.serving
        waits = (
            self._deployment.routing.notification_timeout_seconds,
            serving.transfer.allocation_timeout_seconds,
        )
        return max(LEAST_QUIET_SECONDS, math.ceil(max(waits)))

    @property
    def _drain_seconds(self) -> int:
        return self._deployment.serving.longest_generation_seconds + self._quiet_seconds

    @property
    def _volumes(self) -> tuple[Volume, ...]:
        scratch = tuple(
            Volume(
                name=directory.name,
                path=directory.path,
                source=empty_dir(memory=directory.in_memory, size_gib=directory.size_gib),
            )
            for directory in self._engine.scratch
        )
        config = Volume(name="config", path=CONFIG_DIRECTORY, source=config_map(self._name), read_only=True)
        return (config, *scratch, *self._model.volumes)

    def spec(self) -> dict[str, Any]:
        image = worker_image(self._engine)
        resources = worker_resources(self._engine.resources)
        init_containers = (
            (
                sync_container(
                    self._deployment, image=image, volumes=self._volumes, resources=self._engine.resources
                ),
            )
            if self._model.copies_first
            else ()
        )
        return pod_spec(
            service_account=names.WORKER_SERVICE_ACCOUNT,
            api_token=False,
            containers=(self._container(image, resources),),
            init_containers=init_containers,
            volumes=self._volumes,
            grace_seconds=self.grace_seconds,
            node_selector={
                names.INSTANCE_GROUP_LABEL: self._placement.group.name,
                "node.kubernetes.io/instance-type": self._placement.group.instance_type,
            },
            affinity=self._affinity(),
            tolerations=_tolerations(self._placement.group),
        )

    def _container(self, image: str, resources: dict[str, Any]) -> Container:
        engine = self._engine
        return Container(
            name="engine",
            image=image,
            command=engine.command,
            arguments=engine.arguments,
            environment=(
                *(environment_entry(variable) for variable in engine.environment),
                *self._model.environment,
            ),
            # the hand-off's ranges of every epoch would be a hundred entries; the network policy has them
            ports=tuple(
                {"name": ports.name, "containerPort": ports.first}
                for ports in engine.ports
                if ports.count == 1
            ),
            resources=resources,
            probes=http_probes(engine.probes, names.WORKER_HTTP_PORT_NAME),
            lifecycle={"preStop": {"exec": {"command": self._drain_command()}}},
            privilege=self._privilege(),
            volumes=self._volumes,
        )

    def _drain_command(self) -> list[str]:
        return [
            "python3",
            f"{CONFIG_DIRECTORY}/{DRAIN_SCRIPT}",
            f"--port={names.WORKER_HTTP_PORT}",
            f"--quiet-seconds={self._quiet_seconds}",
            f"--deadline-seconds={self._drain_seconds}",
        ]

    def _privilege(self) -> Privilege:
        exchanges = self._engine.kv_transfer_config is not None
        if exchanges and self._deployment.serving.security.workers == "privileged":
            return Privilege(root=True, privileged=True)
        # the capability is inert for another user than 0 (NVIDIA/nvcf#1354)
        return Privilege(root=True, capabilities=("IPC_LOCK",) if exchanges else ())

    def _affinity(self) -> dict[str, Any]:
        if self._placement.avoids is None:
            return {}
        return {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "labelSelector": {
                            "matchLabels": names.selector(self._deployment, self._placement.avoids)
                        },
                        "topologyKey": "kubernetes.io/hostname",
                    }
                ]
            }
        }


def _tolerations(group: InstanceGroup) -> list[dict[str, str]]:
    return [
        {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
        for taint in group.taints
        if taint.effect != "PreferNoSchedule"
    ]
