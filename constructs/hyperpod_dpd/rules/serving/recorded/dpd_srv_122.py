"""DPD-SRV-122: LMCache's own socket is not shared."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-122",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="`lmcache_rpc_port` differs between the roles, below a temporary directory of each pod's own",
    why="It names a socket file; two engines with the same one talk to each other's scheduler.",
    sources=("LMCache examples/disagg_prefill (`producer1`, `consumer1`)",),
    facts=("L22",),
)
