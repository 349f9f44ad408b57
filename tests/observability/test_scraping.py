"""Who reads which metrics, what the targets' series are called, and what may connect to what."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import jsonschema
import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from hyperpod_dpd.observability.jobs import EXPORTER_JOBS, SERVING_JOBS
from hyperpod_dpd.observability.scraping import scrape_configs
from hyperpod_dpd.serving.bindings import Binding, placeholders
from hyperpod_dpd.serving.profile import Profile
from hyperpod_dpd.serving.render import Rendering, render, render_platform, write_platform
from hyperpod_dpd.spec import Deployment
from tests.manifests.test_network_policies import DNS, INTERNET, POD_IDENTITY, STRANGER, End, allowed, end
from tests.manifests.test_schemas import custom_schema, is_custom
from tests.security.test_pod_security import violations
from tests.support.deployments import changed, ready
from tests.support.manifests import containers, find, of_kind, pods, rendering, walk

COLLECTOR = End(
    namespace="hyperpod-dpd-observability",
    labels={"app.kubernetes.io/instance": "platform", "app.kubernetes.io/component": "metrics-collector"},
)


@cache
def clusters() -> Mapping[str, Deployment]:
    """Return deployments whose platform sections reach every branch."""
    p5 = ready()
    own = changed(p5, platform__exporters="manifests")
    return {
        "collector": p5,
        "own exporters": own,
        "self-hosted grafana": changed(p5, platform__grafana="self-hosted"),
        "prometheus operator": changed(
            own, platform__scraping="prometheus-operator", platform__scraping_namespace="monitoring"
        ),
        "somebody else scrapes": changed(own, platform__scraping="none"),
    }


@cache
def platform(name: str) -> Rendering:
    return render_platform(clusters()[name])


def configuration(name: str = "collector") -> dict[str, Any]:
    config = find(platform(name).objects, "ConfigMap", "metrics-collector")
    loaded = yaml.safe_load(config["data"]["collector.yaml"])
    assert isinstance(loaded, dict)
    return loaded


@pytest.mark.parametrize("name", clusters())
def test_every_object_passes_the_strict_schema_of_the_cluster_version(name: str) -> None:
    for entry in platform(name).objects:
        if is_custom(entry):
            jsonschema.validate(entry, yaml.safe_load(custom_schema(entry).read_text(encoding="utf-8")))
        else:
            assert kubernetes_validate.validate(entry, "1.35", strict=True) == "1.35"


@pytest.mark.parametrize("name", clusters())
def test_nothing_is_null_and_every_image_is_pinned(name: str) -> None:
    for path, value in walk(platform(name).objects):
        assert value is not None, path
    for pod in workload_pods(name):
        for container in containers(pod):
            assert re.search(r":v?\d+\.\d+\.\d+[-.0-9a-z]*$", container["image"]), container["image"]


def workload_pods(name: str) -> list[dict[str, Any]]:
    return [
        {"metadata": entry["metadata"], "spec": entry["spec"]["template"]["spec"]}
        for kind in ("Deployment", "DaemonSet")
        for entry in of_kind(platform(name).objects, kind)
    ]


def test_a_platform_that_asks_for_nothing_has_no_folder(tmp_path: Any) -> None:
    silent = changed(ready(), platform__scraping="none", platform__exporters="none")
    write_platform(ready(), tmp_path)
    assert (tmp_path / ready().name / "platform").exists()
    assert render_platform(silent).objects == ()
    assert write_platform(silent, tmp_path) == ()
    assert not (tmp_path / ready().name / "platform").exists()


def test_the_collector_is_restricted_and_reads_pods_only() -> None:
    objects = platform("collector").objects
    (pod,) = pods(objects)
    assert violations(pod) == set()
    namespace = find(objects, "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    role = find(objects, "ClusterRole")
    assert [(rule["resources"], rule["verbs"]) for rule in role["rules"]] == [
        (["pods"], ["get", "list", "watch"])
    ]


def test_exporters_are_held_to_what_they_need() -> None:
    by_name = {pod["metadata"]["name"]: pod for pod in workload_pods("own exporters")}
    assert violations(by_name["efa-exporter"]) == {("pod", "host path volumes"), ("pod", "volume types")}
    dcgm = {control for _, control in violations(by_name["dcgm-exporter"])}
    assert dcgm == {
        "host path volumes",
        "volume types",
        "running as non-root",
        "non-root user",
        "capabilities",
        "baseline capabilities",
    }
    for name in ("efa-exporter", "dcgm-exporter"):
        for volume in by_name[name]["spec"]["containers"][0]["volumeMounts"]:
            assert volume["readOnly"] is True


def test_every_job_has_a_name_of_its_own() -> None:
    for name in ("collector", "own exporters"):
        jobs = [config["job_name"] for config in scrape_configs(clusters()[name])]
        assert len(set(jobs)) == len(jobs)
        assert ("dpd-efa" in jobs) is (name == "own exporters")


def relabel(config: Mapping[str, Any], meta: Mapping[str, str]) -> dict[str, str] | None:
    """Return the labels that a target gets, as Prometheus' relabeling gives them; None where it is dropped."""
    labels = {"job": config["job_name"]}
    for rule in config["relabel_configs"]:
        value = ";".join(meta.get(source, "") for source in rule.get("source_labels", ()))
        match = re.fullmatch(rule.get("regex", "(.*)"), value)
        if rule.get("action") == "keep":
            if match is None:
                return None
        elif match is not None:
            labels[rule["target_label"]] = rule.get(
                "replacement", match.group(1) if match.groups() else value
            )
    return labels


