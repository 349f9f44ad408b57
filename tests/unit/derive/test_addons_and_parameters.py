"""Add-on versions and parameter paths: one answer for stacks, rules and readers."""

import pytest

from hyperpod_dpd.catalog.row import UnknownCatalogEntryError
from hyperpod_dpd.derive.addons import (
    INFERENCE_OPERATOR,
    OBSERVABILITY,
    addon_version,
    installed_addons,
    recorded_addons,
)
from hyperpod_dpd.derive.parameters import Parameter, parameter_name
from hyperpod_dpd.spec import Cluster, ExistingCluster
from tests.support.deployments import changed, ready


def test_a_version_of_the_deployment_needs_no_pin_of_the_catalog() -> None:
    cluster = Cluster(kubernetes_version="1.31", addon_versions={"kube-proxy": "v1.31.14-eksbuild.9"})
    assert addon_version(cluster, "kube-proxy") == "v1.31.14-eksbuild.9"


def test_a_kubernetes_version_without_a_pin_is_refused_with_the_key_to_set() -> None:
    with pytest.raises(UnknownCatalogEntryError, match=r"cluster\.addon_versions\.coredns"):
        addon_version(Cluster(kubernetes_version="1.31"), "coredns")


def test_versions_for_a_kubernetes_version_that_hyperpod_refuses_are_refused() -> None:
    with pytest.raises(UnknownCatalogEntryError, match=r"`1\.29`"):
        addon_version(
            Cluster(kubernetes_version="1.29", addon_versions={"coredns": "v1.10.1-eksbuild.1"}), "coredns"
        )


def test_an_addon_without_public_versions_is_left_to_eks() -> None:
    assert addon_version(Cluster(), "amazon-sagemaker-hyperpod-observability") is None


def test_an_unknown_addon_is_refused() -> None:
    with pytest.raises(UnknownCatalogEntryError, match="`kube-proxxy`"):
        addon_version(Cluster(), "kube-proxxy")


def test_versions_that_are_given_are_nobodys_records() -> None:
    recorded = recorded_addons(ready())
    assert "coredns" in recorded
    given = changed(ready(), cluster__addon_versions={"coredns": "v1.13.2-eksbuild.21"})
    assert set(recorded) - set(recorded_addons(given)) == {"coredns"}


@pytest.mark.parametrize(
    ("path", "value", "name"),
    [
        ("platform__inference_operator", None, INFERENCE_OPERATOR),
        ("platform__observability_addon", False, OBSERVABILITY),
    ],
)
def test_an_addon_that_the_platform_goes_without_is_not_installed(
    path: str, value: object, name: str
) -> None:
    whole = [row.name for row in installed_addons(ready())]
    assert {INFERENCE_OPERATOR, OBSERVABILITY} <= set(whole)
    without = [row.name for row in installed_addons(changed(ready(), **{path: value}))]
    assert without == [each for each in whole if each != name]


def test_the_owner_publishes_below_its_own_name() -> None:
    assert parameter_name(ready(), Parameter.EKS_NAME) == "/hyperpod-dpd/llama-3-3-70b-p5/eks-name"


@pytest.mark.parametrize("prefix", ["/hyperpod-dpd/owner", "/hyperpod-dpd/owner/"])
def test_a_deployment_on_an_existing_cluster_reads_what_the_owner_published(prefix: str) -> None:
    guest = changed(
        ready(),
        cluster__existing=ExistingCluster(eks_name="theirs", hyperpod_name="theirs", parameter_prefix=prefix),
    )
    assert parameter_name(guest, Parameter.VPC_ID) == "/hyperpod-dpd/owner/vpc-id"
