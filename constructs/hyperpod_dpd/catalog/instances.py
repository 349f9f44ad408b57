"""Instance types on which disaggregated serving over EFA is supported."""

from hyperpod_dpd.catalog.row import Source, UnknownCatalogEntryError
from hyperpod_dpd.spec.value import record


@record
class Gpu:
    """One accelerator, by its datasheet."""

    name: str
    hbm_gib: float
    """Memory that CUDA reports as usable, in GiB per GPU."""
    hbm_bytes_per_second: float
    """Peak memory bandwidth in bytes per second."""
    bf16_flops_per_second: float
    """Peak dense BF16 rate in floating-point operations per second."""
    fp8_flops_per_second: float
    """Peak dense FP8 rate in floating-point operations per second."""


@record
class CatalogPrice:
    """Dated list price of one instance."""

    usd_per_hour: float
    """US dollars per instance and hour."""
    regions: tuple[str, ...]
    """Regions with this price. Elsewhere EC2 asks from 7 % more (eu-north-1) to 68 % more (sa-east-1) for a p5."""
    derived: bool
    """True where no published figure for the `ml.` type was found and EC2's was scaled."""
    source: Source


@record
class InstanceType:
    """A HyperPod instance type."""

    name: str
    gpu: Gpu
    gpus: int
    efa_devices: int
    """`vpc.amazonaws.com/efa` devices of a whole node; each GPU owns an equal share."""
    network_gbps: int
    """Sum of all EFA devices in gigabits per second."""
    vcpus: int
    """vCPUs with two threads per core."""
    memory_gib: int
    nvme_gb: int
    """Local NVMe of the whole node in decimal gigabytes."""
    addresses_per_node: int
    """IPv4 addresses that HyperPod on EKS takes from the subnet for one node."""
    max_pods: int
    quota_code: str
    """Service Quotas code of "<type> for cluster usage"."""
    price: CatalogPrice | None
    source: Source

    @property
    def efa_devices_per_gpu(self) -> int:
        """EFA devices that belong to one GPU."""
        return self.efa_devices // self.gpus

    @property
    def efa_bytes_per_second_per_gpu(self) -> float:
        """Line rate of one GPU's share of the fabric in bytes per second."""
        return self.network_gbps * 1e9 / 8 / self.gpus


_H100 = Gpu(
    name="H100 SXM 80 GB",
    hbm_gib=79.6,
    hbm_bytes_per_second=3.35e12,
    bf16_flops_per_second=989e12,
    fp8_flops_per_second=1979e12,
)
_H200 = Gpu(
    name="H200 SXM 141 GB",
    hbm_gib=140.4,
    hbm_bytes_per_second=4.8e12,
    bf16_flops_per_second=989e12,
    fp8_flops_per_second=1979e12,
)

# No public page shows HyperPod's own prices. Where SageMaker's are known they are this factor over EC2's list price: in
# AWS's price list of 2026-09-01 for us-west-2, as a public workshop's configuration records it, ml.p5 63.296 : 55.04 and
# ml.p4d 25.251286 : 21.957642; in older pairs ml.p5 113.068 : 98.32 and ml.p4d 37.688 : 32.77. Listings of 66.048 for p5
# and 75.9552 for p5en, 1.2 times EC2's price of us-east-1, are EC2's own prices of ap-south-1.
_ML_UPLIFT = 1.15
_REGIONS_OF_PRICES = ("us-east-1", "us-east-2", "us-west-2")


def _derived_price(ec2_usd_per_hour: float, source: str, as_of: str) -> CatalogPrice:
    return CatalogPrice(
        usd_per_hour=round(ec2_usd_per_hour * _ML_UPLIFT, 2),
        regions=_REGIONS_OF_PRICES,
        derived=True,
        source=Source(
            text=f"EC2 on-demand {ec2_usd_per_hour} USD/h × {_ML_UPLIFT}; {source}",
            as_of=as_of,
            confirmed=False,
        ),
    )


_INSTANCES = {
    row.name: row
    for row in (
        InstanceType(
            name="ml.p5.48xlarge",
            gpu=_H100,
            gpus=8,
            efa_devices=32,
            network_gbps=3200,
            vcpus=192,
            memory_gib=2048,
            nvme_gb=8 * 3840,
            addresses_per_node=81,
            max_pods=49,
            quota_code="L-8762A75F",
            price=_derived_price(55.04, "data-receipts 109-gpu-pricing", "2026-11-09"),
            source=Source(
                text="EC2 accelerated instance types; SageMaker DG sagemaker-hyperpod-prerequisites (81 addresses); "
                "sagemaker-hyperpod-eks-prerequisites (49 pods)",
                as_of="2026-11-30",
            ),
        ),
        InstanceType(
            name="ml.p5e.48xlarge",
            gpu=_H200,
            gpus=8,
            efa_devices=32,
            network_gbps=3200,
            vcpus=192,
            memory_gib=2048,
            nvme_gb=8 * 3840,
            addresses_per_node=81,
            max_pods=49,
            quota_code="L-FD431820",
            price=None,
            source=Source(
                text="SageMaker DG sagemaker-hyperpod-model-deployment-dpd allow-list; EFA and addresses as p5",
                as_of="2026-11-30",
                confirmed=False,
            ),
        ),
        InstanceType(
            name="ml.p5en.48xlarge",
            gpu=_H200,
            gpus=8,
            efa_devices=16,
            network_gbps=3200,
            vcpus=192,
            memory_gib=2048,
            nvme_gb=8 * 3840,
            addresses_per_node=65,
            max_pods=49,
            quota_code="L-6EF3AE05",
            price=_derived_price(63.296, "dstack offer", "2026-08-15"),
            source=Source(
                text="skypilot PR 5318 and torchx PR 995 (16 EFA devices); 50 + 15 addresses and 49 pods inferred from p5",
                as_of="2026-11-30",
                confirmed=False,
            ),
        ),
    )
}


def instance_types() -> tuple[InstanceType, ...]:
    """Return every supported instance type."""
    return tuple(_INSTANCES.values())


def instance_type(name: str) -> InstanceType:
    """Return the instance type called `name`.

    Raises:
        UnknownCatalogEntryError: the catalog has no such type.
    """
    try:
        return _INSTANCES[name]
    except KeyError:
        raise UnknownCatalogEntryError("instance type", name, tuple(_INSTANCES)) from None
