"""One vLLM engine: its scheduler, step by step, but only the steps in which something happens.

The scheduler of vLLM V1: running requests first (one token for each decoding sequence, the rest of a prompt that was
begun), then waiting requests in order of arrival until the token budget is spent. Tokens appear at the end of a step.
Between two events a decoding batch only grows its context, so a run of such steps has a closed form and is taken at
once; this is exact, not an approximation.
"""

import heapq
import math
from collections import deque
from dataclasses import dataclass, field

from hyperpod_dpd.planner.step import StepTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLimits:
    """What bounds a step and a batch."""

    max_num_batched_tokens: int
    max_num_seqs: int
    kv_tokens: int
    """Tokens of KV cache."""

    schedules_ahead: bool = True
    """vLLM composes a step while the one before runs, so that an arrival waits for one step more (default since
    0.14)."""


@dataclass(slots=True, kw_only=True, eq=False)
class Sequence:
    """One request inside one engine."""

    request: int
    """Number of the request it belongs to."""

    prompt_tokens: int
    output_tokens: int

    cached_tokens: int = 0
    """Prompt tokens whose KV cache is already there: prefix cache or hand-off."""

    admission_seconds: float = 0.0
    """Added to the step that admits it: the copy out of the PD buffer."""

    seconds_per_prefill_token: float = 0.0
    """Added for every prompt token that a step computes: the copy into the PD buffer."""

    lands_only: bool = False
    """It only makes the engine load a hand-off; its token is thrown away."""

    arrived_seconds: float = 0.0
    first_token_seconds: float = math.nan

    computed_tokens: int = 0
    emitted_tokens: int = 0
    joined_tick: int = 0
    """Tick of the engine at which it began to decode."""


