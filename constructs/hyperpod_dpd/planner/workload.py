"""What arrives: lengths of requests, and when they come."""

import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from hyperpod_dpd.planner.unplannable import UnplannableError
from hyperpod_dpd.spec import Traffic

_TRACE_FIELDS = ("arrival_seconds", "input_tokens", "output_tokens")
_MAX_TRACE_REQUESTS = 1_000_000


class UnreadableTraceError(UnplannableError):
    """A trace file is not one; the message names the line."""


class NoTrafficError(UnplannableError):
    """There is nothing to plan for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Prompt and answer of one request, in tokens."""

    input_tokens: int
    output_tokens: int


class LengthSource(Protocol):
    """Draws the lengths of one request after the other."""

    def draw(self, random_source: random.Random) -> Lengths:
        """Return the lengths of the next request."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedLengths:
    """`D(in, out)`: every request is the same."""

    input_tokens: int
    output_tokens: int

    def draw(self, random_source: random.Random) -> Lengths:  # noqa: ARG002
        """See `LengthSource`."""
        return Lengths(input_tokens=self.input_tokens, output_tokens=self.output_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadLengths:
    """Long and short prompts, each log-normal around its mean."""

    long_tokens: int
    short_tokens: int
    long_share: float
    output_tokens: int
    input_variation: float
    """Coefficient of variation of a prompt's length; 0: no spread."""

    output_variation: float
    """The same of an answer's length."""

    longest_tokens: int
    """Prompt and answer together are cut to this."""

    def draw(self, random_source: random.Random) -> Lengths:
        """See `LengthSource`."""
        mean = self.long_tokens if random_source.random() < self.long_share else self.short_tokens
        prompt = min(_log_normal(random_source, mean, self.input_variation), self.longest_tokens - 1)
        answer = _log_normal(random_source, self.output_tokens, self.output_variation)
        return Lengths(input_tokens=prompt, output_tokens=min(answer, self.longest_tokens - prompt))


