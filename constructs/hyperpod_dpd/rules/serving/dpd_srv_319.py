"""DPD-SRV-319: transfers between different numbers of EFA devices were not measured."""

from collections.abc import Iterator

from hyperpod_dpd.derive import resolve_or_none
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.dpd_srv_303 import ASYMMETRIC_SINCE
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-319",
    severity=Severity.WARNING,
    title="both roles have as many EFA devices",
    sources=(
        "ai-dynamo/nixl PR 908",
        "ai-dynamo/nixl PR 1462 (`Rail count mismatch` is a warning of NIXL's)",
    ),
    facts=("E3",),
)
def rail_counts_are_equal(deployment: Deployment) -> Iterator[Problem]:
    """NIXL supports it and warns; no throughput of such a pair is public."""
    facts = resolve_or_none(deployment)
    if facts is None or facts.engine.nixl_version < ASYMMETRIC_SINCE:
        return
    prefill, decode = facts.prefill, facts.decode
    if prefill.efa_devices != decode.efa_devices:
        yield Problem(
            path="hyperpod.instance_groups",
            says="prefill and decode have different numbers of EFA devices",
            given=f"`{prefill.instance.name}` and `{decode.instance.name}`",
            computed=f"{prefill.efa_devices} devices at prefill, {decode.efa_devices} at decode",
            fix="let the proof job measure the transfer rate, and acknowledge the warning",
        )
