"""The workers, what is known about them, and which one gets the next request."""

import collections.abc
import contextlib
import dataclasses
import enum
import hashlib
import logging
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator

from dpd_router.config import Affinity, HealthPolicy
from dpd_router.metrics import Metrics

log = logging.getLogger(__name__)

# a preferred decoder may carry this many times the mean load before affinity gives way
AFFINITY_LOAD_FACTOR = 1.25


class Role(enum.StrEnum):
    """What a worker does."""

    PREFILL = "prefill"
    DECODE = "decode"


@dataclasses.dataclass(slots=True, eq=False)
class Worker:
    """One worker at one address.

    Attributes:
        url: `http://host:port`.
        key: `host:port`, the name of the worker in metrics and logs.
        host: address as the other role reaches it.
        up: it passed its health checks.
        draining: it is about to go; it finishes what it has and gets nothing new.
        refused: nothing listens at its address, so that its process is gone.
        late: its last check was not answered in time.
        heard: something of an answer has come from it since its last check began.
        alive_at: when it last gave a sign of life, by the pool's clock.
        hung_since: when its prefills stopped to be answered, by the pool's clock.
        incarnation: counts the processes seen at this address; what an earlier one held is gone.
        epoch: port epoch that it announces; None until it was asked.
        models: context length in tokens by the names that it serves.
        model_list: its list of models as clients get it.
        requests: requests in flight.
        handoffs: hand-offs to it that are not settled; their requests come when they have landed.
        tokens: prompt tokens of the prefills in flight.
    """

    role: Role
    url: str
    up: bool = False
    draining: bool = False
    refused: bool = False
    late: bool = False
    heard: bool = False
    alive_at: float = 0.0
    hung_since: float | None = None
    prefill_timeouts: int = 0
    incarnation: int = 0
    epoch: int | None = None
    models: dict[str, int] = dataclasses.field(default_factory=dict)
    model_list: bytes = b""
    requests: int = 0
    handoffs: int = 0
    tokens: int = 0
    key: str = dataclasses.field(init=False)
    host: str = dataclasses.field(init=False)
    port: int = dataclasses.field(init=False)
    good_checks: int = 0
    bad_checks: int = 0

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.url)
        assert parts.hostname is not None
        assert parts.port is not None
        self.key = self.url.removeprefix("http://")
        self.host = parts.hostname
        self.port = parts.port

    @property
    def usable(self) -> bool:
        """Whether it may get new work."""
        return self.up and not self.draining

    @property
    def load(self) -> int:
        """Requests that a decoder has or is about to get."""
        return self.requests + self.handoffs


