"""DPD-SRV-011: the declared requests fit into the longest sequence."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-011",
    severity=Severity.ERROR,
    title="prompt and answer of `traffic` fit into `max_model_len_tokens`",
    sources=("vLLM OpenAI server: a prompt longer than the context is answered with 400",),
)
def typical_request_fits(deployment: Deployment) -> Iterator[Problem]:
    """The typical request would be refused or cut, and every plan would be about traffic that cannot exist."""
    traffic, limit = deployment.traffic, deployment.serving.max_model_len_tokens
    if traffic.trace_file is not None:
        return
    prompts = [("input_tokens", traffic.input_tokens)]
    if traffic.long_share < 1:
        prompts.append(("short_input_tokens", traffic.short_input_tokens))
    for key, prompt_tokens in prompts:
        needed = prompt_tokens + traffic.output_tokens
        if needed > limit:
            yield Problem(
                path=f"traffic.{key}",
                says="the declared request is longer than a sequence may be",
                given=f"`{key}: {prompt_tokens}` and `output_tokens: {traffic.output_tokens}`",
                computed=f"{needed:,} tokens",
                limit=f"`max_model_len_tokens: {limit}`",
                fix="raise `serving.max_model_len_tokens`, or declare the traffic that you expect",
            )
