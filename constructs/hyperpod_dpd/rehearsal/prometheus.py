"""A real Prometheus beside the rehearsal, with the deployment's rules, and whoever it alerts."""

import asyncio
import contextlib
import json
import math
import re
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any, Final

import aiohttp
import yaml
from aiohttp import web

from hyperpod_dpd.observability.jobs import SCRAPE_INTERVAL_SECONDS, SERVING_JOBS, Job
from hyperpod_dpd.observability.rules import definition, rule_groups
from hyperpod_dpd.rehearsal.pod import LocalPod
from hyperpod_dpd.rehearsal.process import LocalProcess
from hyperpod_dpd.serving.load_signals import DEPLOYMENT_LABEL, ROLE_LABEL
from hyperpod_dpd.serving.names import COMPONENT_LABEL
from hyperpod_dpd.spec import Deployment

SPEED: Final = 30
"""Scrapes and rules run this many times as fast as in production, so that five minutes are ten seconds."""

SCRAPED_EVERY_SECONDS: Final = SCRAPE_INTERVAL_SECONDS / SPEED
"""Real seconds between two scrapes of a target, and the time after which one is given up."""

_PORT: Final = 9090
_ALERTS_PORT: Final = 9093
_READY_SECONDS: Final = 30.0
_END_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.1

_DURATION: Final = re.compile(r"(?<=\[)(\d+)([smhd])(?=\])|(?<=offset )(\d+)([smhd])\b")
_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def faster(rules: str, factor: int) -> str:
    """Return a rule file in which every window, offset, interval and `for` is `factor` times shorter.

    Thresholds stay as they are: a rate per second means the same in a window of 5 seconds as in one of 5 minutes.
    """

    def shorter(count: str, unit: str) -> str:
        return f"{int(count) * _UNIT_SECONDS[unit] * 1000 // factor}ms"

    def replaced(match: re.Match[str]) -> str:
        return shorter(*(part for part in match.groups() if part))

    document = yaml.safe_load(rules)
    for group in document["groups"]:
        group["interval"] = shorter(group["interval"][:-1], group["interval"][-1])
        for rule in group["rules"]:
            rule["expr"] = _DURATION.sub(replaced, rule["expr"])
            if "for" in rule:
                rule["for"] = shorter(rule["for"][:-1], rule["for"][-1])
    return yaml.safe_dump(document, width=10_000, sort_keys=False)


def longest_blind_seconds(
    up: Sequence[Mapping[str, Any]], durations: Sequence[Mapping[str, Any]], *, of_seconds: float
) -> float:
    """Return for how long at most nothing was known of a target, seconds.

    A scrape that was answered or refused says something of its target. One that was given up says something of the
    machine: on loopback a process that is gone refuses at once.

    Args:
        up: the matrix of `up`, as the API of Prometheus gives it.
        durations: that of `scrape_duration_seconds`, over the same time.
        of_seconds: how long that time is; without any scrape nothing was known for all of it.
    """
    if not up:
        return of_seconds
    took = {(_target(series), at): float(seconds) for series in durations for at, seconds in series["values"]}

    def given_up(series: Mapping[str, Any], at: float, is_up: str) -> bool:
        return is_up == "0" and took.get((_target(series), at), math.inf) >= SCRAPED_EVERY_SECONDS

    longest = 0.0
    for series in up:
        samples = series["values"]
        known = [at for at, is_up in samples if not given_up(series, at, is_up)]
        seen = [samples[0][0], *known, samples[-1][0]]
        longest = max(longest, *(later - earlier for earlier, later in pairwise(seen)))
    return longest


