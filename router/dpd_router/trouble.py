"""What a request that failed at a worker says about the worker."""

from dpd_router.health import HealthMonitor
from dpd_router.metrics import Metrics
from dpd_router.pool import Pool, Role, Worker
from dpd_router.upstream import UpstreamError


class Trouble:
    """Counts errors of workers and has the worker looked at."""

    def __init__(self, *, pool: Pool, health: HealthMonitor, metrics: Metrics) -> None:
        self._pool = pool
        self._health = health
        self._metrics = metrics

    def report(self, worker: Worker, error: UpstreamError) -> None:
        """Record the error of a request to a worker."""
        self._metrics.upstream_errors.labels(worker.role, error.kind).inc()
        if error.kind == "refused":
            self._pool.refused(worker)
        elif error.kind == "timeout" and worker.role is Role.PREFILL:
            self._pool.prefill_timed_out(worker)
        if not error.rejected:
            self._health.check_now(worker)
