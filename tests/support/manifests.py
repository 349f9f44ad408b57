"""Rendered manifests of many deployments, rendered once per process, and ways to look into them."""

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from hyperpod_dpd.derive.backend import on_backend
from hyperpod_dpd.serving.profile import Profile
from hyperpod_dpd.serving.render import Rendering, render
from hyperpod_dpd.spec import (
    Deployment,
    EndpointCertificate,
    ExistingCluster,
    FsxSource,
    HuggingFaceSource,
    LoadBalancer,
    OperatorEndpoint,
    S3Source,
    Scaling,
    SecondCache,
    Security,
    Taint,
    Topology,
    VolumeSource,
)
from tests.support.deployments import changed, ready, variations

Manifest = Mapping[str, Any]

DIGEST = "sha256:" + "0123456789abcdef" * 4

READY_SHORT = ("p5", "p5en", "p5-p5en")
"""Names of the ready deployments in `deployments()`."""

BOUND = {
    "WORKER_IMAGE": f"123456789012.dkr.ecr.us-east-1.amazonaws.com/dpd-worker@{DIGEST}",
    "ROUTER_IMAGE": f"123456789012.dkr.ecr.us-east-1.amazonaws.com/dpd-router@{DIGEST}",
    "PROOF_IMAGE": f"123456789012.dkr.ecr.us-east-1.amazonaws.com/dpd-proof@{DIGEST}",
    "BENCHMARK_IMAGE": f"123456789012.dkr.ecr.us-east-1.amazonaws.com/dpd-benchmark@{DIGEST}",
    "MIRROR_REGISTRY": "123456789012.dkr.ecr.us-east-1.amazonaws.com",
    "MODEL_BUCKET": "dpd-models-123456789012",
    "FSX_FILE_SYSTEM_ID": "fs-0123456789abcdef0",
    "FSX_DNS_NAME": "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
    "FSX_MOUNT_NAME": "abcdefgh",
    "AMP_WORKSPACE_URL": "https://aps-workspaces.us-east-1.amazonaws.com/workspaces/ws-0123abcd-0000-4000-8000-0123456789ab",
    "CERTIFICATE_ARN": "arn:aws:acm:us-east-1:123456789012:certificate/0123abcd-0000-4000-8000-0123456789ab",
}
"""A value for every binding that has no other to follow from."""


WEB_ACL = "arn:aws:wafv2:us-east-1:123456789012:regional/webacl/dpd/0123abcd-0000-4000-8000-0123456789ab"
"""A web ACL of AWS WAF."""


@cache
def deployments() -> Mapping[str, Deployment]:
    """Return deployments that reach every branch of the rendering, by name."""
    p5 = ready()
    group = p5.hyperpod.instance_groups[0]
    tainted = dataclasses.replace(
        group,
        name="Prefill-P5",
        taints=(Taint(key="gpu", effect="NoSchedule", value="yes"), Taint(key="a", effect="NoExecute")),
    )
    one_group = dataclasses.replace(group, name="GPUs", count=3)
    return {
        **variations(),
        "balanced": changed(
            p5,
            routing__load_balancer=LoadBalancer(waf_acl_arn=WEB_ACL),
        ),
        "public": changed(
            p5,
            routing__load_balancer=LoadBalancer(
                scheme="internet-facing",
                certificate_arn=BOUND["CERTIFICATE_ARN"],
                inbound_cidrs=("203.0.113.0/24", "198.51.100.0/24"),
            ),
        ),
        "privileged": changed(p5, serving__security=Security(workers="privileged")),
        "secrets": changed(
            p5,
            model__source=HuggingFaceSource(type="huggingface", token_secret="models/hugging-face"),
            routing__api_keys_secret="dpd/api-keys",
            routing__client_namespaces=("chat", "batch"),
        ),
        "prometheus-operator": changed(
            p5,
            platform__scraping="prometheus-operator",
            platform__scraping_namespace="monitoring",
            platform__exporters="manifests",
        ),
        "unscraped": changed(p5, platform__scraping="none"),
        "traced-in-cluster": changed(
            p5, routing__tracing_endpoint="http://otel.tracing.svc.cluster.local:4318"
        ),
        "existing-cluster": changed(
            p5,
            cluster__existing=ExistingCluster(eks_name="shared", hyperpod_name="shared"),
            routing__load_balancer=LoadBalancer(),
        ),
        "scaled": changed(
            p5, **SCALED, hyperpod__instance_groups__1__count=2, serving__decode__scaling=Scaling(maximum=2)
        ),
        "tainted": changed(p5, hyperpod__instance_groups__0=tainted),
        "given-images": changed(
            p5,
            platform__images__source="given",
            platform__images__worker=BOUND["WORKER_IMAGE"],
            platform__images__router=BOUND["ROUTER_IMAGE"],
        ),
        "one-group": changed(
            p5,
            hyperpod__instance_groups=(one_group,),
            serving__tensor_parallel=4,
            serving__prefill__instance_group="GPUs",
            serving__decode__instance_group="GPUs",
            serving__decode__replicas=2,
        ),
    }


