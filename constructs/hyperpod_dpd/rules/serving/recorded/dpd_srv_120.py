"""DPD-SRV-120: decoding starts after the cache has landed."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-120",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="the router asks the decoder only after every rank has notified it",
    why="From LMCache 0.4.5 the receiver registers keys when it allocates: an earlier request reads what nobody has "
    "written yet. The router's tests inject late, lost and early notifications.",
    sources=("LMCache/LMCache issue 1350", "LMCache 0.5.3 source (`contains` after allocation)"),
    facts=("L20", "H9"),
)
