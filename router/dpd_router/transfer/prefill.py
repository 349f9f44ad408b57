"""One request to a prefiller, whatever the transfer reads from its answer."""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeVar

from dpd_router.generation import Json
from dpd_router.metrics import Metrics
from dpd_router.pool import Pool, Role, Worker
from dpd_router.trouble import Trouble
from dpd_router.upstream import Upstream, UpstreamError

# prefillers that are tried for one request before it is decoded directly
_ATTEMPTS: Final = 2

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

    def another(self, error: UpstreamError, *, tried: Collection[Worker]) -> bool:
        """Whether a request whose prefill failed goes to another prefiller; counts it then."""
        untried = any(worker not in tried for worker in self._pool.usable_prefillers())
        if not error.unsent or len(tried) >= _ATTEMPTS or not untried:
            return False
        self._metrics.retries.labels(Role.PREFILL).inc()
        return True

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
