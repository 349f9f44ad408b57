"""DPD-SRV-314: NCCL does not listen where nobody is."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import environment
from hyperpod_dpd.spec import Deployment

_NOT_THESE: Final = ("lo", "docker", "pod-id-link0")


@deployment_rule(
    "DPD-SRV-314",
    severity=Severity.WARNING,
    title="`NCCL_SOCKET_IFNAME` excludes `lo`, `docker` and `pod-id-link0`",
    sources=("aws-samples/aws-do-eks PR 54",),
    facts=("E14",),
)
def nccl_uses_the_pods_interface(deployment: Deployment) -> Iterator[Problem]:
    """NCCL picks the interface of EKS Pod Identity, through which no other process is reached."""
    for path, name, value in environment(deployment):
        if name != "NCCL_SOCKET_IFNAME":
            continue
        misleading = misleading_interfaces(value)
        if misleading:
            yield Problem(
                path=path,
                says=f"`{misleading[0]}` may be what NCCL chooses",
                given=f"`{name}: {value}`",
                fix="remove it: `^lo,docker,pod-id-link0` is set then",
            )


def misleading_interfaces(value: str) -> tuple[str, ...]:
    """Return the interfaces without anybody behind them that NCCL may choose by `NCCL_SOCKET_IFNAME: value`."""
    if value.startswith("^"):
        excluded = value.removeprefix("^").split(",")
        return tuple(entry for entry in _NOT_THESE if entry not in excluded)
    return tuple(entry for entry in _NOT_THESE if entry in value.split(","))
