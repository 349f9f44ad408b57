"""A real router process between simulated workers, and a stand-in for the EFA exporter of the prefillers' nodes."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
from aiohttp import web

from dpd_router.config import load as load_settings
from dpd_router.router import Router
from dpd_simulator import ConstantStepTimes, EngineConfig, Fault, FaultKind, LMCacheConfig, SimulatedCluster
from dpd_simulator.config import Role
from hyperpod_dpd.evidence.proof import ProofResult, Target, prove
from tests.router.support import PATIENT, prompt, serving
from tests.router.support import Rig as RoutersRig
from tests.support.deployments import ROOT

LIMIT_SECONDS = 90
"""Ends a test that would hang."""

NO_NOTIFICATION: Mapping[str, str] = {"notification-timeout-seconds": "0.6"}
NO_PREFILL: Mapping[str, str] = {"prefill-timeout-seconds": "1"}
"""For a router that waits in vain: what comes at all must not be missed on a machine that stands still for a moment."""

THRESHOLD_TOKENS = 512
EXPORTER_PORT = 9119
LMCACHE = LMCacheConfig()
KV_BYTES_PER_TOKEN = LMCACHE.kv_bytes_per_token_per_rank


@dataclass
class Rig:
    """What a proof is about."""

    cluster: SimulatedCluster
    target: Target

    async def prove(self, **changes: Any) -> ProofResult:
        """Run the proof, as a client outside of the cluster's loop."""
        return await asyncio.to_thread(prove, replace(self.target, **changes))

    async def fault(self, kind: FaultKind, role: str, **values: Any) -> None:
        """Switch a fault on in the workers of a role."""
        engines = self.cluster.prefillers if role == "prefill" else self.cluster.decoders
        await self.cluster.add_fault(Fault(kind=kind, **values), engines)


@dataclass
class Fabric:
    """Counts what crosses the EFA as an exporter does: everything that prefillers have stored, or nothing."""

    cluster: SimulatedCluster
    silent: bool = False

    async def metrics(self, _: web.Request) -> web.Response:
        moved = 0.0
        running = [engine for engine in self.cluster.prefillers if engine.running and not self.silent]
        for engine in running:
            moved += _stored(engine.engine.metrics.render().decode()) * KV_BYTES_PER_TOKEN
        lines = (f'node_amazonefa_{way}_bytes{{device="rdmap0"}} {moved / 2:.0f}' for way in ("tx", "rx"))
        return web.Response(text="\n".join(lines) + "\n")


