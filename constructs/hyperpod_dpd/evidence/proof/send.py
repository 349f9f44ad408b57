"""Sending a prompt, as a client does."""

import time
from dataclasses import dataclass
from typing import Any, Final

from hyperpod_dpd.evidence.proof import prompts
from hyperpod_dpd.evidence.proof.target import CHAT, Target
from hyperpod_dpd.evidence.proof.web import Answer, Deadline, NoAnswerError, ask
from hyperpod_dpd.evidence.proof.wire import trusting_anybody

DECISION_HEADER: Final = "X-DPD-Decision"
"""Header in which the router says how a request was served; a test compares it with the router's own."""

_MOST_TOKENS: Final = 10**9
"""No prompt has as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One prompt and what came back.

    Attributes:
        words: words of the prompt.
        seconds: until the answer was complete, or given up.
        status: HTTP status; None without an answer.
        problem: why there is no good answer; empty with one.
        prompt_tokens: tokens of the prompt, by the answer.
        cached_tokens: tokens that were not computed where it was decoded, where the answer says so.
        decision: `disaggregated`, `direct` or `fallback`, where the router says so.
    """

    words: int
    seconds: float
    status: int | None = None
    problem: str = ""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    decision: str = ""

    @property
    def answered(self) -> bool:
        """Whether there is a good answer."""
        return not self.problem


def send(target: Target, words: int, deadline: Deadline) -> Sent:
    """Send one prompt and wait for its answer."""
    seconds = deadline.at_most(target.request_seconds)
    headers = {"Authorization": f"Bearer {target.api_key}"} if target.api_key else {}
    started = time.monotonic()
    try:
        answer = ask(
            target.url + target.path,
            seconds=seconds,
            body=_body(target, prompts.text(words)),
            headers=headers,
            context=trusting_anybody() if target.trusts_any_certificate else None,
        )
    except NoAnswerError as error:
        return Sent(words=words, seconds=time.monotonic() - started, problem=str(error))
    return _read(answer, words=words, seconds=time.monotonic() - started)


def _body(target: Target, prompt: str) -> dict[str, Any]:
    common = {
        "model": target.model,
        "max_tokens": prompts.OUTPUT_TOKENS,
        "temperature": 0,
        "ignore_eos": True,
    }
    if target.path == CHAT:
        return {**common, "messages": [{"role": "user", "content": prompt}]}
    return {**common, "prompt": prompt}


def _read(answer: Answer, *, words: int, seconds: float) -> Sent:
    decision = answer.headers.get(DECISION_HEADER, "")
    common: dict[str, Any] = {
        "words": words,
        "seconds": seconds,
        "status": answer.status,
        "decision": decision,
    }
    if answer.status != 200:
        return Sent(**common, problem=f"status {answer.status}: {answer.text[:200].strip()}")
    try:
        body = answer.json()
        usage = body["usage"]
        tokens = _count(usage["prompt_tokens"])
        choice = body["choices"][0]
        text = choice["text"] if "text" in choice else choice["message"]["content"]
        details = usage.get("prompt_tokens_details") or {}
        cached = details.get("cached_tokens")
        cached_tokens = None if cached is None else _count(cached)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return Sent(**common, problem=f"not an answer of the API: {answer.text[:200].strip()}")
    if not text and not usage.get("completion_tokens"):
        return Sent(**common, problem="an answer without a token", prompt_tokens=tokens)
    return Sent(**common, prompt_tokens=tokens, cached_tokens=cached_tokens)


def _count(value: Any) -> int:
    if not isinstance(value, int) or not 0 <= value < _MOST_TOKENS:
        raise ValueError(f"`{str(value)[:40]}` is no number of tokens")
    return value
