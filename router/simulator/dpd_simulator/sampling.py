"""What turns scores into one token: parameters, penalties over the output, generator stream, log probabilities."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from dpd_simulator.model import ModelState, Scores
from dpd_simulator.tokenizer import Vocabulary

# vLLM prints this value instead of minus infinity.
LOWEST_LOGPROB = -9999.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParameters:
    """The part of a request that decides which tokens come out. Names and meaning are vLLM's."""

    max_tokens: int
    min_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    logit_bias: dict[int, float] = field(default_factory=dict)
    allowed_token_ids: tuple[int, ...] = ()
    bad_words: tuple[tuple[int, ...], ...] = ()
    guide: bytes = b""

    @property
    def greedy(self) -> bool:
        """Whether no random number is drawn (vLLM treats temperatures below 1e-5 so)."""
        return self.temperature < 1e-5

    @property
    def adjusts_nothing(self) -> bool:
        """Whether the model's scores are sampled as they are."""
        steered = self.logit_bias or self.allowed_token_ids or self.bad_words or self.min_tokens
        penalized = self.presence_penalty or self.frequency_penalty or self.repetition_penalty != 1.0
        return not steered and not penalized


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledToken:
    """One token with its log probabilities, the sampled one first, then the best ones in order."""

    token_id: int
    logprobs: tuple[tuple[int, float], ...] | None = None


class Sampler:
    """Samples the output of one sequence. Its state starts at the first output token, as in vLLM."""

    __slots__ = (
        "_counts",
        "_generator",
        "_parameters",
        "_prompt_ids",
        "_unadjusted",
        "_vocabulary",
        "output_ids",
    )

    def __init__(
        self,
        *,
        vocabulary: Vocabulary,
        parameters: SamplingParameters,
        prompt_ids: Sequence[int],
        engine_generator: random.Random,
    ) -> None:
        self._vocabulary = vocabulary
        self._parameters = parameters
        self._prompt_ids = frozenset(prompt_ids) if parameters.repetition_penalty != 1.0 else frozenset()
        self._counts: Counter[int] = Counter()
        self._generator = engine_generator if parameters.seed is None else random.Random(parameters.seed)  # noqa: S311
        self._unadjusted = parameters.adjusts_nothing
        self.output_ids: list[int] = []

    def next_token(self, state: ModelState) -> SampledToken:
        """Draw the next token and remember it; the caller adds it to `state`."""
        raw = state.scores()
        token_id = self._draw(raw if self._unadjusted else self._adjusted(raw))
        if not self._unadjusted:
            self._counts[token_id] += 1
        self.output_ids.append(token_id)
        count = self._parameters.logprobs
        return SampledToken(
            token_id=token_id, logprobs=None if count is None else top_logprobs(raw, token_id, count)
        )

    def _adjusted(self, raw: Scores) -> Scores:
        parameters = self._parameters
        scores = dict(raw)
        for token_id, bias in parameters.logit_bias.items():
            scores[token_id] = scores.get(token_id, 0.0) + bias
        if parameters.allowed_token_ids:
            kept = {token_id: raw.get(token_id, 0.0) for token_id in parameters.allowed_token_ids}
            scores = {token_id: scores.get(token_id, score) for token_id, score in kept.items()}
        for token_id in self._banned():
            scores.pop(token_id, None)
        for token_id, score in scores.items():
            scores[token_id] = self._penalized(token_id, score)
        # Everything banned: the model still has to say something, and the first word is never special.
        return scores or {self._vocabulary.first_word_id: 0.0}

    def _banned(self) -> set[int]:
        parameters = self._parameters
        banned: set[int] = set()
        if len(self.output_ids) < parameters.min_tokens:
            banned.update(parameters.stop_token_ids)
            if not parameters.ignore_eos:
                banned.add(self._vocabulary.end_of_turn_id)
        for word in parameters.bad_words:
            *head, last = word
            if not head or self.output_ids[-len(head) :] == head:
                banned.add(last)
        return banned

    def _penalized(self, token_id: int, score: float) -> float:
        parameters = self._parameters
        if parameters.repetition_penalty != 1.0 and (token_id in self._prompt_ids or self._counts[token_id]):
            factor = parameters.repetition_penalty
            score = score / factor if score > 0 else score * factor
        count = self._counts[token_id]
        if count:
            score -= parameters.presence_penalty + parameters.frequency_penalty * count
        return score

    def _draw(self, scores: Scores) -> int:
        parameters = self._parameters
        if parameters.greedy:
            best_score = max(scores.values())
            return min(token_id for token_id, score in scores.items() if score == best_score)
        ranked = sorted(scores, key=lambda token_id: (-scores[token_id], token_id))
        if parameters.top_k > 0:
            ranked = ranked[: parameters.top_k]
        best = scores[ranked[0]]
        weights = [math.exp((scores[token_id] - best) / parameters.temperature) for token_id in ranked]
        weights = [weight if weight >= parameters.min_p else 0.0 for weight in weights]
        total, mass = sum(weights), 0.0
        for index, weight in enumerate(weights):
            if mass >= parameters.top_p * total:
                weights[index] = 0.0
            mass += weight
        threshold = self._generator.random() * sum(weights)
        for token_id, weight in zip(ranked, weights, strict=True):
            threshold -= weight
            if threshold < 0:
                return token_id
        return ranked[0]


def top_logprobs(scores: Scores, token_id: int, count: int) -> tuple[tuple[int, float], ...]:
    """Raw log probabilities: of `token_id` first, then of the `count` best tokens (-1: all)."""
    normalizer = math.log(sum(math.exp(score) for score in scores.values()))
    ranked = sorted(scores, key=lambda candidate: (-scores[candidate], candidate))
    best = ranked if count < 0 else ranked[:count]
    chosen = dict.fromkeys([token_id, *best])
    return tuple(
        (candidate, scores[candidate] - normalizer if candidate in scores else LOWEST_LOGPROB)
        for candidate in chosen
    )
