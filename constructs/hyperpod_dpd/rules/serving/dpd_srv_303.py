"""DPD-SRV-303: a NIXL that takes any number of EFA devices on the other side."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.derive import resolve_or_none
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment

ASYMMETRIC_SINCE: Final = (1, 0, 0)
"""The number of rails travels with the metadata from 0.7.1 on; a failure with 32 against 8 was reported for 0.8.0."""


@deployment_rule(
    "DPD-SRV-303",
    severity=Severity.ERROR,
    title="both roles have as many EFA devices, or NIXL is 1.0.0 or newer",
    sources=("ai-dynamo/nixl issue 1161, PR 1226", "ai-dynamo/nixl PR 908 (asymmetrical rails)"),
    facts=("E3",),
)
def nixl_takes_other_rail_counts(deployment: Deployment) -> Iterator[Problem]:
    """Older NIXL cannot read the metadata of a peer that has another number of devices."""
    facts = resolve_or_none(deployment)
    if facts is None or facts.engine.nixl_version >= ASYMMETRIC_SINCE:
        return
    prefill, decode = facts.prefill.efa_devices, facts.decode.efa_devices
    if prefill != decode:
        yield Problem(
            path="serving.engine.nixl",
            says="this NIXL needs as many EFA devices on both roles",
            given=f"NIXL {facts.engine.nixl}",
            computed=f"{prefill} devices at prefill, {decode} at decode",
            limit="NIXL 1.0.0",
            fix="use an engine of the catalog, or instance types with the same number of EFA devices",
        )
