"""Secrets in Secrets Manager: those that the deployment makes, empty, and those that are there already."""

from collections.abc import Iterable

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from hyperpod_dpd.derive.secrets import account_of_arn, named_secrets
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.arguments import checked

_SUFFIX = "??????"
"""Secrets Manager ends the ARN of a secret with six characters of its own."""


class DeploymentSecrets(Construct):
    """The secrets that a deployment names. Its own are made without a value: `dpd secret set` fills them.

    A value never passes through a template, a command line or this process.

    Attributes:
        key: key of the deployment's own secrets; None where it has none.
        own: names of the deployment's own secrets.
        fill_commands: the command that fills each of them: before that the model is not imported and the router lets
            nobody in.
    """

    key: kms.Key | None
    own: tuple[str, ...]
    fill_commands: tuple[str, ...]

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    ) -> None:
        """Create the deployment's own secrets.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            deployment: what names them.
            removal_policy: whether they outlive the stack.
        """
        super().__init__(scope, construct_id)
        named = named_secrets(deployment)
        self.own = tuple(dict.fromkeys(secret.name for secret in named if secret.own))
        self.fill_commands = tuple(f"dpd secret set {name} --region {deployment.region}" for name in self.own)
        self._names = tuple(dict.fromkeys(secret.name for secret in named))
        self._made: dict[str, secretsmanager.CfnSecret] = {}
        self.key = None
        if not self.own:
            return
        self.key = kms.Key(
            self,
            "Key",
            description=f"Secrets of {deployment.name}",
            enable_key_rotation=True,
            removal_policy=removal_policy,
        )
        for name in self.own:
            secret = secretsmanager.CfnSecret(
                self,
                name.rpartition("/")[2],
                name=name,
                description=f"Filled by `dpd secret set {name}`",
                kms_key_id=self.key.key_arn,
            )
            secret.apply_removal_policy(removal_policy)
            self._made[name] = secret

    def read_statements(self, names: Iterable[str] | None = None) -> list[iam.PolicyStatement]:
        """Return what reading the secrets takes: all that the deployment names, or only `names`.

        A given secret may be encrypted with any key of its account. That key's own policy has to consent, too.
        """
        wanted = self._names if names is None else tuple(names)
        if not wanted:
            return []
        statements = [
            iam.PolicyStatement(
                actions=["secretsmanager:DescribeSecret", "secretsmanager:GetSecretValue"],
                resources=[self._arn(name) for name in wanted],
            )
        ]
        via_service = {"kms:ViaService": f"secretsmanager.{cdk.Stack.of(self).region}.amazonaws.com"}
        if self.key is not None and any(name in self._made for name in wanted):
            statements.append(
                iam.PolicyStatement(
                    actions=["kms:Decrypt"],
                    resources=[self.key.key_arn],
                    conditions={"StringEquals": via_service},
                )
            )
        if given := [name for name in wanted if name not in self._made]:
            statements.append(
                iam.PolicyStatement(
                    actions=["kms:Decrypt"],
                    # the file does not say which keys; the context ties each use to one of the secrets
                    resources=sorted({self._keys_beside(name) for name in given}),
                    conditions={
                        "StringEquals": via_service,
                        "ArnLike": {"kms:EncryptionContext:SecretARN": [self._arn(name) for name in given]},
                    },
                )
            )
        return statements

    def grant_read(self, grantee: iam.IGrantable, *, names: Iterable[str] | None = None) -> None:
        """Let `grantee` read the secrets: all that the deployment names, or only `names`."""
        for statement in self.read_statements(names):
            grantee.grant_principal.add_to_principal_policy(statement)

    def _keys_beside(self, name: str) -> str:
        """Return the keys of the account that has the secret `name`."""
        return cdk.Stack.of(self).format_arn(
            service="kms", account=account_of_arn(name), resource="key", resource_name="*"
        )

    def _arn(self, name: str) -> str:
        if name in self._made:
            return self._made[name].ref
        if name.startswith("arn:"):
            return name
        return cdk.Stack.of(self).format_arn(
            service="secretsmanager",
            resource="secret",
            resource_name=f"{name}-{_SUFFIX}",
            arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
        )
