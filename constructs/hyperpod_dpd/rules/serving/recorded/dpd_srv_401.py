"""DPD-SRV-401: the router speaks LMCache PD."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-401",
    subject=Subject.NOT_EXPRESSIBLE,
    severity=Severity.ERROR,
    title="transfer `lmcache-pd` goes with a router that sends `disagg_spec`",
    why="No other router combines the token threshold with LMCache's hand-off. The project's own router is the "
    "only one that the specification knows.",
    sources=(
        "volcano-sh/kthena issue 1069",
        "vllm-project/production-stack issue 747",
    ),
    facts=("R1",),
)