def _target(series: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    return frozenset((name, value) for name, value in series["metric"].items() if name != "__name__")


def program() -> str | None:
    """Return the path of `prometheus`; None where it is not installed."""
    return shutil.which("prometheus")


class Monitoring:
    """Scrapes pods as the collector does, and collects what fires."""

    def __init__(self, deployment: Deployment, *, folder: Path, host: str, disaggregates: bool) -> None:
        """Describe it.

        Args:
            deployment: whose rules are loaded; those about EFA and GPUs are left out, because here is neither.
            folder: an empty folder of its own.
            host: address to listen on.
            disaggregates: whether anything is handed over.
        """
        platform = replace(deployment.platform, exporters="none")
        self._deployment = replace(deployment, platform=platform)
        self._folder = folder
        self._host = host
        self._disaggregates = disaggregates
        self._url = f"http://{host}:{_PORT}"
        self.fired: dict[str, str] = {}
        """Summary of every alert that has fired, by name."""
        self.blind_seconds = 0.0
        """Once it has ended: for how long at most nothing was known of a target."""

    @contextlib.asynccontextmanager
    async def running(
        self, pods: Sequence[LocalPod], environment: Mapping[str, str], http: aiohttp.ClientSession
    ) -> AsyncIterator[None]:
        """Run until the block ends.

        Args:
            pods: pods that are there; `watch` says when others are.
            environment: variables of the process.
            http: what asks it.
        """
        path = program()
        assert path is not None
        self._folder.mkdir()
        (self._folder / "rules.yaml").write_text(self._rules(), encoding="utf-8")
        config = self._folder / "prometheus.yaml"
        config.write_text(yaml.safe_dump(self._configuration()), encoding="utf-8")
        self.watch(pods)
        arguments = (
            path,
            "--web.enable-lifecycle",
            f"--config.file={config}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address={self._host}:{_PORT}",
        )
        async with self._receiving():
            process = await LocalProcess.start(
                arguments, environment=environment, log=self._folder / "prometheus.log"
            )
            try:
                await self._scraped(http, len(pods))
                # it takes 5 seconds to its first scrape; with the rules compressed, that would be an outage
                settings = {**self._configuration(), "rule_files": ["rules.yaml"]}
                config.write_text(yaml.safe_dump(settings), encoding="utf-8")
                async with http.post(f"{self._url}/-/reload") as answer:
                    answer.raise_for_status()
                await self._can_alert(http)
                started = monotonic()
                yield
                self.blind_seconds = await self._blind(http, seconds=monotonic() - started)
            finally:
                await process.stop(_END_SECONDS)

    def watch(self, pods: Sequence[LocalPod]) -> None:
        """Scrape these pods from now on, each under its job and with the labels that a collector would give."""
        for job in SERVING_JOBS:
            found = [
                {"targets": [f"{pod.address}:{job.port}"], "labels": self._labels(pod, job)}
                for pod in pods
                if pod.plan.labels.get(COMPONENT_LABEL) == job.component.value
            ]
            file = self._folder / f"{job.name}.json"
            fresh = file.with_suffix(".new")
            fresh.write_text(json.dumps(found), encoding="utf-8")
            fresh.replace(file)

    def _labels(self, pod: LocalPod, job: Job) -> dict[str, str]:
        labels = {
            "namespace": pod.plan.namespace,
            "pod": pod.name,
            "node": pod.node,
            DEPLOYMENT_LABEL: self._deployment.name,
        }
        return {**labels, ROLE_LABEL: job.component.value} if job.is_worker else labels

    def _rules(self) -> str:
        groups = rule_groups(self._deployment, disaggregates=self._disaggregates)
        return faster(definition(groups, deployment=self._deployment), SPEED)

    def _configuration(self) -> dict[str, Any]:
        interval = f"{SCRAPE_INTERVAL_SECONDS * 1000 // SPEED}ms"
        return {
            "global": {
                "scrape_interval": interval,
                "scrape_timeout": interval,
                "evaluation_interval": interval,
            },
            "alerting": {
                "alertmanagers": [{"static_configs": [{"targets": [f"{self._host}:{_ALERTS_PORT}"]}]}]
            },
            "scrape_configs": [
                {
                    "job_name": job.name,
                    "file_sd_configs": [
                        {"files": [str(self._folder / f"{job.name}.json")], "refresh_interval": "1s"}
                    ],
                }
                for job in SERVING_JOBS
            ],
        }

    @contextlib.asynccontextmanager
    async def _receiving(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_post("/api/v2/alerts", self._receive)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, self._host, _ALERTS_PORT).start()
        try:
            yield
        finally:
            await runner.cleanup()

    async def _receive(self, request: web.Request) -> web.Response:
        for alert in await request.json():
            self.fired.setdefault(alert["labels"]["alertname"], alert["annotations"].get("summary", ""))
        return web.Response()

    async def _scraped(self, http: aiohttp.ClientSession, targets: int) -> None:
        async with asyncio.timeout(_READY_SECONDS):
            while True:  # Prometheus tells nobody when it scrapes
                with contextlib.suppress(aiohttp.ClientError, OSError):
                    found = await self._query(http, "query", query="sum(up)")
                    if found["result"] and float(found["result"][0]["value"][1]) >= targets:
                        return
                await asyncio.sleep(_POLL_SECONDS)

    async def _can_alert(self, http: aiohttp.ClientSession) -> None:
        """Wait until it knows where alerts go: one that fires before is sent a minute later."""
        async with asyncio.timeout(_READY_SECONDS):
            while not (await self._query(http, "alertmanagers"))["activeAlertmanagers"]:  # noqa: ASYNC110 -- as above
                await asyncio.sleep(_POLL_SECONDS)

    async def _blind(self, http: aiohttp.ClientSession, *, seconds: float) -> float:
        up, durations = [
            (await self._query(http, "query", query=f"{name}[{math.ceil(seconds)}s]"))["result"]
            for name in ("up", "scrape_duration_seconds")
        ]
        return longest_blind_seconds(up, durations, of_seconds=seconds)

    async def _query(self, http: aiohttp.ClientSession, path: str, **parameters: str) -> Any:
        async with http.get(f"{self._url}/api/v1/{path}", params=parameters) as answer:
            answer.raise_for_status()
            return (await answer.json())["data"]
