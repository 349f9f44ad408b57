"""The PD buffer of one rank of a receiver: chunks, the keys they have, and who counts on them."""

import asyncio
from dataclasses import dataclass

from dpd_simulator.faults import FaultBoard, FaultKind

# How often a waiter looks again although nobody woke it (real seconds; LMCache polls every 5 ms).
_POLL_SECONDS = 0.05


@dataclass(slots=True)
class Chunk:
    """One chunk.

    Attributes:
        index: its place in the buffer.
        references: how many requests count on it; each retrieve takes one away.
        written: whether its bytes have arrived.
    """

    index: int
    references: int = 1
    written: bool = False


class RankBuffer:
    """Chunks of one rank. Nothing is evicted: a chunk is freed by the retrieve that matches its key, or never."""

    def __init__(self, *, total_chunks: int, faults: FaultBoard) -> None:
        self.total_chunks = total_chunks
        self._faults = faults
        self._free = list(range(total_chunks - 1, -1, -1))
        self._by_key: dict[str, Chunk] = {}
        self._by_index: dict[int, Chunk] = {}
        self._freed = asyncio.Event()

    @property
    def used_chunks(self) -> int:
        """Chunks that have a key."""
        return len(self._by_key)

    @property
    def keys(self) -> list[str]:
        """Keys in the buffer, oldest first."""
        return list(self._by_key)

    def get(self, key: str) -> Chunk | None:
        """The chunk of a key."""
        return self._by_key.get(key)

    def allocate(self, key: str) -> Chunk | None:
        """A free chunk under `key`, or None if there is none."""
        fault = self._faults.active(FaultKind.BUFFER_FULL)
        withheld = 0 if fault is None else len(self._free) if fault.chunks < 0 else fault.chunks
        if len(self._free) <= withheld:
            return None
        chunk = Chunk(self._free.pop())
        self._by_key[key] = chunk
        self._by_index[chunk.index] = chunk
        return chunk

    def mark_written(self, indexes: list[int]) -> None:
        """The bytes of these chunks have arrived."""
        for index in indexes:
            if index in self._by_index:
                self._by_index[index].written = True

    def release(self, key: str) -> None:
        """Take one reference away; the last one frees the chunk."""
        chunk = self._by_key.get(key)
        if chunk is None:
            return
        chunk.references -= 1
        if chunk.references:
            return
        del self._by_key[key]
        del self._by_index[chunk.index]
        self._free.append(chunk.index)
        self._freed.set()

    async def wait_freed(self, timeout_seconds: float) -> None:
        """Wait until a chunk was freed, or a little while."""
        self._freed.clear()
        try:
            async with asyncio.timeout(max(0.0, min(timeout_seconds, _POLL_SECONDS))):
                await self._freed.wait()
        except TimeoutError:
            return


class Reservations:
    """Admission to a receiver: a request is let in when all its chunks fit beside those of the others being sent."""

    def __init__(self, *, total_chunks: int) -> None:
        self._total_chunks = total_chunks
        self._by_request: dict[str, int] = {}
        self._released = asyncio.Event()

    @property
    def reserved_chunks(self) -> int:
        """Chunks promised to requests that are being sent."""
        return sum(self._by_request.values())

    async def admit(self, request_id: str, chunks: int, *, timeout_seconds: float) -> bool:
        """Wait until `chunks` can be promised; False after the timeout."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_seconds
        while self.reserved_chunks + chunks > self._total_chunks:
            if loop.time() >= deadline:
                return False
            self._released.clear()
            try:
                async with asyncio.timeout(max(0.0, min(deadline - loop.time(), _POLL_SECONDS))):
                    await self._released.wait()
            except TimeoutError:
                continue
        self._by_request[request_id] = chunks
        return True

    def release(self, request_id: str) -> None:
        """The request is sent, failed or cancelled."""
        if self._by_request.pop(request_id, None) is not None:
            self._released.set()
