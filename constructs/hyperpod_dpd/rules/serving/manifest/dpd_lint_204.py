"""DPD-LINT-204: the connector has known fields."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule
from hyperpod_dpd.spec.violation import close_to

_FIELDS: Final = frozenset(
    {
        "enable_permute_local_kv",
        "engine_id",
        "kv_buffer_device",
        "kv_connector",
        "kv_connector_extra_config",
        "kv_connector_module_path",
        "kv_load_failure_policy",
        "kv_port",
        "kv_role",
    }
)
_REMOVED: Final = frozenset({"kv_buffer_size", "kv_ip", "kv_parallel_size", "kv_rank"})


@manifest_rule(
    "DPD-LINT-204",
    severity=Severity.ERROR,
    title="`--kv-transfer-config` has only fields that vLLM takes",
    sources=(
        "vLLM 0.33.0 source and parser, run (`kv_rank`, `kv_parallel_size`, `kv_buffer_size`, `kv_ip` are refused)",
    ),
    facts=("V4",),
)
def connector_fields_are_known(manifests: ManifestSet) -> Iterator[Fault]:
    """Older posts show fields that vLLM has removed; it exits with code 2 on each."""
    for worker in manifests.workers:
        for key in () if worker.transfer is None else worker.transfer.pairs:
            if key not in _FIELDS:
                yield fault(
                    worker.argument_at("--kv-transfer-config"),
                    says=f"vLLM has removed `{key}` from the connector"
                    if key in _REMOVED
                    else f"the connector has no field `{key}`",
                    given=f"`{key}: {worker.transfer.pairs[key].shown()}`"
                    if worker.transfer is not None
                    else "",
                    fix="remove it" if key in _REMOVED else close_to(key, sorted(_FIELDS)) or "remove it",
                )
