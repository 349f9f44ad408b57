"""What the rendered objects let in and where the load balancer goes, in a VPC of somebody else."""

from functools import cache

import pytest

from hyperpod_dpd.serving.profile import Profile
from hyperpod_dpd.serving.render import render
from hyperpod_dpd.spec import LoadBalancer
from tests.manifests.test_network_policies import INTERNET, End, allowed, end
from tests.support.deployments import EXISTING_VPC, changed, ready
from tests.support.manifests import Manifest, find

_ANNOTATION = "alb.ingress.kubernetes.io"


@cache
def _objects(scheme: str = "internal", subnets: tuple[str, ...] | None = None) -> tuple[Manifest, ...]:
    deployment = changed(
        ready(),
        network__existing=EXISTING_VPC,
        network__existing__load_balancer_subnet_ids=subnets,
        routing__load_balancer=LoadBalancer(scheme=scheme),  # type: ignore[arg-type]
        platform__load_balancer_controller=True,
    )
    return render(deployment, Profile.SELF_MANAGED).objects


@pytest.mark.parametrize("address", ["10.20.1.2", "100.64.3.4"])
def test_every_range_of_the_vpc_is_known_to_the_policies(address: str) -> None:
    objects, inside = _objects(), End(address=address)
    router = end(objects, "router")
    assert allowed(objects, inside, router, 8081), "the load balancer"
    assert allowed(objects, router, inside, 443), "the interfaces of the API server"
    assert not allowed(objects, inside, router, 7500)
    for component in ("prefill", "decode"):
        assert not allowed(objects, end(objects, component), inside, 443), "weights come from outside the VPC"
        assert allowed(objects, end(objects, component), INTERNET, 443)


@pytest.mark.parametrize("address", ["10.192.96.9", "10.1.0.9"])
def test_the_ranges_of_a_vpc_that_is_not_made_are_not_let_in(address: str) -> None:
    objects = _objects()
    assert not allowed(objects, End(address=address), end(objects, "router"), 8081)
    assert not allowed(objects, end(objects, "router"), End(address=address), 443)


def test_the_api_server_of_the_cluster_is_reached_by_its_service() -> None:
    objects = _objects()
    assert allowed(objects, end(objects, "router"), End(address="172.20.0.1"), 443)
    assert not allowed(objects, end(objects, "router"), End(address="10.100.0.1"), 443)


def test_the_load_balancer_is_told_its_subnets_because_tags_are_the_owners() -> None:
    annotations = find(_objects(), "Ingress")["metadata"]["annotations"]
    assert annotations[f"{_ANNOTATION}/subnets"] == ",".join(EXISTING_VPC.system_subnet_ids)
    assert annotations[f"{_ANNOTATION}/inbound-cidrs"] == "10.20.0.0/16,100.64.0.0/16"


def test_a_public_load_balancer_goes_into_the_public_subnets_that_are_named() -> None:
    public = ("subnet-00000000000000006", "subnet-00000000000000007")
    annotations = find(_objects("internet-facing", public), "Ingress")["metadata"]["annotations"]
    assert annotations[f"{_ANNOTATION}/subnets"] == ",".join(public)
