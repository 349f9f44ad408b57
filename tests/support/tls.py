"""TLS before an endpoint that speaks none."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

from tests.support.authority import HOST


def server_side(certificate: Path) -> ssl.SSLContext:
    """Return the context of a server that shows `certificate`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@contextlib.asynccontextmanager
async def tls_before(url: str, certificate: Path) -> AsyncIterator[str]:
    """Relay to the endpoint `url` until the block ends, and yield an address that says `http` and speaks TLS."""
    host, _, port = url.removeprefix("http://").rpartition(":")

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection(host, int(port))
        await asyncio.gather(_pass(reader, inner_writer), _pass(inner_reader, writer), return_exceptions=True)

    server = await asyncio.start_server(relay, HOST, 0, ssl=server_side(certificate))
    async with server:
        yield f"http://{HOST}:{server.sockets[0].getsockname()[1]}"


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
