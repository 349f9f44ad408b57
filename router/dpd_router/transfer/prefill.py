"""One request to a prefiller, whatever the transfer reads from its answer."""

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from dpd_router.generation import Json
from dpd_router.metrics import Metrics
from dpd_router.pool import Pool, Worker
from dpd_router.trouble import Trouble
from dpd_router.upstream import Upstream, UpstreamError

# prefillers that are tried for one request before it is decoded directly
PREFILL_ATTEMPTS = 2

_T = TypeVar("_T")


class Prefill:
    """Sends prefills and records how they went."""

    def __init__(
        self, *, timeout_seconds: float, pool: Pool, upstream: Upstream, trouble: Trouble, metrics: Metrics
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._pool = pool
        self._upstream = upstream
        self._trouble = trouble
        self._metrics = metrics

    async def run(
        self,
        prefiller: Worker,
        *,
        tokens: int,
        path: str,
        body: Json,
        headers: Mapping[str, str],
        read: Callable[[bytes], _T],
    ) -> _T:
        """Return what `read` takes from the answer.

        Raises:
            UpstreamError: there was no answer, or `read` cannot read it.
        """
        start = time.perf_counter()
        try:
            with self._pool.busy(prefiller, tokens):
                answer = await self._upstream.post(prefiller, path, body, self._timeout_seconds, headers)
            result = read(answer)
        except UpstreamError as error:
            self._trouble.report(prefiller, error)
            raise
        self._metrics.prefill.observe(time.perf_counter() - start)
        self._pool.prefill_answered(prefiller)
        return result
