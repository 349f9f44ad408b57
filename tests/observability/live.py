"""The real router and simulated engines under traffic, and what Prometheus makes of their metrics.

Time is counted in steps, not by a clock: in each one a few requests are answered, then everything is read once, as every
30 seconds in production. Prometheus' own engine (`promtool test rules`) then evaluates the real rules over what was read,
with 30 seconds between two steps. However long a step takes on a busy machine, the rules see the same.

What the router and the engines measure by the clock stays far from every limit: a second of the engines is a hundred
real ones, and the router waits a minute for what takes milliseconds, except where a scenario is about waiting.
"""

import asyncio
import contextlib
import math
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from dpd_simulator import ConstantStepTimes, EngineConfig, LMCacheConfig, SimulatedCluster
from dpd_simulator.clock import Clock
from hyperpod_dpd.observability.jobs import SCRAPE_INTERVAL_SECONDS
from hyperpod_dpd.observability.rules import definition, rule_groups
from hyperpod_dpd.physics import GIB
from hyperpod_dpd.spec import Deployment
from tests.router.support import prompt
from tests.support.deployments import ROOT, changed, ready
from tests.support.prometheus import unit_test

LIMIT_SECONDS = 600
"""Ends a test that would hang; nothing is judged by it."""

STEPS_PER_MINUTE = 60 // SCRAPE_INTERVAL_SECONDS

THRESHOLD_TOKENS = 512
LONG_TOKENS, SHORT_TOKENS = 600, 100
REQUESTS_PER_STEP = 4
"""Three long prompts and a short one."""

EFA_BYTES_PER_STEP = 10e9 * SCRAPE_INTERVAL_SECONDS
ENGINE_CLOCK = Clock(compression=0.01)
TTFT_SECONDS = 60.0
"""What is promised for the first token, which the router times by the clock."""

ROUTER_PORT = 8081


def deployment(**changes: Any) -> Deployment:
    """Return the default deployment with the threshold of the rig, exporters of its own, and patience."""
    given = {
        "routing__threshold_tokens": THRESHOLD_TOKENS,
        "platform__exporters": "manifests",
        "slo__ttft_p95_seconds": TTFT_SECONDS,
        **changes,
    }
    return changed(ready(), **given)


@dataclass
class History:
    """What was read in each step, by series as Prometheus writes them down."""

    steps: int = 0
    _values: dict[str, dict[int, str]] = field(default_factory=dict)
    _seen_by: dict[str, set[str]] = field(default_factory=dict)
    """Series of a target, which are stale as soon as it does not answer."""

    def add(self, target: "Target", exposition: str | None) -> None:
        """Take what `target` answered in this step; None: nothing."""
        now = {_series("up", target.labels): "0" if exposition is None else "1"}
        for name, labels, value in _samples(exposition or ""):
            # a label that the target has as well is renamed, as Prometheus does
            own = {f"exported_{each}" if each in target.labels else each: labels[each] for each in labels}
            now[_series(name, {**own, **target.labels})] = value
        self._take(target, now)

    def remove(self, target: "Target") -> None:
        """Take that `target` is none any more: its pod was deleted."""
        self._take(target, {})

    def _take(self, target: "Target", now: Mapping[str, str]) -> None:
        stale = dict.fromkeys(self._seen_by.get(target.job, set()) - now.keys(), "stale")
        for series, value in {**now, **stale}.items():
            self._values.setdefault(series, {})[self.steps] = value
        self._seen_by[target.job] = set(now)

    def inputs(self, rules: str) -> list[dict[str, str]]:
        """Return the series that `rules` mention, as `promtool` takes them."""
        return [
            {"series": series, "values": " ".join(values.get(step, "_") for step in range(self.steps))}
            for series, values in self._values.items()
            if series.partition("{")[0] in rules
        ]


@dataclass(frozen=True)
class Target:
    """Something that is read, with the labels that the scrape configurations of a cluster give."""

    url: str
    """Empty for the exporters, which the rig plays."""

    labels: Mapping[str, str]

    @property
    def job(self) -> str:
        return self.labels["job"]