def meta_of(pod: Mapping[str, Any], port: Mapping[str, Any]) -> dict[str, str]:
    prefix = "__meta_kubernetes_pod"
    return {
        "__meta_kubernetes_namespace": pod["metadata"]["namespace"],
        f"{prefix}_name": "some-pod",
        f"{prefix}_phase": "Running",
        f"{prefix}_node_name": "node-1",
        f"{prefix}_container_port_number": str(port["containerPort"]),
        **{
            f"{prefix}_label_{re.sub('[^a-zA-Z0-9]', '_', key)}": value
            for key, value in pod["metadata"]["labels"].items()
        },
    }


def selects(config: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    (discovery,) = config["kubernetes_sd_configs"]
    (selector,) = discovery["selectors"]
    wanted = dict(part.split("=") for part in selector["label"].split(","))
    return wanted.items() <= labels.items()


@pytest.mark.parametrize(
    ("profile", "roles"),
    [(Profile.SELF_MANAGED, {"prefill", "decode"}), (Profile.BASELINE, {"colocated"})],
)
def test_every_rendered_pod_is_read_once_under_its_job_and_role(profile: Profile, roles: set[str]) -> None:
    configs = configuration()["receivers"]["prometheus"]["config"]["scrape_configs"]
    found = []
    for pod in pods(rendering("p5", profile).objects):
        targets = [
            labels
            for config in configs
            if selects(config, pod["metadata"]["labels"])
            for container in pod["spec"]["containers"]
            for port in container["ports"]
            if (labels := relabel(config, meta_of(pod, port))) is not None
        ]
        (target,) = targets
        assert target["deployment"] == "llama-3-3-70b-p5"
        assert target["node"] == "node-1"
        found.append((target["job"], target.get("role")))
    assert set(found) == {("dpd-router", None), *((f"dpd-{role}", role) for role in roles)}


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_workers_of_the_operator_get_the_labels_of_our_own(role: str) -> None:
    own = {"inference.sagemaker.aws.amazon.com/dpd-role": role}
    pod = {"metadata": {"namespace": "chat-workers", "labels": own}}
    (config,) = (each for each in scrape_configs(ready()) if selects(each, own))
    labels = relabel(config, meta_of(pod, {"containerPort": 8000}))
    assert labels is not None
    assert (labels["job"], labels["role"], labels["deployment"]) == (f"dpd-{role}", role, "chat")
    assert relabel(config, meta_of(pod, {"containerPort": 8081})) is None, "the sidecar's port"


def test_podmonitors_give_the_same_labels_as_the_collector() -> None:
    monitors = of_kind(rendering("prometheus-operator").objects, "PodMonitor")
    assert {each["metadata"]["name"] for each in monitors} == {"dpd-prefill", "dpd-decode", "dpd-router"}
    collected = {config["job_name"]: config for config in scrape_configs(ready())}
    for monitor in monitors:
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        translated = [
            {re.sub("L", "_l", key): value for key, value in rule.items()} for rule in endpoint["relabelings"]
        ]
        assert translated == [
            *collected[monitor["metadata"]["name"]]["relabel_configs"],
            {"target_label": "job", "replacement": monitor["metadata"]["name"]},
        ]


def test_podmonitors_select_the_pods_and_ports_that_are_rendered() -> None:
    objects = rendering("prometheus-operator").objects
    for monitor in of_kind(objects, "PodMonitor"):
        labels = monitor["spec"]["selector"]["matchLabels"]
        chosen = [pod for pod in pods(objects) if labels.items() <= pod["metadata"]["labels"].items()]
        assert [pod["metadata"]["namespace"] for pod in chosen] == [monitor["metadata"]["namespace"]]
        names = {port["name"] for container in chosen[0]["spec"]["containers"] for port in container["ports"]}
        assert monitor["spec"]["podMetricsEndpoints"][0]["port"] in names


def test_monitors_and_rules_are_rendered_only_for_a_prometheus_operator() -> None:
    for name in ("p5", "unscraped"):
        kinds = {entry["kind"] for entry in rendering(name).objects}
        assert not kinds & {"PodMonitor", "PrometheusRule"}
    assert of_kind(rendering("prometheus-operator").objects, "PrometheusRule")


def test_a_prometheus_that_selects_by_label_finds_every_monitor_and_rule() -> None:
    asked = {"release": "monitoring", "app.kubernetes.io/name": "theirs"}
    deployment = changed(clusters()["prometheus operator"], platform__scraping_labels=asked)
    objects = (*render(deployment, Profile.SELF_MANAGED).objects, *render_platform(deployment).objects)
    found = [*of_kind(objects, "PodMonitor"), *of_kind(objects, "PrometheusRule")]
    assert len(found) == 6
    for entry in found:
        labels = entry["metadata"]["labels"]
        assert labels["release"] == "monitoring"
        # our own selectors read it
        assert labels.get("app.kubernetes.io/name") != "theirs" or entry["kind"] == "PrometheusRule"
    assert "release" not in str([entry for entry in objects if entry not in found])


def test_exporters_of_a_cluster_with_an_operator_have_monitors() -> None:
    objects = platform("prometheus operator").objects
    assert {each["metadata"]["name"] for each in of_kind(objects, "PodMonitor")} == {"dpd-dcgm", "dpd-efa"}
    assert not of_kind(objects, "Deployment")
    assert {each["metadata"]["name"] for each in of_kind(objects, "Namespace")} == {"monitoring-nodes"}


def test_the_collector_writes_to_the_workspace_with_signature_v4_and_keeps_names() -> None:
    config = configuration()
    exporter = config["exporters"]["prometheusremotewrite"]
    assert exporter["endpoint"] == f"{Binding.AMP_WORKSPACE_URL.placeholder}/api/v1/remote_write"
    assert exporter["auth"] == {"authenticator": "sigv4auth"}
    assert config["extensions"]["sigv4auth"] == {"region": "us-east-1", "service": "aps"}
    assert exporter["add_metric_suffixes"] is False
    assert set(placeholders(list(platform("collector").objects))) == {"AMP_WORKSPACE_URL"}
    pipeline = config["service"]["pipelines"]["metrics"]
    for kind in ("receivers", "processors", "exporters"):
        assert set(pipeline[kind]) == set(config[kind])
    assert set(config["service"]["extensions"]) == set(config["extensions"])


def test_no_dollar_sign_is_left_for_the_collector_to_expand() -> None:
    text = find(platform("collector").objects, "ConfigMap")["data"]["collector.yaml"]
    assert "$" not in text.replace(Binding.AMP_WORKSPACE_URL.placeholder, "")


def test_the_collector_reaches_its_targets_and_little_else() -> None:
    objects = platform("own exporters").objects
    served = rendering("p5").objects
    both = (*objects, *served)
    for component, port in (("prefill", 8000), ("decode", 8000), ("router", 8081)):
        target = in_project(end(served, component))
        assert allowed(both, COLLECTOR, target, port)
        assert not allowed(both, COLLECTOR, target, 7500)
    for job in EXPORTER_JOBS:
        exporter = exporter_end(job.component.value)
        assert allowed(objects, COLLECTOR, exporter, job.port)
        assert not allowed(objects, exporter, INTERNET, 443)
        assert not allowed(objects, STRANGER, exporter, job.port)
    assert allowed(objects, COLLECTOR, DNS, 53, "UDP")
    assert allowed(objects, COLLECTOR, End(address=POD_IDENTITY), 80)
    assert allowed(objects, COLLECTOR, INTERNET, 443)
    assert not allowed(objects, COLLECTOR, INTERNET, 80)
    assert not allowed(objects, STRANGER, COLLECTOR, 13133)


def in_project(target: End) -> End:
    """Return `target` in a namespace that carries the project's label, as its namespaces do."""
    return End(
        namespace=target.namespace,
        labels=target.labels,
        namespace_labels={"app.kubernetes.io/part-of": "hyperpod-dpd"},
    )


def exporter_end(component: str) -> End:
    return End(
        namespace="hyperpod-dpd-observability-nodes",
        labels={"app.kubernetes.io/instance": "platform", "app.kubernetes.io/component": component},
    )


def test_a_foreign_scraper_reaches_the_exporters() -> None:
    objects = platform("prometheus operator").objects
    prometheus = End(namespace="monitoring", labels={"app": "prometheus"})
    for job in EXPORTER_JOBS:
        assert allowed(objects, prometheus, exporter_end(job.component.value), job.port)


def test_the_namespaces_of_a_deployment_carry_the_label_that_the_collector_selects() -> None:
    for namespace in of_kind(rendering("p5").objects, "Namespace"):
        assert namespace["metadata"]["labels"]["app.kubernetes.io/part-of"] == "hyperpod-dpd"
    for pod in pods(rendering("p5").objects):
        assert pod["metadata"]["labels"]["app.kubernetes.io/component"] in {
            job.component.value for job in SERVING_JOBS
        }
