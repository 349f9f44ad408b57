"""One sequence of a request: its tokens, its text, and the outputs that wait for the HTTP side."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpd_simulator.blocks import Allocation, BlockHash
from dpd_simulator.detokenizer import Detokenizer
from dpd_simulator.model import ModelState
from dpd_simulator.sampling import SampledToken, Sampler, SamplingParameters
from dpd_simulator.tokenizer import Vocabulary


class GenerationError(Exception):
    """A request failed inside the engine (status 500, or an error event in a stream)."""


class EngineDeadError(GenerationError):
    """The engine is gone; nothing more comes from it."""

    def __init__(self) -> None:
        super().__init__("EngineCore encountered an issue. See stack trace (above) for the root cause.")


@dataclass(slots=True, kw_only=True)
class Output:
    """What came out of a sequence since the last time somebody looked."""

    text: str = ""
    tokens: list[SampledToken] = field(default_factory=list)
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    kv_transfer_params: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceRequest:
    """What the HTTP side asks of the engine for one sequence."""

    request_id: str
    prompt_ids: Sequence[int]
    parameters: SamplingParameters
    cache_salt: str | None = None
    kv_transfer_params: Mapping[str, Any] | None = None
    index: int = 0


class EngineSequence:
    """A sequence in the engine."""

    def __init__(
        self,
        *,
        request: SequenceRequest,
        vocabulary: Vocabulary,
        allocation: Allocation,
        prompt_hashes: list[BlockHash],
        max_model_len: int,
        generator: random.Random,
        arrival_seconds: float,
    ) -> None:
        parameters = request.parameters
        self.request = request
        self.parameters = parameters
        self.prompt_tokens = len(request.prompt_ids)
        self.ids: list[int] = list(request.prompt_ids)
        self.allocation = allocation
        self.block_hashes = prompt_hashes
        self.max_model_len = max_model_len
        self.vocabulary = vocabulary
        self.state = ModelState(vocabulary, request.prompt_ids, guide=parameters.guide)
        self.sampler = Sampler(
            vocabulary=vocabulary,
            parameters=parameters,
            prompt_ids=request.prompt_ids,
            engine_generator=generator,
        )
        self.detokenizer = Detokenizer(
            vocabulary=vocabulary, parameters=parameters, prompt_ids=request.prompt_ids
        )
        self.computed_tokens = 0
        self.cached_tokens = 0
        self.external_tokens = 0
        self.loaded = False
        self.waits_for_remote_kv = False
        self.remote_kv_ready = False
        self.finished = False
        self.aborted = False
        self.arrival_seconds = arrival_seconds
        self.scheduled_seconds: float | None = None
        self.first_token_seconds: float | None = None
        self.last_token_seconds: float | None = None
        self._pending: Output | None = None
        self._failure: GenerationError | None = None
        self._news = asyncio.Event()

    @property
    def output_ids(self) -> list[int]:
        """Tokens generated so far."""
        return self.sampler.output_ids

    @property
    def all_tokens(self) -> int:
        """Prompt and output tokens."""
        return len(self.ids)

    def sample(self) -> Output:
        """Generate one token, with the text and the end that follow from it."""
        sampled = self.sampler.next_token(self.state)
        self.state.append(sampled.token_id)
        self.ids.append(sampled.token_id)
        stop_reason: int | str | None
        finish_reason, stop_reason = self._end_by_token(sampled.token_id)
        ends_with_token = finish_reason == "stop"
        stop = self.detokenizer.append(sampled.token_id, ends_output=ends_with_token)
        if stop is not None:
            finish_reason, stop_reason = "stop", stop
        self.finished = finish_reason is not None
        return Output(
            text=self.detokenizer.take(finished=self.finished),
            tokens=[sampled],
            finish_reason=finish_reason,
            stop_reason=stop_reason,
        )

    def _end_by_token(self, token_id: int) -> tuple[str | None, int | None]:
        parameters = self.parameters
        if len(self.output_ids) < parameters.min_tokens:
            return None, None
        if token_id == self.vocabulary.end_of_turn_id and not parameters.ignore_eos:
            return "stop", None
        if token_id in parameters.stop_token_ids:
            return "stop", token_id
        if self.all_tokens >= self.max_model_len or len(self.output_ids) >= parameters.max_tokens:
            return "length", None
        return None, None

    def publish(self, output: Output) -> None:
        """Hand an output to the HTTP side; outputs that nobody has read yet are merged, as in vLLM."""
        if self._pending is None:
            self._pending = output
        else:
            self._pending.text += output.text
            self._pending.tokens += output.tokens
            self._pending.finish_reason = output.finish_reason
            self._pending.stop_reason = output.stop_reason
            self._pending.kv_transfer_params = output.kv_transfer_params
        self._news.set()

    def fail(self, error: GenerationError) -> None:
        """End the sequence with an error."""
        self.finished = True
        self._failure = error
        self._news.set()

    async def next_output(self) -> Output:
        """Wait for the next output.

        Raises:
            GenerationError: the sequence failed.
        """
        while self._pending is None:
            if self._failure is not None:
                raise self._failure
            await self._news.wait()
            self._news.clear()
        output, self._pending = self._pending, None
        return output
