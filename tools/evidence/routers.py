"""The real router beside the engines, and its metrics."""

import contextlib
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from hyperpod_dpd.derive import resolve
from hyperpod_dpd.serving.names import Component
from hyperpod_dpd.serving.router_arguments import router_arguments
from hyperpod_dpd.spec import Deployment
from tools.evidence.engines import LOOPBACK

METRIC = re.compile(r"^(dpd_router_[a-z_]+(?:\{[^}]*\})?) ([0-9.e+-]+)$", re.MULTILINE)


_OF_KUBERNETES = (
    "--port=", "--notification-port=", "--discovery=", "--namespace=", "--prefill-service=",
    "--decode-service=", "--worker-port-name=", "--router-service=", "--router-namespace=",
)  # fmt: skip


def rendered_flags(
    deployment: Deployment, *, prefillers: Sequence[str], decoders: Sequence[str], tokenizer: Path
) -> list[str]:
    """Return the rendered flags of the router; its address and the workers are those of one host.

    Without `prefillers` every prompt is served where it arrives.
    """
    rendered = router_arguments(
        deployment,
        resolve(deployment),
        decoders=Component.DECODE if prefillers else Component.COLOCATED,
        disaggregates=bool(prefillers),
    )
    flags = [flag for flag in rendered if not flag.startswith(_OF_KUBERNETES)]
    flags += ["--decoders", ",".join(decoders), "--tokenizer", str(tokenizer)]
    return [*flags, "--prefillers", ",".join(prefillers)] if prefillers else flags


@contextlib.contextmanager
def router(logs: Path, port: int, notification_port: int, *flags: str, host: str = LOOPBACK) -> Iterator[str]:
    """Run the real router with `flags` until the block ends."""
    with (logs / f"router-{port}-{int(time.time())}.log").open("w") as log:
        process = subprocess.Popen(
            [
                sys.executable, "-m", "dpd_router", "--host", host, "--port", str(port),
                "--notification-host", host, "--notification-port", str(notification_port), *flags,
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        url = f"http://{host}:{port}"
        try:
            _await_ready(url, process)
            yield url
        finally:
            process.terminate()
            process.wait(60)


def _await_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the router ended with {process.returncode}")
        try:
            with urllib.request.urlopen(f"{url}/ready", timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError("the router did not become ready")


def scrape(url: str) -> dict[str, float]:
    """Return the router's metrics."""
    # a router that stands still for a moment must not end a measurement of hours
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return {name: float(value) for name, value in METRIC.findall(text)}


def settled(url: str, timeout_seconds: float = 90) -> dict[str, float]:
    """Wait until the router owns no hand-off any more and return its metrics."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        metrics = scrape(url)
        if metrics.get("dpd_router_handoffs_open", 0) == 0 or time.monotonic() > deadline:
            return metrics
        time.sleep(0.5)


def books(metrics: dict[str, float]) -> dict[str, float]:
    """Return the metrics that say whether the books balance."""
    wanted = (
        "handoff", "inflight_chunks", "suspected_chunks", "drains", "notif", "decisions",
        "pairs_broken", "worker_port_epoch", "worker_restarts", "client_disconnects",
    )  # fmt: skip
    return {
        name.removeprefix("dpd_router_"): value
        for name, value in metrics.items()
        if name.removeprefix("dpd_router_").startswith(wanted) and "_created" not in name
    }
