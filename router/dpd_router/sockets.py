"""Ends of connections that TCP alone does not see: a machine that is gone says nothing, and a client may take nothing."""

import contextlib
import socket
from typing import Final

# probes begin after half of the time in which the other side must be heard of, and three fit into the rest
_PROBE_AFTER: Final = 2
_PROBE_EVERY: Final = 6


def end_when_silent(connection: socket.socket, seconds: float) -> None:
    """Have the kernel end a connection whose other side acknowledges nothing, or takes nothing, for so long.

    An answer that takes long to begin is no silence: the other side's kernel acknowledges the probes meanwhile.
    """
    whole = max(1, round(seconds))
    options = {
        socket.TCP_USER_TIMEOUT: max(1, round(seconds * 1000)),
        socket.TCP_KEEPIDLE: max(1, whole // _PROBE_AFTER),
        socket.TCP_KEEPINTVL: max(1, whole // _PROBE_EVERY),
    }
    # a connection that was closed meanwhile has ended already
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in options.items():
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
