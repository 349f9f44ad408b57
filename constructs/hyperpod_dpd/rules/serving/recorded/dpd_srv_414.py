"""DPD-SRV-414: router and workers are scraped as what they are."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-414",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="metrics carry the component they come from",
    why="Several routers export names with the prefix `vllm:`, which would be added to the workers'. The "
    "project's own router has a prefix of its own, and every scrape job its component label.",
    sources=("vllm-project/production-stack router metrics",),
    facts=("R14",),
)
