"""Autoscaling of self-managed workers: signals, limits, what happens without metrics, and a scale-in that drains."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_dpd.derive.custom_resources import declared_groups
from hyperpod_dpd.serving.load_signals import scraped_selector, signals
from hyperpod_dpd.serving.profile import Profile
from hyperpod_dpd.serving.render import render
from hyperpod_dpd.spec import Role, Scaling
from tests.support.deployments import changed
from tests.support.manifests import (
    CASES,
    OPERATOR_CASES,
    Manifest,
    deployments,
    find,
    of_kind,
    rendering,
)

PROMTOOL = shutil.which("promtool")
NEEDS_PROMTOOL = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")


def scaled_object(component: str) -> Manifest:
    return find(rendering("scaled").objects, "ScaledObject", component)


def worker(component: str) -> Manifest:
    return find(rendering("scaled").objects, "Deployment", component)


@pytest.mark.parametrize(("component", "limits"), [("prefill", (1, 3)), ("decode", (1, 2))])
def test_each_role_scales_its_own_workers_within_its_limits(component: str, limits: tuple[int, int]) -> None:
    entry = scaled_object(component)
    target = worker(component)
    assert entry["spec"]["scaleTargetRef"] == {
        "apiVersion": target["apiVersion"],
        "kind": target["kind"],
        "name": target["metadata"]["name"],
    }
    assert entry["metadata"]["namespace"] == target["metadata"]["namespace"]
    assert (entry["spec"]["minReplicaCount"], entry["spec"]["maxReplicaCount"]) == limits


def test_no_manifest_sets_back_what_the_autoscaler_decided() -> None:
    for component in ("prefill", "decode"):
        assert "replicas" not in worker(component)["spec"]
    assert find(rendering("p5").objects, "Deployment", "prefill")["spec"]["replicas"] == 1


def test_queue_and_kv_cache_are_asked_for_in_amp_with_kedas_own_role() -> None:
    authentication = find(rendering("scaled").objects, "TriggerAuthentication")
    assert authentication["spec"] == {"podIdentity": {"provider": "aws", "identityOwner": "keda"}}
    triggers = scaled_object("prefill")["spec"]["triggers"]
    assert [trigger["metadata"]["threshold"] for trigger in triggers] == ["6", "0.75"]
    assert [trigger["metadata"]["query"] for trigger in triggers] == [
        'sum(vllm:num_requests_waiting{deployment="llama-3-3-70b-p5",role="prefill"})',
        'sum(vllm:kv_cache_usage_perc{deployment="llama-3-3-70b-p5",role="prefill"})',
    ]
    for trigger in triggers:
        assert trigger["metadata"]["serverAddress"] == "${dpd:AMP_WORKSPACE_URL}"
        assert trigger["metadata"]["awsRegion"] == "us-east-1"
        assert trigger["authenticationRef"] == {"name": authentication["metadata"]["name"]}
        assert authentication["metadata"]["namespace"] == scaled_object("prefill")["metadata"]["namespace"]


def test_metrics_that_are_gone_end_no_worker() -> None:
    """An empty answer is an error, and an error keeps what runs, at least what the deployment names."""
    two = changed(
        deployments()["scaled"],
        serving__prefill__replicas=2,
    )
    content = find(render(two, Profile.SELF_MANAGED).objects, "ScaledObject", "prefill")["spec"]
    assert content["fallback"] == {
        "failureThreshold": 3,
        "replicas": 2,
        "behavior": "currentReplicasIfHigher",
    }
    for trigger in content["triggers"]:
        assert trigger["metadata"]["ignoreNullValues"] == "false"
        assert trigger["metricType"] == "AverageValue", "the only type that KEDA's fallback works with"


@pytest.mark.parametrize(("component", "seconds"), [("prefill", 900), ("decode", 600)])
def test_scale_in_waits_for_quiet_and_lets_one_worker_drain_at_a_time(component: str, seconds: int) -> None:
    behavior = scaled_object(component)["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] == seconds
    assert behavior["scaleUp"]["stabilizationWindowSeconds"] == 60
    (policy,) = behavior["scaleDown"]["policies"]
    pod = worker(component)["spec"]["template"]["spec"]
    assert (policy["type"], policy["value"]) == ("Pods", 1)
    assert policy["periodSeconds"] == pod["terminationGracePeriodSeconds"]
    (engine,) = pod["containers"]
    drain = engine["lifecycle"]["preStop"]["exec"]["command"]
    deadline = next(int(each.partition("=")[2]) for each in drain if each.startswith("--deadline-seconds="))
    longest = deployments()["scaled"].serving.longest_generation_seconds
    assert longest <= deadline < pod["terminationGracePeriodSeconds"]


def test_a_drain_longer_than_kubernetes_takes_as_a_period_is_cut_to_its_limit() -> None:
    longest = changed(deployments()["scaled"], serving__longest_generation_seconds=3600)
    content = find(render(longest, Profile.SELF_MANAGED).objects, "ScaledObject", "prefill")["spec"]
    behavior = content["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior["scaleDown"]["policies"][0]["periodSeconds"] == 1800


def test_a_role_without_limits_is_not_scaled() -> None:
    one = changed(deployments()["scaled"], serving__decode__scaling=None)
    objects = render(one, Profile.SELF_MANAGED).objects
    assert [entry["metadata"]["name"] for entry in of_kind(objects, "ScaledObject")] == ["prefill"]
    assert find(objects, "Deployment", "decode")["spec"]["replicas"] == 1
    assert not of_kind(rendering("p5").objects, "TriggerAuthentication")


def test_the_baseline_keeps_the_gpus_that_it_is_compared_on() -> None:
    objects = render(deployments()["scaled"], Profile.BASELINE).objects
    assert not of_kind(objects, "ScaledObject")
    replicas = [
        entry["spec"]["replicas"]
        for entry in of_kind(objects, "Deployment")
        if entry["metadata"]["name"] != "router"
    ]
    assert replicas == [1, 1]


@pytest.mark.parametrize(("name", "profile"), [*CASES, *OPERATOR_CASES])
def test_every_custom_kind_belongs_to_a_group_that_the_platform_declares(name: str, profile: Profile) -> None:
    rendered = rendering(name, profile)
    groups = {entry["apiVersion"].partition("/")[0] for entry in rendered.objects}
    custom = {group for group in groups if "." in group and not group.endswith(".k8s.io")}
    assert custom <= declared_groups(rendered.deployment.platform)


SERIES = {
    'vllm:num_requests_waiting{deployment="mine",role="prefill",instance="a"}': "3",
    'vllm:num_requests_waiting{deployment="mine",role="prefill",instance="b"}': "4",
    'vllm:num_requests_waiting{deployment="mine",role="decode",instance="c"}': "100",
    'vllm:num_requests_waiting{deployment="other",role="prefill",instance="d"}': "100",
    'vllm:kv_cache_usage_perc{deployment="mine",role="prefill",instance="a"}': "0.25",
    'vllm:kv_cache_usage_perc{deployment="mine",role="prefill",instance="b"}': "0.5",
}


@NEEDS_PROMTOOL
def test_the_queries_sum_over_the_workers_of_one_role_of_one_deployment(tmp_path: Path) -> None:
    waiting, usage = (
        signal.query(scraped_selector("mine", Role.PREFILL)) for signal in signals(Scaling(maximum=2))
    )
    test: dict[str, Any] = {
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": series, "values": value} for series, value in SERIES.items()],
                "promql_expr_test": [
                    {"expr": waiting, "eval_time": "0m", "exp_samples": [{"labels": "{}", "value": 7}]},
                    {"expr": usage, "eval_time": "0m", "exp_samples": [{"labels": "{}", "value": 0.75}]},
                    # nobody is scraped: no answer, which is not 0
                    {"expr": waiting.replace("mine", "gone"), "eval_time": "0m", "exp_samples": []},
                ],
            }
        ],
    }
    promtool("test", "rules", write(tmp_path / "test.yaml", test))


@NEEDS_PROMTOOL
@pytest.mark.parametrize(
    ("name", "profile"), [("scaled", Profile.SELF_MANAGED), ("operated-scaled", Profile.OPERATOR)]
)
def test_promtool_reads_every_query(name: str, profile: Profile, tmp_path: Path) -> None:
    queries = sorted(set(found_queries(json.loads(json.dumps(rendering(name, profile).objects)))))
    assert len(queries) == 4
    rules = [{"record": f"checked:{number}", "expr": query} for number, query in enumerate(queries)]
    promtool(
        "check", "rules", write(tmp_path / "rules.yaml", {"groups": [{"name": "queries", "rules": rules}]})
    )


def found_queries(value: Any) -> Any:
    if isinstance(value, dict):
        if "query" in value:
            yield value["query"]
        for below in value.values():
            yield from found_queries(below)
    elif isinstance(value, list):
        for below in value:
            yield from found_queries(below)


def write(path: Path, content: Any) -> str:
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return str(path)


def promtool(*arguments: str) -> None:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
