"""What a deployment waits for after its objects were applied, and how long."""

import pytest

from hyperpod_dpd.evidence.proof_job import render_proof
from hyperpod_dpd.readiness.requirements import JobComplete, ResourceState, Rollout
from hyperpod_dpd.serving import access
from hyperpod_dpd.serving.profile import Profile
from hyperpod_dpd.serving.render import Rendering, render
from hyperpod_dpd.serving.rollouts import requirements_of, rollout_seconds
from hyperpod_dpd.spec import OperatorEndpoint
from tests.support.deployments import changed, ready
from tests.support.manifests import find, of_kind, operated, rendering


def test_every_workload_is_waited_for() -> None:
    found = requirements_of(rendering("p5"))
    assert found == (
        *(Rollout(namespace="llama-3-3-70b-p5-workers", name=role) for role in ("prefill", "decode")),
        Rollout(namespace="llama-3-3-70b-p5-system", name="router"),
    )


def test_both_groups_of_colocated_workers_are_waited_for() -> None:
    rendered = render(ready("llama-3.3-70b-p5-p5en"), Profile.BASELINE)
    names = {each.name for each in requirements_of(rendered) if isinstance(each, Rollout)}
    assert names == {"colocated-prefill", "colocated-decode", "router"}


def test_the_operator_says_itself_when_it_is_done() -> None:
    (found,) = requirements_of(render(operated()["operated"], Profile.OPERATOR))
    assert isinstance(found, ResourceState)
    assert found.as_event()["path"] == (
        "/apis/inference.sagemaker.aws.amazon.com/v1/namespaces/llama-3-3-70b-p5-workers/"
        "inferenceendpointconfigs/dpd"
    )


def _deadline(rendered: Rendering, name: str) -> int:
    return int(find(rendered.objects, "Deployment", name)["spec"]["progressDeadlineSeconds"])


def test_workers_are_given_their_deadline_for_every_replica_one_after_the_other() -> None:
    one = rendering("p5")
    margin_seconds = rollout_seconds(one) - max(
        _deadline(one, name) for name in ("prefill", "decode", "router")
    )
    assert margin_seconds == 600
    three = render(changed(ready(), serving__prefill__replicas=3), Profile.SELF_MANAGED)
    assert rollout_seconds(three) == 3 * _deadline(three, "prefill") + margin_seconds


def test_scaled_workers_may_be_as_many_as_their_maximum() -> None:
    scaled = rendering("scaled")
    assert rollout_seconds(scaled) == 3 * _deadline(scaled, "prefill") + 600


@pytest.mark.parametrize(("given", "seconds"), [(None, 3600), (7200, 7200)])
def test_the_operator_is_given_its_own_limit(given: int | None, seconds: int) -> None:
    deployment = changed(
        operated()["operated"], serving__operator=OperatorEndpoint(deploy_timeout_seconds=given)
    )
    rendered = render(deployment, Profile.OPERATOR)
    assert rollout_seconds(rendered) == seconds + 600


@pytest.mark.parametrize("profile", [Profile.SELF_MANAGED, Profile.BASELINE, Profile.BASELINE_TUNED])
def test_the_router_is_not_given_up_before_the_workers_for_which_it_waits(profile: Profile) -> None:
    """Its start-up probe asks for a decoder, whose weights take longer than Kubernetes' ten minutes."""
    deadlines = {
        entry["metadata"]["name"]: entry["spec"]["progressDeadlineSeconds"]
        for entry in of_kind(render(ready(), profile).objects, "Deployment")
    }
    router = deadlines.pop("router")
    assert router == max(deadlines.values()) + 600


def test_no_wait_is_longer_than_cloudformation_waits() -> None:
    many = render(changed(ready(), serving__decode__replicas=100), Profile.SELF_MANAGED)
    assert rollout_seconds(many) == 12 * 3600


def test_the_proof_is_waited_for_as_long_as_it_may_run() -> None:
    proof = render_proof(ready(), Profile.SELF_MANAGED, revision="abc")
    (job,) = of_kind(proof.objects, "Job")
    assert requirements_of(proof) == (
        JobComplete(namespace="llama-3-3-70b-p5-system", name=job["metadata"]["name"]),
    )
    assert rollout_seconds(proof) == job["spec"]["activeDeadlineSeconds"] + 600


def test_addresses_are_those_of_the_services_that_are_rendered() -> None:
    service = find(rendering("p5").objects, "Service", "router")
    (port,) = [each["port"] for each in service["spec"]["ports"] if each["name"] == "http"]
    url = access.in_cluster_url(ready(), Profile.SELF_MANAGED)
    assert url == f"http://router.{service['metadata']['namespace']}.svc.cluster.local:{port}/v1"
    forward = access.forward_command(ready(), Profile.SELF_MANAGED)
    assert forward.startswith(f"kubectl --namespace {service['metadata']['namespace']} port-forward ")
    assert forward.endswith(f"service/router 8081:{port}")


def test_the_operators_router_is_where_its_documentation_says() -> None:
    # SageMaker developer guide, model deployment with DPD: <name>-<namespace>-routing-service, port 443
    url = access.in_cluster_url(operated()["operated"], Profile.OPERATOR)
    assert url == (
        "http://dpd-llama-3-3-70b-p5-workers-routing-service.hyperpod-inference-system.svc.cluster.local:443/v1"
    )
