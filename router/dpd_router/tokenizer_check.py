"""Whether the router's tokenizer file is the workers' own.

With another tokenizer every text prompt would become another prompt, and the text that a half
character is completed to another text, behind a 200. So the file is used only while every worker that
is up has given the same ids as it for a text made of pieces of the file's whole vocabulary.
"""

import logging

from dpd_router.metrics import Metrics
from dpd_router.pool import Pool, Role, Worker
from dpd_router.tokens import FileTokenizer, tokenize_at
from dpd_router.upstream import Upstream, UpstreamError

log = logging.getLogger(__name__)


class TokenizerCheck:
    """Compares the file with each worker once per process of it."""

    def __init__(
        self,
        file_tokenizer: FileTokenizer | None,
        pool: Pool,
        upstream: Upstream,
        metrics: Metrics,
        *,
        timeout_seconds: float,
    ) -> None:
        self._file = file_tokenizer
        self._pool = pool
        self._upstream = upstream
        self._metrics = metrics
        self._timeout_seconds = timeout_seconds
        self._agrees: dict[Worker, bool] = {}
        pool.on_gone.append(self._forget)

    @property
    def tokenizer(self) -> FileTokenizer | None:
        """The file's tokenizer; None without a file, or while it is not known to be that of every worker that is up."""
        if self._file is None:
            return None
        workers = (worker for role in Role for worker in self._pool.workers(role))
        agrees = all(self._agrees.get(worker, False) for worker in workers if worker.usable)
        return self._file if agrees else None

    async def look(self, worker: Worker) -> None:
        """Compare with a worker; one that does not answer is asked again with its next health check."""
        if self._file is None or worker in self._agrees:
            return
        gauge = self._metrics.tokenizer_agrees.labels(worker.role, worker.key)
        gauge.set(0)
        try:
            answer = await tokenize_at(
                self._upstream, worker, {"prompt": self._file.probe}, self._timeout_seconds
            )
        except UpstreamError as error:
            self._metrics.upstream_errors.labels(worker.role, error.kind).inc()
            return
        agrees = answer.tokens == await self._file.encode(self._file.probe, add_special_tokens=True)
        self._agrees[worker] = agrees
        gauge.set(agrees)
        if not agrees:
            log.error(
                "`--tokenizer` is not the worker's: it is not used; give the `tokenizer.json` of the model",
                extra={"fields": {"role": worker.role, "worker": worker.key}},
            )

    def _forget(self, worker: Worker) -> None:
        self._agrees.pop(worker, None)
