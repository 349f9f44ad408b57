"""The catalog of EKS and of regions: what a wrong row would break."""

import pytest

from hyperpod_dpd.catalog.eks import (
    DEFAULT_KUBERNETES_VERSION,
    Addon,
    AddonPhase,
    addon,
    addon_version_key,
    addons,
    kubernetes_version,
    kubernetes_versions,
)
from hyperpod_dpd.catalog.regions import region, region_of_zone, regions
from hyperpod_dpd.catalog.row import UnknownCatalogEntryError


def test_builds_of_an_addon_compare_as_numbers() -> None:
    versions = ["v1.13.2-eksbuild.21", "v1.13.2-eksbuild.4", "v1.9.0-eksbuild.1", "v1.13.10-eksbuild.1"]
    assert sorted(versions, key=addon_version_key) == [
        "v1.9.0-eksbuild.1",
        "v1.13.2-eksbuild.4",
        "v1.13.2-eksbuild.21",
        "v1.13.10-eksbuild.1",
    ]


@pytest.mark.parametrize("version", ["latest", "v1.22", "1.22.4-build.3", ""])
def test_what_is_not_a_version_is_refused(version: str) -> None:
    with pytest.raises(ValueError, match="is not the version of an EKS add-on"):
        addon_version_key(version)


@pytest.mark.parametrize("row", addons(), ids=lambda row: row.name)
def test_pins_are_at_or_above_their_floor(row: Addon) -> None:
    for version in row.pins.values():
        assert row.floor is None or addon_version_key(version) >= addon_version_key(row.floor)


def test_kube_proxy_follows_the_kubernetes_version() -> None:
    for kubernetes, version in addon("kube-proxy").pins.items():
        assert version.startswith(f"v{kubernetes}.")


def test_addons_that_nodes_need_are_created_first() -> None:
    order = list(AddonPhase)
    phases = [order.index(row.phase) for row in addons()]
    assert phases == sorted(phases)
    assert {row.name for row in addons() if row.phase is AddonPhase.BEFORE_NODES} == {
        "vpc-cni",
        "kube-proxy",
        "eks-pod-identity-agent",
    }


def test_a_missing_pin_says_how_to_give_one() -> None:
    with pytest.raises(UnknownCatalogEntryError, match=r"cluster\.addon_versions\.kube-proxy"):
        addon("kube-proxy").pin("1.31")


def test_an_addon_without_public_versions_is_left_to_eks() -> None:
    assert addon("amazon-sagemaker-hyperpod-observability").pin("1.35") is None


def test_every_pinned_addon_has_a_pin_for_the_default_version() -> None:
    assert all(row.pin(DEFAULT_KUBERNETES_VERSION) for row in addons() if row.pins)


def test_the_default_version_stays_in_standard_support_longest() -> None:
    assert max(kubernetes_versions(), key=lambda row: row.end_of_standard_support).version == "1.35"
    assert kubernetes_version("1.34").end_of_standard_support == "2026-12-02"


def test_versions_that_hyperpod_does_not_name_are_refused() -> None:
    with pytest.raises(UnknownCatalogEntryError, match=r"`1\.36`"):
        kubernetes_version("1.36")


@pytest.mark.parametrize(
    ("name", "refused"),
    [("us-east-1", ("use1-az3",)), ("us-west-1", ("usw1-az2",)), ("us-west-2", ()), ("eu-west-1", ())],
)
def test_zones_that_eks_refuses(name: str, refused: tuple[str, ...]) -> None:
    row = region(name)
    assert row.eks_refused_zone_ids == refused
    assert set(row.eks_zone_ids) == set(row.zone_ids) - set(refused)
    assert len(row.eks_zone_ids) >= 2


def test_a_zone_belongs_to_one_region() -> None:
    zones = [zone for row in regions() for zone in row.zone_ids]
    assert len(zones) == len(set(zones))
    found = region_of_zone("use1-az6")
    assert found is not None
    assert found.name == "us-east-1"
    assert region_of_zone("apne1-az3") is None  # closed in February 2025
    assert region_of_zone("us-east-1a") is None  # a zone name is not a zone id


def test_agent_accounts_are_accounts_and_differ() -> None:
    accounts = [row.health_agent_account for row in regions()]
    assert all(len(account) == 12 and account.isdigit() for account in accounts)
    assert len(set(accounts)) == len(accounts) == 13


def test_an_unknown_region_lists_the_known_ones() -> None:
    with pytest.raises(UnknownCatalogEntryError, match="`us-east-1`"):
        region("mars-north-1")
