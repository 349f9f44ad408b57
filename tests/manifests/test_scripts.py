"""The programs that run inside a worker: the drain before it ends, the copy of the weights before it starts."""

import http.server
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from hyperpod_dpd.serving.scripts import drain, sync_model
from tests.support.deployments import ROOT

SCRIPTS = ROOT / "constructs" / "hyperpod_dpd" / "serving" / "scripts"

IDLE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
vllm:num_requests_running{engine="0",model_name="m"} 0.0
vllm:num_requests_waiting{engine="0",model_name="m"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 7.0
"""
BUSY = IDLE.replace('running{engine="0",model_name="m"} 0.0', 'running{engine="0",model_name="m"} 2.0')
HELD = IDLE.replace('waiting{engine="0",model_name="m"} 0.0', 'waiting{engine="0",model_name="m"} 1.0')


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def run_drain(answers: list[str | None], *, quiet: float = 3, deadline: float = 60) -> tuple[str, float]:
    clock, left = Clock(), iter(answers)
    last = answers[-1]
    reason = drain.drain(
        lambda: next(left, last),
        quiet_seconds=quiet,
        deadline_seconds=deadline,
        clock=clock,
        sleep=clock.sleep,
    )
    return reason, clock.now - 100.0


def test_metrics_are_summed_over_running_and_waiting_requests_only() -> None:
    assert drain.busy(IDLE) == 0
    assert drain.busy(BUSY) == 2
    assert drain.busy(HELD) == 1
    assert drain.busy("") == 0


@pytest.mark.parametrize(
    ("answers", "reason", "seconds"),
    [
        ([IDLE], "idle", 3),
        ([BUSY, BUSY, IDLE], "idle", 4),
        ([HELD, IDLE], "idle", 3),
        # a hand-off that lands within the quiet time starts it again
        ([IDLE, IDLE, BUSY, IDLE], "idle", 5),
        ([BUSY], "the deadline has passed", 60),
        ([None], "the engine does not answer", 2),
        # an engine that misses a scrape is not gone
        ([BUSY, None, None, BUSY, IDLE], "idle", 6),
    ],
)
def test_a_worker_ends_when_it_was_idle_long_enough(
    answers: list[str | None], reason: str, seconds: float
) -> None:
    assert run_drain(answers) == (reason, seconds)


def test_the_drain_reads_a_real_metrics_page_and_ends_when_nobody_answers() -> None:
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = BUSY.encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        url = f"http://127.0.0.1:{server.server_port}/metrics"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            assert drain.read_metrics(url) == BUSY
        finally:
            server.shutdown()
            thread.join()
    assert drain.read_metrics(url) is None


def test_the_drain_is_a_program_of_the_standard_library() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            str(SCRIPTS / "drain.py"),
            "--port=9",
            "--quiet-seconds=0",
            "--deadline-seconds=0",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == "dpd: drained: the deadline has passed\n"


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An S3 on loopback with a small model in it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    sync_model.s3_client.cache_clear()
    client = boto3.client("s3")
    client.create_bucket(Bucket="weights")
    for key, body in {
        "models/llama/config.json": b"{}",
        "models/llama/model-00001.safetensors": b"x" * 70_000,
        "models/llama/original/params.json": b"[]",
        "models/llama-other/config.json": b"another model",
    }.items():
        client.put_object(Bucket="weights", Key=key, Body=body)
    yield f"http://{host}:{port}"
    sync_model.s3_client.cache_clear()
    server.stop()


def run_sync(target: Path, uri: str = "s3://weights/models/llama") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPTS / "sync_model.py"), uri, str(target), "--processes=1"],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.usefixtures("endpoint")
def test_a_model_folder_is_copied_whole_and_only_once(tmp_path: Path) -> None:
    target = tmp_path / "model"
    first = run_sync(target)
    assert first.returncode == 0, first.stderr
    assert "3 of 3 objects copied, 70,004 bytes" in first.stderr
    copied = {
        str(path.relative_to(target)): path.stat().st_size for path in target.rglob("*") if path.is_file()
    }
    assert copied == {"config.json": 2, "model-00001.safetensors": 70_000, "original/params.json": 2}
    (target / "config.json").unlink()
    (target / "model-00001.safetensors").write_bytes(b"half")
    second = run_sync(target)
    assert "2 of 3 objects copied" in second.stderr
    assert (target / "model-00001.safetensors").stat().st_size == 70_000


@pytest.mark.usefixtures("endpoint")
def test_a_folder_without_objects_is_an_error_that_says_so(tmp_path: Path) -> None:
    done = run_sync(tmp_path / "model", "s3://weights/models/missing")
    assert done.returncode == 1
    assert "no object below s3://weights/models/missing. help:" in done.stderr
    assert not (tmp_path / "model").exists()


@pytest.mark.usefixtures("endpoint")
def test_a_disk_that_is_too_small_is_said_before_anything_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        free = 100

    monkeypatch.setattr(shutil, "disk_usage", lambda _: Full)
    with pytest.raises(SystemExit, match=r"70,004 bytes are missing in .* which has 100 free"):
        sync_model.sync("s3://weights/models/llama", tmp_path, 1)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("endpoint")
def test_an_object_that_arrives_short_never_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = sync_model.Item(key="models/llama/config.json", size_bytes=3, path=tmp_path / "config.json")
    with pytest.raises(OSError, match=r"has 3 bytes, 2 arrived"):
        sync_model.fetch("weights", item)
    assert not item.path.exists()
    assert not item.present


@pytest.mark.usefixtures("endpoint")
def test_a_key_cannot_leave_the_folder(tmp_path: Path) -> None:
    boto3.client("s3").put_object(Bucket="weights", Key="models/evil/../../../etc/passwd", Body=b"root")
    with pytest.raises(ValueError, match="points out of"):
        sync_model.list_items("weights", "models/evil", tmp_path)


@pytest.mark.usefixtures("endpoint")
def test_large_files_are_started_first(tmp_path: Path) -> None:
    items = sync_model.list_items("weights", "/models/llama", tmp_path)
    assert [item.path.name for item in items] == ["model-00001.safetensors", "config.json", "params.json"]
