"""Names of the secrets that a deployment makes itself."""

from typing import Final

from hyperpod_dpd.spec import Deployment

OWNED: Final = "hyperpod-dpd"
"""First part of the names of secrets that deployments make."""


def own_secret_prefix(deployment: Deployment) -> str:
    """Return what the names of the deployment's own secrets start with."""
    return f"{OWNED}/{deployment.name}/"


def own_token_secret(deployment: Deployment) -> str:
    """Return the name of the secret for the access token of a gated model, where the deployment names none."""
    return f"{own_secret_prefix(deployment)}huggingface"
