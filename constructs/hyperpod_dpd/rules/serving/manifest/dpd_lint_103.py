"""DPD-LINT-103: ports are free."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, Worker, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule
from hyperpod_dpd.rules.serving.dpd_srv_101 import TAKEN_PORTS


@manifest_rule(
    "DPD-LINT-103",
    severity=Severity.ERROR,
    title="init and allocation ports overlap neither each other nor another port of the worker",
    sources=("LMCache/LMCache issues 1381, 2854",),
    facts=("L1",),
)
def ports_are_free(manifests: ManifestSet) -> Iterator[Fault]:
    """Each rank binds its own init and allocation port; a port that is taken ends the decoder at its start."""
    for worker in manifests.handing_over:
        init = _all_epochs(worker, "pd_peer_init_port")
        alloc = _all_epochs(worker, "pd_peer_alloc_port")
        both = sorted(set(init) & set(alloc))
        if both:
            yield fault(
                worker.at("pd_peer_alloc_port"),
                says=f"init and allocation ports of {worker} overlap",
                given=f"{_shown(init)} and {_shown(alloc)}",
                computed=f"{len(both)} ports in both",
                fix="move one of the two lists away",
            )
        taken = {worker.http_port: "vLLM's HTTP server", **TAKEN_PORTS}
        for key, ports in (("pd_peer_init_port", init), ("pd_peer_alloc_port", alloc)):
            for port in ports:
                if port in taken:
                    yield fault(
                        worker.at(key),
                        says=f"port {port} of {worker} belongs to {taken[port]}",
                        given=f"`{key}`: {_shown(ports)}",
                        fix="move the ports away from it",
                    )
            twice = {port for port in ports if ports.count(port) > 1}
            if twice:
                yield fault(
                    worker.at(key),
                    says=f"two ranks of {worker} would bind the same port",
                    given=f"`{key}`: {_shown(ports)}",
                    fix="name every port once",
                )


def _all_epochs(worker: Worker, key: str) -> tuple[int, ...]:
    """Return the ports of every start of the decoder; this project's launcher moves on by the ranks."""
    ports = worker.ports(key) or ()
    return tuple(port + epoch * len(ports) for epoch in range(worker.port_epochs) for port in ports)


def _shown(ports: tuple[int, ...]) -> str:
    consecutive = list(ports) == list(range(ports[0], ports[0] + len(ports))) if ports else False
    return f"{ports[0]}-{ports[-1]}" if consecutive and len(ports) > 1 else ", ".join(map(str, ports))
