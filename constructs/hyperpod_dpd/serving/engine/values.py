"""The value objects that describe a worker's engine."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from hyperpod_dpd.derive import EffectiveEngine
from hyperpod_dpd.spec import Role


class Variant(StrEnum):
    """How the colocated comparison is configured."""

    BASELINE = "baseline"
    """vLLM's own defaults."""

    TUNED = "tuned"
    """A small token budget per step, which keeps decode steps short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentVariable:
    """An environment variable of the worker's container: a literal, or a field of its pod."""

    name: str
    value: str | None = None
    field_path: str | None = None
    """Downward-API field such as `status.podIP`."""

    def __post_init__(self) -> None:
        if (self.value is None) == (self.field_path is None):
            raise ValueError(f"`{self.name}` needs either a value or a field path")


class Peer(StrEnum):
    """Who opens connections to a port of a worker."""

    ROUTER = "router"
    PREFILL = "prefill"
    DECODE = "decode"
    SCRAPER = "scraper"


@dataclass(frozen=True, slots=True, kw_only=True)
class PortRange:
    """Consecutive TCP ports on which the worker listens."""

    name: str
    """At most 15 lower-case letters, digits and hyphens, as Kubernetes asks of port names."""

    first: int
    count: int = 1
    peers: tuple[Peer, ...]
    """Who connects; nobody else may."""

    @property
    def last(self) -> int:
        """Last port of the range."""
        return self.first + self.count - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a worker asks of its node. Requests and limits are equal, except that CPU has no limit."""

    gpus: int
    efa_devices: int
    cpus: int
    """Whole vCPUs requested; a limit would only throttle the threads that feed the GPUs."""

    memory_gib: int
    """Memory, shared memory included."""

    huge_pages_mib: int
    """2 MiB huge pages; 0: none."""

    shared_memory_gib: int
    """Size of /dev/shm."""

    ephemeral_storage_gib: int
    """Node-local disk for weights that are copied, compiled kernels and logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """An HTTP probe of the worker's `http` port."""

    path: str
    period_seconds: int
    timeout_seconds: int
    failure_threshold: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """Probes of a worker. None of them sends a prompt: a prefiller without `disagg_spec` fails on one."""

    startup: Probe
    """Holds the others back while weights load and graphs are captured."""

    readiness: Probe
    liveness: Probe


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    """A text file that the worker finds, read-only, in its configuration directory."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchDirectory:
    """A writable directory that lives as long as the pod: it survives a restart of the container."""

    name: str
    path: str
    in_memory: bool = False
    size_gib: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfiguration:
    """Everything about one role's engine that a pod has to carry."""

    role: Role
    variant: Variant | None
    """Which colocated comparison; None for prefill and decode."""

    engine: EffectiveEngine
    image: str | None
    """Image reference; None: the image that `images/worker` builds, bound when it is pushed."""

    command: tuple[str, ...]
    """Entry point of the container."""

    arguments: tuple[str, ...]
    """Its arguments; the served model name is the last one, because the launcher appends an alias."""

    kv_transfer_config: Mapping[str, Any] | None
    """Value of `--kv-transfer-config`; None where nothing is handed over."""

    lmcache_yaml: str | None
    """LMCache's configuration. A decoder's has no ports: its launcher adds those of the boot's epoch."""

    files: tuple[ConfigFile, ...]
    """Files of the configuration directory: the launcher and LMCache's configuration."""

    environment: tuple[EnvironmentVariable, ...]
    """In the order in which they have to be written: later ones may refer to earlier ones."""

    ports: tuple[PortRange, ...]
    resources: Resources
    probes: Probes
    scratch: tuple[ScratchDirectory, ...]
    """Writable directories; everything else may be read-only."""

    generation: str
    """Digest of what prefill and decode must have in common. Workers of different generations never exchange KV."""

    def port(self, name: str) -> PortRange:
        """Return the ports called `name`.

        Raises:
            KeyError: the worker has no such ports.
        """
        return {port.name: port for port in self.ports}[name]
