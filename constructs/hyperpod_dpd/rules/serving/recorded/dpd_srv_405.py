"""DPD-SRV-405: two projects called vllm-router."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-405",
    subject=Subject.NOT_EXPRESSIBLE,
    severity=Severity.ERROR,
    title="production-stack is not installed by the name `vllm-router`",
    why="The package index serves another project under that name. This project's images install neither.",
    sources=("vllm-project/production-stack pyproject.toml; vllm-project/router",),
    facts=("R5",),
)
