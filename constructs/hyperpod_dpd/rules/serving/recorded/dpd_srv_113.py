"""DPD-SRV-113: receivers bind an address of their own."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-113",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="`pd_peer_host` is `0.0.0.0`",
    why="It is the address that the decoder binds: the name of a Service or another pod's address cannot be bound.",
    sources=("LMCache source, `pd_backend` (bind), measured with ZeroMQ",),
    facts=("L13",),
)
