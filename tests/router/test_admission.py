import asyncio
import contextlib
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpd_router import logs
from dpd_router.admission import Admission, ApiKeys
from dpd_router.config import AdmissionPolicy
from dpd_router.errors import ClientError
from dpd_router.metrics import Metrics


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.write_text("# keys of the team\n\nfirst\n  second  \n")
    return path


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("Bearer first", True),
        ("bearer second", True),
        ("Bearer  first ", True),
        ("Bearer third", False),
        ("Bearer # keys of the team", False),
        ("Bearer ", False),
        ("Basic first", False),
        ("first", False),
        ("", False),
        (None, False),
        ("Bearer f\udcffirst", False),
    ],
)
def test_keys(file: Path, header: str | None, accepted: bool) -> None:
    assert ApiKeys(file, Metrics()).accepts(header) == accepted


def test_changed_file_is_read_again_and_a_bad_one_is_not(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    metrics = Metrics()
    keys = ApiKeys(file, metrics)
    keys.reload()
    replacement = file.with_name("new")
    replacement.write_text("third\n")
    replacement.replace(file)
    keys.reload()
    assert keys.accepts("Bearer third")
    assert not keys.accepts("Bearer first")
    file.write_text("\n")
    keys.reload()
    file.unlink()
    keys.reload()
    assert keys.accepts("Bearer third")
    assert metrics.registry.get_sample_value("dpd_router_key_reloads_total", {"result": "failed"}) == 2
    assert metrics.registry.get_sample_value("dpd_router_key_reloads_total", {"result": "ok"}) == 2


def test_file_without_a_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("# nothing\n")
    with pytest.raises(ValueError, match="has no key"):
        ApiKeys(path, Metrics())


def test_requests_above_the_limit_are_429() -> None:
    admission = Admission(AdmissionPolicy(max_requests=1, retry_after_seconds=3), Metrics(), None)
    admission.authenticate(None)
    with admission.arrival(), admission.arrival(), admission.place():
        for refused in (admission.place, admission.arrival):
            with pytest.raises(ClientError) as caught, refused():
                pass
            assert (caught.value.status, caught.value.retry_after_seconds) == (429, 3)
        assert (admission.requests, admission.arrived) == (1, 2)
    with admission.place():
        assert (admission.requests, admission.arrived) == (1, 0)


def test_requests_and_bytes_in_flight_are_published() -> None:
    metrics = Metrics()
    admission = Admission(AdmissionPolicy(), metrics, None)

    def published() -> tuple[float | None, ...]:
        names = ("dpd_router_inflight_requests", "dpd_router_queued_bytes")
        return tuple(metrics.registry.get_sample_value(name) for name in names)

    with admission.place():
        admission.take(8)
        assert published() == (1, 8)
        admission.give_back(8)
    assert published() == (0, 0)


def test_a_key_is_for_the_router_or_for_the_workers(file: Path) -> None:
    guarded = Admission(AdmissionPolicy(), Metrics(), ApiKeys(file, Metrics()))
    guarded.authenticate("Bearer first")
    with pytest.raises(ClientError) as caught:
        guarded.authenticate("Bearer third")
    assert (caught.value.status, guarded.keeps_authorization) == (401, False)
    assert Admission(AdmissionPolicy(), Metrics(), None).keeps_authorization


def test_bytes_above_the_limit_are_429() -> None:
    admission = Admission(AdmissionPolicy(max_queued_bytes=10), Metrics(), None)
    admission.take(8)
    with pytest.raises(ClientError) as caught:
        admission.take(3)
    assert (caught.value.status, caught.value.code) == (429, "too_many_bytes")
    admission.give_back(8)
    admission.take(10)


async def test_idle_and_closing() -> None:
    admission = Admission(AdmissionPolicy(), Metrics(), None)
    await admission.idle()
    with admission.arrival():
        waiting = asyncio.create_task(admission.idle())
        await asyncio.sleep(0)
        assert not waiting.done()
        admission.closing = True
        with admission.place():  # it came before
            await asyncio.sleep(0)
    await waiting
    with pytest.raises(ClientError) as caught, admission.arrival():
        pass
    assert caught.value.status == 503


@pytest.fixture
def log_pipe() -> Iterator[int]:
    """Send the log into a pipe; yields the end to read from."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    try:
        logs.configure("info", writing)
        yield reading
    finally:
        root.handlers[:] = before
        root.setLevel(level)
        os.close(reading)
        os.close(writing)


PIPE_BYTES = 65_536
"""What Linux keeps of a pipe that nobody reads."""

SHORTEST_LINE_BYTES = 80
"""Of a line without a message; it is longer than that."""


def taken_from(reading: int) -> bytes:
    read = b""
    with contextlib.suppress(BlockingIOError):
        while piece := os.read(reading, 1 << 20):
            read += piece
    return read


def test_log_lines_are_json_with_the_request_s_id(log_pipe: int) -> None:
    token = logs.REQUEST_ID.set("abc")
    log = logging.getLogger("x")
    log.info("hello", extra={"fields": {"a": 1}})
    log.debug("not shown")
    logs.REQUEST_ID.reset(token)
    try:
        int("broken")
    except ValueError:
        log.exception("failed")
    first, second = [json.loads(line) for line in taken_from(log_pipe).splitlines()]
    assert (first["message"], first["request_id"], first["a"], first["level"]) == ("hello", "abc", 1, "info")
    assert "request_id" not in second
    assert "ValueError: invalid literal" in second["exception"]


@pytest.mark.parametrize("length", [10, 5000])
def test_a_log_that_nobody_reads_loses_whole_lines_and_stops_nobody(log_pipe: int, length: int) -> None:
    log = logging.getLogger("x")
    written = 4 * PIPE_BYTES // (length + SHORTEST_LINE_BYTES)
    for number in range(written):
        log.info("x" * length, extra={"fields": {"number": number}})
    read = taken_from(log_pipe)
    log.info("after")
    *kept, told, last = [json.loads(line) for line in (read + taken_from(log_pipe)).splitlines()]
    assert [line["number"] for line in kept] == list(range(len(kept)))
    assert (told["message"], told["level"], last["message"]) == (
        "log lines lost: nobody read on",
        "warning",
        "after",
    )
    assert told["lines"] == written - len(kept) > 0


def test_a_log_without_a_reader_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    handler = logs.LineHandler(writing)
    handler.setFormatter(logs.JsonFormatter())
    for _ in range(2):
        handler.emit(logging.makeLogRecord({"msg": "to nobody"}))
    os.close(writing)
    assert caplog.records == []
