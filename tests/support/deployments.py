"""The ready deployments, and variations of them."""

import dataclasses
from pathlib import Path
from typing import Any

from hyperpod_dpd.spec import (
    Deployment,
    ExistingVpc,
    FsxSource,
    HuggingFaceSource,
    S3Source,
    VolumeSource,
)
from hyperpod_dpd.spec.load import load

ROOT = Path(__file__).resolve().parents[2]

EXISTING_VPC = ExistingVpc(
    vpc_id="vpc-0123456789abcdef0",
    cidrs=("10.20.0.0/16", "100.64.0.0/16"),
    gpu_subnet_id="subnet-00000000000000001",
    system_subnet_ids=("subnet-00000000000000002", "subnet-00000000000000003"),
    cluster_subnet_ids=("subnet-00000000000000004", "subnet-00000000000000005"),
    endpoint_services=("ecr.api", "ecr.dkr"),
)
"""The VPC of a central network team."""


def ready(name: str = "llama-3.3-70b-p5") -> Deployment:
    """Return one of the ready deployments."""
    return load(ROOT / "deployments" / f"{name}.yaml").deployment


def changed(deployment: Deployment, **changes: Any) -> Deployment:
    """Return `deployment` with values replaced by path; `__` stands for the dot.

    `changed(d, serving__transfer__chunk_tokens=512)`; a number is an index: `hyperpod__instance_groups__0__count=2`.
    """
    result: Any = deployment
    for path, value in changes.items():
        result = _with(result, path.split("__"), value)
    assert isinstance(result, Deployment)
    return result


def _with(node: Any, path: list[str], value: Any) -> Any:
    head, *rest = path
    if isinstance(node, tuple):
        index = int(head)
        return (*node[:index], _with(node[index], rest, value) if rest else value, *node[index + 1 :])
    below = _with(getattr(node, head), rest, value) if rest else value
    return dataclasses.replace(node, **{head: below})


def variations() -> dict[str, Deployment]:
    """Return deployments that reach every branch of the engine configuration, by name."""
    p5 = ready()
    return {
        "p5": p5,
        "p5en": ready("llama-3.3-70b-p5en"),
        "p5-p5en": ready("llama-3.3-70b-p5-p5en"),
        "half-nodes": changed(p5, serving__tensor_parallel=4),
        "land": changed(p5, routing__strategy="land"),
        "nixl": changed(p5, serving__transfer__type="nixl"),
        "lmcache-0.4.3": changed(p5, serving__engine__name="hyperpod-v1.1"),
        "nixl-0.19.0": changed(p5, serving__engine__name="hyperpod-v1.1", serving__transfer__type="nixl"),
        "fp8": changed(
            p5, model__weights="fp8", model__kv_cache="fp8", serving__transfer__block_size_tokens=32
        ),
        "hugging-face": changed(p5, model__source=HuggingFaceSource(type="huggingface")),
        "synced": changed(p5, model__source=S3Source(bucket="weights", prefix="llama", delivery="sync")),
        "fsx": changed(p5, model__source=FsxSource(type="fsx")),
        "volume": changed(p5, model__source=VolumeSource(type="volume", claim="weights", path="/llama")),
        "huge-pages": changed(p5, serving__huge_pages_mib=5120),
        "traced": changed(p5, routing__tracing_endpoint="http://collector:4318"),
        "tuned": changed(
            p5,
            serving__decode__max_num_batched_tokens=2048,
            serving__decode__extra_args=("--max-logprobs", "20"),
            serving__prefill__environment={"VLLM_LOGGING_LEVEL": "WARNING"},
            model__trust_remote_code=True,
            model__served_name="llama",
            serving__baseline__max_num_seqs=64,
        ),
    }