@dataclass
class Live:
    """The running parts."""

    described: Deployment
    cluster: SimulatedCluster
    session: aiohttp.ClientSession
    history: History = field(default_factory=History)
    efa_moves: bool = True
    """Whether hand-offs cross the EFA: its counters come from here, because there is none on a laptop."""

    nodes_are_there: bool = True
    """Whether the GPU nodes are, with the pods on them."""

    crowded: bool = False
    """Three times as many requests in each step, and none is waited for: it ends when the prefiller has ended one of its
    own. As slow as the machine is, so slow are both."""

    _numbers: Iterator[int] = field(default_factory=count)
    _efa_bytes: float = 0.0
    _open: set[asyncio.Task[None]] = field(default_factory=set)

    async def minutes(self, minutes: float) -> None:
        """Let so many minutes pass for the rules."""
        async with asyncio.timeout(LIMIT_SECONDS):
            for _ in range(math.ceil(minutes * STEPS_PER_MINUTE)):
                await self._step()

    async def take_nodes_away(self) -> None:
        """End every worker with its node; the router stays."""
        self.nodes_are_there = False
        await self.cluster.close()

    async def stop(self) -> None:
        """End faults, because a slow engine would take its time to end, and send clients away."""
        await self.cluster.remove_faults()
        for each in self._open:
            each.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _step(self) -> None:
        requests = REQUESTS_PER_STEP * (3 if self.crowded else 1)
        tasks = [asyncio.create_task(self._request(next(self._numbers))) for _ in range(requests)]
        self._open.update(tasks)
        if self.crowded:
            await self._moved_on()
        else:
            await asyncio.gather(*tasks)
        self._efa_bytes += EFA_BYTES_PER_STEP if self.efa_moves else 0
        for target in self.targets():
            if self.nodes_are_there or target.job == "dpd-router":
                self.history.add(target, await self._read(target))
            else:
                self.history.remove(target)
        self.history.steps += 1

    async def _moved_on(self) -> None:
        """Wait until the router has every request and the prefiller has answered another, which only metrics tell."""
        before = await self._sum("dpd-prefill", "vllm:request_success_total")
        while True:
            taken = await self._sum("dpd-router", "dpd_router_inflight_requests")
            answered = await self._sum("dpd-prefill", "vllm:request_success_total")
            if taken == sum(not each.done() for each in self._open) and answered > before:
                return
            await asyncio.sleep(0.01)

    async def _sum(self, job: str, metric: str) -> float:
        """Return the sum of the series of `metric` of a target."""
        (target,) = (each for each in self.targets() if each.job == job)
        return sum(
            float(value) for name, _, value in _samples(await self._read(target) or "") if name == metric
        )

    async def _request(self, number: int) -> None:
        tokens = SHORT_TOKENS if number % REQUESTS_PER_STEP == 0 else LONG_TOKENS
        body = {"model": "m", "prompt": prompt(tokens, number), "max_tokens": 8, "temperature": 0}
        url = f"http://{self.cluster.router_host}:{ROUTER_PORT}/v1/completions"
        async with self.session.post(url, json=body) as response:
            await response.read()

    def targets(self) -> Iterator[Target]:
        """Yield what is read."""
        (prefiller,), (decoder,) = self.cluster.prefillers, self.cluster.decoders
        ours = {"deployment": self.described.name}
        of_prefiller = {"job": "dpd-prefill", "role": "prefill", "node": "node-1", **ours}
        of_decoder = {"job": "dpd-decode", "role": "decode", "node": "node-1", **ours}
        router = f"{self.cluster.router_host}:{ROUTER_PORT}"
        for address, labels in (
            (f"{prefiller.host}:8000", of_prefiller),
            (f"{decoder.host}:8000", of_decoder),
            (router, {"job": "dpd-router", **ours}),
            ("", {"job": "dpd-efa", "node": "node-1"}),
            ("", {"job": "dpd-dcgm", "node": "node-1"}),
        ):
            yield Target(url=address and f"http://{address}/metrics", labels={**labels, "instance": address})

    async def _read(self, target: Target) -> str | None:
        if target.job == "dpd-dcgm":
            return 'DCGM_FI_DEV_GPU_TEMP{gpu="0"} 40\n'
        if not target.url:
            return "".join(
                f'node_amazonefa_{way}_bytes{{device="rdmap0"}} {self._efa_bytes:.0f}\n'
                for way in ("tx", "rx")
            )
        try:
            async with self.session.get(target.url) as response:
                return await response.text() if response.status == 200 else None
        except aiohttp.ClientConnectionError:
            return None


