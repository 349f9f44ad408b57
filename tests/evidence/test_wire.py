"""AWS's router is documented with `http` on port 443: what it speaks is found out, used and said."""

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hyperpod_dpd.evidence.benchmark import __main__ as benchmark
from hyperpod_dpd.evidence.benchmark import wire
from hyperpod_dpd.evidence.benchmark.drive import drive
from hyperpod_dpd.evidence.proof import run as proof_run
from hyperpod_dpd.evidence.proof.web import NoAnswerError, ask
from hyperpod_dpd.evidence.proof.wire import find_out, trusting_anybody
from tests.evidence.rig import Setting, running
from tests.evidence.scenarios import BLIND
from tests.evidence.test_benchmark_program import SETTINGS
from tests.support.authority import HOST, Authority, authority_like_eks
from tests.support.tls import server_side, tls_before

SECONDS = 60
"""Enough for a handshake on a busy machine."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority_like_eks(tmp_path_factory.mktemp("authority") / "made")


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base
        """Say nothing."""


@contextlib.contextmanager
def served(certificate: Path | None) -> Iterator[str]:
    """Serve HTTP, over TLS with `certificate`, and yield the address with `http`."""
    server = ThreadingHTTPServer((HOST, 0), _Answers)
    server.handle_error = lambda *_: None  # type: ignore[method-assign] # handshakes that are broken off
    if certificate is not None:
        server.socket = server_side(certificate).wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_http_stays_http() -> None:
    with served(None) as url:
        wire = find_out(url, seconds=SECONDS)
    assert (wire.url, wire.says, wire.doubt) == (url, "HTTP without TLS", "")


def test_tls_that_nobody_signed_is_used_and_the_doubt_is_said(authority: Authority) -> None:
    with served(authority.server) as url:
        wire = find_out(url, seconds=SECONDS)
        assert wire.url == url.replace("http:", "https:")
        assert "certificate not verified (" in wire.says
        assert "certificate" in wire.doubt
        # whoever does not ask for it trusts nobody
        with pytest.raises(NoAnswerError, match="certificate verify failed"):
            ask(wire.url, seconds=SECONDS)
        assert ask(wire.url, seconds=SECONDS, context=trusting_anybody()).status == 200


def test_a_certificate_that_is_valid_is_verified(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.create_default_context(cafile=str(authority.authority))
    # the authority is one without a key identifier, which Python 3.13 and later refuse
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    monkeypatch.setattr(ssl, "create_default_context", lambda: context)
    with served(authority.server) as url:
        wire = find_out(url, seconds=SECONDS)
    assert (wire.url, wire.says, wire.doubt) == (
        url.replace("http:", "https:"),
        "TLS, certificate verified",
        "",
    )


def test_an_address_with_https_is_taken_at_its_word() -> None:
    wire = find_out("https://127.0.0.1:1")
    assert (wire.url, wire.doubt) == ("https://127.0.0.1:1", "")


@contextlib.contextmanager
def _listening(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    with socket.create_server((HOST, 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://{HOST}:{listening.getsockname()[1]}"
        thread.join()


def test_an_alert_is_tls_too() -> None:
    def refuses(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"\x15\x03\x03\x00\x02\x02\x28")  # fatal, handshake_failure

    with _listening(refuses) as url:
        wire = find_out(url, seconds=SECONDS)
    assert wire.url.startswith("https:")
    assert "HANDSHAKE_FAILURE" in wire.doubt


def test_a_server_that_waits_for_the_rest_of_a_request_speaks_http() -> None:
    over = threading.Event()

    def waits(connection: socket.socket) -> None:
        connection.recv(65536)
        assert over.wait(SECONDS)

    with _listening(waits) as url:
        wire = find_out(url, seconds=0.2)
        over.set()
    assert wire.url == url


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://"])
def test_where_nobody_is_nothing_is_found_out(url: str) -> None:
    with pytest.raises(NoAnswerError, match="nothing can be connected to"):
        find_out(url)


# Programs ------------------------------------------------------------------------------------------------------------


async def test_a_proof_over_aws_s_router_says_that_it_spoke_http() -> None:
    async with running(Setting()) as rig:
        result = await rig.prove(**BLIND)
    assert result.proved, "\n".join(result.lines())
    assert "answers over HTTP without TLS" in result.sources
    assert "no counters of the router, which AWS's does not show" in result.sources


async def test_a_proof_over_a_router_with_tls_that_nobody_signed_is_proved_and_says_so(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof_run, "GREETING_SECONDS", SECONDS)
    async with running(Setting()) as rig, tls_before(rig.target.url, authority.server) as url:
        result = await rig.prove(**BLIND, url=url)
    assert result.proved, "\n".join(result.lines())
    (source,) = [each for each in result.sources if each.startswith("answers over TLS")]
    assert "certificate not verified (" in source


def test_the_benchmark_finds_out_says_and_tells_its_load_generator(
    authority: Authority, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found: dict[str, object] = {}

    def driven(settings: object, *_: object, **given: object) -> None:
        found.update(settings=settings, **given)
        raise NoAnswerError("enough")

    monkeypatch.setattr(benchmark, "drive", driven)
    monkeypatch.setattr(wire, "find_out", partial(find_out, seconds=SECONDS))
    (tmp_path / "tokenizer.json").write_text("{}")
    for certificate, scheme, trusts in ((None, "http", False), (authority.server, "https", True)):
        with served(certificate) as url:
            told = json.loads(SETTINGS.as_json()) | {
                "url": url, "tokenizer": str(tmp_path), "results": str(tmp_path / "results"),
            }  # fmt: skip
            (tmp_path / "settings.json").write_text(json.dumps(told))
            assert benchmark.main([str(tmp_path / "settings.json")]) == 2
        assert getattr(found["settings"], "url").startswith(f"{scheme}:")  # noqa: B009 - not typed
        assert found["trusts_any_certificate"] is trusts
        said = capsys.readouterr().out
        assert "the requests go to AWS's router at 127.0.0.1, port " in said
        assert ("certificate not verified" in said) is trusts


def test_the_load_generator_is_told_by_its_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[dict[str, str]] = []

    def ran(_: object, *, env: dict[str, str], **__: object) -> object:
        seen.append(env)
        raise KeyboardInterrupt

    monkeypatch.setattr("hyperpod_dpd.evidence.benchmark.drive.subprocess.run", ran)
    for trusts in (False, True):
        with pytest.raises(KeyboardInterrupt):
            drive(
                SETTINGS, tmp_path, tokenizer=tmp_path, trusts_any_certificate=trusts,
                concurrency=1, seed="1", requests=1,
            )  # fmt: skip
    assert [env.get("BENCH_TRUST_ANY_CERTIFICATE") for env in seen] == [None, "yes"]


def test_a_benchmark_of_an_endpoint_that_is_not_there_is_2_and_says_where(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    told = json.loads(SETTINGS.as_json()) | {"url": "http://127.0.0.1:1"}
    (tmp_path / "settings.json").write_text(json.dumps(told))
    assert benchmark.main([str(tmp_path / "settings.json")]) == 2
    assert "nothing can be connected to at `http://127.0.0.1:1`" in capsys.readouterr().err
