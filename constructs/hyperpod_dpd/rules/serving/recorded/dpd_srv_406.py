"""DPD-SRV-406: the threshold means the same everywhere."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-406",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="0 disaggregates every prompt, `>=` compares, and `never` is a word of its own",
    why="Other routers read 0 as never. The threshold is passed on as it is only to routers that read it the same "
    "way: the project's own and the operator's.",
    sources=(
        "llm-d-router v0.10.0 source",
        "SageMaker DG sagemaker-hyperpod-model-deployment-dpd",
    ),
    facts=("R6",),
)
