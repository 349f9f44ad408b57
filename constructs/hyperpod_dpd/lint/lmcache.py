"""LMCache's configuration as a worker reads it: a file, and variables that win over it."""

from collections.abc import Mapping
from dataclasses import replace

from hyperpod_dpd.derive import DecodePorts
from hyperpod_dpd.lint.model import Container, Pod, Variable, fault
from hyperpod_dpd.lint.node import Node, whole_number
from hyperpod_dpd.lint.pods import Resolver
from hyperpod_dpd.lint.read import UnreadableManifestError, parse

FILE_VARIABLE = "LMCACHE_CONFIG_FILE"
_TEMPLATE_VARIABLE = "DPD_LMCACHE_TEMPLATE"
"""Set where this project's launcher writes the file at every start, from a template and the ports of the epoch."""

MOST_RANKS = 64
"""More than any node has GPUs: a larger number is a mistake, and would be written out as ports."""

PROCESS_VARIABLES = frozenset({"config_file", "track_usage", "log_level", "use_experimental"})
"""`LMCACHE_*` variables that are no keys of the configuration."""


def configuration(pod: Pod, container: Container, resolver: Resolver) -> tuple[Mapping[str, Node], bool]:
    """Return LMCache's keys, and whether its file was found where one is named."""
    variable = container.environment.get(_TEMPLATE_VARIABLE) or container.environment.get(FILE_VARIABLE)
    keys: dict[str, Node] = {}
    known = True
    if variable is not None:
        text = _file(pod, container, variable, resolver)
        parsed = None if text is None else _parsed(text, resolver)
        known = parsed is not None
        keys |= parsed or {}
    keys |= _launcher_ports(container.environment)
    keys |= from_environment(container.environment)
    return keys, known


def from_environment(environment: Mapping[str, Variable]) -> Mapping[str, Node]:
    """Return the keys that `LMCACHE_*` variables set."""
    keys = {}
    for name, variable in environment.items():
        key = name.removeprefix("LMCACHE_").lower()
        if name.startswith("LMCACHE_") and key not in PROCESS_VARIABLES:
            keys[key] = variable.node
    return keys


def _file(pod: Pod, container: Container, variable: Variable, resolver: Resolver) -> Node | None:
    path = variable.value or ""
    mounts = container.node.get("volumeMounts")
    for mount in () if mounts is None else mounts.items:
        place = (mount.text_at("mountPath") or "").rstrip("/")
        sub_path = mount.text_at("subPath")
        if path == place and sub_path:
            key = sub_path
        elif place and path.startswith(f"{place}/"):
            key = path.removeprefix(f"{place}/")
        else:
            continue
        found = _volume_file(pod, mount.text_at("name"), key, resolver)
        if found is not None:
            return found
    resolver.missing(
        variable.node,
        f"LMCache's configuration of `{pod.owner.name}`",
        "give the ConfigMap that holds it as well",
    )
    return None


def _volume_file(pod: Pod, name: str | None, key: str, resolver: Resolver) -> Node | None:
    volumes = pod.node.get("volumes")
    for volume in () if volumes is None else volumes.items:
        if volume.text_at("name") != name:
            continue
        data = resolver.config_map(pod.namespace, volume.text_at("configMap", "name"))
        if data is None:
            return None
        renamed = volume.get("configMap", "items")
        for item in () if renamed is None else renamed.items:
            if item.text_at("path") == key:
                return data.get(item.text_at("key") or "")
        return data.get(key)
    return None


def _parsed(text: Node, resolver: Resolver) -> Mapping[str, Node] | None:
    try:
        documents = parse(text.text or "", text.file, first_line=text.text_line or text.line)
    except UnreadableManifestError as error:
        (reason,) = error.reasons
        resolver.broken.append(
            fault(
                replace(text, line=reason.line or text.line),
                says="LMCache cannot read this configuration",
                given=reason.message,
                fix="correct the YAML inside the ConfigMap",
            )
        )
        return None
    return documents[0].pairs if documents else {}


def _launcher_ports(environment: Mapping[str, Variable]) -> Mapping[str, Node]:
    """Return the ports of the first epoch, which this project's launcher writes into the file."""
    given = {
        name: whole_number(variable.value)
        for name, variable in environment.items()
        if name in {"DPD_INIT_PORT_BASE", "DPD_ALLOC_PORT_BASE", "DPD_TENSOR_PARALLEL"}
    }
    init, alloc, ranks = (
        given.get(name) for name in ("DPD_INIT_PORT_BASE", "DPD_ALLOC_PORT_BASE", "DPD_TENSOR_PARALLEL")
    )
    if init is None or alloc is None or ranks is None or not 0 < ranks <= MOST_RANKS:
        return {}
    ports = DecodePorts(init_base=init, alloc_base=alloc, tensor_parallel=ranks, epochs=1)
    return {
        "pd_peer_init_port": environment["DPD_INIT_PORT_BASE"].node.replaced(ports.init(0)),
        "pd_peer_alloc_port": environment["DPD_ALLOC_PORT_BASE"].node.replaced(ports.alloc(0)),
    }