SCALED = {
    "hyperpod__instance_groups__0__count": 3,
    "serving__prefill__scaling": Scaling(
        maximum=3, waiting_requests_per_replica=6, kv_cache_usage=0.75, stabilization_seconds=900
    ),
}
"""Changes that let the prefillers of a deployment scale."""

CERTIFICATE = EndpointCertificate(
    arn=BOUND["CERTIFICATE_ARN"], domain_name="llm.example.com", hosted_zone_id="Z0123456789ABCDEFGHIJ"
)


@cache
def operated() -> Mapping[str, Deployment]:
    """Return deployments on the operator backend that reach every branch of its rendering, by name."""
    p5 = on_backend(ready(), "operator")
    return {
        "operated": p5,
        "operated-p5en": on_backend(ready("llama-3.3-70b-p5en"), "operator"),
        "operated-p5-p5en": ready("llama-3.3-70b-p5-p5en-operator"),
        "operated-existing-bucket": changed(p5, model__source=S3Source(bucket="weights", prefix="/llama/")),
        "operated-hub": changed(p5, model__source=HuggingFaceSource(type="huggingface")),
        "operated-gated": changed(
            p5, model__source=HuggingFaceSource(type="huggingface", token_secret="models/hugging-face")
        ),
        "operated-fsx": changed(p5, model__source=FsxSource(type="fsx")),
        "operated-existing-fsx": changed(
            p5,
            model__source=FsxSource(
                type="fsx",
                file_system_id=BOUND["FSX_FILE_SYSTEM_ID"],
                dns_name=BOUND["FSX_DNS_NAME"],
                mount_name=BOUND["FSX_MOUNT_NAME"],
                path="/llama",
            ),
        ),
        "operated-volume": changed(
            p5, model__source=VolumeSource(type="volume", claim="weights", path="/llama")
        ),
        "operated-volume-root": changed(p5, model__source=VolumeSource(type="volume", claim="weights")),
        "operated-fsx-root": changed(
            p5, model__source=FsxSource(type="fsx", file_system_id=BOUND["FSX_FILE_SYSTEM_ID"])
        ),
        "operated-bound-certificate": changed(
            p5, serving__operator__certificate=EndpointCertificate(domain_name="llm.example.com")
        ),
        "operated-scaled": changed(p5, **SCALED, serving__decode__scaling=Scaling(maximum=1)),
        "operated-fp8": changed(p5, model__kv_cache="fp8", serving__transfer__block_size_tokens=32),
        "operated-given-image": changed(
            p5, serving__engine__name="vllm-0.25.1", platform__images__worker=BOUND["WORKER_IMAGE"]
        ),
        "operated-everything": changed(
            p5,
            tags={"team": "serving", "cost-centre": "4711"},
            hyperpod__tiered_storage_memory_percent=20,
            model__trust_remote_code=True,
            model__served_name="llama",
            serving__prefill__max_num_batched_tokens=4096,
            serving__decode__gpu_memory_utilization=0.7,
            serving__decode__extra_args=("--max-logprobs", "20"),
            serving__baseline__max_num_seqs=64,
            serving__operator=OperatorEndpoint(
                endpoint_name="llm",
                model_version="3",
                invocation_path="v1/completions",
                certificate=CERTIFICATE,
                load_balancing="round_robin",
                max_concurrent_requests_per_pod=32,
                max_queued_requests_per_pod=8,
                scrape_interval_seconds=30,
                second_cache=SecondCache(backend="tieredstorage"),
                topology=Topology(zone_name="us-east-1a", placement_group="gpus"),
                environment={"VLLM_LOGGING_LEVEL": "DEBUG"},
                prefetches_weights=True,
                deploy_timeout_seconds=7200,
            ),
        ),
        "operated-bare": changed(
            p5,
            serving__instance_cache=False,
            routing__policy="roundrobin",
            serving__operator=OperatorEndpoint(
                registers_endpoint=False,
                metrics=False,
                routes_intelligently=False,
                certificate_output_s3_uri="s3://hyperpod-tls-mine/dpd",
                second_cache=SecondCache(backend="redis", url="redis://cache:6379"),
                cache_config_file="/etc/lmcache.yaml",
            ),
        ),
    }


