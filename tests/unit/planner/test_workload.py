"""Traffic: what can be read, what is refused, and that distributions are what they say."""

import json
import random
from itertools import pairwise
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import pytest

from hyperpod_dpd.planner.workload import (
    ClosedLoop,
    FixedLengths,
    NoTrafficError,
    OpenLoop,
    SpreadLengths,
    UnreadableTraceError,
    lengths_of,
    poisson,
    read_trace,
)
from hyperpod_dpd.spec import Traffic

FIXED = FixedLengths(input_tokens=4096, output_tokens=256)
LINE: dict[str, Any] = {"arrival_seconds": 1.5, "input_tokens": 100, "output_tokens": 20}


def _trace(folder: Path, *lines: object) -> Path:
    path = folder / "trace.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def test_trace_is_read_in_order_of_arrival_and_empty_lines_are_skipped(tmp_path: Path) -> None:
    trace = read_trace(_trace(tmp_path, LINE, "", LINE | {"arrival_seconds": 0}))
    assert [request.arrival_seconds for request in trace.requests] == [0.0, 1.5]
    assert trace.requests[0].input_tokens == 100


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"arrival_seconds": 1, "input_tokens": 5}, r"trace\.jsonl:2: `output_tokens` missing"),
        ({}, r"`arrival_seconds`, `input_tokens`, `output_tokens` missing"),
        (LINE | {"arrival_seconds": -1}, r"`arrival_seconds: -1` is not a time from 0 on"),
        (LINE | {"arrival_seconds": "soon"}, r"`arrival_seconds: soon` is not a time"),
        ('{"arrival_seconds": NaN, "input_tokens": 1, "output_tokens": 1}', r"`arrival_seconds: nan`"),
        (LINE | {"input_tokens": 0}, r"`input_tokens: 0` is not a whole number from 1 on"),
        (LINE | {"output_tokens": 1.5}, r"`output_tokens: 1\.5`"),
        (LINE | {"output_tokens": True}, r"`output_tokens: True`"),
        ("{not json", r"trace\.jsonl:2: not JSON"),
        ("[1, 2]", r"trace\.jsonl:2: not a JSON object"),
    ],
)
def test_bad_line_of_a_trace_is_refused_with_its_number(tmp_path: Path, line: object, message: str) -> None:
    with pytest.raises(UnreadableTraceError, match=message):
        read_trace(_trace(tmp_path, LINE, line))


def test_trace_that_is_no_file_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableTraceError, match="No such file"):
        read_trace(tmp_path / "none.jsonl")
    path = tmp_path / "binary.jsonl"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UnreadableTraceError, match="not UTF-8 text"):
        read_trace(path)


def test_trace_without_requests_is_no_traffic(tmp_path: Path) -> None:
    with pytest.raises(NoTrafficError, match="zero traffic"):
        read_trace(_trace(tmp_path, ""))


@pytest.mark.parametrize(("users", "requests"), [(0, 10), (10, 0)])
def test_closed_loop_without_users_or_requests_is_no_traffic(users: int, requests: int) -> None:
    with pytest.raises(NoTrafficError, match="zero traffic"):
        ClosedLoop(concurrency=users, requests=requests, lengths=FIXED)


def test_rate_of_zero_is_no_traffic() -> None:
    with pytest.raises(NoTrafficError, match="zero traffic"):
        poisson(0.0, FIXED, 10)


def test_open_loop_without_requests_is_no_traffic() -> None:
    with pytest.raises(NoTrafficError, match="zero traffic"):
        OpenLoop(requests=())


def test_poisson_arrivals_have_the_rate_and_its_spread() -> None:
    arrivals = [request.arrival_seconds for request in poisson(5.0, FIXED, 20_000, seed=1).requests]
    gaps = [after - before for before, after in pairwise(arrivals)]
    assert fmean(gaps) == pytest.approx(0.2, rel=0.03)
    assert pstdev(gaps) == pytest.approx(0.2, rel=0.03)


def test_spread_lengths_keep_mean_variation_and_the_model_limit() -> None:
    lengths = SpreadLengths(
        long_tokens=4000,
        short_tokens=500,
        long_share=1.0,
        output_tokens=200,
        input_variation=0.5,
        output_variation=0.3,
        longest_tokens=100_000,
    )
    source = random.Random(0)
    drawn = [lengths.draw(source) for _ in range(20_000)]
    prompts = [one.input_tokens for one in drawn]
    assert fmean(prompts) == pytest.approx(4000, rel=0.02)
    assert pstdev(prompts) / fmean(prompts) == pytest.approx(0.5, rel=0.05)
    assert fmean(one.output_tokens for one in drawn) == pytest.approx(200, rel=0.02)


def test_lengths_never_exceed_the_longest_sequence() -> None:
    traffic = Traffic(input_tokens=4096, output_tokens=4096, input_variation=2.0, output_variation=2.0)
    lengths = lengths_of(traffic, longest_tokens=8192)
    source = random.Random(0)
    for _ in range(5_000):
        drawn = lengths.draw(source)
        assert drawn.input_tokens >= 1
        assert drawn.output_tokens >= 1
        assert drawn.input_tokens + drawn.output_tokens <= 8192


def test_mixed_traffic_draws_both_prompts_in_their_shares() -> None:
    lengths = lengths_of(Traffic(input_tokens=6000, long_share=0.25, short_input_tokens=300), 16_384)
    source = random.Random(0)
    prompts = [lengths.draw(source).input_tokens for _ in range(8_000)]
    assert set(prompts) == {6000, 300}
    assert prompts.count(6000) / len(prompts) == pytest.approx(0.25, abs=0.02)
