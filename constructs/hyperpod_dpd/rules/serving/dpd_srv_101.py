"""DPD-SRV-101: the decoder's port ranges overlap neither each other nor another port."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.derive import decode_ports
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import hands_over_through_lmcache
from hyperpod_dpd.serving.names import NOTIFICATION_PORT, ROUTER_PORT, WORKER_HTTP_PORT
from hyperpod_dpd.spec import Deployment

TAKEN_PORTS: Final = {
    WORKER_HTTP_PORT: "vLLM's HTTP server",
    ROUTER_PORT: "the router",
    NOTIFICATION_PORT: "the router's notifications",
}


@deployment_rule(
    "DPD-SRV-101",
    severity=Severity.ERROR,
    title="init and allocation ports of every rank and epoch are ports of their own",
    sources=("LMCache/LMCache issues 1381, 2854, 1966 (index out of range with more ranks than ports)",),
    facts=("L1",),
)
def port_ranges_do_not_overlap(deployment: Deployment) -> Iterator[Problem]:
    """Each rank binds its own init and allocation port; a port that is taken ends the decoder at its start."""
    if not hands_over_through_lmcache(deployment):
        return
    transfer = deployment.serving.transfer
    ports = decode_ports(deployment.serving)
    init, alloc = ports.init_range, ports.alloc_range
    count = f"{deployment.serving.tensor_parallel} ranks × {transfer.port_epochs} epochs"
    if init.start < alloc.stop and alloc.start < init.stop:
        yield Problem(
            path="serving.transfer.alloc_port_base",
            says="init and allocation ports overlap",
            given=f"`init_port_base: {init.start}`, `alloc_port_base: {alloc.start}`",
            computed=f"{init.start}-{init[-1]} and {alloc.start}-{alloc[-1]} ({count})",
            fix=f"move one base away, for example `alloc_port_base: {_free_base(init)}`, or lower `port_epochs`",
        )
    for field, ranges in (("init_port_base", init), ("alloc_port_base", alloc)):
        for port, owner in TAKEN_PORTS.items():
            if port in ranges:
                yield Problem(
                    path=f"serving.transfer.{field}",
                    says=f"port {port} belongs to {owner}",
                    given=f"`{field}: {ranges.start}`",
                    computed=f"{ranges.start}-{ranges[-1]} ({count})",
                    fix="move the base away from it, or lower `port_epochs`",
                )


def _free_base(init: range) -> int:
    """Return the first base behind `init` whose range holds nobody's port."""
    base = init.stop
    for port in sorted(TAKEN_PORTS):
        if base <= port < base + len(init):
            base = port + 1
    return base
