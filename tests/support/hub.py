"""A loopback server that behaves like the Hugging Face Hub, as far as an import uses it, and misbehaves on request."""

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REPOSITORY = "acme/tiny"
COMMIT = "6f6073b423013f6a7d4d9f39144961bfbfbc386b"


def is_lfs(path: str) -> bool:
    """Return whether the repository keeps `path` as a large file, known by its SHA-256."""
    return path.endswith((".safetensors", ".pth"))


@dataclass
class Hub:
    """What the server has, what it was asked, and how it misbehaves."""

    files: dict[str, bytes]
    token: str | None = None
    """Only who has it gets anything."""

    moved_to: str | None = None
    """Commit that it answers in place of the one that was asked for."""

    spoilt: set[str] = field(default_factory=set)
    """Files whose content is not what their digest says."""

    breaks: dict[str, int] = field(default_factory=dict)
    """How many of the next downloads of a file break off in the middle."""

    hold: dict[str, threading.Event] = field(default_factory=dict)
    """Downloads that stop in the middle until the event is set."""

    halfway: threading.Event = field(default_factory=threading.Event)
    """Set once a held download has stopped."""

    fetched: list[tuple[str, str | None]] = field(default_factory=list)
    """Path and `Range` of every download."""

    url: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)
    at_a_time: int = 0
    most_at_a_time: int = 0

    def listing(self) -> Mapping[str, Any]:
        """Return what the API says about the commit."""
        return {
            "id": REPOSITORY,
            "modelId": REPOSITORY,
            "sha": self.moved_to or COMMIT,
            "private": False,
            "tags": [],
            "downloads": 0,
            "likes": 0,
            "siblings": [_sibling(path, content) for path, content in self.files.items()],
        }


def _sibling(path: str, content: bytes) -> dict[str, Any]:
    row: dict[str, Any] = {"rfilename": path, "size": len(content), "blobId": git_sha1(content)}
    if is_lfs(path):
        row["lfs"] = {
            "sha256": hashlib.sha256(content).hexdigest(),
            "size": len(content),
            "pointerSize": 134,
        }
    return row


def git_sha1(content: bytes) -> str:
    """Return the name that git gives the content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def log_message(self, *_arguments: Any) -> None:
        pass

    def _answer(self, *, with_body: bool) -> None:
        hub = self.server.hub
        path = self.path.partition("?")[0]
        if hub.token is not None and self.headers.get("Authorization") != f"Bearer {hub.token}":
            self._error(401, "GatedRepo")
        elif path == f"/api/models/{REPOSITORY}/revision/{COMMIT}":
            self._whole(json.dumps(hub.listing()).encode(), "application/json")
        elif path.startswith(f"/api/models/{REPOSITORY}/revision/"):
            self._error(404, "RevisionNotFound")
        elif path.startswith(f"/{REPOSITORY}/resolve/{COMMIT}/"):
            self._file(path.removeprefix(f"/{REPOSITORY}/resolve/{COMMIT}/"), with_body=with_body)
        else:
            self._error(404, "RepoNotFound")

    def _error(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _whole(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _file(self, path: str, *, with_body: bool) -> None:
        hub = self.server.hub
        content = hub.files[path]
        given = self.headers.get("Range")
        start = int(given.removeprefix("bytes=").partition("-")[0]) if given else 0
        body = content[start:]
        if path in hub.spoilt:
            body = bytes(len(body))
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        digest = hashlib.sha256(content).hexdigest() if is_lfs(path) else git_sha1(content)
        self.send_header("ETag", f'"{digest}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        if with_body:
            self._send(path, body, given)

    def _send(self, path: str, body: bytes, given: str | None) -> None:
        hub = self.server.hub
        with hub.lock:
            hub.fetched.append((path, given))
            hub.at_a_time += 1
            hub.most_at_a_time = max(hub.most_at_a_time, hub.at_a_time)
            breaks = hub.breaks.get(path, 0) > 0
            if breaks:
                hub.breaks[path] -= 1
        try:
            middle = len(body) // 2
            self.wfile.write(body[:middle])
            self.wfile.flush()
            if path in hub.hold:
                hub.halfway.set()
                hub.hold[path].wait(timeout=120)
            if breaks:
                self.close_connection = True
                return
            self.wfile.write(body[middle:])
        except OSError:
            # whoever asked is gone
            self.close_connection = True
        finally:
            with hub.lock:
                hub.at_a_time -= 1


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    hub: Hub


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """Serve `hub` on loopback; its `url` says where."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.hub = hub
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hub
    finally:
        for event in hub.hold.values():
            event.set()
        server.shutdown()
        thread.join()
        server.server_close()
