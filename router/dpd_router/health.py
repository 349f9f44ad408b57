"""Checks of every worker: alive, which models, which port epoch."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from dpd_router.config import HealthPolicy
from dpd_router.pool import Pool, Worker
from dpd_router.tasks import Supervisor, cancelled
from dpd_router.upstream import Upstream, UpstreamError

log = logging.getLogger(__name__)

# a decoder announces the ports of its process by a second served model name, e.g. `dpd-epoch-3`
EPOCH_ALIAS: Final = re.compile(r"dpd-epoch-(\d{1,9})")


class _Model(msgspec.Struct):
    id: str
    max_model_len: int | None = None


class _Models(msgspec.Struct):
    data: list[_Model]


_decode_models = msgspec.json.Decoder(_Models).decode


def read_models(body: bytes) -> tuple[dict[str, int], int]:
    """Return context length by model name and the port epoch (0 where none is announced).

    Raises:
        msgspec.DecodeError: the body is not a list of models.
    """
    models: dict[str, int] = {}
    epoch = 0
    for model in _decode_models(body).data:
        if alias := EPOCH_ALIAS.fullmatch(model.id):
            epoch = int(alias.group(1))
        else:
            models[model.id] = model.max_model_len or 0
    return models, epoch


def shown_models(body: bytes) -> bytes:
    """Return a list of models as clients get it: without the name that only carries the port epoch.

    Raises:
        msgspec.DecodeError: the body is not a list of models.
    """
    listed = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    models = msgspec.json.decode(listed["data"], type=list[dict[str, msgspec.Raw]])
    shown = [
        model for model in models if not EPOCH_ALIAS.fullmatch(msgspec.json.decode(model["id"], type=str))
    ]
    return msgspec.json.encode({**listed, "data": shown})


class HealthMonitor:
    """Runs one task per worker.

    `on_alive` is awaited with a worker that answers, before it counts as up.
    """

    def __init__(self, pool: Pool, upstream: Upstream, policy: HealthPolicy, supervisor: Supervisor) -> None:
        self._pool = pool
        self._upstream = upstream
        self._policy = policy
        self._supervisor = supervisor
        self._tasks: dict[Worker, asyncio.Task[None]] = {}
        self._hurry: dict[Worker, asyncio.Event] = {}
        self.on_alive: list[Callable[[Worker], Awaitable[None]]] = []
        pool.on_added.append(self._watch)
        pool.on_removed.append(self._unwatch)

    def _watch(self, worker: Worker) -> None:
        self._hurry[worker] = asyncio.Event()
        self._tasks[worker] = self._supervisor.start(self._run(worker), f"health {worker.key}")

    def _unwatch(self, worker: Worker) -> None:
        self._hurry.pop(worker, None)
        if (task := self._tasks.pop(worker, None)) is not None:
            task.cancel()

    def check_now(self, worker: Worker) -> None:
        """Check a worker at once, because a request met trouble."""
        if (event := self._hurry.get(worker)) is not None:
            event.set()

    async def _run(self, worker: Worker) -> None:
        event = self._hurry[worker]
        while True:
            await self.check(worker)
            event.clear()
            try:
                async with asyncio.timeout(self._policy.health_interval_seconds):
                    await event.wait()
            except TimeoutError:
                continue

    async def check(self, worker: Worker) -> None:
        """Check a worker once and record the result."""
        limit = self._policy.health_timeout_seconds
        worker.heard = False
        try:
            health = await self._upstream.check(worker, "/health", limit)
            if health.status != 200:
                self._pool.failed(worker, f"health {health.status}")
                return
            worker.heard = True
            models = await self._upstream.check(worker, "/v1/models", limit)
            if models.status != 200:
                self._pool.failed(worker, f"models {models.status}")
                return
            found = read_models(models.body)
            worker.model_list = shown_models(models.body)
            for listener in self.on_alive:
                await listener(worker)
            self._pool.passed(worker, *found)
        except UpstreamError as error:
            if error.kind == "refused":
                self._pool.refused(worker)
            elif error.kind in {"timeout", "unreachable"}:
                self._pool.unanswered(worker, error.kind)
            elif error.kind != "local":  # which says nothing about the worker
                self._pool.failed(worker, error.kind)
        except (msgspec.DecodeError, msgspec.ValidationError):
            self._pool.failed(worker, "models malformed")

    async def stop(self) -> None:
        """End every check."""
        await cancelled(*self._tasks.values())
        self._tasks.clear()
