"""DPD-LINT-508: the operator's decoder keeps no prefixes."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.lint.operator import ROLE_KEYS
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule
from hyperpod_dpd.spec import Role


@manifest_rule(
    "DPD-LINT-508",
    severity=Severity.WARNING,
    title="prefix caching is off on the operator's decoder and prefiller",
    sources=("LMCache/LMCache issue 2933", "LMCache examples/disagg_prefill (`--no-enable-prefix-caching`)"),
    facts=("H7",),
)
def operator_keeps_no_prefixes(manifests: ManifestSet) -> Iterator[Fault]:
    """Chunks that vLLM's prefix cache already has are received and never freed; AWS's example leaves the cache on."""
    for worker in manifests.handing_over:
        if worker.prefix_caching and (
            worker.operator or (worker.role is Role.PREFILL and worker.through_lmcache)
        ):
            yield fault(
                worker.argument_at("--enable-prefix-caching"),
                says=f"{worker} keeps prefixes beside LMCache's hand-off",
                given="no `--no-enable-prefix-caching`",
                fix=f"add `--no-enable-prefix-caching` to `{ROLE_KEYS[worker.role]}.args`"
                if worker.operator
                else "add `--no-enable-prefix-caching`",
            )
