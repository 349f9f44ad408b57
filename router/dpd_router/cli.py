"""The command `dpd-router`."""

import asyncio
import signal
import sys
from collections.abc import Sequence

import uvloop
import zmq

from dpd_router import logs
from dpd_router.config import ConfigError, Settings, load
from dpd_router.router import Router


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the router until SIGTERM or SIGINT; exit 2 for wrong settings, 1 for a port in use or hand-offs left."""
    try:
        settings = load(sys.argv[1:] if arguments is None else arguments)
        logs.configure(settings.telemetry.log_level)
        code = uvloop.run(_run(settings))
    except ConfigError as error:
        sys.stderr.write("".join(f"dpd-router: {problem}\n" for problem in error.problems))
        sys.exit(2)
    sys.exit(code)


async def _run(settings: Settings) -> int:
    router = Router(settings)
    stop = router.supervisor.failed
    signalled = False

    def end() -> None:
        nonlocal signalled
        signalled = True
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    try:
        await router.start()
    except (OSError, zmq.ZMQError) as error:
        sys.stderr.write(
            f"dpd-router: a socket cannot be opened: {error}. help: see `--port`, `--notification-port`\n"
        )
        return 1
    await stop.wait()
    left = await router.stop()
    return 0 if signalled and not left else 1
