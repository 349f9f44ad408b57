"""Reading everything that counts, at one time."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
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
_EFA_QUERY: Final = " + ".join(f"sum({name})" for name in _EFA_COUNTERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What everybody counts, or has counted since an earlier reading.

    Attributes:
        router: the router's samples; None where it is not read.
        workers: samples of each worker that could be read, by URL.
        efa_bytes: bytes over the EFA in both directions; None where nobody counts them.
        unreadable: why a source could not be read, now or earlier, by URL.
    """

    router: Samples | None = None
    workers: Mapping[str, Samples] = field(default_factory=dict)
    efa_bytes: float | None = None
    unreadable: Mapping[str, str] = field(default_factory=dict)

    def since(self, earlier: "Reading") -> "Reading":
        """Return what was counted after `earlier`, by whoever was read both times.

        Of a worker that could not be read then, nobody knows what it had counted before.
        """
        router = None
        if self.router is not None and earlier.router is not None:
            router = self.router.since(earlier.router)
        efa = None
        if self.efa_bytes is not None and earlier.efa_bytes is not None:
            efa = max(0.0, self.efa_bytes - earlier.efa_bytes)
        return Reading(
            router=router,
            workers={
                url: samples.since(earlier.workers[url])
                for url, samples in self.workers.items()
                if url in earlier.workers
            },
            efa_bytes=efa,
            unreadable={**earlier.unreadable, **self.unreadable},
        )


def read(target: Target, deadline: Deadline) -> Reading:
    """Return what everybody counts now; whoever does not answer is named."""
    seconds = deadline.at_most(READ_SECONDS)
    urls = [*target.prefillers, *target.decoders]
    if target.router_metrics:
        urls.append(target.url)
    found, failed = concurrently(
        {url: partial(_metrics, url, seconds) for url in (*urls, *target.efa_exporters)}
    )
    efa = [found.pop(url) for url in target.efa_exporters if url in found]
    efa_bytes = sum(each.total(name) for each in efa for name in _EFA_COUNTERS) if efa else None
    if efa and not any(each.has("node_amazonefa_") for each in efa):
        efa_bytes = None
        failed[target.efa_exporters[0]] = "it shows no `node_amazonefa_` counters: there are no EFA devices"
    if efa_bytes is None and target.efa_query_url is not None:
        try:
            efa_bytes = _query(target.efa_query_url, target.efa_query_region, seconds)
        except (OSError, ValueError) as error:
            failed[target.efa_query_url] = str(error)
    return Reading(router=found.pop(target.url, None), workers=found, efa_bytes=efa_bytes, unreadable=failed)


def waiting_at(urls: Iterable[str], deadline: Deadline) -> int:
    """Return how many prompts wait at workers; whoever does not answer has none that is known."""
    seconds = deadline.at_most(READ_SECONDS)
    found, _ = concurrently({url: partial(_metrics, url, seconds) for url in urls})
    return int(sum(samples.total("vllm:num_requests_waiting") for samples in found.values()))


def _metrics(url: str, seconds: float) -> Samples:
    answer = ask(f"{url}/metrics", seconds=seconds)
    if answer.status != 200:
        raise NoAnswerError(f"`/metrics` answers {answer.status}")
    return Samples.read(answer.text)


def _query(base: str, region: str | None, seconds: float) -> float:
    url = f"{base.rstrip('/')}/api/v1/query?query={quote(_EFA_QUERY)}"
    headers = signed_headers(url, region=region) if region is not None else None
    answer = ask(url, seconds=seconds, headers=headers)
    if answer.status != 200:
        raise NoAnswerError(f"the query is answered with {answer.status}")
    try:
        result = answer.json()["data"]["result"]
        if not result:
            raise ValueError("it has no series of `node_amazonefa_tx_bytes`")
        counted = float(result[0]["value"][1])
    except (LookupError, TypeError):
        raise ValueError(f"not an answer of Prometheus: {answer.text[:80].strip()}") from None
    if not math.isfinite(counted):
        raise ValueError(f"`{counted}` is no number of bytes")
    return counted
