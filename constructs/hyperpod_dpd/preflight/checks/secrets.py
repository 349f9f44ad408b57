"""PRE-SEC-001: the secrets that the deployment names exist and hold something."""

from collections.abc import Iterator

from botocore.exceptions import ClientError

from hyperpod_dpd.derive.secrets import NamedSecret, named_secrets
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.preflight.failure import code_of, explain
from hyperpod_dpd.preflight.secret import VALUE_CALL, secret_arns, secret_value
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    for secret in named_secrets(deployment):
        try:
            yield from _secret(deployment, account, secret)
        except ClientError as error:
            # one that may not be read says nothing about the next
            yield explain(error).gap(f"the secret `{secret.name}`")


def _secret(deployment: Deployment, account: Account, secret: NamedSecret) -> Iterator[Problem]:
    path, name = secret.path, secret.name
    key = path.rpartition(".")[2]
    given = f"`{key}: {name}`"
    try:
        row = account.client("secretsmanager").describe_secret(SecretId=name)
    except ClientError as error:
        if code_of(error) != "ResourceNotFoundException":
            raise
        # the first deployment makes its own, and waits for their values
        if not secret.own:
            yield Problem(
                path=path,
                says="the secret does not exist in this region",
                given=given,
                fix=f"`dpd secret set {name} --create --region {deployment.region}`",
            )
        return
    if row.get("DeletedDate"):
        yield Problem(
            path=path,
            says="the secret is scheduled for deletion",
            given=given,
            fix=f"`aws secretsmanager restore-secret --secret-id {name}`",
        )
        return
    try:
        empty = not secret_value(account, name).strip()
    except ClientError as error:
        # a secret that was made without a value has no version
        if code_of(error) != "ResourceNotFoundException":
            raise
        empty = True
    if empty:
        yield Problem(
            path=path,
            says="the secret is empty",
            given=given,
            fix=f"`dpd secret set {name} --region {deployment.region}`",
        )


CHECK = Check(
    id="PRE-SEC-001",
    title="secrets exist and are not empty",
    calls=(Call(service="secretsmanager", operation="DescribeSecret", on=secret_arns), VALUE_CALL),
    look=_look,
    applies=lambda deployment: any(named_secrets(deployment)),
)
