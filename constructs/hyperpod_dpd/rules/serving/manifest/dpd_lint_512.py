"""DPD-LINT-512: LMCache never blocks a step."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.engines import version_tuple
from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule
from hyperpod_dpd.rules.serving.dpd_srv_512 import ASYNCHRONOUS_SINCE
from hyperpod_dpd.spec import Role


@manifest_rule(
    "DPD-LINT-512",
    severity=Severity.WARNING,
    title="LMCache is 0.4.5 or newer",
    sources=("LMCache 0.4.3 source (allocation without a timeout inside the forward pass)",),
    facts=("H12",),
)
def lmcache_never_blocks_a_step(manifests: ManifestSet) -> Iterator[Fault]:
    """A decoder that dies while an older sender waits for it hangs every rank of the prefiller until it is restarted."""
    for worker in manifests.handing_over:
        told = worker.engine.knows("lmcache") and worker.through_lmcache and worker.role is Role.PREFILL
        if told and worker.engine.lmcache_version < version_tuple(ASYNCHRONOUS_SINCE):
            yield fault(
                worker.image or worker.node,
                says=f"LMCache of {worker} waits for the decoder inside the forward pass, without a limit",
                given=worker.engine.says("lmcache"),
                limit=ASYNCHRONOUS_SINCE,
                fix="watch for hung prefillers"
                if worker.operator
                else "set `VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS`, or use a newer image",
            )