class Pool:
    """All workers of both roles.

    `on_gone` is called with a worker whose process was seen to be gone (it restarted, or it left),
    after its `incarnation` has been raised; what it held before is lost.
    """

    def __init__(
        self,
        policy: HealthPolicy,
        metrics: Metrics,
        *,
        affinity: Affinity = Affinity.NONE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy = policy
        self._metrics = metrics
        self._affinity = affinity
        self._clock = clock
        self._workers: dict[Role, dict[str, Worker]] = {role: {} for role in Role}
        self.on_gone: list[Callable[[Worker], None]] = []
        self.on_added: list[Callable[[Worker], None]] = []
        self.on_removed: list[Callable[[Worker], None]] = []
        self.on_up: list[Callable[[Worker], None]] = []

    # membership

    def workers(self, role: Role) -> tuple[Worker, ...]:
        """Return every known worker of a role."""
        return tuple(self._workers[role].values())

    def add(self, role: Role, url: str) -> Worker:
        """Add a worker, or return the one at this address."""
        worker = self._workers[role].get(url)
        if worker is None:
            worker = self._workers[role][url] = Worker(role=role, url=url)
            self._publish(worker)
            log.info("worker added", extra={"fields": {"role": role, "worker": worker.key}})
            _call(self.on_added, worker)
        return worker

    def remove(self, worker: Worker) -> None:
        """Remove a worker whose address is gone; what it held is lost."""
        if self._workers[worker.role].pop(worker.url, None) is None:
            return
        worker.up = False
        worker.incarnation += 1
        log.info("worker removed", extra={"fields": {"role": worker.role, "worker": worker.key}})
        _call(self.on_gone, worker)
        _call(self.on_removed, worker)
        self._metrics.forget_worker(worker.role, worker.key)

    def drain(self, worker: Worker, *, draining: bool) -> None:
        """Set whether a worker is about to go."""
        if worker.draining != draining:
            worker.draining = draining
            log.info(
                "worker draining" if draining else "worker stays", extra={"fields": {"worker": worker.key}}
            )
            self._publish(worker)

    # what checks and requests say about a worker

    def passed(self, worker: Worker, models: dict[str, int], epoch: int) -> None:
        """Record a good check."""
        if worker.epoch is not None and worker.epoch != epoch:
            self._gone(worker, "port epoch changed")
        worker.epoch = epoch
        worker.models = models
        # the first good check of a process is enough, and of one that was only late: hysteresis is for a worker that flaps
        first = worker.refused or worker.late or (worker.good_checks == 0 and worker.bad_checks == 0)
        worker.refused = worker.late = False
        worker.alive_at = self._clock()
        worker.good_checks += 1
        worker.bad_checks = 0
        if not worker.up and (first or worker.good_checks >= self._policy.healthy_after):
            worker.up = True
            log.info(
                "worker up", extra={"fields": {"role": worker.role, "worker": worker.key, "epoch": epoch}}
            )
            _call(self.on_up, worker)
        self._publish(worker)

    def unanswered(self, worker: Worker, reason: str) -> None:
        """Record a check that was not answered in time.

        A saturated API server answers its checks late and its requests nevertheless. What is heard from a worker
        meanwhile is the better sign: taken out for being late, a whole fleet under load would turn into none.
        """
        self._metrics.late_checks.labels(worker.role, "alive" if worker.heard else "silent").inc()
        if worker.heard:
            worker.late = True
            worker.good_checks = worker.bad_checks = 0
            worker.alive_at = self._clock()
            self._publish(worker)
        else:
            self.failed(worker, reason, late=True)

    def failed(self, worker: Worker, reason: str, *, late: bool = False) -> None:
        """Record a failed check; `late` if the worker did not answer at all."""
        worker.late = late
        worker.good_checks = 0
        worker.bad_checks += 1
        if worker.up and worker.bad_checks >= self._policy.unhealthy_after:
            worker.up = False
            log.warning(
                "worker down", extra={"fields": {"role": worker.role, "worker": worker.key, "reason": reason}}
            )
        self._publish(worker)

    def refused(self, worker: Worker) -> None:
        """Record that nothing listens at the address: the process is gone, without hysteresis."""
        worker.good_checks = 0
        worker.bad_checks += 1
        if worker.refused:
            return
        known = worker.epoch is not None
        worker.refused = True
        worker.late = False
        worker.up = False
        if known:
            self._gone(worker, "connection refused")
        worker.epoch = None
        self._publish(worker)

    def _gone(self, worker: Worker, reason: str) -> None:
        worker.incarnation += 1
        worker.hung_since = None
        worker.prefill_timeouts = 0
        self._metrics.worker_restarts.labels(worker.role).inc()
        log.warning(
            "worker restarted or gone",
            extra={"fields": {"role": worker.role, "worker": worker.key, "reason": reason}},
        )
        _call(self.on_gone, worker)

    def prefill_answered(self, worker: Worker) -> None:
        """Record that a prefiller still answers."""
        worker.prefill_timeouts = 0
        if worker.hung_since is not None:
            worker.hung_since = None
            log.info("prefiller answers again", extra={"fields": {"worker": worker.key}})
            self._publish(worker)

    def prefill_timed_out(self, worker: Worker) -> None:
        """Record a prefill without an answer; several in a row mean that the prefiller hangs."""
        worker.prefill_timeouts += 1
        if worker.prefill_timeouts >= self._policy.hung_after:
            if worker.hung_since is None:
                log.error("prefiller hung", extra={"fields": {"worker": worker.key}})
            worker.hung_since = self._clock()
            self._publish(worker)

    def _hung(self, worker: Worker) -> bool:
        since = worker.hung_since
        return since is not None and self._clock() - since < self._policy.hung_retry_seconds

    # selection

    def usable_decoders(self) -> list[Worker]:
        """Return the decoders that may get new work."""
        return [worker for worker in self._workers[Role.DECODE].values() if worker.usable]

    def _answering_decoders(self) -> list[Worker]:
        """Return the decoders that may get a request: those that are up, and only where none is, those that are late.

        A load balancer that finds all of its targets unhealthy had better use them than none. Here only those count
        that have given a sign of life lately, because a request to a worker that hangs would hang as well.
        """
        return self.usable_decoders() or [
            worker for worker in self._workers[Role.DECODE].values() if self._merely_late(worker)
        ]

    def _merely_late(self, worker: Worker) -> bool:
        silent_seconds = self._clock() - worker.alive_at
        known = worker.late and worker.epoch is not None
        return known and not worker.draining and silent_seconds < self._policy.late_grace_seconds

    def usable_prefillers(self) -> list[Worker]:
        """Return the prefillers that may get new work."""
        return [
            worker
            for worker in self._workers[Role.PREFILL].values()
            if worker.usable and not self._hung(worker)
        ]

    def by_preference(self, decoders: list[Worker], affinity_key: bytes | None) -> list[Worker]:
        """Sort decoders: the one that affinity names first unless it is overloaded, then by load."""
        ordered = sorted(decoders, key=lambda worker: worker.load)
        if affinity_key is None or self._affinity is Affinity.NONE or len(ordered) < 2:
            return ordered
        preferred = max(decoders, key=lambda worker: _weight(affinity_key, worker.key))
        mean = sum(worker.load for worker in decoders) / len(decoders)
        if preferred.load <= AFFINITY_LOAD_FACTOR * mean + 1:
            ordered.remove(preferred)
            ordered.insert(0, preferred)
        return ordered

    def decoder(
        self, affinity_key: bytes | None = None, exclude: collections.abc.Container[Worker] = ()
    ) -> Worker | None:
        """Return the decoder for a request that is decoded directly."""
        decoders = [worker for worker in self._answering_decoders() if worker not in exclude]
        return self.by_preference(decoders, affinity_key)[0] if decoders else None

    @contextlib.contextmanager
    def busy(self, worker: Worker, prompt_tokens: int = 0) -> Iterator[None]:
        """Count a request at a worker while it is in flight."""
        worker.requests += 1
        worker.tokens += prompt_tokens
        gauge = self._metrics.worker_requests.labels(worker.role, worker.key)
        gauge.set(worker.requests)
        try:
            yield
        finally:
            worker.requests -= 1
            worker.tokens -= prompt_tokens
            gauge.set(worker.requests)

    def _publish(self, worker: Worker) -> None:
        self._metrics.worker_up.labels(worker.role, worker.key).set(worker.usable)
        self._metrics.worker_late.labels(worker.role, worker.key).set(worker.late)
        if worker.role is Role.PREFILL:
            self._metrics.worker_hung.labels(worker.key).set(worker.hung_since is not None)
        elif worker.epoch is not None:
            self._metrics.worker_epoch.labels(worker.key).set(worker.epoch)


def least_loaded(prefillers: Iterable[Worker]) -> Worker:
    """Return the prefiller with the fewest prompt tokens in flight."""
    return min(prefillers, key=lambda worker: (worker.tokens, worker.requests))


def _weight(affinity_key: bytes, worker: str) -> bytes:
    # rendezvous hashing: a decoder that comes or goes moves only its own share of keys
    return hashlib.blake2b(affinity_key + b"\0" + worker.encode(), digest_size=8).digest()


def _call(listeners: list[Callable[[Worker], None]], worker: Worker) -> None:
    for listener in listeners:
        listener(worker)
