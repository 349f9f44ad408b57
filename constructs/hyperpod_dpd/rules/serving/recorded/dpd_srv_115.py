"""DPD-SRV-115: the decoder leaves out the last token when it looks up, exactly one."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-115",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="the decoder's connector has `skip_last_n_tokens: 1`, the prefiller's has none",
    why="Without it a prompt that is hit completely gives wrong output. With it the router has to ask with the "
    "prefiller's first token appended, or one chunk leaks per request.",
    sources=(
        "LMCache/LMCache issue 4614",
        "vllm-project/vllm issue 52617",
        "measured on one H200, 2026-11-30",
    ),
    facts=("L15", "H1", "H1b"),
)
