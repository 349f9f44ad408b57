"""A real Alertmanager with the definition that AMP gets, and a stand-in for SNS behind it."""

import json
import queue
import re
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import yaml

from tests.support.poller import serving
from tests.support.prometheus import program

LIMIT_SECONDS = 60
"""Ends a test that would hang."""


def configuration_in(definition: str) -> dict[str, Any]:
    """Return Alertmanager's part of a definition."""
    document = yaml.safe_load(definition)
    # AMP knows these keys and refuses any other
    assert set(document) == {"alertmanager_config"}
    found: dict[str, Any] = yaml.safe_load(document["alertmanager_config"])
    return found


def accepted(configuration: Mapping[str, Any], folder: Path) -> str:
    """Return what `amtool` says about a configuration; fail unless it accepts it."""
    path = _written(configuration, folder)
    done = subprocess.run(
        [program("amtool"), "check-config", path],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def publishing_to(service: Any, configuration: dict[str, Any]) -> dict[str, Any]:
    """Return `configuration` with the stand-in for SNS behind it, and without the half minute of waiting."""
    configuration["route"]["group_wait"] = "1s"
    (receiver,) = configuration["receivers"]
    (target,) = receiver["sns_configs"]
    target["api_url"] = f"http://127.0.0.1:{service.server_port}"
    target["sigv4"] |= {"access_key": "AKIDEXAMPLE", "secret_key": "secret"}
    return configuration


class _Sns(BaseHTTPRequestHandler):
    """What SNS answers to a message."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        fields = {name: values[0] for name, values in urllib.parse.parse_qs(body).items()}
        self.server.published.put(fields)  # type: ignore[attr-defined]
        answer = (
            b'<PublishResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/"><PublishResult><MessageId>1</MessageId>'
            b"</PublishResult><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></PublishResponse>"
        )
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_arguments: Any) -> None:
        pass


def sns() -> AbstractContextManager[Any]:
    """Return a server that puts what is published into its queue `published`."""
    return serving(_Sns, published=queue.Queue())


@dataclass
class Running:
    """A running Alertmanager."""

    address: str
    said: "queue.Queue[str]"

    def wait_for(self, text: str) -> None:
        """Wait until its log says `text`."""
        while text not in self.said.get(timeout=LIMIT_SECONDS):
            pass


@contextmanager
def alertmanager(configuration: Mapping[str, Any], folder: Path) -> Iterator[Running]:
    """Run a real Alertmanager on a free port of loopback."""
    command = [
        program("prometheus-alertmanager"),
        f"--config.file={_written(configuration, folder)}",
        f"--storage.path={folder / 'data'}",
        "--web.listen-address=127.0.0.1:0",
        "--cluster.listen-address=",
        "--log.level=debug",
    ]
    said: queue.Queue[str] = queue.Queue()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines: list[str] = []
        for line in process.stderr:
            lines.append(line)
            if found := re.search(r'msg="Listening on" address=(\S+)', line):
                break
        else:
            raise AssertionError("".join(lines))
        reader = threading.Thread(target=_pass_on, args=(process.stderr, said))
        reader.start()
        try:
            yield Running(address=f"http://{found.group(1)}", said=said)
        finally:
            process.terminate()
            reader.join()


def _pass_on(lines: Iterable[str], said: "queue.Queue[str]") -> None:
    for line in lines:
        said.put(line)


def _written(configuration: Mapping[str, Any], folder: Path) -> Path:
    path = folder / "alertmanager.yaml"
    path.write_text(yaml.safe_dump(configuration), encoding="utf-8")
    return path


def fire(running: Running, *alerts: Mapping[str, Any]) -> None:
    request = urllib.request.Request(
        f"{running.address}/api/v2/alerts",
        data=json.dumps(alerts).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=LIMIT_SECONDS) as answer:
        assert answer.status == 200


def alert(name: str, severity: str = "critical", deployment: str = "llama") -> dict[str, Any]:
    return {
        "labels": {"alertname": name, "severity": severity}
        | ({"deployment": deployment} if deployment else {}),
        "annotations": {
            "summary": "12 bytes/s over EFA",
            "description": "The KV cache crosses TCP.",
            "runbook_url": f"docs/runbooks/{name}.md",
        },
    }


def attributes(message: Mapping[str, str]) -> dict[str, str]:
    """Attributes of a message. SNS refuses a message of which one is empty."""
    names = {key: value for key, value in message.items() if key.endswith(".Name")}
    return {name: message[key.replace(".Name", ".Value.StringValue")] for key, name in names.items()}
