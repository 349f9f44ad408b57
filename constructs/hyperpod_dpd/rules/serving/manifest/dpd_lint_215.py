"""DPD-LINT-215: connectors that are understood."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import LMCACHE_CONNECTOR, NIXL_CONNECTORS, Fault, ManifestSet, fault, listed
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-215",
    severity=Severity.WARNING,
    title="the KV connector is one that this project understands",
    sources=("this project: LMCacheConnectorV1 and NixlConnector were run",),
)
def connector_is_understood(manifests: ManifestSet) -> Iterator[Fault]:
    """What another connector needs from ports, buffers and routers was not checked."""
    for worker in manifests.workers:
        name = worker.connector
        if name is None or worker.operator or worker.through_lmcache or worker.through_nixl:
            continue
        yield fault(
            worker.argument_at("--kv-transfer-config"),
            says=f"what `{name}` of {worker} needs was not checked",
            given=f"`kv_connector: {name}`",
            limit=listed([LMCACHE_CONNECTOR, *sorted(NIXL_CONNECTORS)]),
            fix="compare it with the connector's own documentation",
        )
