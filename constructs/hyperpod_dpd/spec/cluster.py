"""The EKS cluster: version, endpoint, administrators, system nodes, add-ons."""

from typing import Annotated, Literal

import annotated_types as at

from hyperpod_dpd.spec.value import NonEmptyStr, value


@value
class SystemNodes:
    """The managed node group that carries controllers, so that they run with zero GPU nodes."""

    instance_type: NonEmptyStr = "m6i.xlarge"
    """EC2 instance type, amd64 (the inference operator's image is amd64 only)."""

    count: Annotated[int, at.Ge(2), at.Le(450)] = 2
    """Nodes, spread over the cluster's zones."""

    maximum: Annotated[int, at.Ge(2), at.Le(450)] = 4
    """Upper limit of nodes during an upgrade; EKS allows 450 in a group."""

    volume_gib: Annotated[int, at.Ge(20), at.Le(16384)] = 100
    """Root volume in GiB."""


@value
class DependenciesChart:
    """Where the HyperPod dependencies Helm chart comes from."""

    source: Literal["git", "s3"] = "git"
    """`git`: the public repository at the catalog's commit. `s3`: an archive of it, for a closed network."""

    s3_uri: NonEmptyStr | None = None
    """`s3://bucket/key` of the archive (`source: s3`)."""

    sha256: Annotated[str, at.MinLen(64), at.MaxLen(64)] | None = None
    """SHA-256 of that archive in hexadecimal (`source: s3`)."""


@value
class ExistingCluster:
    """A cluster that another deployment or another team owns; nothing of it is created here."""

    eks_name: NonEmptyStr
    """Name of the EKS cluster."""

    hyperpod_name: NonEmptyStr
    """Name of the HyperPod cluster."""

    parameter_prefix: NonEmptyStr | None = None
    """SSM parameter path under which the owning deployment publishes its outputs."""


@value
class Cluster:
    """EKS as this project sets it up for HyperPod."""

    kubernetes_version: NonEmptyStr = "1.35"
    """Kubernetes minor version; the catalog says which ones HyperPod supports and until when."""

    endpoint_access: Literal["public-and-private", "private"] = "public-and-private"
    """Who reaches the API server. `private` also needs a way into the VPC for kubectl."""

    public_access_cidrs: tuple[NonEmptyStr, ...] = ("0.0.0.0/0",)
    """Addresses that may reach the public endpoint."""

    administrators: tuple[NonEmptyStr, ...] = ()
    """ARNs of IAM roles or users with cluster-admin. The role that deploys does not get access by itself."""

    system_nodes: SystemNodes = SystemNodes()
    """Nodes for controllers."""

    addon_versions: dict[NonEmptyStr, NonEmptyStr] | None = None
    """Versions of EKS add-ons that replace the catalog's pins, by add-on name."""

    dependencies_chart: DependenciesChart = DependenciesChart()
    """Source of the HyperPod dependencies Helm chart."""

    existing: ExistingCluster | None = None
    """Use this cluster instead of creating one."""
