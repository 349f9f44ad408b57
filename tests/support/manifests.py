"""Rendered manifests of many deployments, rendered once per process, and ways to look into them."""

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from hyperpod_dpd.serving.profile import Profile
from hyperpod_dpd.serving.render import Rendering, render
from hyperpod_dpd.spec import (
    Deployment,
    ExistingCluster,
    HuggingFaceSource,
    LoadBalancer,
    Security,
    Taint,
)
from tests.support.deployments import changed, ready, variations

Manifest = Mapping[str, Any]

DIGEST = "sha256:" + "0123456789abcdef" * 4

READY_SHORT = ("p5", "p5en", "p5-p5en")
"""Names of the ready deployments in `deployments()`."""

BOUND = {
    "WORKER_IMAGE": f"123456789012.dkr.ecr.us-east-1.amazonaws.com/dpd-worker@{DIGEST}",
    "ROUTER_IMAGE": f"123456789012.dkr.ecr.us-east-1.amazonaws.com/dpd-router@{DIGEST}",
    "MODEL_BUCKET": "dpd-models-123456789012",
    "FSX_FILE_SYSTEM_ID": "fs-0123456789abcdef0",
    "FSX_DNS_NAME": "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
    "FSX_MOUNT_NAME": "abcdefgh",
    "CERTIFICATE_ARN": "arn:aws:acm:us-east-1:123456789012:certificate/0123abcd-0000-4000-8000-0123456789ab",
}
"""A value for every binding that has no other to follow from."""


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
            p5, routing__load_balancer=LoadBalancer(waf_acl_arn="arn:aws:wafv2:us-east-1:1:acl")
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
        "unscraped": changed(p5, platform__scraping="none"),
        "traced-in-cluster": changed(
            p5, routing__tracing_endpoint="http://otel.tracing.svc.cluster.local:4318"
        ),
        "existing-cluster": changed(
            p5,
            cluster__existing=ExistingCluster(eks_name="shared", hyperpod_name="shared"),
            routing__load_balancer=LoadBalancer(),
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


@cache
def rendering(name: str, profile: Profile = Profile.SELF_MANAGED) -> Rendering:
    """Return `profile` of the deployment called `name`."""
    return render(deployments()[name], profile)


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
"""Every deployment in every profile that shows something of its own."""


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
