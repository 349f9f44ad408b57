"""Secrets that reach the cluster through External Secrets, never through a rendered file."""

from typing import Final

from constructs import Construct

from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.objects import api_object
from hyperpod_dpd.spec import Deployment, HuggingFaceSource

HUGGING_FACE_SECRET: Final = "huggingface"  # noqa: S105 -- the name of a Secret
"""Secret with the access token of a gated model, in the workers' namespace."""

HUGGING_FACE_KEY: Final = "token"
"""Key of the token in it."""

API_KEYS_SECRET: Final = "router-api-keys"  # noqa: S105
"""Secret with the router's bearer keys, one a line, in the system namespace."""

STORE: Final = "secrets-manager"
"""Name of the SecretStore in each namespace that has a secret."""

API_VERSION: Final = "external-secrets.io/v1"


def hugging_face_secret(deployment: Deployment) -> str | None:
    """Name of the Secrets Manager secret with the model's access token, or None."""
    source = deployment.model.source
    return source.token_secret if isinstance(source, HuggingFaceSource) else None


def has_secrets(deployment: Deployment) -> bool:
    """Whether the deployment names a secret that External Secrets brings."""
    named = hugging_face_secret(deployment) or deployment.routing.api_keys_secret
    return deployment.platform.external_secrets and named is not None


class Secrets(Construct):
    """One ExternalSecret per secret that the deployment names, and the store it is read from.

    Where the platform has no External Secrets, leave this out and create the Secrets by hand, under the same names
    and keys, before the workers start.
    """

    def __init__(self, scope: Construct, construct_id: str, *, deployment: Deployment) -> None:
        super().__init__(scope, construct_id)
        for source, target, key, namespace in (
            (
                hugging_face_secret(deployment),
                HUGGING_FACE_SECRET,
                HUGGING_FACE_KEY,
                names.workers_namespace(deployment),
            ),
            (
                deployment.routing.api_keys_secret,
                API_KEYS_SECRET,
                names.API_KEYS_KEY,
                names.system_namespace(deployment),
            ),
        ):
            if source is not None:
                self._add(deployment, source=source, target=target, key=key, namespace=namespace)

    def _add(self, deployment: Deployment, *, source: str, target: str, key: str, namespace: str) -> None:
        labels = names.labels(deployment)
        api_object(
            self,
            f"{target}-store",
            api_version=API_VERSION,
            kind="SecretStore",
            name=STORE,
            namespace=namespace,
            labels=labels,
            # no credentials: the operator reads with its own EKS Pod Identity
            spec={"provider": {"aws": {"service": "SecretsManager", "region": deployment.region}}},
        )
        api_object(
            self,
            target,
            api_version=API_VERSION,
            kind="ExternalSecret",
            name=target,
            namespace=namespace,
            labels=labels,
            spec={
                "refreshInterval": "1h",
                "secretStoreRef": {"kind": "SecretStore", "name": STORE},
                "target": {"name": target, "creationPolicy": "Owner"},
                "data": [{"secretKey": key, "remoteRef": {"key": source}}],
            },
        )
