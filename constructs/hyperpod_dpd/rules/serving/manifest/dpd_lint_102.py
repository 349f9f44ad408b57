"""DPD-LINT-102: both roles have as many ranks."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-102",
    severity=Severity.ERROR,
    title="prefill and decode have the same tensor parallelism",
    sources=("LMCache/LMCache issues 1142, 1342, PR 1629",),
    facts=("L2",),
)
def ranks_are_equal(manifests: ManifestSet) -> Iterator[Fault]:
    """Each rank writes into the buffer of the rank with its own number; with other numbers nothing arrives where it belongs."""
    for endpoint in manifests.endpoints:
        for prefill, decode in endpoint.pairs:
            ours, theirs = prefill.tensor_parallel, decode.tensor_parallel
            if ours is None or theirs is None:
                continue  # DPD-LINT-002 or DPD-LINT-214 has spoken
            if prefill.through_lmcache and ours != theirs:
                yield fault(
                    decode.argument_at("--tensor-parallel-size"),
                    says="prefill and decode differ in tensor parallelism",
                    given=f"`{prefill.owner.name}` has {prefill.tensor_parallel}, `{decode.owner.name}` has "
                    f"{decode.tensor_parallel}",
                    fix="give both the same `--tensor-parallel-size`",
                )
