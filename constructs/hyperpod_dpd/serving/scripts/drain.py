"""Hold the end of a worker back until its engine has nothing left to do.

Runs in the worker's container as `preStop`: Kubernetes has taken the pod out of the Service and sends SIGTERM only
when this returns. Standard library only.
"""

import argparse
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable

BUSY_METRICS = ("vllm:num_requests_running", "vllm:num_requests_waiting")


def busy(metrics: str) -> float:
    """Return the number of requests that the engine runs or holds back, summed over all of its series."""
    total = 0.0
    for line in metrics.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name in BUSY_METRICS:
            total += float(line.rsplit(" ", 1)[-1])
    return total


def read_metrics(url: str) -> str | None:
    """Return the engine's metrics, or None when nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 -- loopback, from our own arguments
            text: str = answer.read().decode()
            return text
    except (OSError, urllib.error.URLError):
        return None


def drain(
    metrics: Callable[[], str | None],
    *,
    quiet_seconds: float,
    deadline_seconds: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Wait until the engine was idle for `quiet_seconds` on end; return why the wait ended.

    A hand-off that is under way shows up as a request only when the decoder is asked to go on: the quiet time
    spans that gap.
    """
    started = clock()
    quiet_since = started
    unanswered = 0
    while clock() - started < deadline_seconds:
        text = metrics()
        unanswered = unanswered + 1 if text is None else 0
        if unanswered >= 3:
            return "the engine does not answer"
        if text is not None and busy(text) > 0:
            quiet_since = clock()
        if clock() - quiet_since >= quiet_seconds:
            return "idle"
        sleep(1)
    return "the deadline has passed"


def main() -> None:
    """Drain, and say on the container's log why it ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--quiet-seconds", type=float, required=True)
    parser.add_argument("--deadline-seconds", type=float, required=True)
    given = parser.parse_args()
    url = f"http://127.0.0.1:{given.port}/metrics"
    reason = drain(
        lambda: read_metrics(url),
        quiet_seconds=given.quiet_seconds,
        deadline_seconds=given.deadline_seconds,
    )
    sys.stderr.write(f"dpd: drained: {reason}\n")


if __name__ == "__main__":
    main()
