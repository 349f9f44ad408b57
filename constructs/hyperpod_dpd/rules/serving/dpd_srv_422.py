"""DPD-SRV-422: autoscaling cannot leave the limits of prefillers per decoder."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment, Worker


@deployment_rule(
    "DPD-SRV-422",
    severity=Severity.WARNING,
    title="the scaling limits of both roles keep the number of prefillers per decoder within its limits",
    sources=("SageMaker DG sagemaker-hyperpod-model-deployment-dpd (1:1 first, then 2:1 to 3:1)",),
)
def scaling_keeps_the_ratio(deployment: Deployment) -> Iterator[Problem]:
    """Roles scale independently: what one gains the other cannot use, or waits for, and the nodes are paid for."""
    serving = deployment.serving
    if serving.prefill.scaling is None and serving.decode.scaling is None:
        return
    limits = serving.prefillers_per_decoder
    extremes = (
        (_least(serving.prefill), _most(serving.decode)),
        (_most(serving.prefill), _least(serving.decode)),
    )
    for prefillers, decoders in extremes:
        if decoders and not limits.minimum <= prefillers / decoders <= limits.maximum:
            yield Problem(
                path=f"serving.{'prefill' if serving.prefill.scaling else 'decode'}.scaling",
                says="autoscaling can leave the limits of prefillers per decoder",
                given=f"{prefillers} prefillers and {decoders} decoders",
                computed=f"{prefillers / decoders:.2f} prefillers per decoder",
                limit=f"{limits.minimum:g} to {limits.maximum:g}",
                fix="bring the scaling limits of both roles together, or set `serving.prefillers_per_decoder` to what "
                "`dpd plan` computes",
            )


def _most(worker: Worker) -> int:
    return worker.scaling.maximum if worker.scaling is not None else worker.replicas


def _least(worker: Worker) -> int:
    return worker.scaling.minimum if worker.scaling is not None else worker.replicas
