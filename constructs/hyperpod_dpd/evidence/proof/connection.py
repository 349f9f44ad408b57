"""A connection that the network policies forbid."""

import errno
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

    IMPOSSIBLE = "impossible to try"
    """This machine or the limit of time kept it from being tried."""


_STOPPED: Final = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EPERM, errno.EACCES, errno.ECONNRESET)
"""How a packet ends that a device on the way, or a rule of this machine, does not let through."""


def attempt(address: str, deadline: Deadline) -> Tried:
    """Try to open a TCP connection to `host:port`."""
    host, _, port = address.rpartition(":")
    seconds = deadline.at_most(TRY_SECONDS)
    if not seconds:
        return Tried.IMPOSSIBLE
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=seconds):
            return Tried.OPENED
    except ConnectionRefusedError:
        return Tried.REFUSED
    except socket.gaierror:
        return Tried.NAME_UNKNOWN
    except TimeoutError:
        return Tried.BLOCKED
    except OSError as error:
        return Tried.BLOCKED if error.errno in _STOPPED else Tried.IMPOSSIBLE
