"""DPD-LINT-507: the decoder's prefix cache follows the strategy."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-507",
    severity=Severity.ERROR,
    title="prefix caching on decoders is off where the hand-off continues with the first token, on with `land`",
    sources=(
        "LMCache/LMCache issue 2933",
        "LMCache 0.5.3 source (chunks that vLLM already has are never freed)",
    ),
    facts=("H7",),
)
def prefix_cache_follows_strategy(manifests: ManifestSet) -> Iterator[Fault]:
    """Chunks that vLLM's prefix cache already has are received and never freed, until the buffer is full; `land` lives on that cache."""
    for endpoint in manifests.endpoints:
        landing = any(router.strategy == "land" for router in endpoint.routers)
        for worker in endpoint.decode:
            if not worker.through_lmcache or worker.operator or worker.prefix_caching == landing:
                continue
            given = worker.arguments.switched("enable-prefix-caching")
            yield fault(
                worker.argument_at("--enable-prefix-caching", "--no-enable-prefix-caching"),
                says=f"each hand-off leaves chunks in the PD buffer of {worker}"
                if worker.prefix_caching
                else f"what has landed at {worker} is not served from its prefix cache",
                given="no `--no-enable-prefix-caching`, and it is on by default"
                if given is None
                else f"`{given.text}`",
                fix="add `--no-enable-prefix-caching`"
                if worker.prefix_caching
                else "add `--enable-prefix-caching`",
            )
