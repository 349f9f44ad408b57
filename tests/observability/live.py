"""A real Prometheus that scrapes a real router, simulated engines and a stand-in for the EFA exporter.

Everything listens on the loopback addresses of one simulated cluster. Time runs 60 times faster than in production: a
scrape takes place every half second instead of every 30 seconds, and the real rules are loaded with windows and `for`
divided by 60, so that 10 simulated minutes are 10 seconds. Traffic, the router and its workers are not compressed.
"""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web

from dpd_simulator import ConstantStepTimes, EngineConfig, SimulatedCluster
from hyperpod_dpd.observability.rules import definition, rule_groups
from hyperpod_dpd.rehearsal.prometheus import faster
from hyperpod_dpd.spec import Deployment
from tests.router.support import prompt
from tests.support.deployments import ROOT, changed, ready
from tests.support.prometheus import program

SPEED = 60
"""Simulated seconds in one real second, for scrapes and rules."""

LIMIT_SECONDS = 60
"""Ends a test that would hang; alerts arrive as events before."""

THRESHOLD_TOKENS = 512
LONG_TOKENS, SHORT_TOKENS = 600, 100
REQUESTS_PER_SECOND = 8

SIDE_PORT = 9093
PROMETHEUS_PORT = 9090


def deployment(**changes: Any) -> Deployment:
    """Return the default deployment with the threshold of the rig and exporters of its own."""
    given = {"routing__threshold_tokens": THRESHOLD_TOKENS, "platform__exporters": "manifests", **changes}
    return changed(ready(), **given)


@dataclass
class Side:
    """Receives alerts as an Alertmanager does, and plays the EFA exporter of the prefiller's node."""

    efa_bytes_per_second: float = 10e9
    """Rate at which the devices move data; 0: hand-offs take another way, and the counters stand still."""

    alerts: dict[str, dict[str, str]] = field(default_factory=dict)
    """Annotations of every alert that has fired, by name."""

    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _bytes: float = 0.0
    _read_at: float = field(default_factory=time.monotonic)

    async def receive(self, request: web.Request) -> web.Response:
        for alert in await request.json():
            self.alerts.setdefault(alert["labels"]["alertname"], alert["annotations"])
        async with self._changed:
            self._changed.notify_all()
        return web.Response()

    async def metrics(self, _: web.Request) -> web.Response:
        now = time.monotonic()
        self._bytes += (now - self._read_at) * self.efa_bytes_per_second
        self._read_at = now
        lines = [f'node_amazonefa_{way}_bytes{{device="rdmap0"}} {self._bytes:.0f}' for way in ("tx", "rx")]
        return web.Response(text="\n".join(lines) + "\n")

    async def fired(self) -> set[str]:
        """Wait for the first alert, and return the names of all."""
        async with asyncio.timeout(LIMIT_SECONDS), self._changed:
            await self._changed.wait_for(lambda: bool(self.alerts))
        return set(self.alerts)

    @contextlib.asynccontextmanager
    async def serving(self, host: str) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_post("/api/v2/alerts", self.receive)
        app.router.add_get("/metrics", self.metrics)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, host, SIDE_PORT).start()
        try:
            yield
        finally:
            await runner.cleanup()


