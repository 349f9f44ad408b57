"""DPD-LINT-113: the receiver binds its own address."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule
from hyperpod_dpd.spec import Role

_BOUND: Final = frozenset({"0.0.0.0", "$(POD_IP)", "${POD_IP}", "::"})  # noqa: S104 - the pod's own address


@manifest_rule(
    "DPD-LINT-113",
    severity=Severity.ERROR,
    title="`pd_peer_host` is `0.0.0.0` or the pod's own address",
    sources=("pyzmq, run: the name of a Service or another host's address cannot be bound",),
    facts=("L13",),
)
def receiver_binds_itself(manifests: ManifestSet) -> Iterator[Fault]:
    """It is the address on which the decoder listens: it cannot bind the name of a Service."""
    for worker in manifests.handing_over:
        if worker.role is not Role.DECODE or worker.operator or not worker.through_lmcache:
            continue
        if not worker.lmcache or not worker.lmcache_known:
            continue
        given = worker.lmcache.get("pd_peer_host")
        if given is not None and given.get("valueFrom", "fieldRef") is not None:
            continue
        text = None if given is None else given.text
        if text not in _BOUND:
            yield fault(
                worker.at("pd_peer_host"),
                says=f"{worker} cannot bind this address",
                given="nothing" if given is None else f"`pd_peer_host: {given.shown()}`",
                limit="`0.0.0.0` or the pod's address",
                fix="set `pd_peer_host: 0.0.0.0`",
            )
