"""Secrets of Secrets Manager that a deployment names, and which of them it makes itself."""

from typing import Final

from hyperpod_dpd.derive.model_store import import_origin
from hyperpod_dpd.derive.secret_names import own_secret_prefix
from hyperpod_dpd.spec import Deployment, HubOrigin, HuggingFaceSource
from hyperpod_dpd.spec.value import record

_ARN: Final = "arn:"


@record
class NamedSecret:
    """One secret, where a deployment names it."""

    path: str
    """Path of the value in the deployment."""

    name: str
    """Name, or ARN, of the secret."""

    own: bool
    """Whether the deployment's stack makes it, empty; every other secret must be there before."""


def named_secrets(deployment: Deployment) -> tuple[NamedSecret, ...]:
    """Return every secret that the deployment names, in the order of the file; one may be named twice."""
    given = {
        "model.source.token_secret": source_token(deployment),
        "model.imported_from.token_secret": import_token(deployment),
        "routing.api_keys_secret": deployment.routing.api_keys_secret,
    }
    own = own_secret_prefix(deployment)
    return tuple(
        NamedSecret(path=path, name=name, own=name.startswith(own)) for path, name in given.items() if name
    )


def source_token(deployment: Deployment) -> str | None:
    """Return the secret with the token with which workers download a gated model, or None."""
    source = deployment.model.source
    return source.token_secret if isinstance(source, HuggingFaceSource) else None


def import_token(deployment: Deployment) -> str | None:
    """Return the secret with the token with which a gated model is imported, or None."""
    origin = import_origin(deployment)
    return origin.token_secret if isinstance(origin, HubOrigin) else None


def region_of_arn(name: str) -> str | None:
    """Return the region of a secret that is named by its ARN, or None: a plain name is of the region that reads it."""
    return name.split(":")[3] if name.startswith(_ARN) else None


def account_of_arn(name: str) -> str | None:
    """Return the account of a secret that is named by its ARN, or None."""
    return name.split(":")[4] if name.startswith(_ARN) else None
