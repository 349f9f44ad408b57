"""The benchmark job's manifests, its identity, and the command that writes them."""

import json
import subprocess
import sys
from argparse import ArgumentParser
from functools import cache
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from hyperpod_dpd.cli.benchmark import COMMAND
from hyperpod_dpd.derive.backend import on_backend
from hyperpod_dpd.evidence.benchmark.settings import read_settings
from hyperpod_dpd.evidence.benchmark_job import render_benchmark
from hyperpod_dpd.evidence.benchmark_plan import (
    BenchmarkPlan,
    NotMeasurableError,
    benchmark_settings,
    measured_system,
)
from hyperpod_dpd.evidence.benchmark_store import BenchmarkStore
from hyperpod_dpd.evidence.proof_arguments import target_arguments
from hyperpod_dpd.serving.bindings import Binding, bind, read_values
from hyperpod_dpd.serving.profile import Profile
from hyperpod_dpd.spec import Deployment, FsxSource, HuggingFaceSource, Price, VolumeSource
from hyperpod_dpd.storage import AccessLogs, ModelStore
from tests.security.test_pod_security import violations
from tests.support.deployments import ROOT, changed, ready
from tests.support.manifests import BOUND
from tests.support.template import Template, app, only, resources, synthesized, text

DIGEST = f"123456789012.dkr.ecr.us-east-1.amazonaws.com/dpd-benchmark@sha256:{'3' * 64}"
VALUES = read_values({**BOUND, "BENCHMARK_IMAGE": DIGEST, "RESULTS_BUCKET": "results-123456789012"})
PROFILES = [Profile.SELF_MANAGED, Profile.BASELINE, Profile.OPERATOR, Profile.OPERATOR_BASELINE]


@cache
def objects(profile: Profile) -> tuple[dict[str, Any], ...]:
    return tuple(yaml.safe_load_all(render_benchmark(ready(), profile)))


def of_kind(profile: Profile, kind: str) -> dict[str, Any]:
    (found,) = (each for each in objects(profile) if each["kind"] == kind)
    return found


@pytest.mark.parametrize("profile", PROFILES)
def test_every_object_passes_the_strict_schema(profile: Profile) -> None:
    version = ready().cluster.kubernetes_version
    for entry in objects(profile):
        assert kubernetes_validate.validate(entry, version, strict=True) == version


