"""DPD-SRV-012: a step has a token for each of its sequences."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.vllm_defaults import VLLM_DEFAULTS
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import ROLES
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-012",
    severity=Severity.ERROR,
    title="`max_num_batched_tokens` is at least `max_num_seqs`",
    sources=("vLLM 0.19.0 and 0.25.1, `SchedulerConfig.verify_max_model_len`",),
)
def step_has_a_token_for_each_sequence(deployment: Deployment) -> Iterator[Problem]:
    """VLLM exits at start-up. Workers are always told how many sequences; a baseline without the key lets vLLM choose."""
    baseline = deployment.serving.baseline
    pairs: list[tuple[str, int | None, int | None]] = [
        (
            f"serving.{role.value}.max_num_batched_tokens",
            worker.max_num_batched_tokens,
            worker.max_num_seqs or VLLM_DEFAULTS.max_num_seqs,
        )
        for role in ROLES
        for worker in (deployment.serving.worker(role),)
    ]
    pairs.append(
        (
            "serving.baseline.tuned_max_num_batched_tokens",
            baseline.tuned_max_num_batched_tokens,
            baseline.max_num_seqs,
        )
    )
    for path, budget, sequences in pairs:
        if budget is not None and sequences is not None and budget < sequences:
            yield Problem(
                path=path,
                says="a step has fewer tokens than sequences",
                given=f"`{path.rpartition('.')[2]}: {budget}` with `max_num_seqs: {sequences}`",
                fix=f"set `{path.rpartition('.')[2]}` to at least {sequences}, or lower `max_num_seqs`",
            )
