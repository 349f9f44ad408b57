"""Over which wire the requests go: found out once, before the first one, and written into the result."""

from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from hyperpod_dpd.evidence.benchmark.settings import Settings
from hyperpod_dpd.evidence.proof.wire import Wire, find_out
from hyperpod_dpd.evidence.results import AWS_ROUTER, OWN_ROUTER, PLAIN, UNVERIFIED, VERIFIED, Connection

_PORTS: Final = {"http": 80, "https": 443}


def connect(settings: Settings) -> tuple[Settings, Connection]:
    """Return the settings with the scheme that the endpoint speaks, and how the requests will reach it.

    This project's router speaks what its address says. Of AWS's only trying tells.

    Raises:
        NoAnswerError: nothing can be connected to.
    """
    if settings.reads_router:
        return settings, _connection(Wire(url=settings.url, says=""), router=OWN_ROUTER)
    wire = find_out(settings.url)
    return replace(settings, url=wire.url), _connection(wire, router=AWS_ROUTER)


def _connection(wire: Wire, *, router: str) -> Connection:
    parts = urlsplit(wire.url)
    return Connection(
        router=router,
        host=parts.hostname or "",
        port=parts.port or _PORTS[parts.scheme],
        tls=PLAIN if parts.scheme == "http" else UNVERIFIED if wire.doubt else VERIFIED,
        doubt=wire.doubt or None,
    )
