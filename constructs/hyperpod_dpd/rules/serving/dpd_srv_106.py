"""DPD-SRV-106: the PD buffer holds at least one chunk."""

from collections.abc import Iterator

from hyperpod_dpd.derive import resolve_or_none
from hyperpod_dpd.physics import GIB
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import ROLES, hands_over_through_lmcache
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-106",
    severity=Severity.ERROR,
    title="the PD buffer is a whole number of bytes and of chunks, one at least",
    sources=("LMCache/LMCache issue 1990 (2147483648 refused, 2013265920 accepted by 0.3.9)",),
    facts=("L6",),
)
def buffer_holds_a_chunk(deployment: Deployment) -> Iterator[Problem]:
    """LMCache refuses a buffer below one chunk, and rounds any other down; the rendered number is already rounded."""
    facts = resolve_or_none(deployment)
    if facts is None or not hands_over_through_lmcache(deployment):
        return
    for role in ROLES:
        buffer = facts.role(role).pd_buffer
        if buffer.chunks == 0:
            yield Problem(
                path="serving.transfer.pd_buffer_gib",
                says=f"the {role.value} PD buffer is smaller than one chunk",
                given=f"{buffer.requested_bytes / GIB:g} GiB",
                computed=f"{buffer.requested_bytes:,} bytes",
                limit=f"{buffer.chunk_bytes:,} bytes per chunk of {buffer.chunk_tokens} tokens",
                fix="give the buffer GiB, not MiB, or lower `chunk_tokens`",
            )
