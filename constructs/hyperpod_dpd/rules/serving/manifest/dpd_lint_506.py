"""DPD-LINT-506: a decoder's ports have four digits."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule
from hyperpod_dpd.rules.serving.dpd_srv_506 import four_digits
from hyperpod_dpd.spec import Role


@manifest_rule(
    "DPD-LINT-506",
    severity=Severity.ERROR,
    title="init and allocation ports lie between 1000 and 9999",
    sources=(
        "measured on one H200, 2026-11-30 (NIXL_ERR_REMOTE_DISCONNECT)",
        "LMCache 0.4.3 to 0.5.6 source (peer id = host + init port)",
    ),
    facts=("H6",),
)
def ports_have_four_digits(manifests: ManifestSet) -> Iterator[Fault]:
    """A prefiller knows a decoder by address and port, written without a separator: equal lengths keep them apart."""
    for worker in manifests.handing_over:
        for key in ("pd_peer_init_port", "pd_peer_alloc_port"):
            ports = worker.ports(key)
            if ports and worker.role is Role.DECODE and not four_digits(sorted(ports)):
                yield fault(
                    worker.at(key),
                    says=f"ports of {worker} without four digits",
                    given=f"`{key}: {list(ports)}`",
                    limit="1000-9999",
                    fix="use 7300 and 7400 and the following ones",
                )
