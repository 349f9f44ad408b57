"""Messages between sender, receiver and router, msgpack with the class name as tag, as LMCache encodes them.

`AllocRequest`, `AllocResponse`, `CancelNotif` and `ProxyNotif` have LMCache's fields (shape and type of the tensors
are left out). `Connect` and `Write` stand for NIXL: a connection is to one life of a process, and a write to a
process that has restarted since fails, as an RDMA write does.
"""

from typing import Any

import msgspec
import zmq
import zmq.asyncio


class Message(msgspec.Struct, tag=True):
    """Base of all messages."""


class Connect(Message):
    """Sender to the init port: who are you."""

    local_id: str


class Connected(Message):
    """The identity of this life of the process."""

    agent: str


class Write(Message):
    """The bytes of these chunks, for that life of the process."""

    agent: str
    indexes: list[int]


class Written(Message):
    """Outcome of a write; an error text or nothing."""

    error: str = ""


class AllocRequest(Message):
    """Sender to the alloc port: room for these chunks."""

    keys: list[str]
    req_id: str = ""
    is_last_batch: bool = False
    total_chunks: int = 0


class AllocResponse(Message):
    """Indexes of the chunks to write, -1 for a failure, and which keys were there already."""

    remote_indexes: list[int]
    already_sent_indexes: list[int] = []


class CancelNotif(Message):
    """Sender to the alloc port: forget a request."""

    req_id: str
    keys: list[str]


class ProxyNotif(Message):
    """Sender to the router: one rank has written everything of a request."""

    req_id: str


AnyMessage = Connect | Connected | Write | Written | AllocRequest | AllocResponse | CancelNotif | ProxyNotif

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(AnyMessage).decode


class Channel:
    """A DEALER socket to one port of another process, for requests and their answers."""

    def __init__(self, context: "zmq.asyncio.Context", address: str) -> None:
        self._socket = context.socket(zmq.DEALER)
        self._socket.linger = 0
        self._socket.connect(address)

    async def ask(self, message: Message) -> Any:
        """Send a message and wait, without a timeout, for the answer. One at a time."""
        await self._socket.send_multipart([b"", encode(message)])
        frames = await self._socket.recv_multipart()
        return decode(frames[-1])

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