def judged(rig: Live, expectations: Mapping[str, float | None], folder: Path) -> str:
    """Return where the real rules over what `rig` has read do not give what is expected; empty where all do.

    Args:
        rig: what was read.
        expectations: the value of each expression after the last step, or None where it must have none.
        folder: an empty folder.
    """
    rules = definition(rule_groups(rig.described), deployment=rig.described)
    last = f"{(rig.history.steps - 1) * SCRAPE_INTERVAL_SECONDS}s"
    test = {
        "interval": f"{SCRAPE_INTERVAL_SECONDS}s",
        "input_series": rig.history.inputs(rules),
        "promql_expr_test": [
            {
                "expr": expression,
                "eval_time": last,
                "exp_samples": [] if value is None else [{"labels": "{}", "value": value}],
            }
            for expression, value in expectations.items()
        ],
    }
    return unit_test(rules, [test], folder)


def _samples(exposition: str) -> Iterator[tuple[str, Mapping[str, str], str]]:
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            yield sample.name, sample.labels, f"{sample.value:.17g}"


def _series(name: str, labels: Mapping[str, str]) -> str:
    return name + "{" + ",".join(f'{label}="{value}"' for label, value in sorted(labels.items())) + "}"


@contextlib.asynccontextmanager
async def live(
    described: Deployment, *, max_num_seqs: int = 256, notification_timeout_seconds: float = 60
) -> AsyncIterator[Live]:
    """Run a prefiller, a decoder and a router until the block ends.

    Requests come when the block lets time pass.
    """
    async with (
        SimulatedCluster(
            prefill=1,
            decode=1,
            engine=EngineConfig(max_num_seqs=max_num_seqs),
            # room for everything that a scenario loses: a full buffer is another fault
            lmcache=LMCacheConfig(buffer_bytes=8 * GIB),
            step_times=ConstantStepTimes(prefill_seconds_per_token=6e-8, decode_step_seconds=2e-5),
            clock=ENGINE_CLOCK,
        ) as cluster,
        router(cluster, notification_timeout_seconds=notification_timeout_seconds),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        rig = Live(described=described, cluster=cluster, session=session)
        try:
            yield rig
        finally:
            await rig.stop()


@contextlib.asynccontextmanager
async def router(cluster: SimulatedCluster, *, notification_timeout_seconds: float) -> AsyncIterator[None]:
    """Run the router of `cluster` until the block ends."""
    (prefiller,), (decoder,) = cluster.prefillers, cluster.decoders
    assert decoder.config.lmcache is not None
    arguments = {
        "host": cluster.router_host,
        "notification-host": cluster.router_host,
        "prefillers": prefiller.url,
        "decoders": decoder.url,
        "decoder-buffer-chunks": str(decoder.config.lmcache.total_chunks),
        "threshold": str(THRESHOLD_TOKENS),
        "notification-timeout-seconds": f"{notification_timeout_seconds:g}",
        "connect-timeout-seconds": "60",
        "prefill-timeout-seconds": "600",
        "health-timeout-seconds": "60",
        "drain-grace-seconds": "0.3",
        "pair-retry-seconds": "0.1",
        "shutdown-grace-seconds": "0.5",
    }
    flags = [f"--{key}={value}" for key, value in arguments.items()]
    async with process(sys.executable, "-m", "dpd_router", *flags, ready="worker up", times=2):
        yield


@contextlib.asynccontextmanager
async def process(command: str, *arguments: str, ready: str, times: int = 1) -> AsyncIterator[None]:
    """Run a program until the block ends; enter the block when its log has said `ready` so many times."""
    process = await asyncio.create_subprocess_exec(
        command,
        *arguments,
        env={**os.environ, "PYTHONPATH": str(ROOT / "router")},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    drain: asyncio.Task[bytes] | None = None
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            while times:
                line = (await process.stderr.readline()).decode()
                assert line, f"`{command}` ended before it was ready"
                times -= ready in line
        # nobody reads the rest, but a full pipe would stop the program
        drain = asyncio.create_task(process.stderr.read())
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        if drain is not None:
            await drain
