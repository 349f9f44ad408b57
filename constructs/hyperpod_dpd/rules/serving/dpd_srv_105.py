"""DPD-SRV-105: the receiver's buffer is not the smaller one."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import hands_over_through_lmcache
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-105",
    severity=Severity.WARNING,
    title="the decoder's PD buffer is at least as large as the prefiller's",
    sources=("LMCache/LMCache issues 1990, 2365, 1337", "LMCache examples (sender 1 GiB, receiver 2 GiB)"),
    facts=("L5",),
)
def receiver_is_not_smaller(deployment: Deployment) -> Iterator[Problem]:
    """Several prefillers write into one decoder, and what has landed stays there until it is consumed."""
    transfer = deployment.serving.transfer
    receiver = transfer.decode_pd_buffer_gib
    if hands_over_through_lmcache(deployment) and receiver is not None and receiver < transfer.pd_buffer_gib:
        yield Problem(
            path="serving.transfer.decode_pd_buffer_gib",
            says="the decoder's PD buffer is smaller than the prefiller's",
            given=f"`decode_pd_buffer_gib: {receiver:g}`",
            limit=f"`pd_buffer_gib: {transfer.pd_buffer_gib:g}`",
            fix="lower `pd_buffer_gib`, or raise `decode_pd_buffer_gib`",
        )
