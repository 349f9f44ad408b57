"""DPD-SRV-007: what the operator's `pdSpec` can express."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import self_managed
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-007",
    severity=Severity.ERROR,
    title="on the operator backend there are prefillers and one decoder, and LMCache hands over",
    sources=("SageMaker DG sagemaker-hyperpod-model-deployment-dpd (one decode deployment)",),
    facts=("R9",),
)
def operator_can_express_it(deployment: Deployment) -> Iterator[Problem]:
    """The API server accepts more, but the operator serves through one decode deployment of one replica only."""
    if self_managed(deployment):
        return
    serving = deployment.serving
    if serving.decode.replicas != 1:
        yield Problem(
            path="serving.decode.replicas",
            says="the operator serves through exactly one decoder",
            given=f"`replicas: {serving.decode.replicas}`",
            limit="1",
            fix="set `replicas: 1`, or use `backend: self-managed`",
        )
    if serving.transfer.type != "lmcache-pd":
        yield Problem(
            path="serving.transfer.type",
            says="the operator hands over through LMCache only",
            given=f"`type: {serving.transfer.type}`",
            fix="set `type: lmcache-pd`, or use `backend: self-managed`",
        )
    if serving.decode.scaling is not None and serving.decode.scaling.maximum > 1:
        yield Problem(
            path="serving.decode.scaling.maximum",
            says="the operator serves through exactly one decoder",
            given=f"`maximum: {serving.decode.scaling.maximum}`",
            limit="1",
            fix="remove `serving.decode.scaling`, or use `backend: self-managed`",
        )
    if serving.prefill.replicas < 1:
        yield Problem(
            path="serving.prefill.replicas",
            says="the operator needs both roles",
            given=f"`replicas: {serving.prefill.replicas}`",
            limit="at least 1",
            fix="set `replicas: 1`, or deploy the profile `operator-baseline`",
        )
