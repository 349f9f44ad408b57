"""DPD-K8S-010: somebody brings the secrets."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment, HuggingFaceSource


@deployment_rule(
    "DPD-K8S-010",
    severity=Severity.WARNING,
    title="a secret of Secrets Manager goes with the External Secrets operator",
    sources=("External Secrets documentation",),
)
def secrets_are_brought(deployment: Deployment) -> Iterator[Problem]:
    """Pods that name a Secret that does not exist never start."""
    if deployment.platform.external_secrets:
        return
    source = deployment.model.source
    token = source.token_secret if isinstance(source, HuggingFaceSource) else None
    for path, name in (
        ("model.source.token_secret", token),
        ("routing.api_keys_secret", deployment.routing.api_keys_secret),
    ):
        if name is not None:
            yield Problem(
                path=path,
                says="nothing copies this secret into the cluster",
                given=f"`{name}` without `platform.external_secrets`",
                fix="set `external_secrets: true`, or create the Secret yourself and acknowledge the warning",
            )
