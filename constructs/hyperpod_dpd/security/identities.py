"""Roles of service accounts: who may take one is said exactly, by cluster, namespace and name."""

from collections.abc import Sequence

import aws_cdk as cdk
import jsii
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from hyperpod_dpd.spec.arguments import checked
from hyperpod_dpd.spec.value import NonEmptyStr


@jsii.implements(iam.IGrantable)
class PodIdentity(Construct):
    """A role that the pods of one ServiceAccount get through EKS Pod Identity: `bucket.grant_read(identity)`.

    The association is a resource of its own: one inside an add-on is refused where the add-on's metadata says that it
    needs no rights (awsome-distributed-ai 1075).

    Attributes:
        role: the role.
        association: what gives it to the pods; a pod that starts before has no identity until it is replaced.
    """

    role: iam.Role
    association: eks.CfnPodIdentityAssociation

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        eks_name: NonEmptyStr,
        eks_arn: NonEmptyStr,
        namespace: NonEmptyStr,
        service_account: NonEmptyStr,
        description: NonEmptyStr,
    ) -> None:
        """Create role and association.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            eks_name: name of the cluster.
            eks_arn: its ARN.
            namespace: namespace of the ServiceAccount.
            service_account: its name.
            description: what the role is for.
        """
        super().__init__(scope, construct_id)
        # session tags that EKS itself sets (EKS user guide, pod-id-abac)
        only = {
            "StringEquals": {
                "aws:RequestTag/eks-cluster-arn": eks_arn,
                "aws:RequestTag/kubernetes-namespace": namespace,
                "aws:RequestTag/kubernetes-service-account": service_account,
            }
        }
        self.role = iam.Role(
            self,
            "Role",
            description=description,
            assumed_by=iam.ServicePrincipal("pods.eks.amazonaws.com", conditions=only).with_session_tags(),
        )
        self.association = eks.CfnPodIdentityAssociation(
            self,
            "Association",
            cluster_name=eks_name,
            namespace=namespace,
            service_account=service_account,
            role_arn=self.role.role_arn,
        )

    @property
    def grant_principal(self) -> iam.IPrincipal:
        """The role."""
        return self.role.grant_principal


class WebIdentity(Construct):
    """A role that one ServiceAccount takes with its own token (IRSA), for add-ons that know nothing else.

    Attributes:
        role: the role.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        provider_arn: str,
        namespace: str,
        service_account: str,
        description: str,
        role_name: str | None = None,
        also: Sequence[iam.IPrincipal] = (),
    ) -> None:
        """Create the role.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            provider_arn: ARN of the IAM identity provider of the cluster.
            namespace: namespace of the ServiceAccount.
            service_account: its name.
            description: what the role is for.
            role_name: name of the role, where somebody looks at it.
            also: who else may take it.
        """
        super().__init__(scope, construct_id)
        issuer = cdk.Fn.select(1, cdk.Fn.split(":oidc-provider/", provider_arn))
        # the condition's keys hold the issuer, which only CloudFormation knows; it fills values, not keys
        conditions = cdk.CfnJson(
            self,
            "Only",
            value={
                f"{issuer}:aud": "sts.amazonaws.com",
                f"{issuer}:sub": f"system:serviceaccount:{namespace}:{service_account}",
            },
        )
        account: iam.IPrincipal = iam.FederatedPrincipal(
            provider_arn, {"StringEquals": conditions}, "sts:AssumeRoleWithWebIdentity"
        )
        self.role = iam.Role(
            self,
            "Role",
            role_name=role_name,
            description=description,
            assumed_by=iam.CompositePrincipal(account, *also) if also else account,
        )
