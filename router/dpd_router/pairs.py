"""Pairs of prefiller and decoder that stopped to work together.

A running prefiller keeps its connection to a decoder. When the decoder restarts at the same address
and port, every transfer fails although both workers are healthy and the prefiller answers 200. Only
the pair shows it: its hand-offs fail in a row. A new port epoch of the decoder is a new pair, until the
ports come round to some that the prefiller has used with an earlier start of the decoder.
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
_Ports: TypeAlias = tuple[str, int, str, int]


@dataclasses.dataclass(slots=True)
class _Record:
    failures: int = 0
    broken_since: float | None = None
    stale: bool = False

    @property
    def broken(self) -> bool:
        return self.stale or self.broken_since is not None


class Pairs:
    """Counts failures in a row per pair of processes, and knows which ports a prefiller has used."""

    def __init__(
        self,
        policy: HealthPolicy,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
        *,
        port_epochs: int,
    ) -> None:
        self._policy = policy
        self._metrics = metrics
        self._clock = clock
        self._port_epochs = port_epochs
        self._records: dict[_Key, _Record] = {}
        # boot counter of the decoder with which a prefiller's process has used a decoder's ports
        self._used: dict[_Ports, int] = {}

    def usable(self, prefiller: Worker, decoder: Worker) -> bool:
        """Whether a hand-off may use the pair; a broken pair gets one trial per retry interval."""
        key = _key(prefiller, decoder)
        record = self._records.get(key)
        if record is None and self._came_round(prefiller, decoder):
            record = self._records[key] = _Record(stale=True)
            log.error(
                "decoder is back on ports that the prefiller knows of an earlier start: replace one of the two pods",
                extra={
                    "fields": {"prefiller": prefiller.key, "decoder": decoder.key, "epoch": decoder.epoch}
                },
            )
            self._publish()
        if record is None or not record.broken:
            return True
        if record.broken_since is None:
            return False
        return self._clock() - record.broken_since >= self._policy.pair_retry_seconds

    def trial(self, prefiller: Worker, decoder: Worker) -> None:
        """Note that a hand-off starts: a broken pair gets no second one before its outcome or the next interval."""
        record = self._records.get(_key(prefiller, decoder))
        if record is not None and record.broken_since is not None:
            record.broken_since = self._clock()

    def succeeded(self, prefiller: Worker, decoder: Worker) -> None:
        """Record a transfer that arrived."""
        if decoder.epoch is not None:
            self._used[self._ports(prefiller, decoder)] = decoder.epoch
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
        # what a prefiller knows goes with its process, and stays when the decoder restarts or leaves
        self._used = {
            ports: epoch
            for ports, epoch in self._used.items()
            if ports[0] != worker.key or ports[1] == worker.incarnation
        }
        self._publish()

    def _came_round(self, prefiller: Worker, decoder: Worker) -> bool:
        used = self._used.get(self._ports(prefiller, decoder))
        return used is not None and used != decoder.epoch

    def _ports(self, prefiller: Worker, decoder: Worker) -> _Ports:
        epoch = decoder.epoch or 0
        return (prefiller.key, prefiller.incarnation, decoder.key, epoch % self._port_epochs)

    @property
    def broken(self) -> int:
        """Number of broken pairs."""
        return sum(record.broken for record in self._records.values())

    def _publish(self) -> None:
        self._metrics.pairs_broken.set(self.broken)


def _key(prefiller: Worker, decoder: Worker) -> _Key:
    return (prefiller.key, prefiller.incarnation, decoder.key, decoder.incarnation)
