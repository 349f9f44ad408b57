"""DPD-LINT-116: the tail of the prompt is handed over."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.lint.words import is_false
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-116",
    severity=Severity.ERROR,
    title="`discard_partial_chunks` is false on both roles",
    sources=("LMCache examples/disagg_prefill", "LMCache/LMCache issue 1547"),
    facts=("L16",),
)
def tails_are_handed_over(manifests: ManifestSet) -> Iterator[Fault]:
    """Otherwise the last, unfinished chunk of every prompt stays behind, and the decoder computes it again."""
    for worker in manifests.handing_over:
        if worker.operator or not worker.through_lmcache:
            continue
        given = None if worker.extra is None else worker.extra.get("discard_partial_chunks")
        if not is_false(given):
            yield fault(
                worker.argument_at("--kv-transfer-config"),
                says=f"{worker} keeps the tail of every prompt back",
                given="no `discard_partial_chunks`"
                if given is None
                else f"`discard_partial_chunks: {given.shown()}`",
                limit="false",
                fix='put `"discard_partial_chunks": false` into `kv_connector_extra_config`',
            )
