"""The benchmark job's program: everything around genai-bench itself, which tests/engines runs."""

import dataclasses
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from hyperpod_dpd.evidence.benchmark import __main__ as program
from hyperpod_dpd.evidence.benchmark import wire
from hyperpod_dpd.evidence.benchmark.counters import NoCountersError, grown, read_counters
from hyperpod_dpd.evidence.benchmark.drive import RunFailedError, arguments, drive, read_record
from hyperpod_dpd.evidence.benchmark.run import benchmark
from hyperpod_dpd.evidence.benchmark.settings import Settings, UnreadableSettingsError, read_settings
from hyperpod_dpd.evidence.benchmark.store import Bucket, Folder, NotStoredError
from hyperpod_dpd.evidence.benchmark.tokenizer import NoTokenizerError, bring
from hyperpod_dpd.evidence.proof.wire import Wire
from hyperpod_dpd.evidence.results import (
    AWS_ROUTER,
    DISAGGREGATED,
    OWN_ROUTER,
    PLAIN,
    UNKNOWN,
    UNVERIFIED,
    VERIFIED,
    Connection,
    Request,
    read_result,
)
from tests.evidence.benchmarks import CONNECTION, DPD, run

SETTINGS = Settings(
    url="http://router:8081",
    model="m",
    tokenizer="/tokenizer",
    region="us-east-1",
    input_tokens=4096,
    output_tokens=256,
    concurrencies=(8, 16),
    seeds=(1, 2),
    requests_per_user=10,
    run_minutes=30,
    reads_router=False,
    api_keys_file=None,
    results="/results",
    system=DPD,
)


# -- settings -----------------------------------------------------------------------------------------------------


def test_settings_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "benchmark.json"
    path.write_text(SETTINGS.as_json())
    assert read_settings(path) == SETTINGS


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "Expecting property name"),
        ("{}", "`url` is missing"),
        (SETTINGS.as_json().replace('"m"', "7"), "`model` is `7`, wanted str"),
        (dataclasses.replace(SETTINGS, seeds=()).as_json(), "nothing to measure"),
        *(
            (dataclasses.replace(SETTINGS, url=url).as_json(), "wanted `http://host:port`")
            for url in ("router:8081", "http://", "http://router:0", "http://router:99999", "ftp://router")
        ),
        (None, "No such file"),
    ],
)
def test_other_settings_are_refused(tmp_path: Path, text: str | None, words: str) -> None:
    path = tmp_path / "benchmark.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UnreadableSettingsError, match=words):
        read_settings(path)