def _log_normal(random_source: random.Random, mean: int, variation: float) -> int:
    if variation == 0:
        return mean
    sigma = math.sqrt(math.log(1 + variation * variation))
    return max(1, round(random_source.lognormvariate(math.log(mean) - sigma * sigma / 2, sigma)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedLoop:
    """A fixed number of users; each sends its next request when the last is answered."""

    concurrency: int
    lengths: LengthSource
    requests: int
    """Requests in all. What happens while the first ones arrive is part of the result."""

    stop_after: int | None = None
    """Stop when this many requests are answered and drop those in flight."""

    stop_on_whole_seconds: bool = False
    """Look at the number of answers once a second only, as genai-bench does."""

    seed: int = 0

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.requests < 1:
            raise NoTrafficError(
                f"zero traffic: given {self.concurrency} users and {self.requests} requests. "
                "help: set `traffic.concurrency` or `traffic.requests_per_second`"
            )

    def draw(self) -> Iterator[Lengths]:
        """Yield the lengths of every request in the order of issue."""
        source = random.Random(self.seed)  # noqa: S311
        return (self.lengths.draw(source) for _ in range(self.requests))


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedRequest:
    """A request that comes at a given time, whatever the system does."""

    arrival_seconds: float
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLoop:
    """Requests that come when they come: Poisson arrivals or a recorded trace."""

    requests: tuple[TimedRequest, ...]

    def __post_init__(self) -> None:
        if not self.requests:
            raise NoTrafficError("zero traffic: the trace has no request. help: record some requests first")


Workload = ClosedLoop | OpenLoop


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLengths:
    """Lengths drawn from a recorded trace, whenever its requests came."""

    requests: tuple[TimedRequest, ...]

    def draw(self, random_source: random.Random) -> Lengths:
        """See `LengthSource`."""
        request = random_source.choice(self.requests)
        return Lengths(input_tokens=request.input_tokens, output_tokens=request.output_tokens)


def poisson(requests_per_second: float, lengths: LengthSource, requests: int, seed: int = 0) -> OpenLoop:
    """Return `requests` Poisson arrivals.

    Raises:
        NoTrafficError: the rate is not positive.
    """
    if requests_per_second <= 0:
        raise NoTrafficError(
            f"zero traffic: given {requests_per_second:g} requests per second. help: give a positive rate"
        )
    source = random.Random(seed)  # noqa: S311
    now, timed = 0.0, []
    for _ in range(requests):
        now += source.expovariate(requests_per_second)
        drawn = lengths.draw(source)
        timed.append(
            TimedRequest(
                arrival_seconds=now, input_tokens=drawn.input_tokens, output_tokens=drawn.output_tokens
            )
        )
    return OpenLoop(requests=tuple(timed))


def read_trace(path: Path) -> OpenLoop:
    """Read a trace: one JSON object a line with `arrival_seconds`, `input_tokens` and `output_tokens`.

    Lines need not be in order of arrival. Empty lines are skipped.

    Raises:
        UnreadableTraceError: not a file, not JSON, a missing field, a negative time or a length below one token.
        NoTrafficError: no request in it.
    """
    requests = []
    try:
        with path.open(encoding="utf-8") as stream:
            for number, line in enumerate(islice(stream, _MAX_TRACE_REQUESTS + 1), start=1):
                if number > _MAX_TRACE_REQUESTS:
                    raise UnreadableTraceError(
                        f"{path}: more than {_MAX_TRACE_REQUESTS:,} lines. help: plan with a sample of the trace"
                    )
                if line.strip():
                    requests.append(_timed_request(line, f"{path}:{number}"))
    except OSError as error:
        raise UnreadableTraceError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise UnreadableTraceError(f"{path}: not UTF-8 text at byte {error.start}") from None
    return OpenLoop(requests=tuple(sorted(requests, key=lambda request: request.arrival_seconds)))


def _timed_request(line: str, place: str) -> TimedRequest:
    try:
        raw = json.loads(line)
    except ValueError:
        raise UnreadableTraceError(f"{place}: not JSON. help: one object a line") from None
    if not isinstance(raw, dict):
        raise UnreadableTraceError(f"{place}: not a JSON object. help: one object a line")
    missing = [name for name in _TRACE_FIELDS if name not in raw]
    if missing:
        listed = ", ".join(f"`{name}`" for name in missing)
        raise UnreadableTraceError(
            f"{place}: {listed} missing. help: each line has `{'`, `'.join(_TRACE_FIELDS)}`"
        )
    arrival = raw["arrival_seconds"]
    if not _is_number(arrival) or arrival < 0:
        raise UnreadableTraceError(f"{place}: `arrival_seconds: {arrival}` is not a time from 0 on")
    return TimedRequest(
        arrival_seconds=float(arrival),
        input_tokens=_length(raw, "input_tokens", place),
        output_tokens=_length(raw, "output_tokens", place),
    )


def _is_number(found: Any) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found)


def _length(raw: dict[str, Any], name: str, place: str) -> int:
    found = raw[name]
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise UnreadableTraceError(f"{place}: `{name}: {found}` is not a whole number from 1 on")
    return found


def lengths_of(traffic: Traffic, longest_tokens: int) -> LengthSource:
    """Return where the lengths of `traffic` come from, as short of a trace."""
    spread = traffic.input_variation or traffic.output_variation
    if traffic.long_share >= 1 and not spread:
        return FixedLengths(input_tokens=traffic.input_tokens, output_tokens=traffic.output_tokens)
    return SpreadLengths(
        long_tokens=traffic.input_tokens,
        short_tokens=traffic.short_input_tokens,
        long_share=traffic.long_share,
        output_tokens=traffic.output_tokens,
        input_variation=traffic.input_variation,
        output_variation=traffic.output_variation,
        longest_tokens=longest_tokens,
    )