def _stored(text: str) -> float:
    return sum(
        float(line.rsplit(" ", 1)[-1])
        for line in text.splitlines()
        if line.startswith("lmcache:num_stored_tokens_total")
    )


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How the deployment of a scenario differs from a healthy one."""

    router: Mapping[str, str] = field(default_factory=dict)
    engine: EngineConfig = field(default_factory=EngineConfig)
    lmcache: LMCacheConfig = LMCACHE
    prefill: int = 1
    decode: int = 1
    silent_fabric: bool = False
    prefill_role: Role = Role.PREFILL
    """Role with which what is called a prefiller was started."""

    decode_role: Role = Role.DECODE
    step_times: ConstantStepTimes = field(default_factory=ConstantStepTimes)


@contextlib.asynccontextmanager
async def running(setting: Setting) -> AsyncIterator[Rig]:
    """Run workers and router until the block ends."""
    async with _workers(setting) as cluster, _router(cluster, setting):
        yield Rig(cluster=cluster, target=_target(cluster, setting))


@contextlib.asynccontextmanager
async def beside_its_router(setting: Setting) -> AsyncIterator[tuple[Rig, RoutersRig]]:
    """Run workers, and the router in this process, where a test can let its time pass."""
    async with _workers(setting) as cluster:
        flags = [f"--{key}={value}" for key, value in _arguments(cluster, setting).items()]
        async with serving(
            Router(load_settings(flags, {}), {}), cluster, workers=setting.prefill + setting.decode
        ) as router:
            yield Rig(cluster=cluster, target=_target(cluster, setting)), router


@contextlib.asynccontextmanager
async def _workers(setting: Setting) -> AsyncIterator[SimulatedCluster]:
    cluster = SimulatedCluster(
        prefill=setting.prefill,
        decode=setting.decode,
        engine=setting.engine,
        lmcache=setting.lmcache,
        step_times=setting.step_times,
    )
    _swap_roles(cluster, setting)
    fabric = Fabric(cluster, silent=setting.silent_fabric)
    async with cluster, _serving(fabric):
        yield cluster


def _swap_roles(cluster: SimulatedCluster, setting: Setting) -> None:
    for engines, role in (
        (cluster.prefillers, setting.prefill_role),
        (cluster.decoders, setting.decode_role),
    ):
        for engine in engines:
            lmcache = None if role is Role.COLOCATED else engine.config.lmcache
            engine.config = replace(engine.config, role=role, lmcache=lmcache)


def _target(cluster: SimulatedCluster, setting: Setting) -> Target:
    return Target(
        url=f"http://{cluster.router_host}:8081",
        model="m",
        prefillers=tuple(engine.url for engine in cluster.prefillers),
        decoders=tuple(engine.url for engine in cluster.decoders),
        threshold_tokens=THRESHOLD_TOKENS,
        tensor_parallel=setting.engine.tensor_parallel_size,
        max_model_len_tokens=setting.engine.max_model_len,
        buffer_chunks=setting.lmcache.total_chunks,
        kv_bytes_per_token=KV_BYTES_PER_TOKEN * setting.engine.tensor_parallel_size,
        efa_exporters=(f"http://{cluster.router_host}:{EXPORTER_PORT}",),
        timeout_seconds=120,
        request_seconds=60,
        drain_seconds=30,
        # simulated workers count at once
        statistics_seconds=0.5,
    )


@contextlib.asynccontextmanager
async def _serving(fabric: Fabric) -> AsyncIterator[None]:
    app = web.Application()
    app.router.add_get("/metrics", fabric.metrics)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, fabric.cluster.router_host, EXPORTER_PORT).start()
    try:
        yield
    finally:
        await runner.cleanup()


def _arguments(cluster: SimulatedCluster, setting: Setting) -> dict[str, str]:
    return {
        "host": cluster.router_host,
        "notification-host": cluster.router_host,
        "prefillers": ",".join(engine.url for engine in cluster.prefillers),
        "decoders": ",".join(engine.url for engine in cluster.decoders),
        "decoder-buffer-chunks": str(setting.lmcache.total_chunks),
        "tensor-parallel": str(setting.engine.tensor_parallel_size),
        "threshold": str(THRESHOLD_TOKENS),
        **{flag.removeprefix("--"): value for flag, value in PATIENT.items()},
        # a transfer that fails must have been cleared away before the decoder is asked for it
        "drain-grace-seconds": "1.5",
        "health-interval-seconds": "0.2",
        "shutdown-grace-seconds": "0.5",
        **setting.router,
    }


@contextlib.asynccontextmanager
async def _router(cluster: SimulatedCluster, setting: Setting) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "dpd_router",
        *(f"--{key}={value}" for key, value in _arguments(cluster, setting).items()),
        env={**os.environ, "PYTHONPATH": str(ROOT / "router")},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    drain: asyncio.Task[bytes] | None = None
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            missing = setting.prefill + setting.decode
            while missing:
                line = (await process.stderr.readline()).decode()
                assert line, "the router ended before it was ready"
                missing -= "worker up" in line
        # nobody reads the rest, but a full pipe would stop the router
        drain = asyncio.create_task(process.stderr.read())
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        if drain is not None:
            await drain


async def load(rig: Rig, requests: int) -> list[asyncio.Task[None]]:
    """Let clients send long prompts that nobody waits for."""

    async def client(number: int) -> None:
        body = {"model": "m", "prompt": prompt(600, number), "max_tokens": 2, "temperature": 0}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{rig.target.url}/v1/completions", json=body) as response,
        ):
            await response.read()

    return [asyncio.create_task(client(number)) for number in range(requests)]


Inject = Callable[[Rig], Awaitable[None]]
