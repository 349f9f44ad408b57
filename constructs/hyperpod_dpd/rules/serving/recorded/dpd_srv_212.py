"""DPD-SRV-212: a worker has the time to load its weights."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-212",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="the startup probe asks `/health` for as long as weights of that size may take to load",
    why="A worker that is restarted while it loads never gets ready.",
    sources=("SageMaker DG sagemaker-hyperpod-model-deployment-dpd (5 to 10 minutes of loading)",),
    facts=("V12",),
)
