"""End everything of a rehearsal that was killed: `python -m hyperpod_dpd.rehearsal.guard ID`.

The kernel tells only the processes that the rehearsal itself has started of its end, not those that these have started:
an engine's core would keep its GPU.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from typing import Final

from hyperpod_dpd.rehearsal.process import marked

_OVER: Final = b"over\n"
_PAUSE_SECONDS: Final = 0.05


@contextlib.asynccontextmanager
async def guarded(identity: str) -> AsyncIterator[None]:
    """Have the processes that carry the mark of the rehearsal `identity` ended if this process dies in the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        __name__,
        identity,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        # Ctrl-C is for the rehearsal
        start_new_session=True,
    )
    try:
        yield
    finally:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            await process.communicate(_OVER)


def main() -> None:
    """Wait for the end of whoever holds the other end of standard input."""
    if sys.stdin.buffer.read() == _OVER:
        # it has ended by itself, and says what it left
        return
    while found := marked(sys.argv[1]):
        for process in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        time.sleep(_PAUSE_SECONDS)


if __name__ == "__main__":
    main()
