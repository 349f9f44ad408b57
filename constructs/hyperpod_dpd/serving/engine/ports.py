"""Ports on which a worker listens, and who connects to them."""

from typing import Final

from hyperpod_dpd.derive import ServingFacts
from hyperpod_dpd.serving.engine.values import Peer, PortRange
from hyperpod_dpd.serving.names import WORKER_HTTP_PORT, WORKER_HTTP_PORT_NAME
from hyperpod_dpd.spec import Deployment, Role

INIT_PORTS: Final = "kv-init"
"""Name of the ports on which a decoder answers a prefiller's first contact."""

ALLOC_PORTS: Final = "kv-alloc"
"""Name of the ports on which a decoder gives out room in its PD buffer."""

SIDE_CHANNEL_PORTS: Final = "nixl-side"
"""Name of the ports on which NixlConnector exchanges metadata."""

SIDE_CHANNEL_PORT: Final = 5600
"""First side-channel port, vLLM's own default."""


def ports(deployment: Deployment, facts: ServingFacts, role: Role) -> tuple[PortRange, ...]:
    """Return the ports of a worker of `role`; a decoder's cover every epoch."""
    http = PortRange(name=WORKER_HTTP_PORT_NAME, first=WORKER_HTTP_PORT, peers=(Peer.ROUTER, Peer.SCRAPER))
    if role is Role.COLOCATED:
        return (http,)
    if deployment.serving.transfer.type == "nixl":
        # the decoder pulls, so only prefillers are called
        side = PortRange(name=SIDE_CHANNEL_PORTS, first=SIDE_CHANNEL_PORT, peers=(Peer.DECODE,))
        return (http, side) if role is Role.PREFILL else (http,)
    if role is Role.PREFILL:
        return (http,)
    kv = facts.decode_ports
    return (
        http,
        PortRange(name=INIT_PORTS, first=kv.init_base, count=len(kv.init_range), peers=(Peer.PREFILL,)),
        PortRange(name=ALLOC_PORTS, first=kv.alloc_base, count=len(kv.alloc_range), peers=(Peer.PREFILL,)),
    )
