"""The rendered proof: what it is told, what it may do, whom it reaches, and that no pod is held closer."""

from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest

from hyperpod_dpd.derive import resolve
from hyperpod_dpd.evidence.proof.options import Options, parse
from hyperpod_dpd.evidence.proof_arguments import proof_arguments
from hyperpod_dpd.evidence.proof_job import (
    PROOF,
    NotProvableError,
    proof_job_name,
    render_proof,
    write_proof,
)
from hyperpod_dpd.serving.bindings import Binding, placeholders
from hyperpod_dpd.serving.profile import Profile
from hyperpod_dpd.serving.render import Rendering, render, render_platform
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.load import load
from tests.manifests.test_network_policies import End, allowed, end
from tests.security.test_pod_security import violations
from tests.support.deployments import ROOT, changed, ready
from tests.support.manifests import Manifest, deployments, find, of_kind, operated, rendering

REVISION = "revision"
EXPORTED = changed(ready(), platform__exporters="manifests")


@cache
def proof(name: str = "p5", profile: Profile = Profile.SELF_MANAGED) -> Rendering:
    given = EXPORTED if name == "exported" else {**deployments(), **operated()}[name]
    return render_proof(given, profile, revision=REVISION)


def told(deployment: Deployment) -> Options:
    """What the program understands of the arguments that are rendered for it."""
    return parse(
        [
            argument.replace("${dpd:AMP_WORKSPACE_URL}", "https://amp")
            for argument in proof_arguments(deployment)
        ]
    )


