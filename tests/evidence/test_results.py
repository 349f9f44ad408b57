"""The result file: what was written is read again, and nothing else is."""

import contextlib
import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperpod_dpd.evidence.results import UnreadableResultError, read_result
from tests.evidence.benchmarks import dpd, request, run
from tests.support.deployments import ROOT


def test_what_was_written_is_read_again() -> None:
    written = dpd(levels=(8, 16), seeds=(1, 2))
    assert read_result(written.as_json()) == written


def test_every_request_has_a_line_of_its_own() -> None:
    written = dpd(seeds=(1,))
    lines = written.as_json().splitlines()
    assert sum('"start_seconds"' in line for line in lines) == len(written.runs[0].requests)


def test_unfinished_and_failed_requests_are_kept() -> None:
    unfinished = request(ttft_seconds=None, e2e_seconds=None, output_tokens=None)
    written = dataclasses.replace(
        dpd(), runs=(dataclasses.replace(run(8, 1), requests=(request(), unfinished)),)
    )
    assert read_result(written.as_json()).runs[0].requests[1] == unfinished


def test_a_file_of_the_first_version_is_read_and_does_not_say_how_the_requests_went() -> None:
    older = data()
    older["version"] = 1
    del older["connection"]
    read = read_result(json.dumps(older))
    assert read == dataclasses.replace(dpd(seeds=(1,)), connection=None)
    assert read_result(read.as_json()) == read


@pytest.mark.parametrize("name", ["baseline", "self-managed"])
def test_the_recorded_files_can_be_read(name: str) -> None:
    text = (ROOT / "docs" / "evidence" / "benchmark" / f"{name}.json").read_text(encoding="utf-8")
    assert read_result(text).runs


def data() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(dpd(seeds=(1,)).as_json())
    return found


def _set(path: str, value: Any) -> dict[str, Any]:
    found = data()
    *above, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    node: Any = found
    for part in above:
        node = node[part]
    if value is ...:
        del node[last]
    else:
        node[last] = value
    return found


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("format", "other", "not the result of a benchmark"),
        ("version", 3, "version 3 of the format; this release reads 1 and 2"),
        ("version", True, "version True of the format"),
        ("version", 1, "`connection` is not known in version 1"),
        ("connection", ..., "`connection` is missing"),
        ("connection", "TLS", "`connection` is `TLS`, wanted an object"),
        ("connection.port", ..., "`connection.port` is missing"),
        ("connection.port", 0, "`connection.port` is `0`, wanted a port"),
        ("connection.port", 2**16, "`connection.port` is `65536`, wanted a port"),
        ("connection.tls", "some", "`connection.tls` is `some`, wanted one of none, verified, unverified"),
        ("connection.router", "", "`connection.router` is ``, wanted one of dpd-router, aws"),
        ("connection.host", "\x1b[2J", "`connection.host` holds characters that cannot be printed"),
        ("version", ..., "version None"),
        ("traffic", ..., "`traffic` is missing"),
        ("traffic.input_tokens", "4096", "`traffic.input_tokens` is `4096`, wanted int"),
        ("traffic.input_tokens", True, "`traffic.input_tokens` is `True`, wanted int"),
        ("traffic.more", 1, "`traffic.more` is not known"),
        ("system.workers", {}, "`system.workers` is `{}`, wanted a list"),
        ("system.workers", [], "`system.workers` has no GPU"),
        ("runs", [], "nothing was measured"),
        ("runs.0.requests", [], "no requests"),
        ("runs.0.router", [], "`runs[0].router` is `[]`, wanted an object"),
        ("runs.0.requests.3", None, "`runs[0].requests[3]` is `None`, wanted an object"),
        ("runs.0.requests.3.path", "detour", "`runs[0].requests[3].path` is `detour`"),
        ("runs.0.requests.3.e2e_seconds", -1, "`runs[0].requests[3]` has a time or a count below zero"),
        ("runs.0.requests.3.e2e_seconds", 10**400, "beyond sense"),
        ("runs.0.requests.3.prompt_tokens", 10**400, "`runs[0].requests[3].prompt_tokens` is beyond sense"),
        ("system.workers.0.gpus_per_worker", 10**400, "beyond sense: a number of 401 digits"),
        ("traffic.input_tokens", 10**12, "beyond sense: a number of 13 digits"),
        (
            "system.deployment",
            "\x1b[2Jllama",
            "`system.deployment` holds characters that cannot be printed: ",
        ),
        ("system.workers.0.instance_type", "ml.\ud800", "holds characters that cannot be printed"),
        ("system.usd_per_hour", 0, "`system.usd_per_hour` is `0`"),
        ("system.workers.0.count", -1, "has no GPU"),
        ("traffic.output_tokens", 0, "`traffic` has no tokens"),
        ("runs.0.requests.3.ttft_seconds", 99, "`runs[0].requests[3]` ended before its first token"),
        ("runs.0.requests.3.ttft_seconds", None, "`runs[0].requests[3]` has ended without a first token"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_its_place(path: str, value: Any, words: str) -> None:
    with pytest.raises(UnreadableResultError) as refused:
        read_result(json.dumps(_set(path, value)))
    assert words in str(refused.value)


def test_a_run_that_comes_twice_is_refused() -> None:
    twice = data()
    twice["runs"] *= 2
    with pytest.raises(UnreadableResultError, match="repeats concurrency 8 with seed 1"):
        read_result(json.dumps(twice))


@pytest.mark.parametrize(
    "text", ["", "[]", "null", '{"format": ', '{"format": NaN}', "1" * 5000, "[" * 100_000]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(UnreadableResultError):
        read_result(text)


@given(st.integers(min_value=0), st.integers(min_value=0, max_value=255))
def test_a_damaged_file_is_refused_or_read_and_never_anything_else(position: int, byte: int) -> None:
    text = bytearray(SMALL)
    text[position % len(text)] = byte
    with contextlib.suppress(UnreadableResultError):
        read_result(text.decode("utf-8", errors="replace"))


SMALL = dpd(seeds=(1,), levels=(1,), requests=4).as_json().encode()
