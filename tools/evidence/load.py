"""Clients: streamed completions with token ids, some of which leave early."""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field
from typing import Any

import aiohttp

from tools.evidence.standin import FIRST_WORD, VOCABULARY


@dataclass(kw_only=True)
class Outcome:
    """What one client saw."""

    status: int = 0
    ttft_seconds: float | None = None
    total_seconds: float = 0.0
    text: str = ""
    chunks: int = 0
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    left: bool = False
    error: str | None = None
    gaps_seconds: list[float] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome without the text and the single gaps."""
        data = asdict(self)
        del data["gaps_seconds"], data["text"]
        return data


def prompt(seed: object, tokens: int) -> list[int]:
    """Return `tokens` random token ids, the same for the same seed."""
    source = random.Random(str(seed))
    return [source.randrange(FIRST_WORD, VOCABULARY) for _ in range(tokens)]


def body(tokens: list[int], output: int) -> dict[str, Any]:
    """Return a completion request for exactly `output` tokens."""
    return {
        "model": "standin", "prompt": tokens, "max_tokens": output, "min_tokens": output, "ignore_eos": True,
        "temperature": 0,
    }  # fmt: skip


def clients(timeout_seconds: float) -> aiohttp.ClientSession:
    """Return a session for any number of requests at a time, each of which may take `timeout_seconds`."""
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=timeout_seconds), connector=aiohttp.TCPConnector(limit=0)
    )


def identical(one: list[Outcome], other: list[Outcome]) -> int:
    """Return how many answers, pair by pair, are the same and not empty."""
    return sum(a.text == b.text and bool(a.text) for a, b in zip(one, other, strict=True))


async def sequential(
    url: str, requests: list[dict[str, Any]], path: str = "/v1/completions"
) -> list[Outcome]:
    """Send requests one after another."""
    async with clients(180) as session:
        return [await complete(session, url, request, path=path) for request in requests]


async def complete(
    session: aiohttp.ClientSession,
    url: str,
    body: dict[str, Any],
    *,
    path: str = "/v1/completions",
    leave_after_seconds: float | None = None,
    leave_after_chunks: int | None = None,
) -> Outcome:
    """Send one streamed request; leave early when told to."""
    outcome = Outcome()
    begin = time.perf_counter()
    body = {**body, "stream": True, "stream_options": {"include_usage": True}}
    try:
        async with asyncio.timeout(leave_after_seconds):
            async with session.post(url + path, json=body) as answer:
                outcome.status = answer.status
                if answer.status != 200:
                    outcome.error = (await answer.text())[:500]
                    return outcome
                last = begin
                async for event in _events(answer):
                    now = time.perf_counter()
                    _note(outcome, event, now - begin, now - last)
                    last = now
                    if leave_after_chunks is not None and outcome.chunks >= leave_after_chunks:
                        outcome.left = True
                        return outcome
    except TimeoutError:
        outcome.left = True
    except (aiohttp.ClientError, OSError) as error:
        outcome.error = f"{type(error).__name__}: {error}"
    finally:
        outcome.total_seconds = time.perf_counter() - begin
    return outcome


def _note(outcome: Outcome, event: dict[str, Any], since_begin: float, since_last: float) -> None:
    if "error" in event:
        outcome.error = json.dumps(event["error"])[:500]
        return
    if usage := event.get("usage"):
        outcome.prompt_tokens = usage.get("prompt_tokens")
        outcome.completion_tokens = usage.get("completion_tokens")
        details = usage.get("prompt_tokens_details") or {}
        outcome.cached_tokens = details.get("cached_tokens")
    for choice in event.get("choices", ()):
        text = choice.get("text") or (choice.get("delta") or {}).get("content") or ""
        outcome.finish_reason = choice.get("finish_reason") or outcome.finish_reason
        if not text:
            continue
        outcome.text += text
        outcome.chunks += 1
        if outcome.ttft_seconds is None:
            outcome.ttft_seconds = since_begin
        else:
            outcome.gaps_seconds.append(since_last)


async def _events(answer: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    async for line in answer.content:
        text = line.strip()
        if text.startswith(b"data:") and text != b"data: [DONE]":
            yield json.loads(text[5:])
