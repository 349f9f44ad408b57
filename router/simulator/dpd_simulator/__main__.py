"""`python -m dpd_simulator`: one simulated engine as a process, started like `vllm serve`."""

import asyncio
import logging
import os
import signal
import sys

import uvloop

from dpd_simulator.arguments import Startup, StartupError, parse
from dpd_simulator.process import SimulatedEngine

_logger = logging.getLogger(__name__)

_EXIT_REFUSED = 2
_EXIT_DIED = 1


def main() -> int:
    """Run until SIGTERM, SIGINT or death; the exit status is the process's."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    try:
        startup = parse(sys.argv[1:], os.environ)
    except StartupError as error:
        sys.stderr.write(f"dpd-simulator: error: {error}\n")
        return _EXIT_REFUSED
    return run(startup)


def run(startup: Startup) -> int:
    """Run one engine until SIGTERM, SIGINT or death, and return the exit status of its process."""
    return uvloop.run(_serve(startup))


async def _serve(startup: Startup) -> int:
    ended = asyncio.Event()
    died = False

    def on_exit() -> None:
        nonlocal died
        died = True
        ended.set()

    engine = SimulatedEngine(
        config=startup.config,
        host=startup.bind_host,
        step_times=startup.step_times,
        clock=startup.clock,
        resolve=startup.resolve,
        on_exit=on_exit,
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    await engine.start()
    _logger.info("simulated %s engine listens on %s", startup.config.role, engine.url)
    await ended.wait()
    await engine.stop()
    return _EXIT_DIED if died else 0


if __name__ == "__main__":
    sys.exit(main())
