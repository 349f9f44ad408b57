"""DPD-LINT-303: both roles have as many devices."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import EFA, Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule
from hyperpod_dpd.rules.serving.dpd_srv_303 import ASYMMETRIC_SINCE


@manifest_rule(
    "DPD-LINT-303",
    severity=Severity.WARNING,
    title="both roles have as many EFA devices",
    sources=("ai-dynamo/nixl issue 1161, PR 908, PR 1462",),
    facts=("E3",),
)
def rail_counts_are_equal(manifests: ManifestSet) -> Iterator[Fault]:
    """NIXL before 1.0.0 cannot read the metadata of a peer with another number of devices; newer ones warn, and nobody measured it."""
    for endpoint in manifests.endpoints:
        for prefill, decode in endpoint.pairs:
            if prefill.efa_devices and decode.efa_devices and prefill.efa_devices != decode.efa_devices:
                yield fault(
                    decode.quantity("limits", EFA) or decode.node,
                    says="prefill and decode have different numbers of EFA devices",
                    given=f"{prefill.efa_devices} at `{prefill.owner.name}`, {decode.efa_devices} at `{decode.owner.name}`",
                    limit=f"NIXL {'.'.join(map(str, ASYMMETRIC_SINCE))} or newer",
                    fix="measure the transfer rate, or use instance types with the same number of devices",
                )
