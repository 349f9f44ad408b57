"""DPD-SRV-112: senders know the router."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-112",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="`pd_proxy_host` is the router's cluster name and `pd_proxy_port` its notification port",
    why="A sender that pushes to nobody blocks after a thousand queued messages; the example proxy listens on "
    "`localhost`, which no other pod reaches.",
    sources=(
        "LMCache examples/disagg_prefill/disagg_proxy_server.py",
        "ZeroMQ PUSH high-water mark, measured",
    ),
    facts=("L12",),
)
