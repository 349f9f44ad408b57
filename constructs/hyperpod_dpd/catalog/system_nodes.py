"""EC2 instance types for system nodes."""

import re
from functools import cache

from hyperpod_dpd.catalog.row import Source
from hyperpod_dpd.spec.value import record


@record
class SystemInstance:
    """An EC2 instance type on which controllers may run."""

    name: str
    vcpus: int
    memory_gib: int
    max_pods: int
    """Pods that a managed node group allows on it."""

    @property
    def allocatable_cpus(self) -> float:
        """CPUs that pods may request: kubelet keeps 6 % of the first, 1 % of the second, 0.5 % of two more, 0.25 %."""
        shares = [0.06, 0.01, 0.005, 0.005, *[0.0025] * self.vcpus]
        return self.vcpus - sum(shares[: self.vcpus])

    @property
    def allocatable_gib(self) -> float:
        """Memory in GiB that pods may request.

        The kernel keeps about 4 %; kubelet 255 MiB, 11 MiB for each pod, and 100 MiB before it evicts.
        """
        return self.memory_gib * 0.96 - (255 + 11 * self.max_pods + 100) / 1024


SOURCE = Source(
    text="awslabs/amazon-eks-ami eni-max-pods.txt (interfaces × (addresses − 1) + 2); EKS user guide, choosing an "
    "instance type, kube-reserved of amazon-eks-ami (managed node groups stop at 110 pods below 30 vCPUs and at 250 above)",
    as_of="2026-11-30",
)

_GENERATIONS = ("5", "5a", "6i", "6a", "7i", "7a")
_GIB_PER_VCPU = {"c": 2, "m": 4, "r": 8}
_FAMILIES = tuple(
    f"{letter}{generation}"
    for letter in _GIB_PER_VCPU
    for generation in _GENERATIONS
    # the sizes of c5 are others
    if not (letter == "c" and generation.startswith("5"))
)
# vCPUs and pods by network interfaces
_SIZES = {
    "large": (2, 29),
    "xlarge": (4, 58),
    "2xlarge": (8, 58),
    "4xlarge": (16, 234),
    "8xlarge": (32, 234),
    "12xlarge": (48, 234),
    "16xlarge": (64, 737),
    "24xlarge": (96, 737),
}
_BURSTABLE = {
    "t3.small": (2, 2, 11),
    "t3.medium": (2, 4, 17),
    "t3.large": (2, 8, 35),
    "t3.xlarge": (4, 16, 58),
    "t3.2xlarge": (8, 32, 58),
}


@cache
def _instances() -> dict[str, SystemInstance]:
    sized = {
        f"{family}.{size}": (vcpus, vcpus * _GIB_PER_VCPU[family[0]], pods)
        for family in _FAMILIES
        for size, (vcpus, pods) in _SIZES.items()
    }
    return {
        name: SystemInstance(
            name=name, vcpus=vcpus, memory_gib=memory, max_pods=min(pods, 110 if vcpus <= 30 else 250)
        )
        for name, (vcpus, memory, pods) in {**sized, **_BURSTABLE}.items()
    }


def families() -> tuple[str, ...]:
    """Return the families that the catalog has, such as `m6i`."""
    return (*_FAMILIES, "t3")


def system_instance(name: str) -> SystemInstance | None:
    """Return the row of the EC2 instance type `name`, or None when the catalog does not have it."""
    return _instances().get(name)


def is_arm(name: str) -> bool:
    """Return whether the EC2 instance type `name` has a Graviton processor, by its name (`m7g`, `c6gn`, `t4g`)."""
    return re.match(r"(a1|[a-z]+\d+[a-z]*g[a-z]*)\.", name) is not None


def is_accelerated(name: str) -> bool:
    """Return whether the EC2 instance type `name` has GPUs or Neuron devices, by its name (`g6`, `p5en`, `trn2`)."""
    return re.match(r"(ml\.)?(p|g|gr|inf|trn|dl|vt|f)\d", name) is not None
