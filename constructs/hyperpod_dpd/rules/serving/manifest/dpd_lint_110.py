"""DPD-LINT-110: LMCache knows its keys."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.catalog.engine_words import LMCACHE_LEGACY_KEYS, lmcache_keys
from hyperpod_dpd.catalog.engines import engines
from hyperpod_dpd.lint.model import Fault, ManifestSet, Worker, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule
from hyperpod_dpd.spec import Role
from hyperpod_dpd.spec.violation import close_to

_STORAGE_KEYS: Final = frozenset({"nixl_buffer_device", "nixl_buffer_size"})
"""Keys that still exist, for LMCache's storage and not for PD."""


@manifest_rule(
    "DPD-LINT-110",
    severity=Severity.ERROR,
    title="every key of LMCache's configuration is one of its version",
    sources=(
        "LMCache/LMCache issue 1473",
        "LMCache 0.4.3 and 0.5.3, run (`Unknown configuration key` is a warning)",
        "vllm-project/production-stack helm/templates/deployment-vllm-multi.yaml (`LMCACHE_NIXL_ROLE`)",
    ),
    facts=("L10",),
)
def lmcache_keys_are_known(manifests: ManifestSet) -> Iterator[Fault]:
    """LMCache drops a key that it does not know, legacy ones of PD among them, and goes on without it."""
    for worker in manifests.workers:
        known = _known(worker)
        for key, node in worker.lmcache.items():
            if key in LMCACHE_LEGACY_KEYS and key not in _STORAGE_KEYS:
                yield fault(
                    node,
                    says=f"`{key}` is a key of older LMCache releases and is ignored",
                    given=f"`{key}: {node.shown()}`",
                    limit=worker.engine.says("lmcache"),
                    fix=f"write `{LMCACHE_LEGACY_KEYS[key]}` instead",
                )
            elif (
                key in LMCACHE_LEGACY_KEYS
                and "enable_pd" not in worker.lmcache
                and worker.role is not Role.COLOCATED
            ):
                yield fault(
                    node,
                    says=f"`{key}` does not size the PD buffer",
                    given=f"`{key}: {node.shown()}`",
                    fix=f"write `{LMCACHE_LEGACY_KEYS[key]}` instead",
                )
            elif known is not None and key not in known:
                yield fault(
                    node,
                    says=f"`{key}` is no key of {worker.engine.says('lmcache')}",
                    given=f"`{key}: {node.shown()}`",
                    fix=close_to(key, sorted(known)) or "remove it",
                )


def _known(worker: Worker) -> frozenset[str] | None:
    """Return the keys of the worker's version; those of any tested version where the image does not tell it."""
    if worker.engine.knows("lmcache"):
        return lmcache_keys(worker.engine.lmcache)
    return frozenset().union(*(lmcache_keys(row.lmcache) or () for row in engines()))
