"""DPD-SRV-506: a decoder's ports have four digits."""

from collections.abc import Iterator, Sequence

from hyperpod_dpd.derive import decode_ports
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import hands_over_through_lmcache
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-506",
    severity=Severity.ERROR,
    title="every init and allocation port of every epoch lies between 1000 and 9999",
    sources=(
        "measured on one H200, 2026-11-30 (NIXL_ERR_REMOTE_DISCONNECT)",
        "vllm-project/vllm issue 49238",
    ),
    facts=("H6",),
)
def ports_have_four_digits(deployment: Deployment) -> Iterator[Problem]:
    """A prefiller knows a decoder by address and port, written without a separator: equal lengths keep them apart."""
    if not hands_over_through_lmcache(deployment):
        return
    ports = decode_ports(deployment.serving)
    for field, used in (("init_port_base", ports.init_range), ("alloc_port_base", ports.alloc_range)):
        if not four_digits(used):
            yield Problem(
                path=f"serving.transfer.{field}",
                says="ports without four digits",
                given=f"`{field}: {used.start}`",
                computed=f"{used.start}-{used[-1]}",
                limit="1000-9999",
                fix=f"remove `{field}`, or lower `port_epochs`",
            )


def four_digits(ports: Sequence[int]) -> bool:
    """Whether every one of the ascending `ports` has four digits."""
    return ports[0] >= 1000 and ports[-1] <= 9999
