"""DPD-DATA-016: a gated model is fetched with a token."""

from collections.abc import Iterator

from hyperpod_dpd.derive.model_store import is_gated
from hyperpod_dpd.derive.secret_names import own_token_secret
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment, HubOrigin, HuggingFaceSource


@deployment_rule(
    "DPD-DATA-016",
    severity=Severity.ERROR,
    title="a gated model is fetched from the Hugging Face Hub with a token",
    sources=("Hugging Face Hub documentation, gated models: 401 without a token",),
)
def gated_models_have_a_token(deployment: Deployment) -> Iterator[Problem]:
    """Without a token the import, or every worker, fails after the nodes are paid for."""
    model = deployment.model
    if not is_gated(model):
        return
    for path, given in (("model.source", model.source), ("model.imported_from", model.imported_from)):
        if isinstance(given, HuggingFaceSource | HubOrigin) and given.token_secret is None:
            yield Problem(
                path=f"{path}.token_secret",
                says="the model is gated, and there is no token",
                given=f"`{model.name}` without `token_secret`",
                fix=f"name a secret, such as `{own_token_secret(deployment)}`, and fill it with `dpd secret set`",
            )
