"""Disaggregated serving on an EKS and HyperPod cluster that you have already.

Nothing of the cluster is changed: a Helm release with namespaces, policies, workers and router is added, the workers may
read your bucket, and the stack is complete once they run.
"""

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_s3 as s3

from hyperpod_dpd import (
    Binding,
    ClusterHandle,
    Kubectl,
    Readiness,
    Release,
    Wait,
    WorkerIdentity,
    apply_rules,
    load,
    logs_key,
    profile_of,
    render,
    requirements_of,
    rollout_seconds,
)

DEPLOYMENT = Path(__file__).parent / "two_models/qwen.yaml"
REGISTRY = "123456789012.dkr.ecr.us-east-1.amazonaws.com"


class Serving(cdk.Stack):
    """The release and the wait for it, in a stack of your own."""

    def __init__(self, scope: cdk.App, construct_id: str) -> None:
        """Add what `DEPLOYMENT` describes to the cluster that it names."""
        deployment = load(DEPLOYMENT).deployment
        super().__init__(scope, construct_id, env=cdk.Environment(region=deployment.region))
        apply_rules(self, deployment)
        existing = deployment.cluster.existing
        assert existing is not None
        handle = ClusterHandle(
            eks_name=existing.eks_name,
            eks_arn=self.format_arn(service="eks", resource="cluster", resource_name=existing.eks_name),
            security_group_id="sg-0123456789abcdef0",
            vpc=ec2.Vpc.from_vpc_attributes(
                self, "Vpc", vpc_id="vpc-0123456789abcdef0", availability_zones=["us-east-1a"]
            ),
            subnets=[ec2.Subnet.from_subnet_id(self, "Private", "subnet-0123456789abcdef0")],
            gpu_subnet_id="subnet-0123456789abcdef1",
            gpu_security_group_id="sg-0123456789abcdef1",
            hyperpod_name=existing.hyperpod_name,
            hyperpod_arn=self.format_arn(
                service="sagemaker", resource="cluster", resource_name="abcdefghijkl"
            ),
        )
        kubectl = Kubectl(self, "Kubectl", handle=handle)
        weights = s3.Bucket.from_bucket_name(self, "Weights", "my-weights")
        identity = WorkerIdentity(self, "Workers", deployment=deployment, handle=handle)
        weights.grant_read(identity)
        rendering = render(deployment, profile_of(deployment))
        release = Release(
            self,
            "Release",
            cluster=kubectl.cluster,
            rendering=rendering,
            name=deployment.name,
            bindings={
                Binding.WORKER_IMAGE: f"{REGISTRY}/dpd-worker@sha256:{'1' * 64}",
                Binding.ROUTER_IMAGE: f"{REGISTRY}/dpd-router@sha256:{'2' * 64}",
                Binding.PROOF_IMAGE: f"{REGISTRY}/dpd-proof@sha256:{'3' * 64}",
                Binding.MODEL_BUCKET: weights.bucket_name,
            },
            # a pod that starts before its identity has none until it is replaced
            needs=[kubectl.ready, identity],
        )
        Wait(
            self,
            "Runs",
            readiness=Readiness(
                self,
                "Readiness",
                name=deployment.name,
                handle=handle,
                kubectl=kubectl,
                log_key=logs_key(self, "LogsKey", removal_policy=cdk.RemovalPolicy.RETAIN),
            ),
            requirements=requirements_of(rendering),
            within=cdk.Duration.seconds(rollout_seconds(rendering)),
            revision=release.asset_hash,
            needs=[release.chart],
        )


if __name__ == "__main__":
    app = cdk.App()
    Serving(app, "serving")
    app.synth()
