"""How many files the process may open, and how many of them are for clients.

Every connection is a file. A router without files accepts nobody and reaches no worker, which looks as if
every worker had failed at once.
"""

import resource
from typing import Final

from dpd_router.config import ConfigError

# of a request: the client's connection, and one to each of the two workers that serve it
FILES_PER_REQUEST: Final = 3
# health checks, notifications (one connection per rank of every prefiller), the API server, what Python itself opens
RESERVED_FILES: Final = 256


def client_connections(max_requests: int) -> int:
    """Raise the limit as far as the process may, and return how many connections clients may keep.

    Container runtimes give a low soft limit for the sake of programs that use `select`; who does not raises it.

    Raises:
        ConfigError: the requests that may be in flight do not fit.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    needed = FILES_PER_REQUEST * max_requests + RESERVED_FILES
    if hard < needed:
        problem = (
            f"`--max-requests` {max_requests} needs {needed} open files ({FILES_PER_REQUEST} each + "
            f"{RESERVED_FILES}), and this process may have {hard}. help: raise the limit "
            "(`ulimit -Hn`, `nofile` of the container runtime), or lower `--max-requests`"
        )
        raise ConfigError([problem])
    return hard - (FILES_PER_REQUEST - 1) * max_requests - RESERVED_FILES
