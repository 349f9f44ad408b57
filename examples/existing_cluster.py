"""Disaggregated serving on an EKS and HyperPod cluster that you have already.

Nothing of the cluster is created or changed: a Helm release with namespaces, policies, workers and router is added.
"""

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk.lambda_layer_kubectl_v35 import KubectlV35Layer

from hyperpod_dpd import Binding, Profile, Release, apply_rules, load, render

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
        vpc = ec2.Vpc.from_vpc_attributes(
            self, "Vpc", vpc_id="vpc-0123456789abcdef0", availability_zones=["us-east-1a"]
        )

        def cluster(construct_id: str, provider: eks.KubectlProvider | None = None) -> eks.ICluster:
            return eks.Cluster.from_cluster_attributes(
                self, construct_id, cluster_name=existing.eks_name, vpc=vpc, kubectl_provider=provider
            )

        kubectl = eks.KubectlProvider(
            self,
            "Kubectl",
            cluster=cluster("Bare"),
            kubectl_layer=KubectlV35Layer(self, "Layer"),
            # a role with an access entry on the cluster
            role=iam.Role.from_role_arn(self, "Deployer", "arn:aws:iam::123456789012:role/cluster-deployer"),
        )
        weights = s3.Bucket.from_bucket_name(self, "Weights", "my-weights")
        Release(
            self,
            "Release",
            cluster=cluster("Cluster", kubectl),
            rendering=render(deployment, Profile.SELF_MANAGED),
            name=deployment.name,
            bindings={
                Binding.WORKER_IMAGE: f"{REGISTRY}/dpd-worker@sha256:{'1' * 64}",
                Binding.ROUTER_IMAGE: f"{REGISTRY}/dpd-router@sha256:{'2' * 64}",
                Binding.JOBS_IMAGE: f"{REGISTRY}/dpd-jobs@sha256:{'3' * 64}",
                Binding.MODEL_BUCKET: weights.bucket_name,
            },
        )


if __name__ == "__main__":
    app = cdk.App()
    Serving(app, "serving")
    app.synth()
