"""What a port speaks, HTTP or TLS, where only trying can tell."""

import socket
import ssl
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from hyperpod_dpd.evidence.proof.background import Task
from hyperpod_dpd.evidence.proof.web import NoAnswerError

GREETING_SECONDS: Final = 5.0
"""Limit of the trial: a server of HTTP may wait for the rest of what it takes for a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """What was found at an address.

    Attributes:
        url: the address, with the scheme that is spoken there.
        says: what is spoken, for people.
        doubt: why the certificate is not believed; empty with one that is, and without TLS.
    """

    url: str
    says: str
    doubt: str = ""


def find_out(url: str, *, seconds: float = GREETING_SECONDS) -> Wire:
    """Return what is spoken at `url`.

    AWS documents its router with `http` on port 443, and calls it with an option that is for certificates which nobody
    signed. Whoever was told `http` was promised nobody's identity. So TLS that is found there is used also where its
    certificate is not believed, and that is told; an address with `https` is taken at its word, and its certificate is
    verified.

    Raises:
        NoAnswerError: nothing can be connected to.
    """
    parts = urlsplit(url)
    if parts.scheme == "https":
        return Wire(url=url, says="TLS, certificate verified")
    try:
        # a thread, because no limit of a socket ends the lookup of its name
        task = Task(partial(_greet, parts.hostname or "", parts.port or 80, seconds))
        if not task.has_ended(within_seconds=seconds + 1):
            raise TimeoutError(f"no end of a handshake within {seconds:.0f} seconds")
        doubt = task.result()
    except (OSError, ValueError) as error:
        raise NoAnswerError(f"nothing can be connected to at `{url}`: {error}") from None
    if doubt is None:
        return Wire(url=url, says="HTTP without TLS")
    tls = parts._replace(scheme="https").geturl()
    if not doubt:
        return Wire(url=tls, says="TLS, certificate verified")
    return Wire(url=tls, says=f"TLS, certificate not verified ({doubt})", doubt=doubt)


def trusting_anybody() -> ssl.SSLContext:
    """Return a context that takes any certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _greet(host: str, port: int, seconds: float) -> str | None:
    """Return why the certificate of `host` is not believed, empty where it is, or None where no TLS is spoken."""
    with socket.create_connection((host, port), timeout=seconds) as connection:
        try:
            with ssl.create_default_context().wrap_socket(connection, server_hostname=host):
                return ""
        except ssl.SSLCertVerificationError as error:
            return error.verify_message
        except ssl.SSLError as error:
            reason = error.reason or ""
            # an alert is TLS, too; anything else is from somebody who does not understand the greeting
            return reason if "ALERT" in reason else None
        except OSError:
            return None
