"""Secrets that the deployment names, without ever showing them."""

from hyperpod_dpd.derive.secrets import named_secrets
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call, arn
from hyperpod_dpd.spec import Deployment


def secret_arns(deployment: Deployment) -> tuple[str, ...]:
    """Return the ARNs of those secrets; Secrets Manager appends six characters to a name."""
    return tuple(
        secret.name
        if secret.name.startswith("arn:")
        else arn(deployment, "secretsmanager", f"secret:{secret.name}-??????")
        for secret in named_secrets(deployment)
    )


VALUE_CALL = Call(service="secretsmanager", operation="GetSecretValue", on=secret_arns)
"""What `secret_value` calls."""


def secret_value(account: Account, name: str) -> str:
    """Return the text of the secret `name`; bytes count as text."""
    answer = account.client("secretsmanager").get_secret_value(SecretId=name)
    return str(answer.get("SecretString") or answer.get("SecretBinary", b"").decode("utf-8", "replace"))
