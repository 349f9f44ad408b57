"""One rank of a decoder as LMCache's PD receiver: the init port and the alloc port."""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable

import zmq
import zmq.asyncio

from dpd_simulator.clock import Clock
from dpd_simulator.config import LMCacheConfig
from dpd_simulator.faults import FaultBoard
from dpd_simulator.lmcache import wire
from dpd_simulator.lmcache.buffer import RankBuffer, Reservations
from dpd_simulator.lmcache.keys import MalformedKeyError, check_key

_logger = logging.getLogger(__name__)

REMOTE_DISCONNECT = "NIXL_ERR_REMOTE_DISCONNECT"


class AllocationError(Exception):
    """A request that the receiver cannot take; answered with index -1."""


class RankReceiver:
    """Sockets and buffer of one rank."""

    def __init__(
        self,
        *,
        config: LMCacheConfig,
        rank: int,
        host: str,
        context: "zmq.asyncio.Context",
        clock: Clock,
        faults: FaultBoard,
    ) -> None:
        self.buffer = RankBuffer(total_chunks=config.total_chunks, faults=faults)
        self.reservations = Reservations(total_chunks=config.total_chunks)
        self._config = config
        self._rank = rank
        self._host = host
        self._context = context
        self._timeout_seconds = config.allocation_timeout_seconds / clock.compression
        self._agent = uuid.uuid4().hex
        self._batches: dict[str, list[str]] = {}
        self._inline_turn = asyncio.Lock()
        self._inline_broken = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._sockets: list[zmq.asyncio.Socket] = []

    def start(self) -> None:
        """Bind both ports."""
        self._serve(self._config.init_ports[self._rank], self._answer_init)
        self._serve(self._config.alloc_ports[self._rank], self._answer_alloc)

    async def close(self) -> None:
        """End the tasks and close the ports."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for socket in self._sockets:
            socket.close(linger=0)

    def _serve(self, port: int, answer: Callable[[wire.Message], Awaitable[wire.Message | None]]) -> None:
        socket = self._context.socket(zmq.ROUTER)
        socket.linger = 0
        socket.bind(f"tcp://{self._host}:{port}")
        self._sockets.append(socket)
        self._spawn(self._receive(socket, answer))

    def _spawn(self, work: "Awaitable[None]") -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _receive(
        self, socket: "zmq.asyncio.Socket", answer: Callable[[wire.Message], Awaitable[wire.Message | None]]
    ) -> None:
        while True:
            identity, *_, payload = await socket.recv_multipart()
            self._spawn(self._reply(socket, identity, answer, wire.decode(payload)))

    async def _reply(
        self,
        socket: "zmq.asyncio.Socket",
        identity: bytes,
        answer: Callable[[wire.Message], Awaitable[wire.Message | None]],
        message: wire.Message,
    ) -> None:
        response = await answer(message)
        if response is not None:
            await socket.send_multipart([identity, b"", wire.encode(response)])

    async def _answer_init(self, message: wire.Message) -> wire.Message | None:
        if isinstance(message, wire.Connect):
            return wire.Connected(agent=self._agent)
        if isinstance(message, wire.Write):
            if message.agent != self._agent:
                return wire.Written(error=REMOTE_DISCONNECT)
            self.buffer.mark_written(message.indexes)
            return wire.Written()
        return None

    async def _answer_alloc(self, message: wire.Message) -> wire.Message | None:
        if isinstance(message, wire.CancelNotif):
            self._forget(message.req_id, message.keys)
            return wire.AllocResponse(remote_indexes=[])
        if not isinstance(message, wire.AllocRequest):
            return None
        if self._config.inline:
            return await self._allocate_inline(message)
        try:
            return await self._allocate(message)
        except (AllocationError, MalformedKeyError) as error:
            _logger.error("Failed to process alloc request: %s", error)  # noqa: TRY400 - an expected outcome
            return wire.AllocResponse(remote_indexes=[-1] * max(1, len(message.keys)))

    # From 0.4.5 on: reserve the whole request, then take chunks, each with a timeout -----------------------------------

    async def _allocate(self, request: wire.AllocRequest) -> wire.AllocResponse:
        if request.req_id not in self._batches:
            await self._admit(request)
        batch: list[str] = []
        response = wire.AllocResponse(remote_indexes=[], already_sent_indexes=[])
        try:
            for position, key in enumerate(request.keys):
                check_key(key)
                known = self.buffer.get(key)
                if known is not None:
                    # "Already sent" as soon as somebody has allocated it, written or not.
                    known.references += 1
                    response.already_sent_indexes.append(position)
                else:
                    response.remote_indexes.append(await self._take(key))
                batch.append(key)
        except BaseException:
            self._forget(request.req_id, batch + self._batches.get(request.req_id, []))
            raise
        self._batches.setdefault(request.req_id, []).extend(batch)
        if request.is_last_batch:
            del self._batches[request.req_id]
            self.reservations.release(request.req_id)
        return response

    async def _admit(self, request: wire.AllocRequest) -> None:
        if not request.total_chunks:
            raise AllocationError(f"legacy sender without `total_chunks` for {request.req_id}")
        if request.total_chunks > self.buffer.total_chunks:
            raise AllocationError(
                f"request {request.req_id} needs {request.total_chunks} chunks, "
                f"the buffer holds {self.buffer.total_chunks}"
            )
        admitted = await self.reservations.admit(
            request.req_id, request.total_chunks, timeout_seconds=self._timeout_seconds
        )
        if not admitted:
            raise AllocationError(f"admission of {request.req_id} timed out")

    async def _take(self, key: str) -> int:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_seconds
        while (chunk := self.buffer.allocate(key)) is None:
            if loop.time() >= deadline:
                raise AllocationError(f"no free chunk for {key} after the timeout")
            await self.buffer.wait_freed(deadline - loop.time())
        return chunk.index

    def _forget(self, request_id: str, keys: list[str]) -> None:
        for key in keys:
            self.buffer.release(key)
        self._batches.pop(request_id, None)
        self.reservations.release(request_id)

    # Before 0.4.5: one thread, no timeout, and an exception leaves the socket unable to answer ever again ---------------

    async def _allocate_inline(self, request: wire.AllocRequest) -> wire.AllocResponse | None:
        async with self._inline_turn:
            if self._inline_broken:
                return None
            response = wire.AllocResponse(remote_indexes=[], already_sent_indexes=[])
            for position, key in enumerate(request.keys):
                try:
                    check_key(key)
                except MalformedKeyError:
                    self._inline_broken = True
                    return None
                known = self.buffer.get(key)
                if known is not None:
                    known.references += 1
                    response.already_sent_indexes.append(position)
                    continue
                while (chunk := self.buffer.allocate(key)) is None:
                    await self.buffer.wait_freed(float("inf"))
                response.remote_indexes.append(chunk.index)
            return response
