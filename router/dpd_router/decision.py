"""Disaggregate a request, or decode it directly, and why."""

import dataclasses
from collections.abc import Sequence

from dpd_router.config import Estimator, Settings, Transfer
from dpd_router.eligibility import Limits, Reason, limits_of, obstacle
from dpd_router.generation import Generation, Kind
from dpd_router.metrics import Metrics
from dpd_router.other_routers import OtherRouters
from dpd_router.pool import Pool
from dpd_router.tokens import (
    CHARACTERS_PER_TOKEN,
    PromptTokenizer,
    TokenizedPrompt,
    TokenizeError,
    prompt_text_sizes,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Direct:
    """Decode the request as it came, for a reason."""

    reason: Reason


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Disaggregate:
    """Prefill elsewhere.

    Attributes:
        ids: the prompt's token ids; empty where the transfer sends the request unchanged.
        tokens: number of prompt tokens, counted or estimated.
        limits: the client's limits.
        max_model_len: context length in tokens; 0 where it is not needed.
    """

    ids: Sequence[int]
    tokens: int
    limits: Limits
    max_model_len: int

    @property
    def max_tokens(self) -> int:
        """Output tokens at most, at least 2."""
        room = self.max_model_len - len(self.ids)
        return room if self.limits.max_tokens is None else min(room, self.limits.max_tokens)


class Decider:
    """Decides from the request, the threshold and the workers that are up."""

    def __init__(
        self,
        settings: Settings,
        pool: Pool,
        tokenizer: PromptTokenizer,
        metrics: Metrics,
        others: OtherRouters,
    ) -> None:
        self._others = others
        self._routing = settings.routing
        self._chunk_tokens = settings.buffers.chunk_tokens
        self._pool = pool
        self._tokenizer = tokenizer
        self._metrics = metrics

    async def decide(self, generation: Generation) -> Direct | Disaggregate:
        """Return the decision; nothing that a client can send makes it raise."""
        threshold = self._routing.threshold
        if threshold is None:
            return Direct(reason=Reason.THRESHOLD_NEVER)
        # length first: the reasons below then count long prompts only, which is what one wants to know
        estimate = self._estimate(generation)
        if not estimate.may_reach(threshold):
            self._metrics.prompt_tokens.observe(estimate.tokens)
            return Direct(reason=Reason.BELOW_THRESHOLD)
        if (reason := obstacle(generation, self._routing) or self._workers_obstacle()) is not None:
            return Direct(reason=reason)
        return await self._count(generation, estimate, threshold)

    def _workers_obstacle(self) -> Reason | None:
        """Return why nothing can be handed over now, whatever the request."""
        if self._routing.transfer is Transfer.LMCACHE_PD and not self._others.alone:
            return Reason.OTHER_ROUTER
        if not self._pool.usable_decoders():
            return Reason.NO_DECODER
        return None if self._pool.usable_prefillers() else Reason.NO_PREFILLER

    async def _count(
        self, generation: Generation, estimate: "_Estimate", threshold: int
    ) -> Direct | Disaggregate:
        limits = limits_of(generation)
        assert limits is not None  # `obstacle` has looked
        lengths = self._common_models()
        if not lengths or (generation.model is not None and generation.model not in lengths):
            return Direct(reason=Reason.MODEL_NOT_ON_BOTH_ROLES)
        if self._routing.transfer is Transfer.NIXL and estimate.surely_reaches(threshold):
            return self._unchanged(estimate.tokens, limits)
        try:
            prompt = await self._tokenizer.tokenize(generation)
        except TokenizeError as error:
            return Direct(reason=Reason.TOKENIZE_REJECTED if error.rejected else Reason.TOKENIZE_FAILED)
        # an adapter's model card has no length: it is that of its base model
        known = lengths.get(generation.model or "", 0) or max(lengths.values())
        return self._judge(prompt, limits, threshold, prompt.max_model_len or known)

    def _judge(
        self, prompt: TokenizedPrompt, limits: Limits, threshold: int, max_model_len: int
    ) -> Direct | Disaggregate:
        count = len(prompt.ids)
        self._metrics.prompt_tokens.observe(count)
        # with `characters` the estimate has decided already, as it does in HyperPod's router
        if self._routing.estimator is Estimator.TOKENS and count < threshold:
            return Direct(reason=Reason.BELOW_THRESHOLD)
        if count < self._chunk_tokens:
            return Direct(reason=Reason.SHORTER_THAN_CHUNK)
        if max_model_len == 0:
            return Direct(reason=Reason.CONTEXT_UNKNOWN)
        # the engine's own refusal is the right answer to a prompt that does not fit
        if count + max(limits.max_tokens or 0, 2) > max_model_len:
            return Direct(reason=Reason.EXCEEDS_CONTEXT)
        return Disaggregate(ids=prompt.ids, tokens=count, limits=limits, max_model_len=max_model_len)

    def _unchanged(self, tokens: int, limits: Limits) -> Direct | Disaggregate:
        self._metrics.prompt_tokens.observe(tokens)
        if tokens < self._chunk_tokens:
            return Direct(reason=Reason.SHORTER_THAN_CHUNK)
        return Disaggregate(ids=(), tokens=tokens, limits=limits, max_model_len=0)

    def _common_models(self) -> dict[str, int]:
        """Return the shortest context by the names that both roles serve."""
        decoders = self._pool.usable_decoders()
        prefillers = self._pool.usable_prefillers()
        names = {name for worker in decoders for name in worker.models}
        names &= {name for worker in prefillers for name in worker.models}
        workers = [*decoders, *prefillers]
        return {name: min(worker.models.get(name, 0) for worker in workers) for name in names}

    def _estimate(self, generation: Generation) -> "_Estimate":
        prompt = generation.body.get("prompt")
        if generation.kind is Kind.COMPLETION and isinstance(prompt, list):
            return _Estimate(tokens=len(prompt), band=1.0)
        characters, text_bytes = prompt_text_sizes(generation)
        if self._routing.estimator is Estimator.CHARACTERS:
            return _Estimate(tokens=characters // CHARACTERS_PER_TOKEN, band=1.0)
        # bytes / 4 follows scripts with one token per character (three bytes) better than characters / 4
        return _Estimate(tokens=text_bytes // CHARACTERS_PER_TOKEN, band=self._routing.estimator_band)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Estimate:
    tokens: int
    band: float

    def may_reach(self, threshold: int) -> bool:
        return self.tokens * self.band >= threshold

    def surely_reaches(self, threshold: int) -> bool:
        return self.tokens >= threshold * self.band
