"""Kubernetes versions and EKS add-ons: what exists, what is pinned, and what is too old."""

import re
from collections.abc import Mapping
from enum import StrEnum

from hyperpod_dpd.catalog.row import Source, UnknownCatalogEntryError
from hyperpod_dpd.spec.value import record


@record
class KubernetesVersion:
    """A minor version of Kubernetes on EKS that HyperPod supports."""

    version: str
    end_of_standard_support: str
    """ISO 8601 date from which EKS charges for extended support."""
    end_of_extended_support: str
    """ISO 8601 date from which EKS creates no cluster of this version and upgrades existing ones by itself."""
    source: Source


_HYPERPOD_VERSIONS = "SageMaker DG sagemaker-hyperpod-eks-prerequisites (1.30 to 1.35)"
_CALENDAR = Source(
    text=f"EKS kubernetes-versions.adoc, release calendar; {_HYPERPOD_VERSIONS}", as_of="2026-11-30"
)
_CALENDAR_OF_1_35 = Source(
    text=f"endoflife.date/amazon-eks, February 2026; {_HYPERPOD_VERSIONS}", as_of="2026-11-30"
)

_KUBERNETES_VERSIONS = {
    row.version: row
    for row in (
        KubernetesVersion(
            version="1.30",
            end_of_standard_support="2025-07-23",
            end_of_extended_support="2026-07-23",
            source=_CALENDAR,
        ),
        KubernetesVersion(
            version="1.31",
            end_of_standard_support="2025-11-26",
            end_of_extended_support="2026-11-26",
            source=_CALENDAR,
        ),
        KubernetesVersion(
            version="1.32",
            end_of_standard_support="2026-03-23",
            end_of_extended_support="2027-03-23",
            source=_CALENDAR,
        ),
        KubernetesVersion(
            version="1.33",
            end_of_standard_support="2026-07-29",
            end_of_extended_support="2027-07-29",
            source=_CALENDAR,
        ),
        KubernetesVersion(
            version="1.34",
            end_of_standard_support="2026-12-02",
            end_of_extended_support="2027-12-02",
            source=_CALENDAR,
        ),
        KubernetesVersion(
            version="1.35",
            end_of_standard_support="2027-03-27",
            end_of_extended_support="2028-03-27",
            source=_CALENDAR_OF_1_35,
        ),
    )
}

DEFAULT_KUBERNETES_VERSION = "1.35"
"""Newest version that HyperPod's documentation names."""


class AddonPhase(StrEnum):
    """When an add-on is created."""

    BEFORE_NODES = "before-nodes"
    """A node is not ready, or its pods have no network, without it."""

    SYSTEM_NODES = "system-nodes"
    """Its pods run on the system node group."""

    PLATFORM = "platform"
    """After the GPU nodes, with the platform components."""


@record
class Addon:
    """An EKS add-on that this project installs."""

    name: str
    phase: AddonPhase
    floor: str | None
    """Oldest version that works with HyperPod or its inference operator; None where nothing names one."""
    pins: Mapping[str, str]
    """Version by Kubernetes version; empty where no version string is public, then EKS takes its default."""
    source: Source

    def pin(self, kubernetes_version: str) -> str | None:
        """Return the pinned version for `kubernetes_version`, or None when EKS decides.

        Raises:
            UnknownCatalogEntryError: the add-on is pinned, but not for this Kubernetes version.
        """
        if not self.pins:
            return None
        try:
            return self.pins[kubernetes_version]
        except KeyError:
            raise UnknownCatalogEntryError(
                f"version of the add-on `{self.name}` for Kubernetes",
                kubernetes_version,
                tuple(self.pins),
                f"name it under `cluster.addon_versions.{self.name}`",
            ) from None


def _every(version: str) -> dict[str, str]:
    """One build for every Kubernetes version on which EKS still creates clusters."""
    return dict.fromkeys(("1.32", "1.33", "1.34", "1.35"), version)


_CHECK = "confirm in the region with `aws eks describe-addon-versions`"

