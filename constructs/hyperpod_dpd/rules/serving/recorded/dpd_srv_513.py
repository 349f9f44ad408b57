"""DPD-SRV-513: hand-off fields come from the router alone."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-513",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="the router refuses `kv_transfer_params` from clients, and nobody else reaches the workers' ports",
    why="A client could probe another tenant's tag or make a decoder fetch from a host that it names: vLLM and "
    "LMCache take these fields from anyone.",
    sources=("LMCache 0.4.3, 0.5.3 and 0.5.6 source (`lmcache.*` keys of a request)",),
    facts=("H13",),
)
