"""Pairs of prefiller and decoder that stopped to work together.

A running prefiller keeps its connection to a decoder. When the decoder restarts at the same address
and port, every transfer fails although both workers are healthy and the prefiller answers 200. Only
the pair shows it: its hand-offs fail in a row. A new port epoch of the decoder is a new pair.
"""

import dataclasses
import logging
import time
from collections.abc import Callable
from typing import TypeAlias

from dpd_router.config import HealthPolicy
from dpd_router.metrics import Metrics
from dpd_router.pool import Worker

log = logging.getLogger(__name__)

_Key: TypeAlias = tuple[str, int, str, int]


@dataclasses.dataclass(slots=True)
class _Record:
    failures: int = 0
    broken_since: float | None = None


class Pairs:
    """Counts failures in a row per pair of processes."""

    def __init__(
        self, policy: HealthPolicy, metrics: Metrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._policy = policy
        self._metrics = metrics
        self._clock = clock
        self._records: dict[_Key, _Record] = {}

    def usable(self, prefiller: Worker, decoder: Worker) -> bool:
        """Whether a hand-off may use the pair; a broken pair gets one trial per retry interval."""
        record = self._records.get(_key(prefiller, decoder))
        if record is None or record.broken_since is None:
            return True
        return self._clock() - record.broken_since >= self._policy.pair_retry_seconds

    def trial(self, prefiller: Worker, decoder: Worker) -> None:
        """Note that a hand-off starts: a broken pair gets no second one before its outcome or the next interval."""
        record = self._records.get(_key(prefiller, decoder))
        if record is not None and record.broken_since is not None:
            record.broken_since = self._clock()

    def succeeded(self, prefiller: Worker, decoder: Worker) -> None:
        """Record a transfer that arrived."""
        record = self._records.pop(_key(prefiller, decoder), None)
        if record is not None and record.broken_since is not None:
            log.info("pair healed", extra={"fields": {"prefiller": prefiller.key, "decoder": decoder.key}})
            self._publish()

    def failed(self, prefiller: Worker, decoder: Worker) -> None:
        """Record a transfer that did not arrive."""
        record = self._records.setdefault(_key(prefiller, decoder), _Record())
        record.failures += 1
        if record.failures >= self._policy.pair_broken_after:
            if record.broken_since is None:
                log.error(
                    "pair broken", extra={"fields": {"prefiller": prefiller.key, "decoder": decoder.key}}
                )
            record.broken_since = self._clock()
            self._publish()

    def forget(self, worker: Worker) -> None:
        """Drop what earlier processes of a worker left behind."""
        old = [
            key
            for key in self._records
            if (key[0] == worker.key and key[1] != worker.incarnation)
            or (key[2] == worker.key and key[3] != worker.incarnation)
        ]
        for key in old:
            del self._records[key]
        self._publish()

    @property
    def broken(self) -> int:
        """Number of broken pairs."""
        return sum(record.broken_since is not None for record in self._records.values())

    def _publish(self) -> None:
        self._metrics.pairs_broken.set(self.broken)


def _key(prefiller: Worker, decoder: Worker) -> _Key:
    return (prefiller.key, prefiller.incarnation, decoder.key, decoder.incarnation)
