"""Deployments synthesized as the CDK CLI does it, but without the CLI."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aws_cdk as cdk

from hyperpod_dpd.spec import (
    DependenciesChart,
    Deployment,
    ExistingCluster,
    FolderOrigin,
    FsxSource,
    HubOrigin,
    Organization,
    S3Source,
    Schedule,
    Spot,
    Taint,
    TrainingPlan,
)
from stacks.build import DeploymentStacks, build
from tests.support.deployments import EXISTING_VPC, ROOT, changed, ready

KEY = "arn:aws:kms:us-east-1:123456789012:key/00000000-0000-0000-0000-000000000000"
THEIR_KEY = "arn:aws:kms:eu-west-1:210987654321:key/11111111-1111-1111-1111-111111111111"

READY = ("llama-3.3-70b-p5", "llama-3.3-70b-p5en", "llama-3.3-70b-p5-p5en")
"""Names of the ready deployments."""

SYNTHESES: Mapping[str, Mapping[str, Any]] = {
    "as-shipped": {},
    "account-given": {"account": "123456789012"},
    "closed": {
        "network__egress": "closed",
        "cluster__endpoint_access": "private",
        "cluster__dependencies_chart": DependenciesChart(
            source="s3", s3_uri="s3://mine/dependencies.tar.gz", sha256="a" * 64
        ),
    },
    "removable": {
        "removal__delete_data_on_destroy": True,
        "removal__confirm": "llama-3-3-70b-p5",
    },
    "every-option": {
        "tags": {"cost-centre": "4711"},
        "organization": Organization(permissions_boundary="bank/boundary", bootstrap_qualifier="bank"),
        "cluster__administrators": ("arn:aws:iam::123456789012:role/admin",),
        "hyperpod__tiered_storage_memory_percent": 20,
        "hyperpod__instance_groups__0__minimum": 1,
        "hyperpod__instance_groups__0__volumes_kms_key_arn": KEY,
        "model__source": S3Source(kms_key_arn=KEY),
        "model__imported_from": FolderOrigin(type="s3", uri="s3://theirs/llama", kms_key_arn=THEIR_KEY),
        "hyperpod__instance_groups__0__labels": {"team": "serving"},
        "hyperpod__instance_groups__0__capacity": TrainingPlan(
            type="training-plan", arn="arn:aws:sagemaker:us-east-1:123456789012:training-plan/p5"
        ),
        "hyperpod__instance_groups__1__capacity": Spot(type="spot"),
        "hyperpod__instance_groups__1__deep_health_checks": (),
        "hyperpod__instance_groups__1__taints": (
            Taint(key="dedicated", value="decode", effect="NoSchedule"),
        ),
    },
    "alone": {
        "platform__inference_operator": None,
        "platform__observability_addon": False,
        "platform__exporters": "manifests",
        "platform__autoscaling": True,
        "platform__load_balancer_controller": True,
        "platform__grafana": "managed",
        "platform__images__mirror_public_images": True,
        "platform__alerts__email_addresses": ("oncall@example.com",),
        "platform__nights_off": Schedule(
            stop_cron="cron(0 20 ? * MON-FRI *)", start_cron="cron(0 6 ? * MON-FRI *)"
        ),
        "platform__monthly_budget_usd": 50_000,
        "model__source": FsxSource(type="fsx"),
        "model__imported_from": HubOrigin(token_secret="mine/hub-token"),
    },
    "existing-vpc": {
        "network__existing": EXISTING_VPC,
        "network__interface_endpoints": True,
    },
    "given-model": {
        "model__source": S3Source(bucket="mine", prefix="llama"),
    },
    "shared": {
        "cluster__existing": ExistingCluster(
            eks_name="dpd", hyperpod_name="dpd", parameter_prefix="/hyperpod-dpd/dpd"
        ),
    },
}
"""Changes to the default deployment that reach the branches of the stacks, by name."""

Template = Mapping[str, Any]


@dataclass(frozen=True)
class Synthesized:
    """Templates of a deployment by part: network, cluster, hyperpod, platform, serving."""

    templates: Mapping[str, Template]
    needs: Mapping[str, frozenset[str]]
    """Parts that must be deployed before a part."""

    def resources(self, part: str, resource_type: str) -> dict[str, Any]:
        """Return the resources of one type of one stack by logical id."""
        resources = self.templates[part]["Resources"]
        return {name: body for name, body in resources.items() if body["Type"] == resource_type}

    def only(self, part: str, resource_type: str) -> Any:
        """Return the only resource of that type."""
        (body,) = self.resources(part, resource_type).values()
        return body


def context() -> dict[str, Any]:
    """Return the feature flags with which the CLI runs the application."""
    flags: dict[str, Any] = json.loads((ROOT / "cdk.json").read_text())["context"]
    return flags


def application(outdir: Path, deployment: Deployment) -> tuple[cdk.App, DeploymentStacks]:
    """Return an application with the stacks of `deployment` that will be written to `outdir`."""
    app = cdk.App(outdir=str(outdir), context=context())
    return app, build(app, deployment)


def synthesize(deployment: Deployment) -> Synthesized:
    """Synthesize `deployment`."""
    with TemporaryDirectory() as outdir:
        app, stacks = application(Path(outdir), deployment)
        assembly = app.synth()
        parts = {stack.stack_name: part for part, stack in stacks.by_part.items()}
        artifacts = {name: assembly.get_stack_by_name(name) for name in parts}
        return Synthesized(
            templates={parts[name]: artifact.template for name, artifact in artifacts.items()},
            needs={
                parts[name]: frozenset(
                    parts[needed.id] for needed in artifact.dependencies if needed.id in parts
                )
                for name, artifact in artifacts.items()
            },
        )


@cache
def ready_synthesized(name: str = READY[0]) -> Synthesized:
    """Return a ready deployment synthesized, once per process."""
    return synthesize(ready(name))


def deployments() -> dict[str, Deployment]:
    """Return the ready deployments and the variations of the default one, by name."""
    variations = {name: changed(ready(), **changes) for name, changes in SYNTHESES.items() if changes}
    return {name: ready(name) for name in READY} | variations
