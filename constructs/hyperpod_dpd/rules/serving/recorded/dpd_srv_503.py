"""DPD-SRV-503: hand-offs are apart."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-503",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="prefill and decode of one hand-off carry a tag of its own",
    why="Keys of equal prefixes are shared otherwise: the notification of the second request comes before its "
    "bytes are written, and one tenant can probe the prompts of another.",
    sources=(
        "measured on one H200, 2026-11-30",
        "LMCache/LMCache issue 2847",
    ),
    facts=(
        "H3",
        "H4",
    ),
)
