"""DPD-LINT-105: the receiver's buffer is not smaller."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-105",
    severity=Severity.WARNING,
    title="the decoder's PD buffer is at least as large as the prefiller's",
    sources=("LMCache/LMCache issues 1990, 2365, 1337", "LMCache examples (sender 1 GiB, receiver 2 GiB)"),
    facts=("L5",),
)
def receiver_is_not_smaller(manifests: ManifestSet) -> Iterator[Fault]:
    """Several prefillers write into one decoder, and what has landed stays there until it is consumed."""
    for endpoint in manifests.endpoints:
        for prefill, decode in endpoint.pairs:
            sender = prefill.at("pd_buffer_size").number
            receiver = decode.at("pd_buffer_size").number
            if sender is not None and receiver is not None and receiver < sender:
                yield fault(
                    decode.at("pd_buffer_size"),
                    says="the decoder's PD buffer is smaller than the prefiller's",
                    given=f"`pd_buffer_size: {receiver}`",
                    limit=f"{sender} at `{prefill.owner.name}`",
                    fix=f"set `pd_buffer_size: {sender}` at least",
                )
