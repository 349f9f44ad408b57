"""A connection that the network policies forbid."""

import socket
from enum import StrEnum
from typing import Final

from hyperpod_dpd.evidence.proof.web import Deadline

TRY_SECONDS: Final = 5.0
"""A policy drops packets, so that a connection only times out."""


class Tried(StrEnum):
    """How a connection ended."""

    OPENED = "opened"
    REFUSED = "refused"
    """The pod answered that nobody listens: the packet reached it."""

    BLOCKED = "blocked"

    NAME_UNKNOWN = "name unknown"


def attempt(address: str, deadline: Deadline) -> Tried:
    """Try to open a TCP connection to `host:port`."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection(
            (host.strip("[]"), int(port)), timeout=deadline.at_most(TRY_SECONDS) or 0.001
        ):
            return Tried.OPENED
    except ConnectionRefusedError:
        return Tried.REFUSED
    except socket.gaierror:
        return Tried.NAME_UNKNOWN
    except OSError:
        # timed out, or an answer of a device on the way that there is no way
        return Tried.BLOCKED
