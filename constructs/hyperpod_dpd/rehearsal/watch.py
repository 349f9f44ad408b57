"""What a running rehearsal looks like right now: roles, decisions, progress."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from hyperpod_dpd.rehearsal.beside import beside
from hyperpod_dpd.rehearsal.cluster import LocalCluster
from hyperpod_dpd.rehearsal.metrics import NOTHING, Samples, scrape
from hyperpod_dpd.rehearsal.view import RoleView, Show, View
from hyperpod_dpd.spec import Role

_INTERVAL_SECONDS: Final = 1.0
_EVENTS_SHOWN: Final = 3


class Watch:
    """Collects views of one cluster while phases follow each other."""

    def __init__(self, cluster: LocalCluster, profile: str, show: Show) -> None:
        self._cluster = cluster
        self._profile = profile
        self._show = show
        self._begin: dict[str, Samples] = {}
        self._phase = "starting"
        self._done = 0
        self._total = 0
        self._ends_at: float | None = None

    def phase(self, name: str, *, total: int = 0, real_seconds: float | None = None) -> None:
        """Begin a phase of `total` requests, which takes about `real_seconds`."""
        self._phase, self._done, self._total = name, 0, total
        self._ends_at = None if real_seconds is None else time.monotonic() + real_seconds
        self._begin = {}

    def step(self) -> None:
        """Count one more request of the phase."""
        self._done += 1

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Show a view every second until the block ends."""
        async with beside(self._run(), "watch"):
            yield

    async def _run(self) -> None:
        while True:
            self._show(await self._view())
            await asyncio.sleep(_INTERVAL_SECONDS)

    async def _view(self) -> View:
        # what is asked below takes a while, and the next phase may begin meanwhile
        phase, done, total = self._phase, self._done, self._total
        left = None if self._ends_at is None else max(0.0, self._ends_at - time.monotonic())
        counted = NOTHING
        for pod in self._cluster.routers:
            samples = await scrape(self._cluster.http, pod.router_url)
            if samples is not None:
                counted = counted.plus(self._since(pod.name, samples))
        return View(
            profile=self._profile,
            phase=phase,
            done=done,
            total=total,
            left_seconds=left,
            roles=tuple([view for role in Role if (view := await self._role(role)) is not None]),
            decisions=counted.by("dpd_router_decisions_total", "decision"),
            events=tuple(self._cluster.events[-_EVENTS_SHOWN:]),
        )

    async def _role(self, role: Role) -> RoleView | None:
        pods = self._cluster.with_role(role)
        if not pods:
            return None
        now, grown = NOTHING, NOTHING
        for pod in pods:
            samples = await scrape(self._cluster.http, pod.engine_url)
            if samples is not None:
                now, grown = now.plus(samples), grown.plus(self._since(pod.name, samples))
        return RoleView(
            role=role,
            ready=sum(pod.ready for pod in pods),
            pods=len(pods),
            queue=now.sum("vllm:num_requests_waiting"),
            batch=now.sum("vllm:num_requests_running"),
            ttft_seconds=_mean(grown, "vllm:time_to_first_token_seconds"),
            tpot_seconds=_mean(grown, "vllm:request_time_per_output_token_seconds"),
        )

    def _since(self, pod: str, samples: Samples) -> Samples:
        """Return what was counted since the phase began, or since the pod was first seen in it."""
        return samples.since(self._begin.setdefault(pod, samples))


def _mean(samples: Samples, name: str) -> float | None:
    count = samples.sum(f"{name}_count")
    return samples.sum(f"{name}_sum") / count if count else None
