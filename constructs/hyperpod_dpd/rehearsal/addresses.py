"""Loopback addresses: one for each pod and each Service, so that all of them use the ports that the manifests name."""

import random
import socket
import sys
from typing import Final

from hyperpod_dpd.rehearsal.trouble import Kind, RefusedError, Trouble

_API_SERVER: Final = 2
_MONITORING: Final = 3
_FIRST_SERVICE: Final = 5
_FIRST_POD: Final = 30
_LAST: Final = 254
_ATTEMPTS: Final = 50


class Addresses:
    """Addresses of one rehearsal: a /24 of 127.0.0.0/8 in which nobody listens."""

    def __init__(self) -> None:
        """Choose the network.

        Raises:
            RefusedError: this machine has only 127.0.0.1, as macOS does.
        """
        self._net = _free_network()
        self._services = 0
        self._pods = 0
        self.api_server = f"{self._net}.{_API_SERVER}"
        self.monitoring = f"{self._net}.{_MONITORING}"

    def service(self) -> str:
        """Return the address of another Service."""
        self._services += 1
        return f"{self._net}.{_FIRST_SERVICE + self._services - 1}"

    def pod(self) -> str:
        """Return the address of another pod; a pod that replaces one never gets the same."""
        self._pods += 1
        if _FIRST_POD + self._pods - 1 > _LAST:
            raise RuntimeError("a rehearsal has no more than 225 pods")
        return f"{self._net}.{_FIRST_POD + self._pods - 1}"


def _free_network() -> str:
    generator = random.SystemRandom()
    for _ in range(_ATTEMPTS):
        net = f"127.{generator.randint(1, 254)}.{generator.randint(0, 254)}"
        try:
            with socket.socket() as probe:
                probe.bind((f"{net}.{_API_SERVER}", 0))
        except OSError:
            continue
        return net
    raise RefusedError(
        (
            Trouble(
                kind=Kind.ELSEWHERE,
                says=f"this machine (`{sys.platform}`) has no loopback address beside 127.0.0.1",
                fix="rehearse on Linux, where all of 127.0.0.0/8 is loopback",
            ),
        )
    )
