"""DPD-SRV-210: without chunked prefill a step holds the longest prompt."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.vllm_defaults import VLLM_DEFAULTS
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import ROLES, extra_flags
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-210",
    severity=Severity.ERROR,
    title="`max_num_batched_tokens` ≥ `max_model_len_tokens` where chunked prefill is off",
    sources=("vLLM engine configuration, run",),
    facts=("V10",),
)
def step_holds_the_longest_prompt(deployment: Deployment) -> Iterator[Problem]:
    """VLLM exits at start-up: a prompt that is not divided has to fit into one step."""
    longest = deployment.serving.max_model_len_tokens
    off = {path for path, _, flag in extra_flags(deployment) if flag == "--no-enable-chunked-prefill"}
    for role in ROLES:
        if not any(path.startswith(f"serving.{role.value}.") for path in off):
            continue
        given = deployment.serving.worker(role).max_num_batched_tokens
        budget = given or VLLM_DEFAULTS.max_num_batched_tokens
        if budget < longest:
            yield Problem(
                path=f"serving.{role.value}.max_num_batched_tokens",
                says=f"a step of a {role.value} worker does not hold the longest prompt",
                given=f"`--no-enable-chunked-prefill`, {budget} tokens a step",
                limit=f"`max_model_len_tokens: {longest}`",
                fix=f"set `max_num_batched_tokens: {longest}`, or remove `--no-enable-chunked-prefill`",
            )
