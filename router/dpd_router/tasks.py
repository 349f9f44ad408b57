"""Background tasks that must not end by themselves: one that does ends the router, so that it is restarted."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger(__name__)


class Supervisor:
    """Starts background tasks and notices when one fails.

    Attributes:
        failed: set when a task has ended by an error; the router then stops with an error of its own.
    """

    def __init__(self) -> None:
        self.failed = asyncio.Event()

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a task that is meant to run until it is cancelled."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        log.critical(
            "background task ended", exc_info=task.exception(), extra={"fields": {"task": task.get_name()}}
        )
        self.failed.set()


async def cancelled(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel tasks and wait for their end."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