@dataclass
class Live:
    """The running parts."""

    cluster: SimulatedCluster
    side: Side
    session: aiohttp.ClientSession
    _clients: asyncio.Task[None] | None = None

    async def query(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer of Prometheus' API."""
        url = f"http://{self.cluster.router_host}:{PROMETHEUS_PORT}/api/v1/{path}"
        async with self.session.get(url, params=parameters) as response:
            assert response.status == 200, await response.text()
            return (await response.json())["data"]

    async def scraped(self, targets: int) -> None:
        """Wait until every target has answered."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while True:  # Prometheus tells nobody when it scrapes
                result = (await self.query("query", query="sum(up)"))["result"]
                if result and float(result[0]["value"][1]) == targets:
                    return
                await asyncio.sleep(0.1)

    async def can_alert(self) -> None:
        """Wait until Prometheus knows where alerts go: one that fires before is sent a minute later."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while not (await self.query("alertmanagers"))["activeAlertmanagers"]:  # noqa: ASYNC110 -- as above
                await asyncio.sleep(0.1)

    async def reload(self) -> None:
        """Let Prometheus read its configuration again."""
        url = f"http://{self.cluster.router_host}:{PROMETHEUS_PORT}/-/reload"
        async with self.session.post(url) as response:
            assert response.status == 200, await response.text()

    def start_traffic(self) -> None:
        """Let clients come."""
        self._clients = asyncio.create_task(self._traffic())

    async def stop(self) -> None:
        """End faults, because a slow engine would take its time to end, and send clients away."""
        await self.cluster.remove_faults()
        if self._clients is not None:
            self._clients.cancel()
            with contextlib.suppress(asyncio.CancelledError, BaseExceptionGroup):
                await self._clients

    async def _traffic(self) -> None:
        """Send requests at a steady rate, three long ones for each short one, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(1_000_000):
                group.create_task(self._request(number))
                await asyncio.sleep(1 / REQUESTS_PER_SECOND)

    async def _request(self, number: int) -> None:
        tokens = SHORT_TOKENS if number % 4 == 0 else LONG_TOKENS
        body = {"model": "m", "prompt": prompt(tokens, number), "max_tokens": 8, "temperature": 0}
        url = f"http://{self.cluster.router_host}:8081/v1/completions"
        async with self.session.post(url, json=body) as response:
            await response.read()


@contextlib.asynccontextmanager
async def live(folder: Path, described: Deployment, *, max_num_seqs: int = 256) -> AsyncIterator[Live]:
    """Run a prefiller, a decoder, a router and a Prometheus with the rules of `described` until the block ends.

    Clients come when the block calls `start_traffic`.
    """
    prometheus = program("prometheus")
    side = Side()
    times = ConstantStepTimes(prefill_seconds_per_token=0.00005, decode_step_seconds=0.002)
    engine = EngineConfig(max_num_seqs=max_num_seqs)
    async with (
        SimulatedCluster(prefill=1, decode=1, engine=engine, step_times=times) as cluster,
        side.serving(cluster.router_host),
        _router(cluster),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        rules = faster(definition(rule_groups(described), deployment=described), SPEED)
        (folder / "rules.yaml").write_text(rules, encoding="utf-8")
        config = folder / "prometheus.yaml"
        settings = _configuration(cluster, described.name)
        config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        arguments = (
            "--web.enable-lifecycle",
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={cluster.router_host}:{PROMETHEUS_PORT}",
        )
        rig = Live(cluster=cluster, side=side, session=session)
        async with _process(prometheus, *arguments, ready="Server is ready to receive web requests"):
            try:
                await rig.scraped(len(settings["scrape_configs"]))
                # Prometheus takes 5 seconds to its first scrape; with the rules compressed, that would be an outage
                config.write_text(
                    yaml.safe_dump({**settings, "rule_files": ["rules.yaml"]}), encoding="utf-8"
                )
                await rig.reload()
                await rig.can_alert()
                yield rig
            finally:
                await rig.stop()


def _configuration(cluster: SimulatedCluster, name: str) -> dict[str, Any]:
    """Return Prometheus' configuration: the jobs and labels that the scrape configurations of a cluster give."""
    host = cluster.router_host
    (prefiller,), (decoder,) = cluster.prefillers, cluster.decoders
    common = {"deployment": name}
    targets = (
        ("dpd-prefill", f"{prefiller.host}:8000", {**common, "role": "prefill", "node": "node-1"}),
        ("dpd-decode", f"{decoder.host}:8000", {**common, "role": "decode", "node": "node-2"}),
        ("dpd-router", f"{host}:8081", common),
        ("dpd-efa", f"{host}:{SIDE_PORT}", {"node": "node-1"}),
    )
    return {
        "global": {
            "scrape_interval": f"{30_000 // SPEED}ms",
            "scrape_timeout": f"{30_000 // SPEED}ms",
            "evaluation_interval": f"{30_000 // SPEED}ms",
        },
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"{host}:{SIDE_PORT}"]}]}]},
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": [address], "labels": labels}]}
            for job, address, labels in targets
        ],
    }


@contextlib.asynccontextmanager
async def _router(cluster: SimulatedCluster) -> AsyncIterator[None]:
    (prefiller,), (decoder,) = cluster.prefillers, cluster.decoders
    assert decoder.config.lmcache is not None
    arguments = {
        "host": cluster.router_host,
        "notification-host": cluster.router_host,
        "prefillers": prefiller.url,
        "decoders": decoder.url,
        "decoder-buffer-chunks": str(decoder.config.lmcache.total_chunks),
        "threshold": str(THRESHOLD_TOKENS),
        "notification-timeout-seconds": "1",
        "drain-grace-seconds": "0.3",
        # a minute in production
        "pair-retry-seconds": f"{60 / SPEED:g}",
        "shutdown-grace-seconds": "0.5",
    }
    flags = [f"--{key}={value}" for key, value in arguments.items()]
    async with _process(sys.executable, "-m", "dpd_router", *flags, ready="worker up", times=2):
        yield


@contextlib.asynccontextmanager
async def _process(command: str, *arguments: str, ready: str, times: int = 1) -> AsyncIterator[None]:
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
