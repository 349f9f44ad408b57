"""DPD-DATA-002 (recorded): requests and responses are not captured."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-DATA-002",
    subject=Subject.NOT_EXPRESSIBLE,
    severity=Severity.ERROR,
    title="request and response capture is off, or encrypted and limited in time",
    why="Prompts are personal data; a deployment has no word for data capture, and no rendering turns it on.",
    sources=("SageMaker DG, HyperPod inference data capture (operator 3.1)",),
)