def pod_of(objects: tuple[Manifest, ...]) -> dict[str, Any]:
    job = find(objects, "Job")
    template = job["spec"]["template"]
    return {
        "metadata": {"name": PROOF, "namespace": job["metadata"]["namespace"], **template["metadata"]},
        "spec": template["spec"],
    }


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("p5", Profile.SELF_MANAGED),
        ("secrets", Profile.SELF_MANAGED),
        ("exported", Profile.SELF_MANAGED),
        ("operated", Profile.OPERATOR),
        ("operated-everything", Profile.OPERATOR),
    ],
)
def test_every_object_is_valid_and_its_pod_restricted(name: str, profile: Profile) -> None:
    objects = proof(name, profile).objects
    for entry in objects:
        assert kubernetes_validate.validate(entry, "1.35", strict=True) == "1.35"
    pod = pod_of(objects)
    assert violations(pod) == set()
    assert pod["metadata"]["namespace"].endswith("-system")
    (container,) = pod["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["spec"]["securityContext"]["runAsUser"] == 65532


def test_the_job_runs_once_and_ends_by_itself() -> None:
    spec = find(proof().objects, "Job")["spec"]
    assert spec["backoffLimit"] == 0
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    target = told(ready()).target
    assert spec["activeDeadlineSeconds"] > target.company_seconds + target.timeout_seconds
    # a router that ends while the new one is proven finishes its answers first
    (router,) = (
        each
        for each in of_kind(rendering("p5").objects, "Deployment")
        if each["metadata"]["name"] == "router"
    )
    assert target.company_seconds == router["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]


def test_another_revision_is_another_job() -> None:
    other = render_proof(ready(), Profile.SELF_MANAGED, revision="another")
    names = {find(each.objects, "Job")["metadata"]["name"] for each in (proof(), other)}
    assert names == {proof_job_name(REVISION), proof_job_name("another")}
    assert len(names) == 2


@pytest.mark.parametrize("name", ["p5", "p5en", "half-nodes", "nixl", "secrets"])
def test_the_program_is_told_what_was_deployed(name: str) -> None:
    deployment = deployments()[name]
    facts = resolve(deployment)
    given = told(deployment)
    target = given.target
    assert target.url == f"http://router.{deployment.name}-system.svc.cluster.local:8081"
    assert target.threshold_tokens == deployment.routing.threshold_tokens
    assert target.transfer == deployment.serving.transfer.type
    assert target.tensor_parallel == facts.tensor_parallel
    assert target.max_model_len_tokens == facts.max_model_len_tokens
    assert target.kv_bytes_per_token == facts.kv_bytes_per_token_per_rank * facts.tensor_parallel
    if target.transfer == "lmcache-pd":
        assert (target.chunk_tokens, target.buffer_chunks) == (
            facts.chunk_tokens,
            facts.decode.pd_buffer.chunks,
        )
        router = next(
            pod
            for pod in of_kind(rendering(name).objects, "Deployment")
            if pod["metadata"]["name"] == "router"
        )
        arguments = router["spec"]["template"]["spec"]["containers"][0]["args"]
        (grace,) = (each.partition("=")[2] for each in arguments if each.startswith("--drain-grace-seconds="))
        assert float(grace) < target.drain_seconds < target.timeout_seconds
    assert target.router_metrics
    assert target.expects_efa
    assert (given.api_key_file is not None) == (deployment.routing.api_keys_secret is not None)


def test_the_program_finds_the_pods_that_are_rendered() -> None:
    given = told(ready())
    assert given.prefill is not None
    assert given.decode is not None
    for place, component in ((given.prefill, "prefill"), (given.decode, "decode")):
        pod = end(rendering("p5").objects, component)
        assert place.namespace == pod.namespace
        assert dict(pair.split("=") for pair in place.selector.split(",")).items() <= pod.labels.items()
        assert place.port == 8000


def test_on_the_operator_workers_counters_and_logs_are_the_evidence() -> None:
    deployment = operated()["operated"]
    given = told(deployment)
    assert not given.target.router_metrics
    assert given.target.url == (
        f"http://dpd-{deployment.name}-workers-routing-service.hyperpod-inference-system.svc.cluster.local:443"
    )
    assert given.target.path == "/v1/chat/completions"
    assert given.decode is not None
    assert given.decode.selector == "inference.sagemaker.aws.amazon.com/dpd-role=decode"
    assert given.log_container == "decode-"
    # its namespaces have policies of the operator, if any
    assert given.forbidden_port is None
    rights = [role["rules"] for role in of_kind(proof("operated", Profile.OPERATOR).objects, "Role")]
    assert ["pods/log"] in [rule["resources"] for rules in rights for rule in rules]


def test_a_forbidden_connection_is_tried_where_policies_are_enforced() -> None:
    assert told(ready()).forbidden_port == 7300
    rendered_only = changed(ready(), platform__network_policies="rendered-only")
    assert told(rendered_only).forbidden_port is None


def test_efa_counters_come_from_where_they_are() -> None:
    addon = told(ready())
    assert addon.target.efa_query_url == "https://amp"
    assert addon.target.efa_query_region == ready().region
    assert addon.exporters is None
    own = told(EXPORTED)
    assert own.target.efa_query_url is None
    assert own.exporters is not None
    exporter = next(
        each
        for each in of_kind(render_platform(EXPORTED).objects, "DaemonSet")
        if each["metadata"]["name"] == "efa-exporter"
    )
    labels = exporter["spec"]["template"]["metadata"]["labels"]
    assert own.exporters.namespace == exporter["metadata"]["namespace"]
    assert dict(pair.split("=") for pair in own.exporters.selector.split(",")).items() <= labels.items()
    assert own.exporters.port in [
        port["containerPort"] for port in exporter["spec"]["template"]["spec"]["containers"][0]["ports"]
    ]
    # nobody else's workspace is known
    assert told(deployments()["existing-cluster"]).target.efa_query_url is None


def test_only_what_it_needs_is_bound() -> None:
    assert set(placeholders(list(proof().objects))) == {
        Binding.PROOF_IMAGE.name,
        Binding.AMP_WORKSPACE_URL.name,
    }
    assert set(placeholders(list(proof("exported").objects))) == {Binding.PROOF_IMAGE.name}


def test_it_may_list_pods_and_create_events_and_nothing_else() -> None:
    may = {
        (role["metadata"]["namespace"], *rule["resources"], *rule["verbs"])
        for role in of_kind(proof("exported").objects, "Role")
        for rule in role["rules"]
    }
    name = EXPORTED.name
    assert may == {
        (f"{name}-system", "events", "create"),
        (f"{name}-workers", "pods", "get", "list"),
        (f"{EXPORTED.platform.scraping_namespace}-nodes", "pods", "get", "list"),
    }
    for binding in of_kind(proof("exported").objects, "RoleBinding"):
        assert binding["subjects"] == [
            {"apiGroup": "", "kind": "ServiceAccount", "name": PROOF, "namespace": f"{name}-system"}
        ]


def test_policies_let_it_reach_what_it_reads_and_not_what_it_must_not() -> None:
    objects = rendering("p5").objects
    pod = pod_of(proof().objects)
    here = End(namespace=pod["metadata"]["namespace"], labels=pod["metadata"]["labels"])
    router, prefill, decode = (end(objects, each) for each in ("router", "prefill", "decode"))
    assert allowed(objects, here, router, 8081)
    assert allowed(objects, here, prefill, 8000)
    assert allowed(objects, here, decode, 8000)
    assert allowed(objects, here, End(address="172.20.0.1"), 443)
    # the connection that it tries
    assert not allowed(objects, here, decode, 7300)
    assert not allowed(objects, here, router, 7500)
    stranger = End(namespace=here.namespace, labels={"app": "anything"})
    assert not allowed(objects, stranger, decode, 8000)


def test_policies_let_it_read_the_exporters_of_the_prefillers_nodes() -> None:
    platform = render_platform(EXPORTED).objects
    exporter = next(
        each for each in of_kind(platform, "DaemonSet") if each["metadata"]["name"] == "efa-exporter"
    )
    there = End(
        namespace=exporter["metadata"]["namespace"], labels=exporter["spec"]["template"]["metadata"]["labels"]
    )
    pod = pod_of(proof("exported").objects)
    here = End(
        namespace=pod["metadata"]["namespace"],
        labels=pod["metadata"]["labels"],
        namespace_labels={"app.kubernetes.io/part-of": "hyperpod-dpd"},
    )
    objects = (*render(EXPORTED, Profile.SELF_MANAGED).objects, *platform)
    assert allowed(objects, here, there, 9119)
    assert not allowed(objects, here, there, 9400)


@pytest.mark.parametrize("profile", [Profile.BASELINE, Profile.BASELINE_TUNED, Profile.OPERATOR_BASELINE])
def test_what_hands_nothing_over_cannot_be_proven(profile: Profile) -> None:
    with pytest.raises(
        NotProvableError, match=r"hands nothing over.*help: prove `self-managed` or `operator`"
    ):
        render_proof(ready(), profile, revision=REVISION)
    assert not [
        policy
        for policy in of_kind(rendering("p5", Profile.BASELINE).objects, "NetworkPolicy")
        if policy["metadata"]["name"] == PROOF
    ]


@pytest.mark.parametrize("file", sorted((ROOT / "deployments").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_committed_proof_is_that_of_the_committed_profile(file: Path, tmp_path: Path) -> None:
    deployment = load(file).deployment
    rendered = ROOT / "manifests" / "rendered" / deployment.name
    (tmp_path / deployment.name).mkdir()
    profile = deployment.serving.backend
    (tmp_path / deployment.name / profile).symlink_to(rendered / profile)
    write_proof(deployment, tmp_path)
    for path in (tmp_path / deployment.name / PROOF).iterdir():
        committed = (rendered / PROOF / path.name).read_text(encoding="utf-8")
        assert committed == path.read_text(encoding="utf-8"), "run `make render` and commit the result"
