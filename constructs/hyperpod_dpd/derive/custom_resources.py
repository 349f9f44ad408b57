"""Custom kinds that a deployment puts on the cluster, and the API groups that the platform says are there."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.spec import Deployment, Platform, Role
from hyperpod_dpd.spec.value import record

KEDA_GROUP: Final = "keda.sh"
OPERATOR_GROUP: Final = "inference.sagemaker.aws.amazon.com"
EXTERNAL_SECRETS_GROUP: Final = "external-secrets.io"
PROMETHEUS_GROUP: Final = "monitoring.coreos.com"


@record
class CustomKind:
    """A kind that only exists once its CustomResourceDefinition is on the cluster."""

    group: str
    kind: str

    path: str
    """Value of the deployment that asks for it."""

    declared_by: str
    """Value of the platform section that says it is there."""

    otherwise: str
    """What to do where it cannot be there."""


def declared_groups(platform: Platform) -> frozenset[str]:
    """Return the API groups that `platform` says the cluster has."""
    groups = set(platform.custom_resources)
    if platform.inference_operator is not None:
        groups.add(OPERATOR_GROUP)
    if platform.has_autoscaling:
        groups.add(KEDA_GROUP)
    if platform.external_secrets:
        groups.add(EXTERNAL_SECRETS_GROUP)
    if platform.scraping == "prometheus-operator":
        groups.add(PROMETHEUS_GROUP)
    return frozenset(groups)


def custom_kinds(deployment: Deployment) -> Iterator[CustomKind]:
    """Yield every custom kind that `deployment` cannot do without.

    Secrets are not among them: without External Secrets they are created by hand, under the same names.
    """
    if deployment.serving.backend == "operator":
        yield CustomKind(
            group=OPERATOR_GROUP,
            kind="InferenceEndpointConfig",
            path="serving.backend",
            declared_by="platform.inference_operator",
            otherwise="use `backend: self-managed`",
        )
    for role in (Role.PREFILL, Role.DECODE):
        # the operator makes the same kind out of its own resource
        if deployment.serving.worker(role).scaling is not None:
            yield CustomKind(
                group=KEDA_GROUP,
                kind="ScaledObject",
                path=f"serving.{role.value}.scaling",
                declared_by="platform.autoscaling",
                otherwise="remove `scaling`",
            )
