"""DPD-SRV-421: the operator runs an engine that AWS has run with it."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import engine_or_none, self_managed
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-421",
    severity=Severity.WARNING,
    title="on the operator backend the engine is one that AWS names for it",
    sources=("SageMaker DG sagemaker-hyperpod-model-deployment-dpd (worker images)",),
    facts=("R9",),
)
def engine_is_known_to_the_operator(deployment: Deployment) -> Iterator[Problem]:
    """The operator writes LMCache's configuration for one version; the keys of another are ignored or missing."""
    engine = engine_or_none(deployment)
    if engine is None or self_managed(deployment):
        return
    if "operator" not in engine.triple.backends or not engine.tested:
        yield Problem(
            path="serving.engine",
            says="the operator was not run with this engine by AWS",
            given=f"vLLM {engine.vllm}, LMCache {engine.lmcache}, NIXL {engine.nixl}",
            fix="remove `serving.engine`, use `backend: self-managed`, or acknowledge the warning",
        )
