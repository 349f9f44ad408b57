"""DPD-SRV-404: vllm-router's addresses."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-404",
    subject=Subject.NOT_EXPRESSIBLE,
    severity=Severity.ERROR,
    title="vllm-router listens on 0.0.0.0, for metrics as well, and is newer than 0.1.9",
    why="Its defaults are loopback addresses, and its older command line chooses the wrong mode. This project "
    "renders no foreign router.",
    sources=("vllm-project/router issue 46",),
    facts=("R4",),
)
