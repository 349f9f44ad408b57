"""Service quotas of an account that a deployment runs into, beside those of the instance types."""

from hyperpod_dpd.catalog.row import Source
from hyperpod_dpd.spec.value import record


@record
class Quota:
    """A quota as Service Quotas knows it."""

    service: str
    code: str
    name: str
    """Name in the Service Quotas console."""
    source: Source

    def __str__(self) -> str:
        return f"`{self.name}` ({self.code})"


_VPC = Source(
    text="Amazon VPC user guide, quotas; service code and quota code in its links", as_of="2026-11-30"
)
_EC2 = Source(
    text="AWS General Reference, EC2 quotas; several public quota checkers name the same code",
    as_of="2026-11-30",
)
_HYPERPOD = Source(
    text="SageMaker DG sagemaker-hyperpod-prerequisites (names); two public listings of `list-service-quotas` (codes)",
    as_of="2026-11-30",
    confirmed=False,
)
_CODEBUILD = Source(
    text="AWS General Reference, CodeBuild quotas (names); the tests of AWS's Landing Zone Accelerator and public listings "
    "of `list-service-quotas` (codes)",
    as_of="2026-11-30",
)

INSTANCES_PER_CLUSTER = Quota(
    service="sagemaker",
    code="L-2CE978FC",
    name="Maximum number instances allowed per SageMaker HyperPod cluster",
    source=_HYPERPOD,
)
INSTANCES_OF_ALL_CLUSTERS = Quota(
    service="sagemaker",
    code="L-3308CCC7",
    name="Total number of instances allowed across SageMaker HyperPod clusters",
    source=_HYPERPOD,
)
SPOT_INSTANCES_OF_ALL_CLUSTERS = Quota(
    service="sagemaker",
    code="L-97A2C724",
    name="Total number of Spot instances allowed across SageMaker HyperPod clusters",
    source=_HYPERPOD,
)
VOLUME_GIB = Quota(
    service="sagemaker",
    code="L-E13DF72A",
    name="Maximum size of EBS volume in GB for a SageMaker HyperPod cluster instance",
    source=_HYPERPOD,
)
VPCS = Quota(service="vpc", code="L-F678F1CE", name="VPCs per Region", source=_VPC)
CIDRS_PER_VPC = Quota(service="vpc", code="L-83CA0A9D", name="IPv4 CIDR blocks per VPC", source=_VPC)
INTERNET_GATEWAYS = Quota(service="vpc", code="L-A4707A72", name="Internet gateways per Region", source=_VPC)
ENDPOINTS_PER_VPC = Quota(
    service="vpc", code="L-29B6F2EB", name="Interface VPC endpoints per VPC", source=_VPC
)
NETWORK_INTERFACES = Quota(
    service="vpc", code="L-DF5E4CA3", name="Network interfaces per Region", source=_VPC
)
ELASTIC_ADDRESSES = Quota(service="ec2", code="L-0263D0A3", name="EC2-VPC Elastic IPs", source=_EC2)
STANDARD_VCPUS = Quota(
    service="ec2",
    code="L-1216C47A",
    name="Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
    source=_EC2,
)

_BUILDS = {
    "BUILD_GENERAL1_SMALL": ("Linux/Small", "L-9D07B6EF"),
    "BUILD_GENERAL1_MEDIUM": ("Linux/Medium", "L-2DC20C30"),
    "BUILD_GENERAL1_LARGE": ("Linux/Large", "L-4DDC4A99"),
}

_SPOT = {"ml.p5.48xlarge": "L-F742E2D7"}


def cluster_usage(instance_type: str, code: str) -> Quota:
    """Return the quota of on-demand instances of `instance_type` in HyperPod clusters; `code` is the catalog's."""
    return Quota(service="sagemaker", code=code, name=f"{instance_type} for cluster usage", source=_HYPERPOD)


def spot_usage(instance_type: str) -> Quota | None:
    """Return the quota of Spot instances of `instance_type` in HyperPod clusters, None where no code is public."""
    code = _SPOT.get(instance_type)
    if code is None:
        return None
    name = f"{instance_type} for cluster spot instance usage"
    return Quota(service="sagemaker", code=code, name=name, source=_HYPERPOD)


def concurrent_builds(machine: str) -> Quota:
    """Return the quota of builds that run at the same time on machines of CodeBuild's compute type `machine`.

    Raises:
        KeyError: no build of this project runs on such a machine.
    """
    environment, code = _BUILDS[machine]
    return Quota(
        service="codebuild",
        code=code,
        name=f"Concurrently running builds for {environment} environment",
        source=_CODEBUILD,
    )
