"""A real Prometheus reads a real router and simulated engines, evaluates the real rules, and tells an Alertmanager.

Which alert fires for what, and when, is judged where no clock runs (`test_live.py`); here only what has to happen sooner
or later: every target is read, every rule can be evaluated over what is there, and an alert arrives with its words.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from hyperpod_dpd.observability.rules import definition, rule_groups
from hyperpod_dpd.rehearsal.prometheus import faster
from tests.observability.live import LIMIT_SECONDS, Live, deployment, live, process
from tests.support.prometheus import program

SPEED = 60
"""Two scrapes a second, and minutes of rules in seconds: nothing is judged by it, the test only ends sooner."""

INTERVAL = "500ms"
SIDE_PORT = 9093
PROMETHEUS_PORT = 9090


@dataclass
class Side:
    """Receives alerts as an Alertmanager does, and plays the EFA exporter of the prefiller's node."""

    alerts: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def receive(self, request: web.Request) -> web.Response:
        for alert in await request.json():
            self.alerts.setdefault(alert["labels"]["alertname"], alert)
        async with self._changed:
            self._changed.notify_all()
        return web.Response()

    async def metrics(self, _: web.Request) -> web.Response:
        return web.Response(text='node_amazonefa_tx_bytes{device="rdmap0"} 1\n')

    async def told(self, name: str) -> Mapping[str, Any]:
        """Wait for an alert and return it."""
        async with asyncio.timeout(LIMIT_SECONDS), self._changed:
            await self._changed.wait_for(lambda: name in self.alerts)
        return self.alerts[name]

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
class Prometheus:
    """The running server."""

    rig: Live

    async def query(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer of its API."""
        url = f"http://{self.rig.cluster.router_host}:{PROMETHEUS_PORT}/api/v1/{path}"
        async with self.rig.session.get(url, params=parameters) as response:
            assert response.status == 200, await response.text()
            return (await response.json())["data"]

    async def sees(self, expression: str) -> None:
        """Wait until an expression has a value; Prometheus tells nobody when it reads."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while not (await self.query("query", query=expression))["result"]:  # noqa: ASYNC110 -- as said
                await asyncio.sleep(0.1)

    async def has_evaluated(self) -> set[str]:
        """Wait until every rule was evaluated and return what became of them."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while True:
                groups = (await self.query("rules"))["groups"]
                health = {rule["health"] for group in groups for rule in group["rules"]}
                if "unknown" not in health:
                    return health
                await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def prometheus(rig: Live, folder: Path) -> AsyncIterator[Prometheus]:
    rules = faster(definition(rule_groups(rig.described), deployment=rig.described), SPEED)
    (folder / "rules.yaml").write_text(rules, encoding="utf-8")
    config = folder / "prometheus.yaml"
    config.write_text(yaml.safe_dump(_configuration(rig)), encoding="utf-8")
    arguments = (
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={rig.cluster.router_host}:{PROMETHEUS_PORT}",
    )
    async with process(program("prometheus"), *arguments, ready="Server is ready to receive web requests"):
        yield Prometheus(rig)


def _configuration(rig: Live) -> dict[str, Any]:
    host = rig.cluster.router_host
    return {
        "global": {
            "scrape_interval": INTERVAL,
            "scrape_timeout": INTERVAL,
            "evaluation_interval": INTERVAL,
        },
        "rule_files": ["rules.yaml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"{host}:{SIDE_PORT}"]}]}]},
        "scrape_configs": [
            {
                "job_name": target.job,
                "static_configs": [
                    {
                        "targets": [target.labels["instance"] or f"{host}:{SIDE_PORT}"],
                        "labels": {
                            name: value
                            for name, value in target.labels.items()
                            if name not in {"job", "instance"}
                        },
                    }
                ],
            }
            for target in rig.targets()
        ],
    }


async def test_what_happens_to_a_decoder_reaches_the_alertmanager(tmp_path: Path) -> None:
    side = Side()
    async with (
        live(deployment()) as rig,
        side.serving(rig.cluster.router_host),
        prometheus(rig, tmp_path) as server,
    ):
        await server.sees("sum(up) == 5")
        assert await server.has_evaluated() == {"ok"}
        await rig.minutes(1)
        await server.sees('dpd_router_decisions_total{decision="disaggregated",job="dpd-router"} > 0')
        await server.sees('lmcache:num_store_requests_total{role="prefill",exported_role="worker"} > 0')
        await rig.cluster.decoders[0].stop()
        alert = await side.told("DpdNoDecoder")
    assert alert["labels"]["deployment"] == rig.described.name
    assert alert["annotations"]["summary"] == "none of 1 decoders can be read"
    assert alert["annotations"]["runbook_url"].endswith("DpdNoDecoder.md")
