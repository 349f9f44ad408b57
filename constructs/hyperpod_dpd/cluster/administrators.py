"""Who may do everything in the cluster."""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct


class Administrators(Construct):
    """An access entry with cluster-admin for each principal.

    HyperPod makes the entries of its service-linked role and of its nodes by itself; a second owner of an entry ends
    in "409 already exists" (terraform-aws-eks 2968).
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, cluster: eks.Cluster, principals: Sequence[str]
    ) -> None:
        """Give each of `principals`, ARNs of IAM roles or users, cluster-admin."""
        super().__init__(scope, construct_id)
        policy = cdk.Stack.of(self).format_arn(
            service="eks",
            region="",
            account="aws",
            resource="cluster-access-policy",
            resource_name="AmazonEKSClusterAdminPolicy",
        )
        for arn in principals:
            eks.CfnAccessEntry(
                self,
                # named after the principal, so that a changed order replaces nothing
                arn.replace("/", "|"),
                cluster_name=cluster.cluster_name,
                principal_arn=arn,
                type="STANDARD",
                access_policies=[
                    eks.CfnAccessEntry.AccessPolicyProperty(
                        policy_arn=policy,
                        access_scope=eks.CfnAccessEntry.AccessScopeProperty(type="cluster"),
                    )
                ],
            )
