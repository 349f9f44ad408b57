"""Reading everything that counts, at one time."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final
from urllib.parse import quote

from hyperpod_dpd.evidence.proof.background import concurrently
from hyperpod_dpd.evidence.proof.samples import Samples
from hyperpod_dpd.evidence.proof.signing import signed_headers
from hyperpod_dpd.evidence.proof.target import Target
from hyperpod_dpd.evidence.proof.web import Deadline, NoAnswerError, ask

READ_SECONDS: Final = 10.0
"""Limit of one reading; a worker's metrics take milliseconds."""

_EFA_COUNTERS: Final = ("node_amazonefa_tx_bytes", "node_amazonefa_rx_bytes")
EFA_QUERY: Final = f'last_over_time({{__name__=~"{"|".join(_EFA_COUNTERS)}"}}[90s])'
"""Series by series: of a sum nobody can tell a device that is no longer read from one that sends nothing. Only what was
written within three scrapes: for five minutes a Prometheus repeats the last value of an exporter that is gone."""

_ROUTER: Final = "dpd_router_"
_DECISIONS: Final = "dpd_router_decisions_total"
_PROMPT_TOKENS: Final = "vllm:prompt_tokens_total"
_WAITING: Final = "vllm:num_requests_waiting"

_BEGAN_ANEW: Final = "it began anew meanwhile, and what it had counted is lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What everybody counts, or has counted since an earlier reading.

    Attributes:
        router: the router's samples; None where it is not read.
        router_url: under which URL the router is named among the `unreadable`.
        workers: samples of each worker that could be read, by URL.
        efa: what counts bytes over the EFA, by the URL of whoever counts.
        unreadable: why a source could not be read, or not all of it, now or earlier, by URL.
    """

    router: Samples | None = None
    router_url: str = ""
    workers: Mapping[str, Samples] = field(default_factory=dict)
    efa: Mapping[str, Samples] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)

    @property
    def efa_bytes(self) -> float | None:
        """Bytes over the EFA in both directions, by all that were read; None where nobody counts them."""
        if not self.efa:
            return None
        return sum(samples.total(name) for samples in self.efa.values() for name in _EFA_COUNTERS)

    def since(self, earlier: "Reading") -> "Reading":
        """Return what was counted after `earlier`, by whoever was read both times and did not begin anew meanwhile.

        Of a worker that could not be read then, nobody knows what it had counted before; of one that began anew, what
        it had counted until it ended.
        """
        unreadable = {**earlier.unreadable, **self.unreadable}
        router = None
        if self.router is not None and earlier.router is not None:
            if self.router.began_anew(earlier.router, _DECISIONS):
                unreadable[self.router_url] = _BEGAN_ANEW
            else:
                router = self.router.since(earlier.router)
        workers = {}
        for url in self.workers.keys() & earlier.workers.keys():
            if self.workers[url].began_anew(earlier.workers[url], _PROMPT_TOKENS):
                unreadable[url] = _BEGAN_ANEW
            else:
                workers[url] = self.workers[url].since(earlier.workers[url])
        efa = {}
        for url in self.efa.keys() & earlier.efa.keys():
            # a device that comes back shows what it has counted in its life
            efa[url] = self.efa[url].only(earlier.efa[url]).since(earlier.efa[url])
            if lost := self.efa[url].lost(earlier.efa[url]):
                unreadable[url] = (
                    f"{lost} of its {len(earlier.efa[url].values)} EFA counters are no longer there"
                )
        return replace(self, router=router, workers=workers, efa=efa, unreadable=unreadable)


def read(target: Target, deadline: Deadline) -> Reading:
    """Return what everybody counts now; whoever does not answer is named."""
    seconds = deadline.at_most(READ_SECONDS)
    wanted = dict.fromkeys((*target.prefillers, *target.decoders), _PROMPT_TOKENS)
    wanted |= dict.fromkeys(target.efa_exporters, _EFA_COUNTERS[0])
    if target.router_metrics:
        wanted[target.url] = _ROUTER
    found, failed = concurrently(
        {url: partial(_metrics, url, series, seconds) for url, series in wanted.items()}
    )
    efa = {url: _efa_counters(found.pop(url)) for url in target.efa_exporters if url in found}
    if not efa and target.efa_query_url is not None:
        try:
            efa[target.efa_query_url] = _query(target.efa_query_url, target.efa_query_region, seconds)
        except (OSError, ValueError) as error:
            failed[target.efa_query_url] = str(error)
    router = found.pop(target.url, None)
    return Reading(router=router, router_url=target.url, workers=found, efa=efa, unreadable=failed)


def waiting_at(urls: Iterable[str], deadline: Deadline) -> int:
    """Return how many prompts wait at workers; whoever does not answer has none that is known."""
    seconds = deadline.at_most(READ_SECONDS)
    found, _ = concurrently({url: partial(_metrics, url, _WAITING, seconds) for url in urls})
    return int(sum(samples.total(_WAITING) for samples in found.values()))


def _metrics(url: str, series: str, seconds: float) -> Samples:
    """Return what `url` shows; without `series` it is not what was asked for, and its silence no zero."""
    answer = ask(f"{url}/metrics", seconds=seconds)
    if answer.status != 200:
        raise NoAnswerError(f"`/metrics` answers {answer.status}")
    samples = Samples.read(answer.text)
    if not samples.has(series):
        raise NoAnswerError(f"`/metrics` shows no `{series}`")
    return samples


def _efa_counters(samples: Samples) -> Samples:
    return Samples({key: value for key, value in samples.values.items() if key[0] in _EFA_COUNTERS})


def _query(base: str, region: str | None, seconds: float) -> Samples:
    url = f"{base.rstrip('/')}/api/v1/query?query={quote(EFA_QUERY)}"
    headers = signed_headers(url, region=region) if region is not None else None
    answer = ask(url, seconds=seconds, headers=headers)
    if answer.status != 200:
        raise NoAnswerError(f"the query is answered with {answer.status}")
    try:
        found = {
            (str(series["metric"].pop("__name__")), frozenset(series["metric"].items())): float(
                series["value"][1]
            )
            for series in answer.json()["data"]["result"]
        }
    except (LookupError, TypeError, AttributeError):
        raise ValueError(f"not an answer of Prometheus: {answer.text[:80].strip()}") from None
    if not found:
        raise ValueError(f"it has no series of `{_EFA_COUNTERS[0]}`")
    if strange := [value for value in found.values() if not math.isfinite(value)]:
        raise ValueError(f"`{strange[0]}` is no number of bytes")
    return _efa_counters(Samples(found))
