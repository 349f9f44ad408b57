"""EndpointSlices from an API server: list, watch, resync, drain, remove."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

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
from tests.router.api_server import ApiServer, a_slice, api_server
from tests.router.support import until
from tests.support.authority import HOST, authority_like_eks, be_strict, shake_hands


@pytest.fixture
async def api() -> AsyncIterator[tuple[ApiServer, str]]:
    async with api_server() as made:
        yield made


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

    await server.event("decode", "MODIFIED", a_slice("d", ("10.0.0.1", True), ("10.0.0.2", False)))
    await until(lambda: any(worker.draining for worker in pool.workers(Role.DECODE)))
    await server.event("decode", "BOOKMARK", {"metadata": {"resourceVersion": "9"}})
    await server.event("decode", "ADDED", a_slice("d2", ("fd00::1", False)))
    await until(lambda: "http://[fd00::1]:8000" in urls(pool))
    await server.event("decode", "DELETED", a_slice("d"))
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
        await server.event("decode", "ERROR", {"kind": "Status", "code": 410})
    else:
        await server.end_watches("decode")
    await until(lambda: urls(pool) == {"http://10.0.0.1:8000"})


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Collect for how long discovery means to wait, without waiting."""
    found: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        if seconds:
            found.append(seconds)
        await sleep(0)

    monkeypatch.setattr("dpd_router.discovery.asyncio.sleep", pause)
    return found


async def test_watch_that_is_gone_at_once_is_followed_by_a_list_after_a_pause(
    api: tuple[ApiServer, str], discovery: Discovery, pauses: list[float]
) -> None:
    server, _ = api
    server.expired_watches = 4
    await discovery.start()
    await until(lambda: sum("watch" in query for query in server.queries) == 6)
    assert pauses == [0.5] * 4


@pytest.fixture
async def of_decoders(
    api: tuple[ApiServer, str], pool: Pool, tmp_path: Path
) -> AsyncIterator[tuple[ApiServer, Discovery]]:
    """Follow one Service, with a list again after every fiftieth of a second without news."""
    server, url = api
    policy = DiscoveryPolicy(
        discovery=DiscoveryKind.ENDPOINT_SLICES,
        namespace="ns",
        decode_service="decode",
        api_server=url,
        service_account_directory=tmp_path,
        resync_seconds=0.02,
    )
    made = make(policy, pool)
    try:
        yield server, made
    finally:
        await made.stop()


async def test_api_server_that_stays_away_is_asked_less_and_less(
    of_decoders: tuple[ApiServer, Discovery], pauses: list[float]
) -> None:
    server, discovery = of_decoders
    server.fail = 6
    await discovery.start()
    await until(lambda: any("watch" in query for query in server.queries))
    assert pauses == [0.5, 1, 2, 5, 10, 10]
    # an answer ends the row
    server.fail = 1
    await until(lambda: server.fail == 0 and len(pauses) == 7)
    assert pauses[-1] == 0.5


async def test_quiet_watch_is_followed_by_a_list(
    of_decoders: tuple[ApiServer, Discovery], pool: Pool
) -> None:
    """A watch may be dead without a word: what it missed comes with the list."""
    server, discovery = of_decoders
    await discovery.start()
    await until(lambda: any("watch" in query for query in server.queries))
    server.slices["decode"] = [a_slice("d", ("10.0.0.1", False))]
    await until(lambda: urls(pool) == {"http://10.0.0.1:8000"})


async def test_service_without_slices_has_no_workers(
    of_decoders: tuple[ApiServer, Discovery], pool: Pool
) -> None:
    """An API server writes a list of nothing as null."""
    server, discovery = of_decoders
    server.slices["decode"] = [a_slice("d", ("10.0.0.1", False))]
    await discovery.start()
    await until(lambda: urls(pool) == {"http://10.0.0.1:8000"})
    server.slices["decode"] = None  # type: ignore[assignment]
    await until(lambda: urls(pool) == set())


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
    await server.end_watches("decode")
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
    await server.say("decode", b"no json\n")
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
        await server.event("router", "MODIFIED", a_slice("r4", ("10.0.1.1", False)))
        await until(lambda: others.alone)
        await server.event("router", "MODIFIED", a_slice("r4", ("10.0.1.1", False), ("10.0.1.3", False)))
        await until(lambda: not others.alone)
    finally:
        await discovery.stop()


def test_a_router_without_a_service_of_its_own_is_alone() -> None:
    assert OtherRouters(DiscoveryPolicy(), Metrics()).alone
