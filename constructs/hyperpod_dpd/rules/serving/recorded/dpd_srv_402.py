"""DPD-SRV-402: one router."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-402",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="the router has one replica, and hands nothing over while an update runs two",
    why="It owns the notification socket and the books of every buffer: a second one would get half of the "
    "notifications.",
    sources=(
        "LMCache examples/disagg_prefill/disagg_proxy_server.py (process-local request ids and socket)",
    ),
    facts=("R2",),
)
