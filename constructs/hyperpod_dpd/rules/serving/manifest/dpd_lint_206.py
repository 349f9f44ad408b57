"""DPD-LINT-206: a failed load is a failure."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-206",
    severity=Severity.ERROR,
    title="`kv_load_failure_policy` is at the top level, `fail` or `recompute`",
    sources=(
        "vLLM source, scheduler (read at the top level only)",
        "awslabs deep-learning-containers test/efa/scripts/nixl_disagg_pd.sh",
        "LMCache operator (`ignore` is refused by vLLM 0.33, run)",
    ),
    facts=("V6",),
)
def failure_policy_counts(manifests: ManifestSet) -> Iterator[Fault]:
    """Inside the extra configuration it is inert, and the decoder computes silently what it could not load."""
    for worker in manifests.workers:
        if worker.transfer is None:
            continue
        inside = None if worker.extra is None else worker.extra.get("kv_load_failure_policy")
        given = worker.transfer.get("kv_load_failure_policy")
        if inside is not None:
            yield fault(
                worker.argument_at("--kv-transfer-config"),
                says="vLLM does not read `kv_load_failure_policy` inside `kv_connector_extra_config`",
                given=f"`kv_load_failure_policy: {inside.shown()}`",
                fix="move it to the top level of the connector",
            )
        if given is not None and given.text not in {"fail", "recompute"}:
            yield fault(
                worker.argument_at("--kv-transfer-config"),
                says="vLLM has no such policy for failed loads",
                given=f"`kv_load_failure_policy: {given.shown()}`",
                limit="`fail` or `recompute`",
                fix="set `fail`",
            )
