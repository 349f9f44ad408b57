"""DPD-LINT-210: a step holds the longest prompt."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.vllm_defaults import VLLM_DEFAULTS
from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-210",
    severity=Severity.ERROR,
    title="`--max-num-batched-tokens` ≥ `--max-model-len` where chunked prefill is off",
    sources=("vLLM engine configuration, run",),
    facts=("V10",),
)
def step_holds_the_longest_prompt(manifests: ManifestSet) -> Iterator[Fault]:
    """VLLM exits at start-up: a prompt that is not divided has to fit into one step."""
    for worker in manifests.workers:
        off = worker.arguments.switched("enable-chunked-prefill")
        longest = worker.max_model_len_tokens
        if off is None or not off.flag.startswith("--no-") or longest is None:
            continue
        budget = worker.arguments.number("--max-num-batched-tokens") or VLLM_DEFAULTS.max_num_batched_tokens
        if budget < longest:
            yield fault(
                worker.argument_at("--max-num-batched-tokens"),
                says=f"a step of {worker} is shorter than its longest prompt",
                given=f"`--max-num-batched-tokens {budget}`",
                limit=f"{longest}: `--max-model-len`, with `--no-enable-chunked-prefill`",
                fix="remove `--no-enable-chunked-prefill`",
            )
