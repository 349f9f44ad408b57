"""DPD-LINT-314: NCCL listens where somebody is."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule
from hyperpod_dpd.rules.serving.dpd_srv_314 import misleading_interfaces


@manifest_rule(
    "DPD-LINT-314",
    severity=Severity.WARNING,
    title="`NCCL_SOCKET_IFNAME` excludes `lo`, `docker` and `pod-id-link0`",
    sources=("aws-samples/aws-do-eks PR 54",),
    facts=("E14",),
)
def nccl_uses_the_pods_interface(manifests: ManifestSet) -> Iterator[Fault]:
    """NCCL picks the interface of EKS Pod Identity, through which no other process is reached."""
    for worker in manifests.handing_over:
        given = worker.environment.get("NCCL_SOCKET_IFNAME")
        misleading = () if given is None or given.value is None else misleading_interfaces(given.value)
        if given is not None and misleading:
            yield fault(
                given.node,
                says=f"`{misleading[0]}` may be what NCCL of {worker} chooses",
                given=f"`NCCL_SOCKET_IFNAME: {given.value}`",
                fix="set `^lo,docker,pod-id-link0`",
            )
