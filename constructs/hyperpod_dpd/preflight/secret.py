"""Secrets that the deployment names, without ever showing them."""

from collections.abc import Iterator

from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call, arn
from hyperpod_dpd.spec import Deployment, HuggingFaceSource


def named_secrets(deployment: Deployment) -> Iterator[tuple[str, str]]:
    """Yield path into the deployment and name of every secret of Secrets Manager that it names."""
    token = token_secret(deployment)
    if token is not None:
        yield "model.source.token_secret", token
    keys = deployment.routing.api_keys_secret
    if keys is not None:
        yield "routing.api_keys_secret", keys


def token_secret(deployment: Deployment) -> str | None:
    """Return the name of the secret with the token of a gated model."""
    source = deployment.model.source
    return source.token_secret if isinstance(source, HuggingFaceSource) else None


def secret_arns(deployment: Deployment) -> tuple[str, ...]:
    """Return the ARNs of those secrets; Secrets Manager appends six characters to a name."""
    return tuple(
        name if name.startswith("arn:") else arn(deployment, "secretsmanager", f"secret:{name}-??????")
        for _, name in named_secrets(deployment)
    )


VALUE_CALL = Call(service="secretsmanager", operation="GetSecretValue", on=secret_arns)
"""What `secret_value` calls."""


def secret_value(account: Account, name: str) -> str:
    """Return the text of the secret `name`; bytes count as text."""
    answer = account.client("secretsmanager").get_secret_value(SecretId=name)
    return str(answer.get("SecretString") or answer.get("SecretBinary", b"").decode("utf-8", "replace"))
