"""AWS, a Kubernetes API and CloudFormation, as far as the poller of waits talks to them, on loopback."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError
from botocore.validate import ParamValidator

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]] | Mapping[str, Any] | Exception


@dataclass
class Aws:
    """Answers by operation; parameters and answers are held to botocore's own models."""

    answers: dict[str, Answer] = field(default_factory=dict)
    calls: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    def called(self, operation: str) -> list[Mapping[str, Any]]:
        """Return the parameters of every call of `operation`."""
        return [parameters for name, parameters in self.calls if name == operation]

    def answer(self, client: BaseClient, operation: str, parameters: Mapping[str, Any]) -> Any:
        model = client.meta.service_model.operation_model(operation)
        if model.input_shape:
            problems = ParamValidator().validate(parameters, model.input_shape)
            assert not problems.has_errors(), problems.generate_report()
        self.calls.append((operation, parameters))
        found = self.answers[operation]
        if isinstance(found, Exception):
            raise found
        given = found(parameters) if callable(found) else found
        if model.output_shape:
            problems = ParamValidator().validate(given, model.output_shape)
            assert not problems.has_errors(), problems.generate_report()
        return given


def refusal(code: str, operation: str) -> ClientError:
    """Return an error as AWS gives it."""
    return ClientError({"Error": {"Code": code, "Message": "slow down"}}, operation)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Aws:
    """Every call of boto3."""
    fake = Aws(answers={"DisableRule": {}})

    def call(client: BaseClient, operation: str, parameters: Mapping[str, Any]) -> Any:
        return fake.answer(client, operation, parameters)

    monkeypatch.setattr(BaseClient, "_make_api_call", call)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("DPD_EKS_NAME", "dpd")
    monkeypatch.setenv("DPD_HYPERPOD_NAME", "dpd-hp")
    return fake


class Quiet(BaseHTTPRequestHandler):
    """A handler that answers with JSON and logs nothing."""

    def answer(self, status: int, body: Mapping[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def log_message(self, *_arguments: Any) -> None:
        pass


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], **attributes: Any) -> Iterator[Any]:
    """Yield a server on loopback with `attributes`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    for name, value in attributes.items():
        setattr(server, name, value)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Kubernetes(Quiet):
    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        server: Any = self.server
        server.asked.append((url.path, {name: values[0] for name, values in query.items()}))
        assert self.headers["Authorization"] == "Bearer a-token"
        found = server.objects.get(url.path)
        if isinstance(found, list):
            # two pages, so that a reader of one page is found out
            half = len(found) // 2 if "continue" not in query else 0
            page = found[:half] if half else found[len(found) // 2 if "continue" in query else 0 :]
            self.answer(200, {"items": page, "metadata": {"continue": "rest"} if half else {}})
        elif isinstance(found, tuple):
            status, message = found
            self.answer(status, {"kind": "Status", "message": message})
        elif found is None:
            self.answer(404, {"kind": "Status", "message": f"{url.path} not found"})
        else:
            self.answer(200, found)

    def do_POST(self) -> None:
        server: Any = self.server
        assert parse_qs(urlsplit(self.path).query) == {"dryRun": ["All"]}
        server.rehearsed.append((urlsplit(self.path).path, self.body()))
        status, message = server.rehearsal
        self.answer(status, {"kind": "Status", "message": message})


@pytest.fixture
def kubernetes() -> Iterator[Any]:
    """A Kubernetes API: `objects` by path (a list is a list's items, a tuple an error), `rehearsal` its answer."""
    with serving(_Kubernetes, objects={}, asked=[], rehearsed=[], rehearsal=(201, "created")) as server:
        yield server


class _CloudFormation(Quiet):
    def do_PUT(self) -> None:
        server: Any = self.server
        # the address is signed for an empty content type
        assert self.headers["Content-Type"] == ""
        server.told.append((self.path, self.body()))
        self.answer(server.status, {})


@pytest.fixture
def cloudformation() -> Iterator[Any]:
    """What takes signals and answers: `told` holds (path, body), `status` is what it says."""
    with serving(_CloudFormation, told=[], status=200) as server:
        yield server
