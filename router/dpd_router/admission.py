"""Who may come in, and how much at one time."""

import asyncio
import contextlib
import hmac
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from dpd_router.config import AdmissionPolicy
from dpd_router.errors import ClientError
from dpd_router.metrics import Metrics

log = logging.getLogger(__name__)

_BEARER = "bearer "


class ApiKeys:
    """Bearer keys from a mounted file, one per line; blank lines and lines with `#` do not count."""

    def __init__(self, path: Path, metrics: Metrics) -> None:
        """Read the file.

        Raises:
            OSError: it cannot be read.
            ValueError: it has no key.
        """
        self._path = path
        self._metrics = metrics
        self._seen = _fingerprint(path)
        self._keys = _read_keys(path)
        metrics.key_reloads.labels("ok").inc()

    def reload(self) -> None:
        """Read the file again if it changed; keys that were good stay when it cannot be read."""
        try:
            seen = _fingerprint(self._path)
            if seen == self._seen:
                return
            self._keys = _read_keys(self._path)
            self._seen = seen
        except (OSError, ValueError):
            self._metrics.key_reloads.labels("failed").inc()
            log.exception("API keys cannot be read, the ones before stay")
        else:
            self._metrics.key_reloads.labels("ok").inc()
            log.info("API keys read", extra={"fields": {"keys": len(self._keys)}})

    def accepts(self, authorization: str | None) -> bool:
        """Whether an `Authorization` header has a key; takes the same time for every wrong one."""
        given = authorization or ""
        key = given[len(_BEARER) :] if given[: len(_BEARER)].lower() == _BEARER else ""
        encoded = key.strip().encode("utf-8", "surrogateescape")
        found = False
        for known in self._keys:
            # no early end: the time must not tell which key came close
            found |= hmac.compare_digest(known, encoded)
        return found


def _fingerprint(path: Path) -> tuple[int, int, int]:
    # a Kubernetes secret changes by a new symlink: another inode, possibly with the same time
    status = os.stat(path)  # noqa: PTH116 -- three fields of one call
    return status.st_mtime_ns, status.st_ino, status.st_size


def _read_keys(path: Path) -> tuple[bytes, ...]:
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    keys = tuple(line.encode() for line in lines if line and not line.startswith("#"))
    if not keys:
        raise ValueError(f"`{path}` has no key")
    return keys


class Admission:
    """Counts requests and bytes in flight."""

    def __init__(self, policy: AdmissionPolicy, metrics: Metrics, keys: ApiKeys | None) -> None:
        self._policy = policy
        self._metrics = metrics
        self._keys = keys
        self._arrived = 0
        self._requests = 0
        self._bytes = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.closing = False

    @property
    def requests(self) -> int:
        """Requests that have a place."""
        return self._requests

    @property
    def arrived(self) -> int:
        """Requests whose head has come, those without a place included."""
        return self._arrived

    @property
    def keeps_authorization(self) -> bool:
        """Whether a client's `Authorization` is meant for the workers, not for the router."""
        return self._keys is None

    def authenticate(self, authorization: str | None) -> None:
        """Check a client's key.

        Raises:
            ClientError: 401, it has none that is known.
        """
        if self._keys is not None and not self._keys.accepts(authorization):
            raise ClientError(401, "invalid_api_key", "a valid bearer key is needed")

    @contextlib.contextmanager
    def arrival(self) -> Iterator[None]:
        """Know about a request from its head to its answer's end; `idle` waits for it.

        A client that sends its body slowly takes no place from others: it gets one with its last byte.

        Raises:
            ClientError: 429, every place is taken; 503, the router is shutting down.
        """
        if self.closing:
            raise ClientError(
                503, "shutting_down", "the router is shutting down", retry_after_seconds=self._retry
            )
        self._check_room()
        self._arrived += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._arrived -= 1
            if self._arrived == 0:
                self._idle.set()

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place while a request is served.

        Raises:
            ClientError: 429, every place was taken meanwhile.
        """
        self._check_room()
        self._requests += 1
        self._metrics.inflight.set(self._requests)
        try:
            yield
        finally:
            self._requests -= 1
            self._metrics.inflight.set(self._requests)

    def _check_room(self) -> None:
        if self._requests >= self._policy.max_requests:
            raise ClientError(
                429,
                "too_many_requests",
                f"{self._requests} requests are in flight",
                retry_after_seconds=self._retry,
            )

    async def idle(self) -> None:
        """Return when no request is in flight."""
        await self._idle.wait()

    @property
    def _retry(self) -> int:
        return self._policy.retry_after_seconds

    def take(self, size_bytes: int) -> None:
        """Count bytes of a body.

        Raises:
            ClientError: 429, too many are in flight.
        """
        if self._bytes + size_bytes > self._policy.max_queued_bytes:
            raise ClientError(
                429, "too_many_bytes", f"{self._bytes} bytes are in flight", retry_after_seconds=self._retry
            )
        self._bytes += size_bytes
        self._metrics.queued_bytes.set(self._bytes)

    def give_back(self, size_bytes: int) -> None:
        """Stop to count bytes of a body."""
        self._bytes -= size_bytes
        self._metrics.queued_bytes.set(self._bytes)