def test_the_first_key_is_sent_and_never_on_a_command_line(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("# of the operators\n\nfirst-key\nsecond-key\n")
    settings = dataclasses.replace(SETTINGS, api_keys_file=str(keys))
    assert settings.api_key() == "first-key"
    options = arguments(settings, tmp_path, tokenizer=tmp_path, concurrency=8, requests=80)
    assert not any("first-key" in option for option in options)


@pytest.mark.parametrize("text", [None, b"", b"\n", b"# a comment\n", b"\xff\xfe"])
def test_a_file_without_a_key_is_an_error(tmp_path: Path, text: bytes | None) -> None:
    keys = tmp_path / "keys"
    if text is not None:
        keys.write_bytes(text)
    with pytest.raises(UnreadableSettingsError, match="keys"):
        dataclasses.replace(SETTINGS, api_keys_file=str(keys)).api_key()


# -- genai-bench's command line and record ------------------------------------------------------------------------


def test_the_command_is_the_announcement_s_with_its_traps_taken_out(tmp_path: Path) -> None:
    options = arguments(SETTINGS, tmp_path, tokenizer=Path("/tokenizer"), concurrency=64, requests=640)
    given = dict(zip(options[::2], options[1::2], strict=True))
    # `openai` would drop `ignore_eos`
    assert given["--api-backend"] == "vllm"
    assert given["--traffic-scenario"] == "D(4096,256)"
    assert given["--task"] == "text-to-text"
    assert (given["--num-concurrency"], given["--max-requests-per-run"]) == ("64", "640")
    assert given["--api-model-name"] == "m"


def line(**changes: Any) -> str:
    given = {
        "start": 100.0,
        "decision": "disaggregated",
        "error": None,
        "first": 100.5,
        "end": 103.0,
        "prompt_tokens": 4131,
        "output_tokens": 256,
        "cached_tokens": None,
        "ignore_eos": True,
    }
    return json.dumps(given | changes)


END = json.dumps({"prompts": 3, "prompts_digest": "d" * 64})


def test_a_record_becomes_requests_in_the_order_of_their_start() -> None:
    cut_off = json.dumps({"start": 102.0, "decision": None, "error": None})
    refused = json.dumps({"start": 101.0, "decision": "direct", "error": "503: no decoder"})
    requests, digest = read_record(f"{line()}\n{cut_off}\n{refused}\n{END}")
    assert digest == "d" * 64
    assert requests[0] == Request(
        path=DISAGGREGATED,
        start_seconds=0.0,
        ttft_seconds=0.5,
        e2e_seconds=3.0,
        prompt_tokens=4131,
        output_tokens=256,
        cached_tokens=None,
        error=None,
    )
    assert [each.start_seconds for each in requests] == [0.0, 1.0, 2.0]
    assert requests[1].error == "503: no decoder"
    assert (requests[2].path, requests[2].ended, requests[2].error) == (UNKNOWN, False, None)


@pytest.mark.parametrize("text", ["", END, line(), f"{line()}\n{{", f"[]\n{END}", f"{{}}\n{END}"])
def test_half_a_record_is_refused(text: str) -> None:
    with pytest.raises(RunFailedError, match="the record of the requests"):
        read_record(text)


def test_what_genai_bench_says_when_it_fails_is_passed_on(tmp_path: Path) -> None:
    # here it is not even installed
    with pytest.raises(RunFailedError, match="No module named 'genai_bench'"):
        drive(SETTINGS, tmp_path / "run", tokenizer=tmp_path, concurrency=1, seed="1/1", requests=1)


# -- the order of things ------------------------------------------------------------------------------------------


class Driver:
    """Makes up requests, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, str, int]] = []

    def __call__(
        self, *, folder: Path, concurrency: int, seed: str, requests: int
    ) -> tuple[tuple[Request, ...], str]:
        self.calls.append((folder.name, concurrency, seed, requests))
        return run(concurrency, 1, requests=requests + concurrency).requests, f"digest {seed}"


class Memory:
    def __init__(self, fails_at: int = 0) -> None:
        self.texts: list[tuple[str, str]] = []
        self._fails_at = fails_at

    def put(self, name: str, text: str) -> str:
        if len(self.texts) + 1 == self._fails_at:
            raise NotStoredError("full")
        self.texts.append((name, text))
        return f"memory://{name}"


def test_every_concurrency_is_measured_with_every_seed_after_a_warm_up(tmp_path: Path) -> None:
    driver, store, said = Driver(), Memory(), list[str]()
    result = benchmark(SETTINGS, driver, store, connection=CONNECTION, folder=tmp_path, say=said.append)
    assert driver.calls == [
        ("warm-up", 16, "warm-up", 32),
        ("c8-seed1", 8, "1/8", 80),
        ("c16-seed1", 16, "1/16", 160),
        ("c8-seed2", 8, "2/8", 80),
        ("c16-seed2", 16, "2/16", 160),
    ]
    assert [(each.concurrency, each.seed) for each in result.runs] == [(8, 1), (16, 1), (8, 2), (16, 2)]
    assert len({each.prompts_digest for each in result.runs}) == 4
    assert len(said) == 5
    assert "TPOT 10.0" in said[1]


def test_each_run_is_stored_as_soon_as_it_is_there(tmp_path: Path) -> None:
    store = Memory()
    benchmark(SETTINGS, Driver(), store, connection=CONNECTION, folder=tmp_path, say=lambda _: None)
    assert len({name for name, _ in store.texts}) == 1
    assert [len(read_result(text).runs) for _, text in store.texts] == [1, 2, 3, 4]


def test_a_result_that_cannot_be_stored_ends_the_benchmark(tmp_path: Path) -> None:
    driver = Driver()
    with pytest.raises(NotStoredError):
        benchmark(
            SETTINGS, driver, Memory(fails_at=2), connection=CONNECTION, folder=tmp_path, say=lambda _: None
        )
    assert len(driver.calls) == 3


# -- over which wire ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "port", "tls", "doubt"),
    [
        (Wire(url="http://aws:443", says="HTTP without TLS"), 443, PLAIN, None),
        (Wire(url="https://aws:443", says="TLS, certificate verified"), 443, VERIFIED, None),
        (Wire(url="https://aws:8443", says="TLS", doubt="self-signed"), 8443, UNVERIFIED, "self-signed"),
        (Wire(url="https://aws", says="TLS, certificate verified"), 443, VERIFIED, None),
    ],
)
def test_what_the_trial_of_aws_s_router_found_is_what_is_written_down(
    monkeypatch: pytest.MonkeyPatch, found: Wire, port: int, tls: str, doubt: str | None
) -> None:
    monkeypatch.setattr(wire, "find_out", lambda _: found)
    settings, connection = wire.connect(dataclasses.replace(SETTINGS, url="http://aws:443"))
    assert settings.url == found.url
    assert connection == Connection(router=AWS_ROUTER, host="aws", port=port, tls=tls, doubt=doubt)


def test_this_project_s_router_speaks_what_its_address_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(wire, "find_out")
    given = dataclasses.replace(SETTINGS, reads_router=True)
    settings, connection = wire.connect(given)
    assert settings == given
    assert connection == Connection(router=OWN_ROUTER, host="router", port=8081, tls=PLAIN, doubt=None)


# -- the router's counters ----------------------------------------------------------------------------------------


class _Metrics(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = self.server.texts.pop(0).encode()  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: Any) -> None:
        pass


@pytest.fixture
def metrics() -> Iterator[Any]:
    server = HTTPServer(("127.0.0.1", 0), _Metrics)
    server.texts = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def decisions(disaggregated: int, direct: int) -> str:
    return (
        "# TYPE dpd_router_decisions_total counter\n"
        f'dpd_router_decisions_total{{decision="disaggregated",reason="threshold"}} {disaggregated}\n'
        f'dpd_router_decisions_total{{decision="direct",reason="below"}} {direct}\n'
        "dpd_router_inflight_requests 3\n"
    )


def test_a_run_keeps_what_the_counters_grew_by(metrics: Any, tmp_path: Path) -> None:
    metrics.texts = [decisions(70, 5), decisions(100, 5), decisions(180, 5)]
    settings = dataclasses.replace(
        SETTINGS,
        url=f"http://127.0.0.1:{metrics.server_port}",
        reads_router=True,
        concurrencies=(8,),
        seeds=(1,),
    )
    result = benchmark(
        settings, Driver(), Memory(), connection=CONNECTION, folder=tmp_path, say=lambda _: None
    )
    assert result.runs[0].router == {
        'dpd_router_decisions_total{decision="disaggregated",reason="threshold"}': 80.0
    }


def test_an_endpoint_that_is_not_there_is_named_before_anything_is_sent(tmp_path: Path) -> None:
    settings, driver = dataclasses.replace(SETTINGS, url="http://127.0.0.1:9", reads_router=True), Driver()
    with pytest.raises(NoCountersError, match=r"http://127\.0\.0\.1:9/metrics"):
        benchmark(settings, driver, Memory(), connection=CONNECTION, folder=tmp_path, say=lambda _: None)
    assert driver.calls == []


def test_a_router_that_restarted_counts_from_zero() -> None:
    assert grown({"a": 100.0, "b": 1.0}, {"a": 30.0, "b": 1.0, "c": 2.0}) == {"a": 30.0, "c": 2.0}


@pytest.mark.parametrize("text", ["<html>", "up 1\n", ""])
def test_something_else_than_the_router_is_refused(metrics: Any, text: str) -> None:
    metrics.texts = [text]
    with pytest.raises(NoCountersError):
        read_counters(f"http://127.0.0.1:{metrics.server_port}")


# -- where things come from and go to -----------------------------------------------------------------------------


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="models")
        yield client


def test_the_tokenizer_comes_out_of_the_model_s_folder_without_the_weights(s3: Any, tmp_path: Path) -> None:
    for key in ("llama/tokenizer.json", "llama/tokenizer_config.json", "llama/model-00001.safetensors"):
        s3.put_object(Bucket="models", Key=key, Body=key.encode())
    s3.put_object(Bucket="models", Key="llama/original/tokenizer.model", Body=b"")
    folder = bring("s3://models/llama", tmp_path / "tokenizer", region="us-east-1", s3=s3)
    assert {path.name for path in folder.iterdir()} == {"tokenizer.json", "tokenizer_config.json"}
    assert (folder / "tokenizer.json").read_text() == "llama/tokenizer.json"


@pytest.mark.parametrize(
    ("address", "words"), [("s3://models/other", "neither"), ("s3://gone/llama", "NoSuchBucket")]
)
def test_a_model_without_a_tokenizer_is_named(s3: Any, tmp_path: Path, address: str, words: str) -> None:
    with pytest.raises(NoTokenizerError, match=words) as refused:
        bring(address, tmp_path / "tokenizer", region="us-east-1", s3=s3)
    assert address in str(refused.value)


def test_a_local_tokenizer_is_used_where_it_is(tmp_path: Path) -> None:
    with pytest.raises(NoTokenizerError, match=r"tokenizer\.json"):
        bring(str(tmp_path), tmp_path / "other", region="us-east-1")
    (tmp_path / "tokenizer.json").write_text("{}")
    assert bring(str(tmp_path), tmp_path / "other", region="us-east-1") == tmp_path


def test_results_go_to_s3_below_their_prefix(s3: Any) -> None:
    address = Bucket("s3://models/benchmarks/llama", s3).put("a.json", "{}")
    assert address == "s3://models/benchmarks/llama/a.json"
    assert s3.get_object(Bucket="models", Key="benchmarks/llama/a.json")["Body"].read() == b"{}"
    with pytest.raises(NotStoredError, match=r"s3://gone/a\.json"):
        Bucket("s3://gone", s3).put("a.json", "{}")


def test_a_folder_takes_results_whole(tmp_path: Path) -> None:
    Folder(tmp_path / "new").put("a.json", "first")
    Folder(tmp_path / "new").put("a.json", "second")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.json"]
    assert (tmp_path / "new" / "a.json").read_text() == "second"
    (tmp_path / "file").write_text("")
    with pytest.raises(NotStoredError):
        Folder(tmp_path / "file").put("a.json", "{}")


# -- exit codes ---------------------------------------------------------------------------------------------------


def _program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, requests_per_user: int) -> int:
    def driven(settings: Settings, *_given: Any, tokenizer: Path, **asked: Any) -> Any:
        assert tokenizer == tmp_path
        users = asked["concurrency"]
        return run(users, 1, requests=requests_per_user * users + users).requests, f"digest {asked['seed']}"

    monkeypatch.setattr(program, "drive", driven)
    monkeypatch.setattr(wire, "find_out", lambda url: Wire(url=url, says="HTTP without TLS"))
    (tmp_path / "tokenizer.json").write_text("{}")
    settings = dataclasses.replace(
        SETTINGS, tokenizer=str(tmp_path), results=str(tmp_path / "results"), concurrencies=(8,)
    )
    (tmp_path / "settings.json").write_text(settings.as_json())
    return program.main([str(tmp_path / "settings.json")])


def test_sound_results_are_a_success(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _program(monkeypatch, tmp_path, requests_per_user=10) == 0
    (path,) = (tmp_path / "results").iterdir()
    result = read_result(path.read_text())
    assert len(result.runs) == 2
    assert result.connection == Connection(router=AWS_ROUTER, host="router", port=8081, tls=PLAIN, doubt=None)
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.startswith("the requests go to AWS's router at router, port 8081, without TLS\n")


def test_flaws_are_said_and_fail_the_job(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _program(monkeypatch, tmp_path, requests_per_user=3) == 1
    assert "32 answers, wanted 80" in capsys.readouterr().err


def test_what_cannot_be_measured_is_2_with_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main([str(tmp_path / "none.json")]) == 2
    assert "error: " in capsys.readouterr().err
    assert program.main([]) == 2