@cache
def rendering(name: str, profile: Profile = Profile.SELF_MANAGED) -> Rendering:
    """Return `profile` of the deployment called `name`."""
    return render({**deployments(), **operated()}[name], profile)


BASELINES = (
    *READY_SHORT,
    "half-nodes",
    "one-group",
    "tainted",
    "hugging-face",
    "synced",
    "fsx",
    "lmcache-0.4.3",
    "privileged",
    "secrets",
    "balanced",
    "unscraped",
    "given-images",
)
"""Names of the deployments whose baseline differs from another one's in kind: a hand-off's options do not show."""

CASES = [
    *((name, Profile.SELF_MANAGED) for name in deployments()),
    *((name, Profile.BASELINE) for name in BASELINES),
    *((name, Profile.BASELINE_TUNED) for name in READY_SHORT),
]
"""Every self-managed deployment in every profile that shows something of its own."""

OPERATOR_CASES = [
    (name, profile) for name in operated() for profile in (Profile.OPERATOR, Profile.OPERATOR_BASELINE)
]
"""Every operated deployment in both of its profiles."""


def find(objects: tuple[Manifest, ...], kind: str, name: str | None = None) -> Manifest:
    """Return the only object of `kind`, called `name` when there are several."""
    found = [
        entry
        for entry in objects
        if entry["kind"] == kind and (name is None or entry["metadata"]["name"] == name)
    ]
    assert len(found) == 1, f"{len(found)} objects `{kind}` `{name}`"
    return found[0]


def of_kind(objects: tuple[Manifest, ...], kind: str) -> list[Manifest]:
    """Return every object of `kind`."""
    return [entry for entry in objects if entry["kind"] == kind]


def walk(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every node below `value` with its path."""
    yield path, value
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from walk(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from walk(item, f"{path}[{index}]")


def pods(objects: tuple[Manifest, ...]) -> list[Manifest]:
    """Return every pod that a workload makes, as the API server would see it."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": entry["metadata"]["name"],
                "namespace": entry["metadata"]["namespace"],
                **entry["spec"]["template"]["metadata"],
            },
            "spec": entry["spec"]["template"]["spec"],
        }
        for entry in of_kind(objects, "Deployment")
    ]


def containers(pod: Manifest) -> list[Manifest]:
    """Return every container of `pod`, init containers too."""
    return [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]


def environment(container: Manifest) -> dict[str, str]:
    """Return the literal environment of `container`."""
    return {entry["name"]: entry["value"] for entry in container.get("env", ()) if "value" in entry}