@dataclass(slots=True, eq=False)
class Engine:
    """State of one engine. `arrive` at an arrival, `complete` when the announced end of work has come."""

    name: str
    times: StepTimes
    limits: EngineLimits

    waiting: deque[Sequence] = field(default_factory=deque)
    version: int = 0
    """Grows whenever the announced end of work changes; an older announcement is void."""

    queued_tokens: int = 0
    """Prompt tokens that are still to be computed."""

    busy_seconds: float = 0.0
    preemptions: int = 0

    _prefilling: Sequence | None = None
    _decoding: dict[Sequence, None] = field(default_factory=dict)
    _finishing: dict[int, list[Sequence]] = field(default_factory=dict)
    _finishing_ticks: list[int] = field(default_factory=list)
    """Heap of the keys of `_finishing`; a key that is gone is skipped."""
    _tick: int = 0
    """Decode steps so far."""
    _context: int = 0
    """Context of the decoding sequences, in tokens."""
    _prompts: int = 0
    """Prompt tokens of the sequences that are in but do not decode yet."""

    _started: float = math.nan
    """Start of the work in progress; NaN when idle."""
    _ends: float = math.nan
    _run: int = 0
    """Decode steps in progress."""
    _base: float = 0.0
    _slope: float = 0.0
    _computed: list[Sequence] = field(default_factory=list)
    """Sequences whose prompt ends with the step in progress."""
    _seen_until: float = math.inf
    """Arrivals up to here are visible to the next step."""

    @property
    def idle(self) -> bool:
        """Whether nothing runs."""
        return math.isnan(self._started)

    def arrive(self, sequence: Sequence, now: float) -> float | None:
        """Take `sequence` and return the new end of work, or None when the announced one still holds."""
        sequence.arrived_seconds = now
        self.waiting.append(sequence)
        self.queued_tokens += sequence.prompt_tokens - sequence.cached_tokens
        if self.idle:
            self._seen_until = now
            return self._start(now)
        # the one step that runs is never cut
        if self._run == 1 or not self._admissible(self.waiting[0]):
            return None
        return self._interrupt(now)

    def complete(self, now: float) -> tuple[list[Sequence], list[Sequence], float | None]:
        """End the work in progress.

        Returns:
            Sequences with their first token, sequences that are finished, and the end of the next work (None: idle).
        """
        first, finished = self._account(now)
        previous_start = self._last_step_start(now)
        self._seen_until = previous_start if self.limits.schedules_ahead else now
        ends = self._start(now)
        if ends is None and self.waiting:
            # nothing was queued behind the step: the engine looks again as soon as it is done
            self._seen_until = now
            ends = self._start(now)
        return first, finished, ends

    # -- what is running --------------------------------------------------------------------------------------------

    def _account(self, now: float) -> tuple[list[Sequence], list[Sequence]]:
        self.busy_seconds += now - self._started
        first: list[Sequence] = []
        finished: list[Sequence] = []
        batch = len(self._decoding)
        if batch:
            self._context += batch * self._run
            self._tick += self._run
            for sequence in self._finishing.pop(self._tick, ()):
                del self._decoding[sequence]
                self._context -= sequence.prompt_tokens + sequence.output_tokens
                finished.append(sequence)
        for sequence in self._computed:
            if math.isnan(sequence.first_token_seconds):
                sequence.first_token_seconds = now
                first.append(sequence)
            sequence.emitted_tokens += 1
            self._prompts -= sequence.prompt_tokens
            if sequence.emitted_tokens >= sequence.output_tokens:
                finished.append(sequence)
            else:
                self._join(sequence)
        self._computed = []
        return first, finished

    def _join(self, sequence: Sequence) -> None:
        self._decoding[sequence] = None
        sequence.joined_tick = self._tick
        self._context += sequence.prompt_tokens + sequence.emitted_tokens
        last = self._tick + sequence.output_tokens - sequence.emitted_tokens
        if last not in self._finishing:
            self._finishing[last] = []
            heapq.heappush(self._finishing_ticks, last)
        self._finishing[last].append(sequence)

    def _last_step_start(self, now: float) -> float:
        if self._run == 1:
            return self._started
        return now - (self._base + self._slope * (self._run - 1))

    # -- what comes next --------------------------------------------------------------------------------------------

    def _start(self, now: float) -> float | None:
        self._make_room()
        batch = len(self._decoding)
        self.version += 1
        chunks: list[tuple[Sequence, int]] = []
        extra_seconds = 0.0
        if self._prefilling is not None or self.waiting:
            extra_seconds = self._compose(self.limits.max_num_batched_tokens - batch, chunks)
        if not chunks and not batch:
            self._started = self._ends = math.nan
            return None
        self._started = now
        seconds_per_token = self.times.seconds_per_cached_token
        if chunks:
            tokens, pairs = 0, 0.0
            for sequence, chunk in chunks:
                tokens += chunk
                pairs += chunk * (sequence.computed_tokens - chunk) + chunk * (chunk + 1) / 2
            sampled = batch + len(self._computed)
            seconds = self.times.mixed_seconds(tokens, pairs, batch, sampled)
            self._run = 1
            self._ends = now + seconds + self._context * seconds_per_token + extra_seconds
            return self._ends
        self._base = self.times.decode_seconds(batch) + self._context * seconds_per_token
        self._slope = batch * seconds_per_token
        self._run = self._steps_until_something_happens(batch)
        self._ends = now + self._duration(self._run)
        return self._ends

    def _duration(self, run: int) -> float:
        return run * self._base + self._slope * (run * (run - 1) / 2)

    def _steps_until_something_happens(self, batch: int) -> int:
        while self._finishing_ticks[0] not in self._finishing:
            heapq.heappop(self._finishing_ticks)
        run = self._finishing_ticks[0] - self._tick
        room = self.limits.kv_tokens - self._context - self._prompts
        run = min(run, max(1, room // batch))
        if self.waiting and self._admissible(self.waiting[0]):
            return 1
        return run

    def _interrupt(self, now: float) -> float | None:
        """Cut the run of decode steps after the step that is the last to be composed without the newcomer."""
        passed = self._steps_begun_by(now)
        keep = passed + 1 if self.limits.schedules_ahead else passed
        if keep >= self._run:
            return None
        self._run = keep
        self._ends = self._started + self._duration(keep)
        self.version += 1
        return self._ends

    def _steps_begun_by(self, now: float) -> int:
        elapsed = now - self._started
        if self._slope <= 0:
            guess = elapsed / self._base if self._base > 0 else self._run
        else:
            half = self._base - self._slope / 2
            guess = (math.sqrt(half * half + 2 * self._slope * elapsed) - half) / self._slope
        begun = min(self._run, max(1, int(guess)))
        while begun < self._run and self._duration(begun) <= elapsed:
            begun += 1
        while begun > 1 and self._duration(begun - 1) > elapsed:
            begun -= 1
        return begun

    def _compose(self, budget: int, chunks: list[tuple[Sequence, int]]) -> float:
        extra_seconds = 0.0
        begun = self._prefilling
        if begun is not None:
            taken = self._take(begun, budget, chunks)
            budget -= taken
            extra_seconds += taken * begun.seconds_per_prefill_token
        # a prompt that is not complete has taken the whole budget
        while budget > 0 and self.waiting:
            head = self.waiting[0]
            if head.arrived_seconds > self._seen_until or not self._admissible(head):
                break
            self.waiting.popleft()
            head.computed_tokens = head.cached_tokens
            self._prompts += head.prompt_tokens
            taken = self._take(head, budget, chunks)
            budget -= taken
            extra_seconds += head.admission_seconds + taken * head.seconds_per_prefill_token
        return extra_seconds

    def _take(self, sequence: Sequence, budget: int, chunks: list[tuple[Sequence, int]]) -> int:
        chunk = min(budget, sequence.prompt_tokens - sequence.computed_tokens)
        if chunk <= 0:
            return 0
        sequence.computed_tokens += chunk
        self.queued_tokens -= chunk
        chunks.append((sequence, chunk))
        if sequence.computed_tokens == sequence.prompt_tokens:
            self._prefilling = None
            self._computed.append(sequence)
        else:
            self._prefilling = sequence
        return chunk

    def _admissible(self, sequence: Sequence) -> bool:
        running = len(self._decoding) + (self._prefilling is not None) + len(self._computed)
        if running >= self.limits.max_num_seqs:
            return False
        held = self._context + self._prompts + len(self._decoding)
        return held + sequence.prompt_tokens < self.limits.kv_tokens or not running

    def _make_room(self) -> None:
        """Preempt the latest sequence when the next token of the batch finds no room; it is computed again."""
        room = self.limits.kv_tokens - self._prompts
        while len(self._decoding) > 1 and self._context + len(self._decoding) > room:
            sequence, _ = self._decoding.popitem()
            done = self._tick - sequence.joined_tick
            last = sequence.joined_tick + sequence.output_tokens - sequence.emitted_tokens
            self._finishing[last].remove(sequence)
            if not self._finishing[last]:
                del self._finishing[last]
            sequence.emitted_tokens += done
            self._context -= sequence.prompt_tokens + sequence.emitted_tokens
            # what was generated so far is part of the prompt that is computed again
            sequence.prompt_tokens += sequence.emitted_tokens
            sequence.output_tokens -= sequence.emitted_tokens
            sequence.emitted_tokens = 0
            sequence.cached_tokens = 0
            sequence.admission_seconds = 0.0
            self.preemptions += 1
            self.queued_tokens += sequence.prompt_tokens
            self.waiting.appendleft(sequence)
