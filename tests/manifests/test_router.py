"""The router's Deployment, its command line as its own parser reads it, and the way in."""

import json
from pathlib import Path

import pytest

from dpd_router.config import Settings, load
from hyperpod_dpd.derive import resolve
from hyperpod_dpd.serving.profile import Profile
from hyperpod_dpd.serving.render import render
from hyperpod_dpd.serving.router import IdleTimeoutTooLongError
from tests.support.deployments import ROOT, changed
from tests.support.manifests import CASES, WEB_ACL, Manifest, deployments, find, of_kind, rendering


def router(name: str, profile: Profile = Profile.SELF_MANAGED) -> Manifest:
    return find(rendering(name, profile).objects, "Deployment", "router")


ENVIRONMENT = {"DPD_ROUTER_OWN_ADDRESSES": "10.0.0.1"}
"""What Kubernetes fills in."""


def arguments(name: str, profile: Profile = Profile.SELF_MANAGED) -> list[str]:
    (container,) = router(name, profile)["spec"]["template"]["spec"]["containers"]
    return list(container["args"])


def settings(name: str, profile: Profile = Profile.SELF_MANAGED) -> Settings:
    return load(arguments(name, profile), environment=ENVIRONMENT)


@pytest.mark.parametrize(("name", "profile"), CASES)
def test_the_routers_own_parser_takes_its_arguments(name: str, profile: Profile, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("a-key\n")
    given = [argument.replace("/etc/dpd-api-keys/keys", str(keys)) for argument in arguments(name, profile)]
    assert load(given, environment=ENVIRONMENT).disaggregates is (profile is Profile.SELF_MANAGED)


@pytest.mark.parametrize("name", ["p5", "p5en", "p5-p5en", "half-nodes", "land", "lmcache-0.4.3"])
def test_the_router_counts_with_the_buffers_and_ports_that_decoders_have(name: str) -> None:
    read, facts = settings(name), resolve(deployments()[name])
    assert read.buffers.tensor_parallel == facts.tensor_parallel
    assert read.buffers.chunk_tokens == facts.chunk_tokens
    assert read.buffers.decoder_buffer_chunks == facts.decode.pd_buffer.chunks > 0
    assert read.port_range(read.buffers.init_port_base) == facts.decode_ports.init_range
    assert read.port_range(read.buffers.alloc_port_base) == facts.decode_ports.alloc_range
    assert read.routing.strategy == deployments()[name].routing.strategy


def test_the_router_gives_up_on_a_hand_off_only_after_its_sender_has() -> None:
    deployment = changed(deployments()["p5"], serving__transfer__allocation_timeout_seconds=45.5)
    (container,) = find(render(deployment, Profile.SELF_MANAGED).objects, "Deployment", "router")["spec"][
        "template"
    ]["spec"]["containers"]
    assert load(container["args"], environment=ENVIRONMENT).timeouts.drain_grace_seconds >= 45.5


@pytest.mark.parametrize(("threshold", "read"), [(0, 0), (4096, 4096), ("never", None)])
def test_the_threshold_keeps_its_meaning(threshold: int | str, read: int | None) -> None:
    deployment = changed(deployments()["p5"], routing__threshold_tokens=threshold)
    (container,) = find(render(deployment, Profile.SELF_MANAGED).objects, "Deployment", "router")["spec"][
        "template"
    ]["spec"]["containers"]
    assert load(container["args"], environment=ENVIRONMENT).routing.threshold == read


def test_a_small_queue_still_takes_one_body() -> None:
    deployment = changed(deployments()["p5"], routing__max_queued_mib=8)
    (container,) = find(render(deployment, Profile.SELF_MANAGED).objects, "Deployment", "router")["spec"][
        "template"
    ]["spec"]["containers"]
    assert load(container["args"], environment=ENVIRONMENT).admission.max_body_bytes == 8 << 20


def test_parsers_on_the_workers_keep_chat_from_being_continued() -> None:
    assert not settings("p5").routing.workers_parse_chat
    deployment = changed(deployments()["p5"], serving__decode__extra_args=("--tool-call-parser=llama3_json",))
    (container,) = find(render(deployment, Profile.SELF_MANAGED).objects, "Deployment", "router")["spec"][
        "template"
    ]["spec"]["containers"]
    assert load(container["args"], environment=ENVIRONMENT).routing.workers_parse_chat


@pytest.mark.parametrize(("name", "profile"), CASES)
def test_there_is_never_a_second_router_that_hands_over(name: str, profile: Profile) -> None:
    spec = router(name, profile)["spec"]
    assert spec["replicas"] == 1
    # an update drops no request; while it runs two, each of them sees the other behind this Service
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
    }
    (container,) = spec["template"]["spec"]["containers"]
    (own,) = [entry for entry in container["env"] if entry["name"] == "DPD_ROUTER_OWN_ADDRESSES"]
    assert own["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    service = find(rendering(name, profile).objects, "Service", "router")["metadata"]
    assert f"--router-service={service['name']}" in container["args"]
    assert f"--router-namespace={service['namespace']}" in container["args"]


def test_a_new_router_takes_requests_once_it_has_a_decoder_and_keeps_answering_without_one() -> None:
    (container,) = router("p5")["spec"]["template"]["spec"]["containers"]
    startup = container["startupProbe"]
    assert startup["httpGet"]["path"] == "/ready"
    # CloudFormation waits no longer for nodes
    assert startup["periodSeconds"] * startup["failureThreshold"] == 12 * 3600
    assert container["readinessProbe"]["httpGet"]["path"] == "/health"


def test_the_router_may_read_endpoint_slices_and_nothing_else() -> None:
    roles = of_kind(rendering("p5").objects, "Role")
    assert [role["metadata"]["namespace"] for role in roles] == [
        "llama-3-3-70b-p5-workers",
        "llama-3-3-70b-p5-system",
    ]
    for role in roles:
        assert role["rules"] == [
            {
                "apiGroups": ["discovery.k8s.io"],
                "resources": ["endpointslices"],
                "verbs": ["get", "list", "watch"],
            }
        ]
    assert not of_kind(rendering("p5").objects, "ClusterRole")
    pod = router("p5")["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is True


def test_the_router_stays_off_the_gpu_nodes() -> None:
    affinity = router("p5-p5en")["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert {
        "key": "sagemaker.amazonaws.com/instance-group-name",
        "operator": "NotIn",
        "values": ["prefill", "decode"],
    } in term["matchExpressions"]


def test_nobody_is_sent_to_what_is_not_ready() -> None:
    for name in ("router", "prefill", "decode"):
        service = find(rendering("p5").objects, "Service", name)
        assert "publishNotReadyAddresses" not in service["spec"]
    for role in ("prefill", "decode"):
        assert find(rendering("p5").objects, "Service", role)["spec"]["clusterIP"] == "None"


def ingress_annotations(name: str) -> dict[str, str]:
    annotations = find(rendering(name).objects, "Ingress")["metadata"]["annotations"]
    prefix = "alb.ingress.kubernetes.io/"
    assert all(key.startswith(prefix) for key in annotations)
    return {key.removeprefix(prefix): value for key, value in annotations.items()}


def test_there_is_no_way_in_from_outside_unless_asked_for() -> None:
    assert not of_kind(rendering("p5").objects, "Ingress")
    assert {entry["spec"]["type"] for entry in of_kind(rendering("p5").objects, "Service")} == {"ClusterIP"}


def test_the_load_balancer_is_internal_encrypted_and_waits_for_the_longest_answer() -> None:
    annotations = ingress_annotations("balanced")
    assert annotations["scheme"] == "internal"
    assert json.loads(annotations["listen-ports"]) == [{"HTTPS": 443}]
    assert annotations["certificate-arn"] == "${dpd:CERTIFICATE_ARN}"
    assert annotations["ssl-policy"].startswith("ELBSecurityPolicy-TLS13")
    assert annotations["inbound-cidrs"] == "10.192.0.0/16,10.1.0.0/16"
    assert annotations["wafv2-acl-arn"] == WEB_ACL
    attributes = dict(each.split("=") for each in annotations["load-balancer-attributes"].split(","))
    longest = deployments()["balanced"].serving.longest_generation_seconds
    assert longest <= int(attributes["idle_timeout.timeout_seconds"]) <= 4000
    ingress = find(rendering("balanced").objects, "Ingress")
    assert ingress["spec"]["ingressClassName"] == "alb"
    (rule,) = ingress["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    assert path["backend"] == {"service": {"name": "router", "port": {"number": 8081}}}


def test_the_router_keeps_idle_connections_longer_than_the_load_balancer_does() -> None:
    attributes = dict(
        each.split("=") for each in ingress_annotations("balanced")["load-balancer-attributes"].split(",")
    )
    container = find(rendering("balanced").objects, "Deployment", "router")["spec"]["template"]["spec"][
        "containers"
    ][0]
    arguments = dict(each.removeprefix("--").split("=", 1) for each in container["args"])
    assert float(arguments["keepalive-timeout-seconds"]) > float(attributes["idle_timeout.timeout_seconds"])


def test_a_public_load_balancer_takes_the_addresses_that_are_given() -> None:
    annotations = ingress_annotations("public")
    assert annotations["scheme"] == "internet-facing"
    assert annotations["inbound-cidrs"] == "203.0.113.0/24,198.51.100.0/24"
    assert "wafv2-acl-arn" not in annotations


def test_an_answer_longer_than_a_load_balancer_waits_is_refused() -> None:
    longest = changed(deployments()["balanced"], serving__longest_generation_seconds=4000)
    annotations = find(render(longest, Profile.SELF_MANAGED).objects, "Ingress")["metadata"]["annotations"]
    attributes = annotations["alb.ingress.kubernetes.io/load-balancer-attributes"]
    assert "idle_timeout.timeout_seconds=4000," in attributes
    deployment = changed(deployments()["balanced"], serving__longest_generation_seconds=4001)
    with pytest.raises(IdleTimeoutTooLongError, match="limit 4000 seconds"):
        render(deployment, Profile.SELF_MANAGED)


def test_api_keys_come_from_a_mounted_secret() -> None:
    pod = router("secrets")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert "--api-keys-file=/etc/dpd-api-keys/keys" in container["args"]
    assert {"name": "api-keys", "secret": {"secretName": "router-api-keys"}} in pod["volumes"]
    assert not any("api-keys" in argument for argument in arguments("p5"))


def test_the_pod_is_what_the_routers_image_is_built_for() -> None:
    dockerfile = (ROOT / "images" / "router" / "Dockerfile").read_text(encoding="utf-8")
    pod = router("p5")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    user = f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}"
    assert f"USER {user}\n" in dockerfile
    assert f'ENTRYPOINT ["{container["command"][0]}"]' in dockerfile
    ports = " ".join(str(port["containerPort"]) for port in container["ports"])
    assert f"EXPOSE {ports}\n" in dockerfile


def test_secrets_keep_their_names_where_somebody_creates_them_by_hand() -> None:
    by_hand = render(
        changed(deployments()["secrets"], platform__external_secrets=False), Profile.SELF_MANAGED
    ).objects
    assert not of_kind(by_hand, "ExternalSecret")
    assert not of_kind(by_hand, "SecretStore"), "the platform has no such kind"
    assert find(by_hand, "Deployment", "router")["spec"] == router("secrets")["spec"]
