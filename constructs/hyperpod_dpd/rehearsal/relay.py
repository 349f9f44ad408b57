"""A Service with an address of its own: connections go on to one of its ready pods, as kube-proxy sends them."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

_CHUNK_BYTES: Final = 64 * 1024


class ServiceRelay:
    """Listens on a Service's address and port."""

    def __init__(self, choose: Callable[[], tuple[str, int] | None]) -> None:
        """Describe it.

        Args:
            choose: returns address and port of a ready pod for a new connection, or None.
        """
        self._choose = choose
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._accept, host, port)

    async def stop(self) -> None:
        """Close everything."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._join(reader, writer)
        except asyncio.CancelledError:
            # the streams' own callback would report a cancelled handler as an error
            return
        finally:
            self._connections.discard(task)
            writer.close()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        chosen = self._choose()
        if chosen is None:
            return
        try:
            there, back = await asyncio.open_connection(*chosen)
        except OSError:
            return
        try:
            await asyncio.gather(_copy(reader, back), _copy(there, writer))
        finally:
            back.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    writer.close()
