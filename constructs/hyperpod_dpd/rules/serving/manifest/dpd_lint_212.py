"""DPD-LINT-212: weights have time to load."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule

_LEAST_SECONDS: Final = 300
"""A cold start without any weights to load takes half of it (measured)."""


@manifest_rule(
    "DPD-LINT-212",
    severity=Severity.WARNING,
    title="a worker with a liveness probe has a startup probe",
    sources=("SageMaker DG sagemaker-hyperpod-model-deployment-dpd (loading takes 5 to 10 minutes)",),
    facts=("V12",),
)
def loading_is_waited_for(manifests: ManifestSet) -> Iterator[Fault]:
    """Weights of 70 billion parameters take minutes to load: a liveness probe alone ends the engine before it is ready."""
    for worker in manifests.workers:
        liveness = worker.node.get("livenessProbe")
        if worker.pod is None or liveness is None:
            continue
        startup = worker.node.get("startupProbe")
        patience = _seconds(startup) if startup is not None else _seconds(liveness)
        if patience < _LEAST_SECONDS:
            yield fault(
                startup or liveness,
                says=f"{worker} is restarted before its weights are loaded",
                given="no `startupProbe`"
                if startup is None
                else "`failureThreshold` × `periodSeconds` of its `startupProbe`",
                computed=f"{patience} s",
                limit=f"{_LEAST_SECONDS} s",
                fix="give it a `startupProbe` on `/health` with room for ten minutes",
            )


def _seconds(probe: Node) -> int:
    """Return the seconds that a probe lets pass before the container is restarted."""

    def number(key: str, default: int) -> int:
        given = probe.get(key)
        return default if given is None or given.number is None else given.number

    return number("initialDelaySeconds", 0) + number("periodSeconds", 10) * number("failureThreshold", 3)
