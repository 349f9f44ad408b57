"""DPD-SRV-103: the router waits for every rank."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-103",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="the router waits for one notification per rank and names one init and one allocation port per rank",
    why="With fewer ports a rank never learns where to send, and the router waits for a notification that never "
    "comes. Ranks and ports of decoder and router come from the same number.",
    sources=("LMCache/LMCache issue 1777, PR 2195",),
    facts=("L3",),
)
