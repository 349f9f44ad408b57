"""The engine: continuous batching with chunked prefill, in steps whose durations are injected."""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from dpd_simulator.blocks import BlockPool, block_hashes
from dpd_simulator.clock import Clock
from dpd_simulator.config import EngineConfig
from dpd_simulator.connector import Connector, EngineCrash
from dpd_simulator.faults import FaultBoard, FaultKind
from dpd_simulator.metrics import EngineMetrics
from dpd_simulator.sequence import EngineDeadError, EngineSequence, GenerationError, SequenceRequest
from dpd_simulator.step_times import StepShape, StepTimes
from dpd_simulator.tokenizer import Vocabulary

_logger = logging.getLogger(__name__)

# A host that cannot keep up with the simulated time falls behind by at most this; the rest is given up and counted.
_LARGEST_LAG_SECONDS = 0.5


class Engine:
    """vLLM's engine core with its scheduler, as far as it can be seen from outside."""

    def __init__(
        self,
        *,
        config: EngineConfig,
        vocabulary: Vocabulary,
        step_times: StepTimes,
        clock: Clock,
        connector: Connector,
        metrics: EngineMetrics,
        faults: FaultBoard,
        on_death: Callable[[], None],
        on_crash: Callable[[], None],
    ) -> None:
        self.config = config
        self.connector = connector
        self.metrics = metrics
        self.dead = False
        self.lost_seconds = 0.0
        self._vocabulary = vocabulary
        self._step_times = step_times
        self._clock = clock
        self._faults = faults
        self._on_death = on_death
        self._on_crash = on_crash
        self._pool = BlockPool(
            total_blocks=config.kv_cache_tokens // config.block_size_tokens,
            block_size_tokens=config.block_size_tokens,
            prefix_caching=config.prefix_caching,
        )
        self._generator = random.Random(config.seed)  # noqa: S311 - reproducible text, not secrets
        self._waiting: deque[EngineSequence] = deque()
        self._running: list[EngineSequence] = []
        self._held: list[EngineSequence] = []
        """What the last step computed, where it waits for the end of the next one."""
        self._wake = asyncio.Event()
        self._deadline: float | None = None
        self._loop_task: asyncio.Task[None] | None = None
        self._load_tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Open the connector's sockets and begin to step."""
        await self.connector.start()
        self._loop_task = asyncio.create_task(self._run(), name="engine-steps")

    async def close(self) -> None:
        """End every task; sequences that are still there fail."""
        tasks = [task for task in (self._loop_task, *self._load_tasks) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._fail_all()
        await self.connector.close()

    def submit(self, request: SequenceRequest) -> EngineSequence:
        """Queue a sequence.

        Raises:
            EngineDeadError: the engine is dead.
        """
        if self.dead:
            raise EngineDeadError
        sequence = EngineSequence(
            request=request,
            vocabulary=self._vocabulary,
            allocation=self._pool.new_allocation(),
            prompt_hashes=self._hashes(request.prompt_ids, request.cache_salt),
            max_model_len=self.config.max_model_len,
            generator=self._generator,
            arrival_seconds=self._clock.now(),
        )
        self._waiting.append(sequence)
        self._wake.set()
        return sequence

    def abort(self, sequence: EngineSequence) -> None:
        """Forget a sequence that nobody waits for any more."""
        if sequence.finished:
            return
        sequence.finished = sequence.aborted = True
        self.connector.aborted(sequence)
        self.metrics.request_success["abort"].inc()
        self._wake.set()

    def state(self) -> Mapping[str, Any]:
        """Numbers for the admin route and for tests."""
        return {
            "dead": self.dead,
            "running": len(self._running),
            "waiting": len(self._waiting),
            "held_blocks": self._pool.held_blocks,
            "lost_seconds": self.lost_seconds,
            "connector": self.connector.state(),
        }

    async def sleep(self, seconds: float) -> None:
        """Wait for simulated seconds."""
        await self._clock.sleep(seconds)

    def wake(self) -> None:
        """Look again: a fault was removed."""
        self._wake.set()

    # Steps -----------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while True:
                await self._step()
        except EngineCrash:
            _logger.exception("the engine core died")
            self.dead = True
            self._fail_all()
            self._on_crash()

    async def _step(self) -> None:
        self._drop_finished()
        plan = [] if self._faults.active(FaultKind.HANG) else self._schedule()
        self._update_gauges()
        if not plan and self._held:
            # no step follows that would keep the process busy
            held, self._held = self._held, []
            await self._end_of_step(held)
            return
        if not plan:
            self._deadline = None
            self._wake.clear()
            await self._wake.wait()
            return
        shape = _shape(plan)
        started = self._start_of_step()
        slow = self._faults.strike(FaultKind.SLOW)
        factor = slow.factor if slow else 1.0
        self._deadline = started + factor * (self._step_times.step_seconds(shape) + self._load(plan))
        sequences = [sequence for sequence, _ in plan]
        for sequence, tokens in plan:
            sequence.computed_tokens += tokens
        if self.config.answers_wait_for_next_step:
            # the copy is part of the forward pass, whenever the bytes leave
            self._deadline += factor * self._step_times.store_seconds(shape.prefill_tokens)
            held, self._held = self._held, sequences
            sequences = [sequence for sequence in held if sequence not in self._held]
        await self._clock.sleep_until(self._deadline)
        await self._end_of_step(sequences, factor)
        self.metrics.iteration_tokens.observe(shape.prefill_tokens + shape.decode_sequences)

    async def _end_of_step(self, sequences: list[EngineSequence], factor: float = 1.0) -> None:
        """Hand over and answer what was computed."""
        copied_tokens = await self._save(sequences)
        if copied_tokens and not self.config.answers_wait_for_next_step:
            self._deadline = self._clock.now() + factor * self._step_times.store_seconds(copied_tokens)
            await self._clock.sleep_until(self._deadline)
        for sequence in sequences:
            self._finish_step(sequence)

    async def _save(self, sequences: list[EngineSequence]) -> int:
        try:
            async with asyncio.timeout(self.config.execute_model_timeout_seconds / self._clock.compression):
                return await self.connector.save(sequences)
        except TimeoutError:
            raise EngineCrash(
                "the forward pass took longer than `VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS`"
            ) from None

    def _start_of_step(self) -> float:
        """Steps follow each other without gaps, also if the host was late to run the last one."""
        now = self._clock.now()
        if self._deadline is None:
            return now
        if now - self._deadline > _LARGEST_LAG_SECONDS:
            self.lost_seconds += now - self._deadline
            return now
        return self._deadline

    def _load(self, plan: list[tuple[EngineSequence, int]]) -> float:
        seconds = 0.0
        for sequence, _ in plan:
            if sequence.external_tokens and not sequence.loaded:
                sequence.loaded = True
                loaded = self.connector.load(
                    sequence,
                    local_tokens=sequence.cached_tokens - sequence.external_tokens,
                    external_tokens=sequence.external_tokens,
                )
                seconds += self._step_times.retrieve_seconds(loaded.tokens)
                if not loaded.intact:
                    sequence.state.corrupt()
        return seconds

    def _finish_step(self, sequence: EngineSequence) -> None:
        if sequence.finished or self.dead:
            return
        self._name_blocks(sequence)
        if sequence.computed_tokens < sequence.all_tokens:
            return
        output = sequence.sample()
        now = self._clock.now()
        self.metrics.token(sequence, now_seconds=now)
        if sequence.first_token_seconds is None:
            sequence.first_token_seconds = now
        sequence.last_token_seconds = now
        if output.finish_reason is not None:
            output.kv_transfer_params = self.connector.finished(sequence)
            self.metrics.ended(sequence, reason=output.finish_reason, now_seconds=now)
        sequence.publish(output)
        self._strike_at_token(sequence)

    def _strike_at_token(self, sequence: EngineSequence) -> None:
        tokens = len(sequence.output_ids)
        die = self._faults.active(FaultKind.DIE_AFTER_TOKENS)
        if die is not None and tokens == die.tokens and self._faults.strike(FaultKind.DIE_AFTER_TOKENS):
            self.dead = True
            self._on_death()
        error = self._faults.active(FaultKind.ERROR_IN_STREAM)
        if error is not None and tokens == error.tokens and self._faults.strike(FaultKind.ERROR_IN_STREAM):
            sequence.fail(GenerationError("Internal server error"))
            self.metrics.request_success["error"].inc()

    def _name_blocks(self, sequence: EngineSequence) -> None:
        if not self._pool.prefix_caching:
            return
        full = sequence.computed_tokens // self.config.block_size_tokens
        if full > len(sequence.block_hashes):
            sequence.block_hashes = self._hashes(sequence.ids, sequence.request.cache_salt)
        sequence.allocation.name(sequence.block_hashes[:full])

    def _hashes(self, ids: Any, salt: str | None) -> list[bytes]:
        if not self._pool.prefix_caching:
            return []
        return block_hashes(ids, block_size_tokens=self.config.block_size_tokens, salt=salt)

    # Scheduling ------------------------------------------------------------------------------------------------------

    def _schedule(self) -> list[tuple[EngineSequence, int]]:
        """Running sequences first, then waiting ones, within the token budget: vLLM's order."""
        budget = self.config.max_num_batched_tokens
        plan: list[tuple[EngineSequence, int]] = []
        for sequence in list(self._running):
            if sequence not in self._running:
                continue  # preempted for a sequence before it
            tokens = min(sequence.all_tokens - sequence.computed_tokens, budget)
            if tokens <= 0 or not self._make_room(sequence, tokens):
                continue
            plan.append((sequence, tokens))
            budget -= tokens
        plan = [(sequence, tokens) for sequence, tokens in plan if sequence in self._running]
        while self._waiting and budget > 0 and len(self._running) < self.config.max_num_seqs:
            sequence = self._waiting[0]
            if not self._admit(sequence):
                break
            self._waiting.popleft()
            if sequence.waits_for_remote_kv or sequence.finished:
                continue
            tokens = min(sequence.all_tokens - sequence.computed_tokens, budget)
            self._running.append(sequence)
            plan.append((sequence, tokens))
            budget -= tokens
        return plan

    def _make_room(self, sequence: EngineSequence, tokens: int) -> bool:
        while not sequence.allocation.grow(sequence.computed_tokens + tokens):
            victim = self._running[-1]
            self._preempt(victim)
            if victim is sequence:
                return False
        return True

    def _preempt(self, victim: EngineSequence) -> None:
        """Give up the blocks of the youngest sequence; it starts again from its tokens."""
        self._running.remove(victim)
        victim.allocation.free()
        victim.computed_tokens = 0
        victim.loaded = False
        victim.external_tokens = 0
        self.metrics.preemptions.inc()
        self._waiting.appendleft(victim)

    def _admit(self, sequence: EngineSequence) -> bool:
        """Look up caches and hold blocks; False if there is no room yet."""
        if sequence.finished:
            return True
        if sequence.remote_kv_ready:
            return True
        hashes = sequence.block_hashes
        local = 0
        if sequence.parameters.prompt_logprobs is None:  # such requests need every position computed
            local = self._pool.cached_prefix_tokens(hashes, at_most_tokens=sequence.all_tokens - 1)
        lookup = self.connector.lookup(sequence, local_tokens=local)
        if not sequence.allocation.share(hashes[: local // self.config.block_size_tokens]):
            return False
        computed = local + lookup.external_tokens
        first = min(sequence.all_tokens - computed, self.config.max_num_batched_tokens)
        if not sequence.allocation.grow(computed + max(1, first)):
            sequence.allocation.free()
            return False
        sequence.external_tokens = lookup.external_tokens
        self._record_admission(sequence, local=local, computed=computed)
        if lookup.asynchronous:
            sequence.waits_for_remote_kv = True
            task = asyncio.create_task(self._load_remote(sequence))
            self._load_tasks.add(task)
            task.add_done_callback(self._load_tasks.discard)
        else:
            sequence.computed_tokens = computed
        return True

    def _record_admission(self, sequence: EngineSequence, *, local: int, computed: int) -> None:
        if self.config.prefix_caching:
            self.metrics.prefix_queries.inc(sequence.all_tokens)
            self.metrics.prefix_hits.inc(local)
        self.metrics.external_queries.inc(sequence.all_tokens - local)
        self.metrics.external_hits.inc(sequence.external_tokens)
        if sequence.scheduled_seconds is None:
            now = self._clock.now()
            sequence.cached_tokens = computed
            self.metrics.scheduled(sequence, local_tokens=local, now_seconds=now)
            sequence.scheduled_seconds = now

    async def _load_remote(self, sequence: EngineSequence) -> None:
        try:
            loaded = await self.connector.load_remote(sequence)
        except GenerationError as error:
            if not sequence.finished:
                self.metrics.request_success["error"].inc()
                sequence.fail(error)
            sequence.allocation.free()
            return
        sequence.waits_for_remote_kv = False
        if sequence.finished:
            sequence.allocation.free()
            return
        # At least the last token is computed here: its logits do not come with the KV cache.
        sequence.computed_tokens = min(
            sequence.cached_tokens - sequence.external_tokens + loaded.tokens, sequence.all_tokens - 1
        )
        sequence.external_tokens = 0
        sequence.remote_kv_ready = True
        self._waiting.appendleft(sequence)
        self._wake.set()

    def _drop_finished(self) -> None:
        for sequence in [sequence for sequence in self._running if sequence.finished]:
            self._running.remove(sequence)
            sequence.allocation.free()
        if any(sequence.finished for sequence in self._waiting):
            for sequence in self._waiting:
                if sequence.finished:
                    sequence.allocation.free()
            self._waiting = deque(sequence for sequence in self._waiting if not sequence.finished)

    def _fail_all(self) -> None:
        for sequence in [*self._running, *self._waiting]:
            if not sequence.finished:
                sequence.fail(EngineDeadError())
        self._running.clear()
        self._waiting.clear()

    def _update_gauges(self) -> None:
        metrics = self.metrics
        metrics.running.set(len(self._running))
        metrics.waiting.set(len(self._waiting) + len(self._load_tasks))
        metrics.waiting_by_reason["capacity"].set(len(self._waiting))
        metrics.waiting_by_reason["deferred"].set(len(self._load_tasks))
        metrics.kv_usage.set(self._pool.usage)


def _shape(plan: list[tuple[EngineSequence, int]]) -> StepShape:
    prefill_tokens = prefill_context = prefill_own = decode_sequences = decode_context = 0
    for sequence, tokens in plan:
        if sequence.output_ids and tokens == 1:
            decode_sequences += 1
            decode_context += sequence.computed_tokens
        else:
            prefill_tokens += tokens
            prefill_context += tokens * sequence.computed_tokens
            prefill_own += tokens * (tokens + 1) // 2
    return StepShape(
        prefill_tokens=prefill_tokens,
        prefill_context_tokens=prefill_context,
        prefill_pairs=prefill_context + prefill_own,
        decode_sequences=decode_sequences,
        decode_context_tokens=decode_context,
    )