@pytest.mark.parametrize("profile", PROFILES)
def test_the_pod_is_restricted(profile: Profile) -> None:
    template = of_kind(profile, "Job")["spec"]["template"]
    assert violations(template) == set()
    pod = template["spec"]
    (container,) = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["automountServiceAccountToken"] is False
    writable = {each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")}
    assert writable == {"/tmp"}


def test_a_failed_benchmark_is_not_begun_again() -> None:
    spec = of_kind(Profile.SELF_MANAGED, "Job")["spec"]
    assert spec["backoffLimit"] == 0
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    assert spec["activeDeadlineSeconds"] > 3600


def test_the_program_reads_what_was_rendered(tmp_path: Path) -> None:
    bound = yaml.safe_load_all(bind(render_benchmark(ready(), Profile.SELF_MANAGED), VALUES))
    (config,) = (each for each in bound if each["kind"] == "ConfigMap")
    path = tmp_path / "benchmark.json"
    path.write_text(config["data"]["benchmark.json"])
    settings = read_settings(path)
    assert settings.results == "s3://results-123456789012/benchmarks/llama-3-3-70b-p5"
    assert settings.tokenizer.startswith("s3://dpd-models-123456789012/models/llama-3.3-70b-instruct/")
    assert (settings.concurrencies, settings.seeds) == ((8, 16, 32, 64), (1, 2, 3))
    assert settings.requests_per_user >= 10


def test_the_job_reaches_the_router_and_nobody_else_in_the_cluster() -> None:
    policy = of_kind(Profile.SELF_MANAGED, "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Egress"]
    assert policy["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "benchmark"
    router = [rule for rule in policy["egress"] if rule["ports"][0]["port"] == 8081]
    assert [
        peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
        for rule in router
        for peer in rule["to"]
    ] == ["router"]
    outside = [peer["ipBlock"] for rule in policy["egress"] for peer in rule["to"] if "ipBlock" in peer]
    assert {"cidr": "0.0.0.0/0", "except": [ready().network.cidr, ready().network.gpu_cidr]} in outside


def test_deleting_the_benchmark_leaves_the_namespace_closed() -> None:
    # a policy of the same name as the deployment's own would go with the job
    assert [each["metadata"]["name"] for each in objects(Profile.SELF_MANAGED)] == [
        "benchmark",
        "benchmark-self-managed",
        "benchmark",
        "benchmark-self-managed",
    ]
    assert {each["kind"] for each in objects(Profile.SELF_MANAGED)} == {
        "ServiceAccount",
        "ConfigMap",
        "NetworkPolicy",
        "Job",
    }


# -- what is measured ---------------------------------------------------------------------------------------------


def settings(deployment: Deployment, profile: Profile = Profile.SELF_MANAGED, **plan: Any) -> Any:
    return benchmark_settings(deployment, profile, BenchmarkPlan(**plan))


def test_both_sides_have_the_same_gpus_and_the_same_price() -> None:
    dpd = measured_system(ready(), Profile.SELF_MANAGED)
    baseline = measured_system(ready(), Profile.BASELINE)
    assert dpd.gpus == baseline.gpus == 16
    assert dpd.usd_per_hour == baseline.usd_per_hour == pytest.approx(2 * 63.3, rel=0.01)
    assert {each.role for each in dpd.workers} == {"prefill", "decode"}
    assert {each.role for each in baseline.workers} == {"colocated"}


def test_half_a_node_costs_half_of_it() -> None:
    half = changed(ready(), serving__tensor_parallel=4)
    assert measured_system(half, Profile.SELF_MANAGED).gpus == 8
    price = measured_system(half, Profile.SELF_MANAGED).usd_per_hour
    assert price == pytest.approx(63.3, rel=0.01)


def test_a_price_of_one_s_own_is_used_and_named() -> None:
    price = Price(instance_type="ml.p5.48xlarge", usd_per_hour=40.0, as_of="2026-11-01", source="contract")
    found = measured_system(changed(ready(), prices=(price,)), Profile.SELF_MANAGED)
    assert found.usd_per_hour == pytest.approx(80.0)
    assert "given, 2026-11-01" in found.price


@pytest.mark.parametrize(
    ("source", "tokenizer"),
    [
        (HuggingFaceSource(type="huggingface"), "hf://meta-llama/Llama-3.3-70B-Instruct@"),
        (FsxSource(type="fsx"), "s3://${dpd:MODEL_BUCKET}/models/llama-3.3-70b-instruct/"),
        (VolumeSource(type="volume", claim="w", path="/l"), "hf://meta-llama/Llama-3.3-70B-Instruct@"),
    ],
)
def test_the_tokenizer_comes_from_where_the_model_does(source: Any, tokenizer: str) -> None:
    assert settings(changed(ready(), model__source=source)).tokenizer.startswith(tokenizer)


def test_a_tokenizer_can_be_given() -> None:
    assert settings(ready(), tokenizer="s3://mine/tokenizer").tokenizer == "s3://mine/tokenizer"


def test_keys_are_mounted_where_the_router_wants_them() -> None:
    guarded = changed(ready(), routing__api_keys_secret="dpd/keys")
    assert settings(guarded).api_keys_file.endswith("/keys")
    job = [*yaml.safe_load_all(render_benchmark(guarded, Profile.SELF_MANAGED))][-1]
    assert any(each.get("secret") for each in job["spec"]["template"]["spec"]["volumes"])


def test_aws_s_router_is_reached_where_the_proof_reaches_it() -> None:
    operated = settings(ready(), Profile.OPERATOR)
    assert operated.url == dict(target_arguments(on_backend(ready(), "operator")))["url"]
    assert operated.url.startswith("http://dpd-llama-3-3-70b-p5-workers-routing-service.")
    assert not operated.reads_router


@pytest.mark.parametrize("threshold", [4097, "never"])
def test_prompts_below_the_threshold_are_refused(threshold: Any) -> None:
    high = changed(ready(), routing__threshold_tokens=threshold)
    with pytest.raises(NotMeasurableError, match=f"threshold_tokens: {threshold}"):
        settings(high)
    # nobody disaggregates there
    settings(high, Profile.BASELINE)


# -- where results go ---------------------------------------------------------------------------------------------


@cache
def store() -> Template:
    stack = cdk.Stack(app(), "platform", env=cdk.Environment(account="123456789012", region="us-east-1"))
    keep = cdk.RemovalPolicy.RETAIN
    logs = AccessLogs(stack, "AccessLogs", removal_policy=keep)
    models = ModelStore(stack, "Models", deployment=ready(), access_logs=logs, removal_policy=keep)
    made = BenchmarkStore(
        stack,
        "Benchmarks",
        deployment=ready(),
        eks_name="dpd",
        eks_arn="arn:aws:eks:us-east-1:123456789012:cluster/dpd",
        access_logs=logs,
        models=models,
        removal_policy=keep,
    )
    for binding, value in made.bindings.items():
        cdk.CfnOutput(stack, binding.output_key, value=value)
    return synthesized(stack)


def test_the_job_may_write_results_and_read_the_model_s_folder() -> None:
    (statements,) = (
        policy["Properties"]["PolicyDocument"]["Statement"]
        for policy in resources(store(), "AWS::IAM::Policy").values()
    )
    allowed = {
        action: text(statement["Resource"]).rpartition("}")[2]
        for statement in statements
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
    }
    assert allowed.keys() == {"s3:PutObject", "s3:GetObject", "s3:ListBucket"}
    assert allowed["s3:PutObject"] == "/benchmarks/llama-3-3-70b-p5/*"
    assert allowed["s3:GetObject"].startswith("/models/llama-3.3-70b-instruct/")


def test_the_identity_is_the_job_s() -> None:
    _, association = only(store(), "AWS::EKS::PodIdentityAssociation")
    properties = association["Properties"]
    account = of_kind(Profile.SELF_MANAGED, "ServiceAccount")["metadata"]
    assert (properties["Namespace"], properties["ServiceAccount"]) == (
        account["namespace"],
        account["name"],
    )


def test_results_are_kept_in_a_bucket_whose_name_the_binding_takes() -> None:
    shown = text(store()["Outputs"]["BindResultsBucket"]["Value"])
    (bucket,) = (
        body for name, body in resources(store(), "AWS::S3::Bucket").items() if f"${{{name}}}" == shown
    )
    assert bucket["DeletionPolicy"] == "Retain"
    assert Binding.RESULTS_BUCKET.refuse(bucket["Properties"]["BucketName"]) is None


# -- the command --------------------------------------------------------------------------------------------------


def dpd(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hyperpod_dpd", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


def test_the_command_writes_what_bind_fills(tmp_path: Path) -> None:
    done = dpd(
        "benchmark",
        "deployments/llama-3.3-70b-p5.yaml",
        *("--profile", "self-managed", "--to", str(tmp_path / "out")),
        *("--concurrency", "4", "--seed", "7", "--seed", "9", "--scenario", "D(8192, 64)"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    written = tmp_path / "out" / "benchmark.yaml"
    assert done.stdout == f"{written}: Job `benchmark-self-managed`\n"
    config = [*yaml.safe_load_all(written.read_text())][1]
    found = json.loads(config["data"]["benchmark.json"])
    assert (found["input_tokens"], found["output_tokens"]) == (8192, 64)
    assert (found["concurrencies"], found["seeds"]) == ([4], [7, 9])
    names = dpd("bind", str(tmp_path / "out"), "--list").stdout
    assert all(name in names for name in ("BENCHMARK_IMAGE", "MODEL_BUCKET", "RESULTS_BUCKET"))


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        (("--scenario", "N(1,2)"), 2, "no scenario such as D(4096,256)"),
        (("--scenario", "D(4096,1)"), 2, "two tokens or more"),
        (("--concurrency", "0"), 2, "no whole number"),
        (("--scenario", "D(1000,256)"), 1, "no prompt would be disaggregated"),
    ],
)
def test_wrong_options_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: tuple[str, ...], code: int, words: str
) -> None:
    parser = ArgumentParser()
    COMMAND.add_arguments(parser)
    deployment = str(ROOT / "deployments/llama-3.3-70b-p5.yaml")
    options = [deployment, "--profile", "self-managed", "--to", str(tmp_path / "out"), *given]
    try:
        ended = int(COMMAND.run(parser.parse_args(options)))
    except SystemExit as refused:
        ended = int(refused.code or 0)
    assert ended == code
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
