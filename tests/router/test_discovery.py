"""EndpointSlices from an API server: list, watch, resync, drain, remove."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from dpd_router.config import ConfigError, DiscoveryKind, DiscoveryPolicy, HealthPolicy
from dpd_router.discovery import (
    Discovery,
    EndpointSliceDiscovery,
    StaticDiscovery,
    WorkerWatch,
    make_discovery,
)
from dpd_router.metrics import Metrics
from dpd_router.other_routers import OtherRouters
from dpd_router.pool import Pool, Role
from dpd_router.slices import Slice
from dpd_router.tasks import Supervisor
from tests.router.support import until
from tests.support.authority import HOST, authority_like_eks, be_strict, shake_hands


def a_slice(
    name: str, *endpoints: tuple[str, bool], port: int = 8000, port_name: str = "http"
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "resourceVersion": "1"},
        "ports": [{"name": "metrics", "port": 9}, {"name": port_name, "port": port}],
        "endpoints": [
            {"addresses": [address], "conditions": {"ready": not terminating, "terminating": terminating}}
            for address, terminating in endpoints
        ],
    }


class ApiServer:
    """As much of an API server as discovery needs."""

    def __init__(self) -> None:
        self.slices: dict[str, list[dict[str, Any]]] = {"prefill": [], "decode": [], "router": []}
        self.events: dict[str, asyncio.Queue[bytes | None]] = {name: asyncio.Queue() for name in self.slices}
        self.queries: list[dict[str, str]] = []
        self.tokens: list[str | None] = []
        self.fail = 0
        self.accepted_token: str | None = None
        self.expired_watches = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        assert request.path == "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices"
        self.queries.append(dict(request.query))
        self.tokens.append(request.headers.get("Authorization"))
        label, _, service = request.query["labelSelector"].partition("=")
        assert label == "kubernetes.io/service-name"
        if self.fail:
            self.fail -= 1
            raise web.HTTPInternalServerError
        if self.accepted_token is not None and self.tokens[-1] != f"Bearer {self.accepted_token}":
            raise web.HTTPUnauthorized
        if self.expired_watches and "watch" in request.query:
            self.expired_watches -= 1
            raise web.HTTPGone
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "7"}, "items": self.slices[service]})
        response = web.StreamResponse()
        await response.prepare(request)
        while (event := await self.events[service].get()) is not None:
            await response.write(event)
        return response

    def event(self, service: str, kind: str, thing: dict[str, Any]) -> None:
        line = json.dumps({"type": kind, "object": thing}).encode() + b"\n"
        # cut, as the network may
        self.events[service].put_nowait(line[:9])
        self.events[service].put_nowait(line[9:])


@pytest.fixture
async def api() -> AsyncIterator[tuple[ApiServer, str]]:
    server = ApiServer()
    application = web.Application()
    application.router.add_get("/{path:.*}", server.answer)
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield server, f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.fixture
def pool() -> Pool:
    return Pool(HealthPolicy(), Metrics())


def make(policy: DiscoveryPolicy, pool: Pool, environment: dict[str, str] | None = None) -> Discovery:
    others = OtherRouters(policy, Metrics())
    return make_discovery(policy, pool, Metrics(), Supervisor(), environment or {}, others=others)


@pytest.fixture
async def discovery(api: tuple[ApiServer, str], pool: Pool, tmp_path: Path) -> AsyncIterator[Discovery]:
    (tmp_path / "token").write_text("a token\n")
    policy = DiscoveryPolicy(
        discovery=DiscoveryKind.ENDPOINT_SLICES, namespace="ns", prefill_service="prefill", decode_service="decode",
        api_server=api[1], service_account_directory=tmp_path,
    )  # fmt: skip
    made = make(policy, pool)
    yield made
    await made.stop()


def urls(pool: Pool, role: Role = Role.DECODE) -> set[str]:
    return {worker.url for worker in pool.workers(role)}


async def test_lists_then_follows_events(
    api: tuple[ApiServer, str], pool: Pool, discovery: Discovery
) -> None:
    server, _ = api
    server.slices["prefill"] = [a_slice("p", ("10.0.0.9", False))]
    server.slices["decode"] = [a_slice("d", ("10.0.0.1", False), ("10.0.0.2", False))]
    await discovery.start()
    await until(lambda: urls(pool) == {"http://10.0.0.1:8000", "http://10.0.0.2:8000"})
    await until(lambda: urls(pool, Role.PREFILL) == {"http://10.0.0.9:8000"})
    assert set(server.tokens) == {"Bearer a token"}

    server.event("decode", "MODIFIED", a_slice("d", ("10.0.0.1", True), ("10.0.0.2", False)))
    await until(lambda: any(worker.draining for worker in pool.workers(Role.DECODE)))
    server.event("decode", "BOOKMARK", {"metadata": {"resourceVersion": "9"}})
    server.event("decode", "ADDED", a_slice("d2", ("fd00::1", False)))
    await until(lambda: "http://[fd00::1]:8000" in urls(pool))
    server.event("decode", "DELETED", a_slice("d"))
    await until(lambda: urls(pool) == {"http://[fd00::1]:8000"})
    watch = next(query for query in server.queries if "watch" in query)
    assert watch["resourceVersion"] == "7"


@pytest.mark.parametrize("ending", ["expired", "closed"])
async def test_watch_that_ends_is_followed_by_a_new_list(
    api: tuple[ApiServer, str], pool: Pool, discovery: Discovery, ending: str
) -> None:
    server, _ = api
    await discovery.start()
    await until(lambda: sum("watch" in query for query in server.queries) == 2)
    server.slices["decode"] = [a_slice("d", ("10.0.0.1", False))]
    if ending == "expired":
        server.event("decode", "ERROR", {"kind": "Status", "code": 410})
    else:
        server.events["decode"].put_nowait(None)
    await until(lambda: urls(pool) == {"http://10.0.0.1:8000"})


async def test_watch_that_is_gone_at_once_is_followed_by_a_list_after_a_pause(
    api: tuple[ApiServer, str], pool: Pool, discovery: Discovery, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        if seconds:
            pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr("dpd_router.discovery.asyncio.sleep", pause)
    server, _ = api
    server.expired_watches = 4
    await discovery.start()
    await until(lambda: sum("watch" in query for query in server.queries) == 6)
    assert pauses == [0.5] * 4


async def test_token_that_expires_is_read_again_and_workers_stay_meanwhile(
    api: tuple[ApiServer, str],
    pool: Pool,
    discovery: Discovery,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dpd_router.discovery._RETRY_SECONDS", (0.01,))
    server, _ = api
    server.slices["decode"] = [a_slice("d", ("10.0.0.1", False))]
    await discovery.start()
    await until(lambda: urls(pool) == {"http://10.0.0.1:8000"})
    server.accepted_token = "rotated"
    server.events["decode"].put_nowait(None)
    seen = len(server.tokens)
    await until(lambda: len(server.tokens) > seen + 2)
    assert urls(pool) == {"http://10.0.0.1:8000"}
    server.slices["decode"] = [a_slice("d", ("10.0.0.2", False))]
    (tmp_path / "token").write_text("rotated\n")
    await until(lambda: urls(pool) == {"http://10.0.0.2:8000"})


async def test_workers_stay_while_the_api_server_is_away(
    api: tuple[ApiServer, str], pool: Pool, discovery: Discovery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpd_router.discovery._RETRY_SECONDS", (0.01,))
    server, _ = api
    server.slices["decode"] = [a_slice("d", ("10.0.0.1", False))]
    await discovery.start()
    await until(lambda: urls(pool) == {"http://10.0.0.1:8000"})
    lists = len(server.queries)
    server.fail = 3
    server.events["decode"].put_nowait(b"no json\n")
    await until(lambda: server.fail == 0 and len(server.queries) > lists + 3)
    assert urls(pool) == {"http://10.0.0.1:8000"}


def test_worker_in_two_slices_stays_until_it_left_both(pool: Pool) -> None:
    watch = WorkerWatch(DiscoveryPolicy(namespace="ns"), Role.DECODE, "decode", pool)

    def slices(*raw: dict[str, Any]) -> list[Slice]:
        return msgspec.convert(list(raw), list[Slice])

    both = slices(a_slice("a", ("10.0.0.1", True)), a_slice("b", ("10.0.0.1", False)))
    empty = {"metadata": {"name": "b"}, "endpoints": None, "ports": None}
    draining = []
    for listed in (both, slices(a_slice("a", ("10.0.0.1", True)), empty)):
        watch.replace(listed)
        (worker,) = pool.workers(Role.DECODE)
        draining.append(worker.draining)
    assert draining == [False, True]
    watch.replace(slices(a_slice("a", ("10.0.0.1", False), port_name="other")))
    assert pool.workers(Role.DECODE) == ()


async def test_static_lists(pool: Pool) -> None:
    policy = DiscoveryPolicy(prefillers=("http://p:1",), decoders=("http://d:1", "http://d:2"))
    discovery = make(policy, pool)
    assert isinstance(discovery, StaticDiscovery)
    await discovery.start()
    await discovery.stop()
    assert (urls(pool, Role.PREFILL), urls(pool)) == ({"http://p:1"}, {"http://d:1", "http://d:2"})


def test_api_server_comes_from_the_pod(pool: Pool) -> None:
    policy = DiscoveryPolicy(discovery=DiscoveryKind.ENDPOINT_SLICES, namespace="n", decode_service="d")
    with pytest.raises(ConfigError, match="KUBERNETES_SERVICE_HOST"):
        make(policy, pool)
    for host, url in (("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")):
        made = make(policy, pool, {"KUBERNETES_SERVICE_HOST": host})
        assert isinstance(made, EndpointSliceDiscovery)
        assert made._server == url


@pytest.mark.parametrize(
    ("trusted", "host", "believed"), [(0, HOST, True), (1, HOST, False), (0, "10.0.0.1", False)]
)
def test_certificates_of_eks_are_believed_and_no_others(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, trusted: int, host: str, believed: bool
) -> None:
    be_strict(monkeypatch)
    made = [authority_like_eks(tmp_path / name) for name in ("mine", "other")]
    policy = DiscoveryPolicy(
        discovery=DiscoveryKind.ENDPOINT_SLICES,
        namespace="n",
        decode_service="d",
        service_account_directory=made[trusted].authority.parent,
    )
    discovery = make(policy, pool, {"KUBERNETES_SERVICE_HOST": HOST})
    assert isinstance(discovery, EndpointSliceDiscovery)
    with contextlib.nullcontext() if believed else pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(discovery._tls(), made[0].server, host)


async def test_another_router_is_seen_until_it_has_left(
    api: tuple[ApiServer, str], pool: Pool, tmp_path: Path
) -> None:
    server, url = api
    policy = DiscoveryPolicy(
        discovery=DiscoveryKind.ENDPOINT_SLICES, namespace="ns", decode_service="decode", router_service="router",
        own_addresses=("10.0.1.1", "fd00::1"), api_server=url, service_account_directory=tmp_path,
    )  # fmt: skip
    metrics = Metrics()
    others = OtherRouters(policy, metrics)
    discovery = make_discovery(policy, pool, metrics, Supervisor(), {}, others=others)
    # its own two addresses, and a router that is about to end
    server.slices["router"] = [
        a_slice("r4", ("10.0.1.1", False), ("10.0.1.2", True)), a_slice("r6", ("fd00:0::1", False)),
    ]  # fmt: skip
    assert not others.alone
    await discovery.start()
    try:
        await until(lambda: bool(others.slices))
        assert not others.alone
        assert b"dpd_router_other_routers 1.0" in metrics.render()
        server.event("router", "MODIFIED", a_slice("r4", ("10.0.1.1", False)))
        await until(lambda: others.alone)
        server.event("router", "MODIFIED", a_slice("r4", ("10.0.1.1", False), ("10.0.1.3", False)))
        await until(lambda: not others.alone)
    finally:
        await discovery.stop()


def test_a_router_without_a_service_of_its_own_is_alone() -> None:
    assert OtherRouters(DiscoveryPolicy(), Metrics()).alone
