"""External Secrets, which brings tokens and keys from Secrets Manager into the cluster."""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct, IDependable

from hyperpod_dpd.catalog.cluster_charts import EXTERNAL_SECRETS
from hyperpod_dpd.cluster.chart_release import ClusterChartRelease
from hyperpod_dpd.cluster.chart_values import external_secrets_values
from hyperpod_dpd.derive.secret_names import OWNED
from hyperpod_dpd.security.secrets import DeploymentSecrets
from hyperpod_dpd.spec import Deployment


class ExternalSecrets(Construct):
    """The operator, once per cluster, and what it may read.

    It reads the secrets that the cluster's owner names, and every secret below `hyperpod-dpd/`: those that other
    deployments on the same cluster make. A SecretStore reads with this identity, and is a namespace's own.

    Attributes:
        role: its identity.
        ready: what to depend on before an ExternalSecret is made: its kinds exist then.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        cluster: eks.ICluster,
        secrets: DeploymentSecrets,
        registry: str,
        needs: Sequence[IDependable] = (),
    ) -> None:
        """Install it.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            deployment: the cluster's owner.
            cluster: cluster with a kubectl provider.
            secrets: what the owner names.
            registry: the account's registry, see `hyperpod_dpd.images.account_registry`.
            needs: what must be there before: the provider's access, the copies in the mirror.
        """
        super().__init__(scope, construct_id)
        release = ClusterChartRelease(
            self,
            "Release",
            chart=EXTERNAL_SECRETS,
            cluster=cluster,
            deployment=deployment,
            values=external_secrets_values(deployment, registry=registry),
            registry=registry,
            needs=needs,
        )
        self.role = release.role
        secrets.grant_read(self.role)
        for statement in _statements(cdk.Stack.of(self)):
            self.role.add_to_principal_policy(statement)
        # the ends of the release and its rights: an ExternalSecret that is refused is asked for again in an hour
        self.ready: IDependable = self


def _statements(stack: cdk.Stack) -> list[iam.PolicyStatement]:
    owned = stack.format_arn(
        service="secretsmanager",
        resource="secret",
        resource_name=f"{OWNED}/*",
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
    )
    keys = stack.format_arn(service="kms", resource="key", resource_name="*")
    return [
        iam.PolicyStatement(
            actions=["secretsmanager:DescribeSecret", "secretsmanager:GetSecretValue"], resources=[owned]
        ),
        # keys of deployments that come later; the context ties each use to a secret below the prefix
        iam.PolicyStatement(
            actions=["kms:Decrypt"],
            resources=[keys],
            conditions={
                "StringEquals": {"kms:ViaService": f"secretsmanager.{stack.region}.amazonaws.com"},
                "ArnLike": {"kms:EncryptionContext:SecretARN": owned},
            },
        ),
    ]
