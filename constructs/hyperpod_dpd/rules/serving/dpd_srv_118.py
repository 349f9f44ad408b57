"""DPD-SRV-118: the transfer stays one-way."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import environment
from hyperpod_dpd.spec import Deployment

_BIDIRECTIONAL: Final = ("LMCACHE_PD_BIDIRECTIONAL", "LMCACHE_PD_PEER_QUERY_PORT")


@deployment_rule(
    "DPD-SRV-118",
    severity=Severity.ERROR,
    title="`pd_bidirectional` and `pd_peer_query_port` are not set",
    sources=("LMCache/LMCache PR 2972",),
    facts=("L18",),
)
def transfer_is_one_way(deployment: Deployment) -> Iterator[Problem]:
    """They belong to the synchronous backend and to query ports, which neither router nor policies know."""
    for path, name, value in environment(deployment):
        if name in _BIDIRECTIONAL:
            yield Problem(
                path=path,
                says="the two-way transfer is not supported",
                given=f"`{name}: {value}`",
                fix="remove it",
            )
