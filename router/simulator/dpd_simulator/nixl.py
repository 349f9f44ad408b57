"""vLLM's NixlConnector: the decoder pulls a finished prefill's blocks from the prefiller that holds them."""

import asyncio
import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import zmq
import zmq.asyncio

from dpd_simulator.clock import Clock
from dpd_simulator.config import EngineConfig, NixlConfig
from dpd_simulator.connector import Loaded, Lookup
from dpd_simulator.faults import FaultBoard, FaultKind
from dpd_simulator.lmcache.sender import Resolver
from dpd_simulator.metrics import NixlMetrics
from dpd_simulator.sequence import EngineSequence, GenerationError
from dpd_simulator.step_times import StepTimes

_logger = logging.getLogger(__name__)

# A peer that is gone; one that only stands still for a moment answers later (real seconds).
_DEAD_PEER_SECONDS = 15.0
_REMOTE_FIELDS = ("remote_engine_id", "remote_request_id", "remote_host", "remote_port")


class _Pull(msgspec.Struct, tag=True):
    engine_id: str
    request_id: str


class _Pulled(msgspec.Struct, tag=True):
    tokens: int = 0
    error: str = ""


@dataclass(slots=True)
class _Pinned:
    tokens: int
    expires_seconds: float


class NixlConnector:
    """Producer and consumer in one, as in vLLM: the request says which."""

    def __init__(
        self,
        *,
        engine: EngineConfig,
        config: NixlConfig,
        host: str,
        clock: Clock,
        step_times: StepTimes,
        faults: FaultBoard,
        metrics: NixlMetrics,
        resolve: Resolver,
    ) -> None:
        self._engine = engine
        self._config = config
        self._host = host
        self._clock = clock
        self._step_times = step_times
        self._faults = faults
        self._metrics = metrics
        self._resolve = resolve
        self._engine_id = str(uuid.uuid4())
        self._context = zmq.asyncio.Context()
        self._pinned: dict[str, _Pinned] = {}
        self._pulled: set[EngineSequence] = set()
        self._task: asyncio.Task[None] | None = None
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(_Pull | _Pulled).decode

    async def start(self) -> None:
        """See `Connector`."""
        socket = self._context.socket(zmq.ROUTER)
        socket.linger = 0
        socket.bind(f"tcp://{self._host}:{self._config.side_channel_port}")
        self._task = asyncio.create_task(self._serve(socket), name="nixl-side-channel")

    async def close(self) -> None:
        """See `Connector`."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._context.destroy(linger=0)

    async def _serve(self, socket: "zmq.asyncio.Socket") -> None:
        while True:
            identity, *_, payload = await socket.recv_multipart()
            pull = self._decode(payload)
            if isinstance(pull, _Pull):
                await socket.send_multipart([identity, b"", self._encode(self._hand_out(pull))])

    def _hand_out(self, pull: _Pull) -> _Pulled:
        self._expire()
        if pull.engine_id != self._engine_id:
            return _Pulled(error="NIXL_ERR_REMOTE_DISCONNECT")
        pinned = self._pinned.pop(pull.request_id, None)
        if pinned is None:
            return _Pulled(error="NIXL_ERR_NOT_FOUND")
        return _Pulled(tokens=pinned.tokens)

    def _expire(self) -> None:
        now = self._clock.now()
        for request_id in [key for key, pinned in self._pinned.items() if pinned.expires_seconds <= now]:
            del self._pinned[request_id]
            self._metrics.expired.inc()

    def lookup(self, sequence: EngineSequence, *, local_tokens: int) -> Lookup:
        """See `Connector`."""
        params = sequence.request.kv_transfer_params or {}
        if not params.get("do_remote_prefill") or sequence in self._pulled:
            return Lookup()
        if not params.get("remote_block_ids") or any(name not in params for name in _REMOTE_FIELDS):
            return Lookup()
        external = sequence.prompt_tokens - local_tokens
        return Lookup(external_tokens=max(0, external), asynchronous=external > 0)

    def load(self, sequence: EngineSequence, *, local_tokens: int, external_tokens: int) -> Loaded:
        """Nothing to do in the forward pass."""
        del sequence, local_tokens
        return Loaded(tokens=external_tokens)

    async def load_remote(self, sequence: EngineSequence) -> Loaded:
        """See `Connector`."""
        params = sequence.request.kv_transfer_params or {}
        self._pulled.add(sequence)
        started = self._clock.now()
        try:
            tokens = await self._pull(params)
        except (TimeoutError, ConnectionError, ValueError) as error:
            self._metrics.failed_transfers.inc()
            if self._config.recompute_on_failure:
                return Loaded()
            raise GenerationError("KV load failed") from error
        await self._clock.sleep(self._step_times.transfer_seconds(tokens))
        self._metrics.transfer_time.observe(self._clock.now() - started)
        self._metrics.post_time.observe(0.0)
        blocks = -(-tokens // self._engine.block_size_tokens)
        self._metrics.descriptors.observe(blocks)
        return Loaded(tokens=tokens)

    async def _pull(self, params: Mapping[str, Any]) -> int:
        if self._faults.strike(FaultKind.TRANSFER_FAILED):
            raise ConnectionError("the read failed")
        socket = self._context.socket(zmq.DEALER)
        socket.linger = 0
        try:
            socket.connect(f"tcp://{self._resolve(str(params['remote_host']))}:{int(params['remote_port'])}")
            pull = _Pull(
                engine_id=str(params["remote_engine_id"]), request_id=str(params["remote_request_id"])
            )
            async with asyncio.timeout(_DEAD_PEER_SECONDS):
                await socket.send_multipart([b"", self._encode(pull)])
                frames = await socket.recv_multipart()
        finally:
            socket.close()
        pulled = self._decode(frames[-1])
        if not isinstance(pulled, _Pulled) or pulled.error:
            raise ConnectionError(pulled.error if isinstance(pulled, _Pulled) else "no answer")
        return pulled.tokens

    async def save(self, sequences: Sequence[EngineSequence]) -> int:
        """Nothing is copied: blocks are read where they are."""
        del sequences
        return 0

    def finished(self, sequence: EngineSequence) -> dict[str, Any] | None:
        """See `Connector`."""
        self._pulled.discard(sequence)
        params = sequence.request.kv_transfer_params or {}
        if not params.get("do_remote_decode"):
            return None
        self._expire()
        self._pinned[sequence.request.request_id] = _Pinned(
            sequence.prompt_tokens, self._clock.now() + self._config.lease_seconds
        )
        blocks = -(-sequence.prompt_tokens // self._engine.block_size_tokens)
        return {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_block_ids": [list(range(1, blocks + 1))],
            "remote_engine_id": self._engine_id,
            "remote_request_id": sequence.request.request_id,
            "remote_host": self._host,
            "remote_port": self._config.side_channel_port,
            "tp_size": self._engine.tensor_parallel_size,
            "remote_num_tokens": sequence.prompt_tokens,
        }

    def aborted(self, sequence: EngineSequence) -> None:
        """See `Connector`."""
        self._pulled.discard(sequence)

    def state(self) -> Mapping[str, Any]:
        """See `Connector`."""
        self._expire()
        return {"pinned_requests": len(self._pinned)}
