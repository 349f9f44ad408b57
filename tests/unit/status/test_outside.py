"""The ports on this machine: a kubectl on the PATH, a server on loopback."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError

import boto3
import pytest

from hyperpod_dpd.preflight.account import AwsAccount
from hyperpod_dpd.status.outside import KubectlAbsentError, KubectlError, Machine


def _machine(context: str | None = None) -> Machine:
    session = boto3.Session(
        aws_access_key_id="AKIDEXAMPLE", aws_secret_access_key="secret", region_name="us-east-1"
    )
    return Machine(session=session, account=AwsAccount(region="us-east-1", session=session), context=context)


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubectl that tests write; nothing else is on the PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path / "kubectl"


def _write(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)


def test_kubectl_is_asked_for_json_in_the_given_context(kubectl: Path) -> None:
    _write(kubectl, """printf '{"asked": "%s"}' "$*" """)
    answer = _machine("prod").kubectl("get", "pods")
    assert answer == {"asked": "--context prod get pods --output json"}
    assert _machine().kubectl("get", "pods") == {"asked": "get pods --output json"}


def test_absent_kubectl_is_told_from_one_that_fails(kubectl: Path) -> None:
    with pytest.raises(KubectlAbsentError):
        _machine().kubectl("get", "pods")
    _write(kubectl, "echo 'I1130 noise' >&2; echo 'error: You must be logged in' >&2; exit 1")
    with pytest.raises(KubectlError, match=r"^You must be logged in$"):
        _machine().kubectl("get", "pods")
    _write(kubectl, "echo not json")
    with pytest.raises(KubectlError):
        _machine().kubectl("get", "pods")


class _Server(BaseHTTPRequestHandler):
    authorization = ""

    def do_GET(self) -> None:
        type(self).authorization = self.headers.get("Authorization", "")
        status = {"/ready": 503, "/denied": 403}.get(self.path, 200)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps({"path": self.path}).encode())

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_every_status_of_the_endpoint_is_an_answer(url: str) -> None:
    assert _machine().status_of(f"{url}/ready") == 503
    assert _machine().status_of(f"{url}/health") == 200


def test_only_addresses_of_the_web_are_asked(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="not an address of the web"):
        _machine().status_of(f"file://{tmp_path}")


def test_workspace_is_asked_with_a_signature_of_its_service(url: str) -> None:
    assert _machine().signed(f"{url}/api/v1/alerts", "aps") == {"path": "/api/v1/alerts"}
    assert _Server.authorization.startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert "/us-east-1/aps/aws4_request" in _Server.authorization
    with pytest.raises(HTTPError):
        _machine().signed(f"{url}/denied", "aps")
