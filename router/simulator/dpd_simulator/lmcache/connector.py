"""LMCacheConnectorV1 in prefill-decode mode."""

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import zmq
import zmq.asyncio

from dpd_simulator.clock import Clock
from dpd_simulator.config import EngineConfig, LMCacheConfig, Role
from dpd_simulator.connector import EngineCrash, Loaded, Lookup
from dpd_simulator.faults import FaultBoard, FaultKind
from dpd_simulator.lmcache.keys import ChunkHasher, chunk_key, tags_are_text, tags_of
from dpd_simulator.lmcache.receiver import RankReceiver
from dpd_simulator.lmcache.sender import Batch, Destination, RankSender, Resolver, TransferError
from dpd_simulator.metrics import LMCacheMetrics
from dpd_simulator.sequence import EngineSequence
from dpd_simulator.step_times import StepTimes


class LMCacheConnector:
    """Sender on a prefiller, receiver on a decoder."""

    def __init__(
        self,
        *,
        engine: EngineConfig,
        config: LMCacheConfig,
        host: str,
        clock: Clock,
        step_times: StepTimes,
        faults: FaultBoard,
        metrics: LMCacheMetrics,
        resolve: Resolver,
    ) -> None:
        self._engine = engine
        self._config = config
        self._step_times = step_times
        self._faults = faults
        self._metrics = metrics
        self._hasher = ChunkHasher(chunk_size_tokens=config.chunk_size_tokens, hash_seed=config.hash_seed)
        self._context = zmq.asyncio.Context()
        # A step that was running when its sequence was aborted still saves, from where it was.
        self._saved_tokens: weakref.WeakKeyDictionary[EngineSequence, int] = weakref.WeakKeyDictionary()
        ranks = range(engine.tensor_parallel_size)
        self.receivers: list[RankReceiver] = []
        self.senders: list[RankSender] = []
        if engine.role is Role.DECODE:
            self.receivers = [
                RankReceiver(
                    config=config, rank=rank, host=host, context=self._context, clock=clock, faults=faults
                )
                for rank in ranks
            ]
        else:
            self.senders = [
                RankSender(
                    config=config,
                    rank=rank,
                    context=self._context,
                    clock=clock,
                    step_times=step_times,
                    faults=faults,
                    resolve=resolve,
                )
                for rank in ranks
            ]

    async def start(self) -> None:
        """See `Connector`."""
        for receiver in self.receivers:
            receiver.start()
        for sender in self.senders:
            sender.start()

    async def close(self) -> None:
        """See `Connector`."""
        for receiver in self.receivers:
            await receiver.close()
        for sender in self.senders:
            await sender.close()
        self._context.destroy(linger=0)

    # Decoder ---------------------------------------------------------------------------------------------------------

    def lookup(self, sequence: EngineSequence, *, local_tokens: int) -> Lookup:
        """See `Connector`."""
        if not self.receivers:
            return Lookup()
        hits = self._hit_tokens(sequence)
        self._metrics.looked_up(tokens=len(sequence.ids), hits=hits)
        external = hits - local_tokens
        if hits == sequence.all_tokens:
            external -= 1  # the last token is computed in any case
        return Lookup(external_tokens=max(0, external))

    def _hit_tokens(self, sequence: EngineSequence) -> int:
        if self._faults.strike(FaultKind.KV_MISS) or not tags_are_text(sequence.request.kv_transfer_params):
            return 0
        kept = len(sequence.ids) - self._config.skip_last_n_tokens
        ids = sequence.ids[:kept]
        tags = tags_of(sequence.request.kv_transfer_params)
        hashes = self._hasher.hashes(ids)
        return min(
            min(len(ids), self._config.chunk_size_tokens * self._hit_chunks(receiver, rank, hashes, tags))
            for rank, receiver in enumerate(self.receivers)
        )

    def _hit_chunks(self, receiver: RankReceiver, rank: int, hashes: Sequence[str], tags: str) -> int:
        for count, chunk_hash in enumerate(hashes):
            if receiver.buffer.get(self._key(rank, chunk_hash, tags)) is None:
                return count
        return len(hashes)

    def load(self, sequence: EngineSequence, *, local_tokens: int, external_tokens: int) -> Loaded:
        """Take the chunks out of the buffer. Chunks that vLLM's prefix cache already has are left there for ever."""
        size = self._config.chunk_size_tokens
        end = local_tokens + external_tokens
        if sequence.all_tokens == end + 1 and not self._config.skip_last_n_tokens:
            end += 1
        first = local_tokens // size
        hashes = self._hasher.hashes(sequence.ids[:end])[first:]
        tags = tags_of(sequence.request.kv_transfer_params)
        if self._faults.strike(FaultKind.RETRIEVAL_SKIPPED):
            # vLLM's second model runner in a full CUDA graph: the connector returns before it looks
            return Loaded(tokens=end - first * size, intact=False)
        intact = True
        for rank, receiver in enumerate(self.receivers):
            for chunk_hash in hashes:
                key = self._key(rank, chunk_hash, tags)
                chunk = receiver.buffer.get(key)
                intact &= chunk is not None and chunk.written
                receiver.buffer.release(key)
        tokens = end - first * size
        self._metrics.retrieved(tokens=tokens, hits=tokens, seconds=self._step_times.retrieve_seconds(tokens))
        self._metrics.cache_usage.set(self._used_bytes())
        return Loaded(tokens=tokens, intact=intact)

    async def load_remote(self, sequence: EngineSequence) -> Loaded:
        """Never called: this connector loads in the forward pass."""
        raise NotImplementedError

    # Prefiller -------------------------------------------------------------------------------------------------------

    async def save(self, sequences: Sequence[EngineSequence]) -> int:
        """See `Connector`."""
        if not self.senders:
            return 0
        copied = 0
        for sequence in sequences:
            if not sequence.output_ids:
                copied += await self._save(sequence)
        return copied

    async def _save(self, sequence: EngineSequence) -> int:
        size = self._config.chunk_size_tokens
        is_last = sequence.computed_tokens >= sequence.prompt_tokens
        begin = self._saved_tokens.get(sequence, 0)
        end = sequence.prompt_tokens if is_last else sequence.computed_tokens // size * size
        if end <= begin:
            return 0
        self._saved_tokens[sequence] = end
        hashes = self._hasher.hashes(sequence.ids[:end])[begin // size :]
        tags = tags_of(sequence.request.kv_transfer_params)
        for rank, sender in enumerate(self.senders):
            destination = _destination(sequence.request.kv_transfer_params, rank)
            staged = await sender.stage(len(hashes))
            try:
                await sender.connect(destination)
                await sender.send(
                    Batch(
                        destination=destination,
                        keys=tuple(self._key(rank, chunk_hash, tags) for chunk_hash in hashes[:staged]),
                        tokens=end - begin,
                        is_last=is_last,
                        total_chunks=-(-sequence.prompt_tokens // size),
                    )
                )
            except TransferError as error:
                raise EngineCrash(f"RuntimeError: {error}") from error
        tokens = end - begin
        self._metrics.stored(
            tokens=tokens,
            copy_seconds=self._step_times.store_seconds(tokens),
            put_seconds=self._step_times.transfer_seconds(tokens) if self._config.inline else 0.0,
        )
        return tokens

    def finished(self, sequence: EngineSequence) -> dict[str, Any] | None:
        """See `Connector`."""
        params = sequence.request.kv_transfer_params
        if params is None or "ret_first_tok" not in params:
            return None
        return {"first_tok": sequence.output_ids[0]}

    def aborted(self, sequence: EngineSequence) -> None:
        """Nothing is cancelled at the receiver: the scheduler process has no storage engine to ask."""
        del sequence

    def state(self) -> Mapping[str, Any]:
        """See `Connector`."""
        return {
            "total_chunks": self._config.total_chunks,
            "used_chunks": [receiver.buffer.used_chunks for receiver in self.receivers],
            "reserved_chunks": [receiver.reservations.reserved_chunks for receiver in self.receivers],
            "failed_transfers": [sender.failed_transfers for sender in self.senders],
        }

    def _key(self, rank: int, chunk_hash: str, tags: str) -> str:
        return chunk_key(
            model=self._engine.model,
            world_size=self._engine.tensor_parallel_size,
            rank=rank,
            chunk_hash=chunk_hash,
            tags=tags,
        )

    def _used_bytes(self) -> int:
        return sum(receiver.buffer.used_chunks for receiver in self.receivers) * self._config.chunk_bytes


def _destination(params: Mapping[str, Any] | None, rank: int) -> Destination:
    """Read `disagg_spec` where the worker reads it; what is missing there kills the worker."""
    spec = (params or {}).get("disagg_spec")
    if spec is None:
        raise EngineCrash("AttributeError: 'NoneType' object has no attribute 'receiver_init_port'")
    try:
        return Destination(
            request_id=str(spec["req_id"]),
            host=str(spec["receiver_host"]),
            init_port=int(spec["receiver_init_port"][rank]),
            alloc_port=int(spec["receiver_alloc_port"][rank]),
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise EngineCrash(f"{type(error).__name__}: {error}") from error
