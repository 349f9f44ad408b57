"""DPD-SRV-104: the longest prompt fits into the PD buffer of both roles."""

from collections.abc import Iterator

from hyperpod_dpd.derive import resolve_or_none
from hyperpod_dpd.physics import GIB
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import ROLES, hands_over_through_lmcache
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-104",
    severity=Severity.ERROR,
    title="the PD buffer of both roles holds the chunks of the longest prompt",
    sources=("LMCache/LMCache issue 4209",),
    facts=("L4",),
)
def longest_prompt_fits(deployment: Deployment) -> Iterator[Problem]:
    """A prompt larger than the whole buffer waits for the allocation timeout, or for ever, and is never handed over."""
    facts = resolve_or_none(deployment)
    if facts is None or not hands_over_through_lmcache(deployment):
        return
    for role in ROLES:
        buffer = facts.role(role).pd_buffer
        needed = buffer.chunks_for(facts.max_model_len_tokens)
        if 0 < buffer.chunks < needed:
            yield Problem(
                path="serving.transfer.pd_buffer_gib",
                says=f"the {role.value} PD buffer is smaller than one prompt of full length",
                given=f"{buffer.requested_bytes / GIB:g} GiB, `max_model_len_tokens: {facts.max_model_len_tokens}`",
                computed=f"{buffer.chunks:,} chunks of {buffer.chunk_bytes:,} bytes per rank, "
                f"{needed:,} needed",
                limit=f"{needed * buffer.chunk_bytes / GIB:g} GiB",
                fix=f"raise the buffer to {-(-needed * buffer.chunk_bytes // GIB)} GiB, or lower "
                f"`max_model_len_tokens` to {buffer.longest_prompt_tokens}",
            )
