"""Disaggregated serving on an EKS and HyperPod cluster that you have already.

Nothing of the cluster is created or changed: a Helm release with namespaces, policies, workers and router is added.
"""

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_s3 as s3

from hyperpod_dpd import Binding, ClusterHandle, Kubectl, Profile, Release, apply_rules, load, render

DEPLOYMENT = Path(__file__).parent / "two_models/qwen.yaml"
REGISTRY = "123456789012.dkr.ecr.us-east-1.amazonaws.com"


class Serving(cdk.Stack):
    """The release, in a stack of your own."""

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
            owned=False,
        )
        kubectl = Kubectl(self, "Kubectl", handle=handle)
        weights = s3.Bucket.from_bucket_name(self, "Weights", "my-weights")
        release = Release(
            self,
            "Release",
            cluster=kubectl.cluster,
            rendering=render(deployment, Profile.SELF_MANAGED),
            name=deployment.name,
            bindings={
                Binding.WORKER_IMAGE: f"{REGISTRY}/dpd-worker@sha256:{'1' * 64}",
                Binding.ROUTER_IMAGE: f"{REGISTRY}/dpd-router@sha256:{'2' * 64}",
                Binding.PROOF_IMAGE: f"{REGISTRY}/dpd-proof@sha256:{'3' * 64}",
                Binding.MODEL_BUCKET: weights.bucket_name,
            },
        )
        # without the way in the first chart is refused
        release.chart.node.add_dependency(kubectl.ready)


if __name__ == "__main__":
    app = cdk.App()
    Serving(app, "serving")
    app.synth()
