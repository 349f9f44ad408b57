"""Clients: each user sends its next request when the last one is answered, and times what comes back."""

import asyncio
import json
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Final

import aiohttp

from hyperpod_dpd.evidence.results import UNKNOWN
from hyperpod_dpd.planner.times import RequestTimes
from hyperpod_dpd.rehearsal.prompts import Request
from hyperpod_dpd.spec.value import record

_USAGE_BYTES: Final = 1024
"""The end of a stream that is kept: its last event says how many tokens came."""

_ERROR: Final = b'"error"'
DECISION_HEADER: Final = "X-DPD-Decision"


class Ending(StrEnum):
    """How a request ended for its client."""

    ANSWERED = "answered"
    """Complete, with as many tokens as were asked for."""

    REFUSED = "refused"
    """429, 503 or no endpoint, before the first byte: come again."""

    FAILED = "failed"
    """Another status, an error in the stream, or a stream that was cut off."""

    LEFT = "left"
    """The client went away on purpose."""

    HUNG = "hung"
    """Nothing came for so long that the client gave up. There must be none."""


@dataclass(slots=True, eq=False, kw_only=True)
class Answer(RequestTimes):
    """What a client saw of one request."""

    ending: Ending = Ending.FAILED
    path: str = UNKNOWN
    """How the router decided, as its answer says."""

    says: str = ""
    """What went wrong, where something did."""


@record
class Patience:
    """What clients put up with."""

    hang_seconds: float = 90.0
    """Real seconds without a byte after which a request counts as hung."""

    leaving_share: float = 0.0
    """Share of the clients that leave after the first token."""


class Clients:
    """Users of one endpoint."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: Callable[[], str | None],
        *,
        compression: float = 1.0,
        patience: Patience | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """Describe them.

        Args:
            session: HTTP client without a limit of connections.
            url: base URL of the endpoint at the moment of a request, None when nobody is there: a router that was
                replaced has another.
            compression: simulated seconds in a real one; times are told in simulated ones.
            patience: what they put up with.
            headers: headers of every request, such as a bearer key.
        """
        self._session = session
        self._url = url
        self._compression = compression
        self._patience = patience or Patience()
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        self._random = random.Random(0)  # noqa: S311 -- who leaves
        self.answers: list[Answer] = []
        """Every request that has ended, in the order of its end."""

        self.in_flight = 0

    @property
    def served(self) -> int:
        """Requests that have got their tokens, or as many as their client wanted."""
        return sum(answer.ending in (Ending.ANSWERED, Ending.LEFT) for answer in self.answers)

    def now(self) -> float:
        """Return simulated seconds since an arbitrary start."""
        return time.monotonic() * self._compression

    async def closed_loop(
        self, requests: Sequence[Request], users: int, *, progress: Callable[[], None] | None = None
    ) -> list[Answer]:
        """Let `users` send `requests`, and return the answers in the order of issue."""
        waiting = iter(requests)
        answers: list[Answer] = []

        async def user() -> None:
            for request in waiting:
                answer = self._begin(request)
                answers.append(answer)
                await self._send(request, answer)
                if progress is not None:
                    progress()

        async with asyncio.TaskGroup() as group:
            for _ in range(min(users, len(requests))):
                group.create_task(user())
        return answers

    async def until(self, requests: Iterator[Request], users: int, done: asyncio.Event) -> list[Answer]:
        """Let `users` send requests until `done`, wait for what is in flight, and return the answers.

        A user whose request was refused waits a second before the next one, as `Retry-After` asks.
        """
        answers: list[Answer] = []

        async def user() -> None:
            while not done.is_set():
                for request in islice(requests, 1):
                    answer = self._begin(request)
                    answers.append(answer)
                    await self._send(request, answer)
                    if answer.ending in (Ending.REFUSED, Ending.FAILED):
                        await asyncio.sleep(1.0)

        async with asyncio.TaskGroup() as group:
            for _ in range(users):
                group.create_task(user())
        return answers

    def _begin(self, request: Request) -> Answer:
        return Answer(
            input_tokens=request.lengths.input_tokens,
            output_tokens=request.lengths.output_tokens,
            issued=self.now(),
        )

    async def _send(self, request: Request, answer: Answer) -> None:
        self.in_flight += 1
        try:
            url = self._url()
            if url is None:
                answer.ending, answer.says = Ending.REFUSED, "no endpoint"
                return
            async with self._session.post(
                f"{url}/v1/completions",
                data=request.body,
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(total=None, sock_read=self._patience.hang_seconds),
            ) as response:
                answer.path = response.headers.get(DECISION_HEADER, UNKNOWN)
                if response.status != 200:
                    refused = response.status in (429, 503)
                    answer.ending = Ending.REFUSED if refused else Ending.FAILED
                    answer.says = f"{response.status}: {(await response.text())[:200]}"
                    return
                await self._read(response, answer)
        except (aiohttp.SocketTimeoutError, TimeoutError):
            answer.ending, answer.says = Ending.HUNG, "nothing came"
        except (aiohttp.ClientError, OSError) as error:
            answer.ending, answer.says = Ending.FAILED, f"{type(error).__name__}: {error}"
        finally:
            self.in_flight -= 1
            self.answers.append(answer)

    async def _read(self, response: aiohttp.ClientResponse, answer: Answer) -> None:
        end = b""
        leaves = self._random.random() < self._patience.leaving_share
        async for data in response.content.iter_any():
            if math.isnan(answer.first_token):
                answer.first_token = self.now()
                if leaves:
                    answer.ending = Ending.LEFT
                    response.close()
                    return
            end = (end + data)[-_USAGE_BYTES:]
            if _ERROR in end:
                answer.says = end[end.rfind(b"data:", 0, end.find(_ERROR)) :].decode(errors="replace")[:200]
                return
        answer.finished = self.now()
        tokens = _completion_tokens(end)
        if tokens == answer.output_tokens:
            answer.ending = Ending.ANSWERED
        else:
            answer.says = f"{tokens} of {answer.output_tokens} tokens came"


def _completion_tokens(end: bytes) -> int | None:
    for line in reversed(end.split(b"\n")):
        if line.startswith(b"data: {"):
            try:
                usage = json.loads(line[6:]).get("usage") or {}
            except ValueError:
                return None
            tokens = usage.get("completion_tokens")
            return tokens if isinstance(tokens, int) else None
    return None
