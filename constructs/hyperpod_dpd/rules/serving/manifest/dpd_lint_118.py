"""DPD-LINT-118: the transfer is one-way, or complete."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.lint.words import is_true
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule
from hyperpod_dpd.spec import Role


@manifest_rule(
    "DPD-LINT-118",
    severity=Severity.ERROR,
    title="`pd_bidirectional` goes with the synchronous backend and one query port per rank",
    sources=("LMCache/LMCache PR 2972",),
    facts=("L18",),
)
def two_ways_are_complete(manifests: ManifestSet) -> Iterator[Fault]:
    """The asynchronous backend cannot do it, and without its ports a rank ends with an index error."""
    for worker in manifests.handing_over:
        both, ports = worker.lmcache.get("pd_bidirectional"), worker.ports("pd_peer_query_port")
        if is_true(both) and worker.at("pd_backend_mode").text != "sync":
            yield fault(
                worker.at("pd_bidirectional"),
                says=f"the asynchronous backend of {worker} has one way only",
                given="`pd_bidirectional: true`",
                limit="`pd_backend_mode: sync`",
                fix="remove it",
            )
        elif is_true(both) and worker.role is Role.DECODE and len(ports or ()) != worker.tensor_parallel:
            yield fault(
                worker.at("pd_peer_query_port"),
                says=f"{worker} has not one query port per rank",
                given=f"{len(ports or ())} ports",
                limit=f"{worker.tensor_parallel}",
                fix="name one port per rank",
            )
        elif not is_true(both) and "pd_peer_query_port" in worker.lmcache:
            yield fault(
                worker.at("pd_peer_query_port"),
                says=f"{worker} has query ports that nobody asks",
                given=f"`pd_peer_query_port: {worker.at('pd_peer_query_port').shown()}`",
                limit="`pd_bidirectional: true`",
                fix="remove it",
            )