_ADDONS = {
    row.name: row
    for row in (
        Addon(
            name="vpc-cni",
            phase=AddonPhase.BEFORE_NODES,
            floor="v1.18.3-eksbuild.1",
            pins=_every("v1.22.4-eksbuild.3"),
            source=Source(
                text="floor: SageMaker DG sagemaker-hyperpod-eks-prerequisites (1.18.3). Pin: EKS default of August "
                f"2026 for 1.32 to 1.35 in several public stacks; {_CHECK}",
                as_of="2026-11-30",
                confirmed=False,
            ),
        ),
        Addon(
            name="kube-proxy",
            phase=AddonPhase.BEFORE_NODES,
            floor=None,
            pins={
                "1.32": "v1.32.13-eksbuild.21",
                "1.33": "v1.33.10-eksbuild.18",
                "1.34": "v1.34.6-eksbuild.18",
                "1.35": "v1.35.3-eksbuild.21",
            },
            source=Source(
                text="EKS defaults of August 2026 in public upgrade records; the EKS user guide's table "
                f"managing-kube-proxy has earlier builds of the same versions; {_CHECK}",
                as_of="2026-11-30",
                confirmed=False,
            ),
        ),
        Addon(
            name="eks-pod-identity-agent",
            phase=AddonPhase.BEFORE_NODES,
            floor=None,
            pins=_every("v1.3.10-eksbuild.3"),
            source=Source(
                text=f"`describe-addon-versions` output in public stacks, May to September 2026; {_CHECK}",
                as_of="2026-11-30",
                confirmed=False,
            ),
        ),
        Addon(
            name="coredns",
            phase=AddonPhase.SYSTEM_NODES,
            floor=None,
            pins={
                "1.32": "v1.11.4-eksbuild.40",
                "1.33": "v1.12.4-eksbuild.18",
                "1.34": "v1.12.4-eksbuild.18",
                "1.35": "v1.13.2-eksbuild.21",
            },
            source=Source(
                text=f"EKS defaults of August 2026 in public upgrade records; {_CHECK}",
                as_of="2026-11-30",
                confirmed=False,
            ),
        ),
        Addon(
            name="cert-manager",
            phase=AddonPhase.PLATFORM,
            floor="v1.18.2-eksbuild.2",
            pins=_every("v1.21.0-eksbuild.2"),
            source=Source(
                text="floor: SageMaker DG sagemaker-hyperpod-model-deployment-setup. Pin: newest build measured in "
                f"us-east-1 and eu-west-1 on 2026-08-03 (builds differ between regions); {_CHECK}",
                as_of="2026-11-30",
                confirmed=False,
            ),
        ),
        Addon(
            name="metrics-server",
            phase=AddonPhase.PLATFORM,
            floor="v0.7.2-eksbuild.4",
            pins=_every("v0.8.1-eksbuild.6"),
            source=Source(
                text="floor: SageMaker DG sagemaker-hyperpod-model-deployment-setup. Pin: `describe-addon-versions` "
                f"output in two public stacks, May 2026; {_CHECK}",
                as_of="2026-11-30",
                confirmed=False,
            ),
        ),
        Addon(
            name="aws-mountpoint-s3-csi-driver",
            phase=AddonPhase.PLATFORM,
            floor="v1.14.1-eksbuild.1",
            pins=_every("v2.5.0-eksbuild.1"),
            source=Source(
                text="floor: SageMaker DG sagemaker-hyperpod-model-deployment-setup. Pin: public stacks of 2026; "
                f"{_CHECK}",
                as_of="2026-11-30",
                confirmed=False,
            ),
        ),
        Addon(
            name="aws-fsx-csi-driver",
            phase=AddonPhase.PLATFORM,
            floor="v1.6.0-eksbuild.1",
            pins=_every("v1.9.0-eksbuild.1"),
            source=Source(
                text="floor: SageMaker DG sagemaker-hyperpod-model-deployment-setup. Pin: a public stack on 1.35 in "
                f"us-east-2; {_CHECK}",
                as_of="2026-11-30",
                confirmed=False,
            ),
        ),
        Addon(
            name="amazon-sagemaker-hyperpod-inference",
            phase=AddonPhase.PLATFORM,
            # the first version whose operator (3.2) knows `pdSpec`
            floor="v1.3.0-eksbuild.1",
            pins=_every("v1.5.0-eksbuild.1"),
            source=Source(text="SageMaker DG sagemaker-hyperpod-inference-release-notes", as_of="2026-11-30"),
        ),
        Addon(
            name="amazon-sagemaker-hyperpod-observability",
            phase=AddonPhase.PLATFORM,
            floor=None,
            pins={},
            source=Source(
                text="SageMaker DG on HyperPod observability; no version string is public", as_of="2026-11-30"
            ),
        ),
    )
}

# `v1.22.4-eksbuild.3`; `eksbuild.10` is newer than `eksbuild.9`, so builds are compared as numbers
_ADDON_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:-eksbuild\.(\d+))?")


def addon_version_key(version: str) -> tuple[int, int, int, int]:
    """Return `version` of an add-on as numbers that compare in the order of releases.

    Raises:
        ValueError: `version` is not of the form `v1.22.4-eksbuild.3`.
    """
    match = _ADDON_VERSION.fullmatch(version)
    if match is None:
        raise ValueError(
            f"`{version}` is not the version of an EKS add-on. help: write it as in `v1.22.4-eksbuild.3`"
        )
    major, minor, patch, build = match.groups(default="0")
    return int(major), int(minor), int(patch), int(build)


def kubernetes_versions() -> tuple[KubernetesVersion, ...]:
    """Return every Kubernetes version that HyperPod supports, oldest first."""
    return tuple(_KUBERNETES_VERSIONS.values())


def kubernetes_version(version: str) -> KubernetesVersion:
    """Return the row of the Kubernetes minor version `version`, such as `1.35`.

    Raises:
        UnknownCatalogEntryError: HyperPod does not support it.
    """
    try:
        return _KUBERNETES_VERSIONS[version]
    except KeyError:
        raise UnknownCatalogEntryError(
            "Kubernetes version of HyperPod", version, tuple(_KUBERNETES_VERSIONS)
        ) from None


def addons() -> tuple[Addon, ...]:
    """Return every add-on in the order in which they are created."""
    return tuple(_ADDONS.values())


def addon(name: str) -> Addon:
    """Return the add-on called `name`.

    Raises:
        UnknownCatalogEntryError: the catalog has no such add-on.
    """
    try:
        return _ADDONS[name]
    except KeyError:
        raise UnknownCatalogEntryError("EKS add-on", name, tuple(_ADDONS)) from None
