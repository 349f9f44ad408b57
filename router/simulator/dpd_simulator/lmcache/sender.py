"""One rank of a prefiller as LMCache's PD sender."""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import zmq
import zmq.asyncio

from dpd_simulator.clock import Clock
from dpd_simulator.config import LMCacheConfig
from dpd_simulator.faults import FaultBoard, FaultKind
from dpd_simulator.lmcache import wire
from dpd_simulator.lmcache.receiver import REMOTE_DISCONNECT
from dpd_simulator.step_times import StepTimes

_logger = logging.getLogger(__name__)

# An RDMA write to a process that is gone fails by itself; to one that only stands still it succeeds (real seconds).
_DEAD_PEER_SECONDS = 15.0

Resolver = Callable[[str], str]


class TransferError(Exception):
    """A write or an allocation failed. The prefill still answers 200; only the notification is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where one rank's chunks go, and for which request.

    Attributes:
        request_id: `disagg_spec.req_id`.
        host: `receiver_host`.
        init_port: of this rank.
        alloc_port: of this rank.
    """

    request_id: str
    host: str
    init_port: int
    alloc_port: int

    @property
    def receiver_id(self) -> str:
        """LMCache's name of a receiver: host and init port without a separator. A known name is never looked at again."""
        return f"{self.host}{self.init_port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Chunks of one forward pass.

    Attributes:
        destination: where they go.
        keys: of this rank.
        tokens: in these chunks.
        is_last: whether the prompt ends with this batch.
        total_chunks: chunks of the whole prompt.
    """

    destination: Destination
    keys: tuple[str, ...]
    tokens: int
    is_last: bool
    total_chunks: int


@dataclass(slots=True)
class _Peer:
    agent: str
    init: wire.Channel
    alloc: wire.Channel
    init_turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    alloc_turn: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class _Progress:
    total_chunks: int
    completed: int = 0
    has_last: bool = False
    sent_keys: list[str] = field(default_factory=list)


class RankSender:
    """Connections, transfers and notifications of one rank."""

    def __init__(
        self,
        *,
        config: LMCacheConfig,
        rank: int,
        context: "zmq.asyncio.Context",
        clock: Clock,
        step_times: StepTimes,
        faults: FaultBoard,
        resolve: Resolver,
    ) -> None:
        self.failed_transfers = 0
        self._config = config
        self._rank = rank
        self._context = context
        self._clock = clock
        self._step_times = step_times
        self._faults = faults
        self._resolve = resolve
        self._peers: dict[str, _Peer] = {}
        self._progress: dict[str, _Progress] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._staged_chunks = 0
        self._staging_freed = asyncio.Condition()
        self._notifications: zmq.asyncio.Socket | None = None

    def start(self) -> None:
        """Connect to the router's notification socket, whether it is there or not."""
        socket = self._context.socket(zmq.PUSH)
        socket.linger = 0
        socket.connect(f"tcp://{self._resolve(self._config.proxy_host)}:{self._config.proxy_port}")
        self._notifications = socket

    async def close(self) -> None:
        """End transfers and close every socket."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for peer in self._peers.values():
            peer.init.close()
            peer.alloc.close()
        if self._notifications is not None:
            self._notifications.close(linger=0)

    async def connect(self, destination: Destination) -> None:
        """Meet a receiver for the first time: in the forward pass, without a timeout, in every version."""
        if destination.receiver_id in self._peers:
            return
        host = self._resolve(destination.host)
        init = wire.Channel(self._context, f"tcp://{host}:{destination.init_port}")
        try:
            connected = await init.ask(wire.Connect(local_id=f"sender-{uuid.uuid4().hex[:8]}"))
        except BaseException:
            init.close()
            raise
        self._peers[destination.receiver_id] = _Peer(
            agent=connected.agent,
            init=init,
            alloc=wire.Channel(self._context, f"tcp://{host}:{destination.alloc_port}"),
        )

    async def stage(self, chunks: int) -> int:
        """Take chunks of the sender's own buffer, waiting for room; fewer than asked for after the timeout."""
        if self._config.inline:
            return min(chunks, self._config.total_chunks)
        timeout_seconds = self._config.allocation_timeout_seconds / self._clock.compression
        try:
            async with asyncio.timeout(timeout_seconds), self._staging_freed:
                await self._staging_freed.wait_for(
                    lambda: self._staged_chunks + chunks <= self._config.total_chunks
                )
        except TimeoutError:
            _logger.warning("Local cpu memory under pressure so choosing to store only a part")
        taken = min(chunks, self._config.total_chunks - self._staged_chunks)
        self._staged_chunks += taken
        return taken

    async def send(self, batch: Batch) -> None:
        """Write a batch: here and now before 0.4.5, else in the background."""
        if self._config.inline:
            await self._send_inline(batch)
            return
        self._spawn(self._send_in_background(batch))

    def _spawn(self, work: "Awaitable[None]") -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_inline(self, batch: Batch) -> None:
        peer = self._peers[batch.destination.receiver_id]
        async with peer.alloc_turn:
            response = await peer.alloc.ask(wire.AllocRequest(keys=list(batch.keys)))
        await self._write(peer, batch, response.remote_indexes)
        if batch.is_last:
            await self._notify(batch.destination.request_id)

    async def _send_in_background(self, batch: Batch) -> None:
        destination = batch.destination
        request_id = destination.request_id
        progress = self._progress.setdefault(request_id, _Progress(batch.total_chunks))
        peer = self._peers[destination.receiver_id]
        try:
            await self._send_batch(peer, batch, progress)
        except TransferError as error:
            self.failed_transfers += 1
            _logger.error("Async transfer task failed: %s", error)  # noqa: TRY400 - an expected outcome
            await self._cancel(peer, request_id, progress)
        finally:
            async with self._staging_freed:
                self._staged_chunks -= len(batch.keys)
                self._staging_freed.notify_all()

    async def _send_batch(self, peer: _Peer, batch: Batch, progress: _Progress) -> None:
        destination = batch.destination
        async with peer.alloc_turn:
            # Nothing ends this wait: if the receiver dies now, all later transfers to it wait for the lock.
            response = await peer.alloc.ask(
                wire.AllocRequest(
                    keys=list(batch.keys),
                    req_id=destination.request_id,
                    is_last_batch=batch.is_last,
                    total_chunks=batch.total_chunks,
                )
            )
        if -1 in response.remote_indexes:
            raise TransferError(f"allocation failed for request {destination.request_id}")
        progress.sent_keys += batch.keys
        await self._write(peer, batch, response.remote_indexes)
        progress.completed += len(batch.keys)
        progress.has_last |= batch.is_last
        if progress.has_last and progress.completed >= progress.total_chunks:
            self._progress.pop(destination.request_id, None)
            await self._notify(destination.request_id)

    async def _write(self, peer: _Peer, batch: Batch, indexes: list[int]) -> None:
        if not indexes:
            return
        await self._clock.sleep(self._step_times.transfer_seconds(batch.tokens))
        if self._faults.strike(FaultKind.TRANSFER_FAILED, rank=self._rank):
            raise TransferError("Failed to send objects to remote peer")
        try:
            async with asyncio.timeout(_DEAD_PEER_SECONDS), peer.init_turn:
                written = await peer.init.ask(wire.Write(agent=peer.agent, indexes=indexes))
        except TimeoutError:
            raise TransferError(REMOTE_DISCONNECT) from None
        if written.error:
            raise TransferError(written.error)

    async def _cancel(self, peer: _Peer, request_id: str, progress: _Progress) -> None:
        self._progress.pop(request_id, None)
        if progress.sent_keys:
            async with peer.alloc_turn:
                await peer.alloc.ask(wire.CancelNotif(req_id=request_id, keys=progress.sent_keys))

    # Notifications ---------------------------------------------------------------------------------------------------

    async def _notify(self, request_id: str) -> None:
        if self._faults.strike(FaultKind.NOTIFICATION_LOST, rank=self._rank):
            return
        delayed = self._faults.strike(FaultKind.NOTIFICATION_DELAYED, rank=self._rank)
        if delayed is not None:
            self._spawn(self._notify_later(request_id, delayed.seconds))
            return
        await self._push(request_id)
        if self._faults.strike(FaultKind.NOTIFICATION_DUPLICATED, rank=self._rank):
            await self._push(request_id)
        flood = self._faults.strike(FaultKind.NOTIFICATION_FLOOD, rank=self._rank)
        for number in range(flood.count if flood else 0):
            await self._push(f"unknown-{number}-{uuid.uuid4().hex}")

    async def _notify_later(self, request_id: str, seconds: float) -> None:
        await self._clock.sleep(seconds)
        await self._push(request_id)

    async def _push(self, request_id: str) -> None:
        if self._notifications is not None:
            await self._notifications.send(wire.encode(wire.ProxyNotif(req_id=request_id)))
