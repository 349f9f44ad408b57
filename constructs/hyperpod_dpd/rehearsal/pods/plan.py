"""What the kubelet is told of a pod: its containers with their commands, variables, mounts and probes."""

from collections.abc import Mapping

from hyperpod_dpd.lint.model import KubernetesObject, Pod, Router, Worker
from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.spec import Role
from hyperpod_dpd.spec.value import record


@record
class Variable:
    """A variable of a container: a text in which `$(NAME)` is still to be written out, or a field of its pod."""

    name: str
    text: str | None
    field: str | None = None


@record
class Mount:
    """A volume at a path of a container."""

    path: str
    volume: str
    sub_path: str | None


@record
class Probe:
    """An HTTP probe."""

    path: str
    port: int
    period_seconds: float
    timeout_seconds: float
    initial_delay_seconds: float
    failure_threshold: int


@record
class PreStop:
    """What runs before a container is told to end: a wait, or a command."""

    sleep_seconds: float
    command: tuple[str, ...]


@record
class ContainerPlan:
    """A container and what starts it."""

    name: str
    command: tuple[str, ...]
    """Command and arguments, in which `$(NAME)` is still to be written out."""

    environment: tuple[Variable, ...]
    mounts: tuple[Mount, ...]
    startup: Probe | None
    readiness: Probe | None
    liveness: Probe | None
    pre_stop: PreStop | None
    worker: Worker | None
    """What it is where it is an engine."""

    router: Router | None
    """What it is where it is a router."""

    node: Node


@record
class PodPlan:
    """The pods of one workload."""

    owner: KubernetesObject
    pod: Pod
    containers: tuple[ContainerPlan, ...]
    files: Mapping[str, Mapping[str, str]]
    """Files of each volume by path; a volume without any is an empty folder."""

    grace_seconds: float

    @property
    def name(self) -> str:
        """Name of the workload."""
        return self.owner.name

    @property
    def namespace(self) -> str:
        """Namespace of its pods."""
        return self.owner.namespace

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels of its pods."""
        return self.pod.labels

    @property
    def replicas(self) -> int:
        """How many pods it has."""
        return self.pod.replicas

    @property
    def worker(self) -> Worker | None:
        """Its engine, where it has one."""
        return next((each.worker for each in self.containers if each.worker is not None), None)

    @property
    def router(self) -> Router | None:
        """Its router, where it is one."""
        return next((each.router for each in self.containers if each.router is not None), None)

    @property
    def role(self) -> Role | None:
        """Role of its engine; None where it has none."""
        return None if self.worker is None else self.worker.role
