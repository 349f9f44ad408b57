"""The HyperPod inference add-on: operator, load balancer controller and KEDA in one."""

from collections.abc import Sequence
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct, IDependable

from hyperpod_dpd.cluster.addons import pinned_addon
from hyperpod_dpd.cluster.handle import ClusterHandle
from hyperpod_dpd.cluster.keda_policy import keda_statements
from hyperpod_dpd.cluster.load_balancer_policy import load_balancer_statements
from hyperpod_dpd.derive.addons import INFERENCE_OPERATOR
from hyperpod_dpd.derive.bucket import TLS_PREFIX
from hyperpod_dpd.derive.operator_endpoint import OPERATOR_NAMESPACE
from hyperpod_dpd.derive.shortened import shortened
from hyperpod_dpd.observability.metrics_workspace import MetricsWorkspace
from hyperpod_dpd.readiness.requirements import AddonActive, Requirement, Rollout
from hyperpod_dpd.security.identities import WebIdentity
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.storage import AccessLogs, PrivateBucket, bucket_name

ROLE_PREFIX: Final = "SageMakerHyperPodInference"
"""What the add-on expects the name of the operator's role to start with."""

_ROLE_NAME_LENGTH: Final = 64
_CONTROLLERS: Final = (
    "hyperpod-inference-controller-manager",
    "keda-operator",
    "keda-admission-webhooks",
    "keda-operator-metrics-apiserver",
)


def operator_role_name(deployment: Deployment) -> str:
    """Return the name of the operator's role: one per cluster, in every region of an account."""
    beginning = f"{ROLE_PREFIX}-{deployment.region}-"
    return f"{beginning}{shortened(deployment.name, _ROLE_NAME_LENGTH - len(beginning))}"


class InferenceOperator(Construct):
    """The add-on with its three identities and the bucket for generated certificates.

    Attributes:
        addon: the add-on.
        role: the operator's identity.
        requirements: what must be so before an endpoint is asked of it.
    """

    requirements: Sequence[Requirement] = (
        AddonActive(name=INFERENCE_OPERATOR),
        *(Rollout(namespace=OPERATOR_NAMESPACE, name=name) for name in _CONTROLLERS),
    )

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        handle: ClusterHandle,
        oidc_provider_arn: str,
        node_security_group_ids: Sequence[str],
        metrics: MetricsWorkspace | None,
        access_logs: AccessLogs,
        removal_policy: cdk.RemovalPolicy,
        needs: Sequence[IDependable] = (),
    ) -> None:
        """Create the add-on.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            deployment: the cluster's owner, with the section `platform.inference_operator`.
            handle: the cluster.
            oidc_provider_arn: ARN of the IAM identity provider of the cluster.
            node_security_group_ids: security groups of system and GPU nodes.
            metrics: workspace whose metrics KEDA's triggers ask for.
            access_logs: where the access logs of a new certificate bucket go.
            removal_policy: whether that bucket outlives the stack.
            needs: what must answer before: certificates, metrics, both storage drivers.
        """
        super().__init__(scope, construct_id)
        self._provider_arn = oidc_provider_arn
        self._eks_name = handle.eks_name
        section = deployment.platform.inference_operator
        tls: s3.IBucket
        if section is not None and section.tls_bucket is not None:
            tls = s3.Bucket.from_bucket_name(self, "Certificates", section.tls_bucket)
        else:
            tls = PrivateBucket(
                self,
                "Certificates",
                name=bucket_name(TLS_PREFIX, deployment.name, cdk.Stack.of(self)),
                access_logs=access_logs,
                removal_policy=removal_policy,
            ).bucket
        self.role = self._operator(deployment, tls)
        balancers = self._identity("LoadBalancers", "aws-load-balancer-controller", "load balancers")
        for statement in load_balancer_statements(
            cdk.Stack.of(self),
            eks_name=handle.eks_name,
            vpc_id=handle.vpc.vpc_id,
            node_security_group_ids=node_security_group_ids,
        ):
            balancers.add_to_policy(statement)
        keda = self._identity("Keda", "keda-operator", "scaling")
        for statement in keda_statements(metrics):
            keda.add_to_policy(statement)
        self.addon = pinned_addon(
            self,
            INFERENCE_OPERATOR,
            spec=deployment.cluster,
            version=section.version if section else None,
            cluster_name=handle.eks_name,
            configuration_values=cdk.Stack.of(self).to_json_string(
                {
                    "executionRoleArn": self.role.role_arn,
                    "tlsCertificateS3Bucket": tls.bucket_name,
                    "hyperpodClusterArn": handle.hyperpod_arn,
                    "alb": {
                        "enabled": True,
                        "serviceAccount": {"create": True, "roleArn": balancers.role_arn},
                    },
                    "keda": {
                        "enabled": True,
                        "auth": {"aws": {"irsa": {"enabled": True, "roleArn": keda.role_arn}}},
                    },
                }
            ),
        )
        # a controller that starts before its role has rights reports that it failed, not that it waits
        self.addon.node.add_dependency(self.role, balancers, keda, *needs)

    def _identity(self, construct_id: str, service_account: str, what: str) -> iam.Role:
        return WebIdentity(
            self,
            construct_id,
            provider_arn=self._provider_arn,
            namespace=OPERATOR_NAMESPACE,
            service_account=service_account,
            description=f"Inference add-on on {self._eks_name}: {what}",
        ).role

    def _operator(self, deployment: Deployment, tls: s3.IBucket) -> iam.Role:
        stack = cdk.Stack.of(self)
        role = WebIdentity(
            self,
            "Operator",
            provider_arn=self._provider_arn,
            namespace=OPERATOR_NAMESPACE,
            service_account="hyperpod-inference-controller-manager",
            description=f"Inference add-on on {self._eks_name}: operator",
            role_name=operator_role_name(deployment),
            # SageMaker takes it for the endpoints that the operator registers
            also=[iam.ServicePrincipal("sagemaker.amazonaws.com")],
        ).role
        role.add_managed_policy(
            iam.ManagedPolicy.from_aws_managed_policy_name("AmazonSageMakerHyperPodInferenceAccess")
        )
        certificates = stack.format_arn(service="acm", resource="certificate", resource_name="*")
        # asked for since version 3.0 of the operator (release notes), and not in AWS's policy
        role.add_to_policy(
            iam.PolicyStatement(
                sid="TagCertificates",
                actions=["acm:AddTagsToCertificate", "acm:DescribeCertificate", "acm:GetCertificate"],
                resources=[certificates],
            )
        )
        role.add_to_policy(
            iam.PolicyStatement(
                sid="TagCertificateFiles",
                actions=["s3:PutObjectTagging"],
                resources=[tls.arn_for_objects("*")],
            )
        )
        certificate = deployment.serving.operator.certificate
        if certificate is not None and certificate.hosted_zone_id is not None:
            role.add_to_policy(
                iam.PolicyStatement(
                    sid="NameTheEndpoint",
                    actions=[
                        "route53:ChangeResourceRecordSets",
                        "route53:GetHostedZone",
                        "route53:ListResourceRecordSets",
                    ],
                    resources=[
                        stack.format_arn(
                            service="route53",
                            region="",
                            account="",
                            resource="hostedzone",
                            resource_name=certificate.hosted_zone_id,
                        )
                    ],
                )
            )
        return role
