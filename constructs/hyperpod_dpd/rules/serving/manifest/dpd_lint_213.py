"""DPD-LINT-213: vLLM knows the connector."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.lint.model import LMCACHE_CONNECTOR, NIXL_CONNECTORS, Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule
from hyperpod_dpd.spec.violation import close_to

_CONNECTORS: Final = NIXL_CONNECTORS | {
    LMCACHE_CONNECTOR,
    "DecodeBenchConnector",
    "ExampleConnector",
    "FlexKVConnectorV1",
    "HF3FSConnector",
    "LMCacheMPConnector",
    "MoRIIOConnector",
    "MooncakeConnector",
    "MooncakeStoreConnector",
    "MultiConnector",
    "OffloadingConnector",
    "SharedStorageConnector",
    "SimpleCPUOffloadConnector",
}


@manifest_rule(
    "DPD-LINT-213",
    severity=Severity.ERROR,
    title="the KV connector is one that vLLM has",
    sources=("vLLM 0.33.0 source, connector factory",),
)
def connector_exists(manifests: ManifestSet) -> Iterator[Fault]:
    """The argument parser takes any name; the engine ends at its start."""
    for worker in manifests.workers:
        name = None if worker.operator else worker.connector
        if name is None or name in _CONNECTORS or worker.transfer is None:
            continue
        if worker.transfer.get("kv_connector_module_path") is None:
            yield fault(
                worker.argument_at("--kv-transfer-config"),
                says=f"vLLM has no connector `{name}`",
                given=f"`kv_connector: {name}`",
                fix=close_to(name, sorted(_CONNECTORS)) or f"use `{LMCACHE_CONNECTOR}`",
            )
