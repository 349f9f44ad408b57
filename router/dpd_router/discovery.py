"""Where workers come from: fixed lists, or the EndpointSlices of the two role Services."""

import abc
import asyncio
import contextlib
import logging
import ssl
import urllib.parse
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

import aiohttp
import msgspec

from dpd_router.config import ConfigError, DiscoveryKind, DiscoveryPolicy
from dpd_router.metrics import Metrics
from dpd_router.other_routers import OtherRouters
from dpd_router.pool import Pool, Role
from dpd_router.slices import Slice, SliceList, SliceWatch
from dpd_router.tasks import Supervisor, cancelled

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = (0.5, 1.0, 2.0, 5.0, 10.0)
_SERVICE_LABEL: Final = "kubernetes.io/service-name"
_GONE: Final = 410
# EndpointSlices of one Service; an event has at most 100 endpoints
_MAX_LINE_BYTES: Final = 4 * 1024 * 1024


class Discovery(abc.ABC):
    """Keeps the pool's members up to date."""

    @abc.abstractmethod
    async def start(self) -> None:
        """Add the workers that are known and watch for changes."""

    @abc.abstractmethod
    async def stop(self) -> None:
        """End the watch."""


class StaticDiscovery(Discovery):
    """The lists of the settings."""

    def __init__(self, policy: DiscoveryPolicy, pool: Pool) -> None:
        self._policy = policy
        self._pool = pool

    async def start(self) -> None:
        """Add every worker."""
        for url in self._policy.prefillers:
            self._pool.add(Role.PREFILL, url)
        for url in self._policy.decoders:
            self._pool.add(Role.DECODE, url)

    async def stop(self) -> None:
        """Nothing to end."""


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct):
    code: int = 0


class _ResyncNeededError(Exception):
    """The watch cannot go on from where it was."""


class WorkerWatch(SliceWatch):
    """The workers of one role, as their Service lists them."""

    def __init__(self, policy: DiscoveryPolicy, role: Role, service: str, pool: Pool) -> None:
        super().__init__(policy.namespace, service)
        self.role = role
        self._port_name = policy.worker_port_name
        self._pool = pool

    def apply(self) -> None:
        """Add, drain and remove workers."""
        wanted: dict[str, bool] = {}
        for item in self.slices.values():
            port = next((p.port for p in item.ports or () if p.name == self._port_name), None)
            if port is None:
                continue
            for endpoint in item.endpoints or ():
                terminating = bool(endpoint.conditions.terminating)
                # a worker that is not ready is watched too: the router's own checks decide about it
                for address in endpoint.addresses[:1]:
                    host = f"[{address}]" if ":" in address else address
                    url = f"http://{host}:{port}"
                    wanted[url] = wanted.get(url, True) and terminating
        for worker in self._pool.workers(self.role):
            if worker.url not in wanted:
                self._pool.remove(worker)
        for url, terminating in wanted.items():
            self._pool.drain(self._pool.add(self.role, url), draining=terminating)


class EndpointSliceDiscovery(Discovery):
    """Lists, then watches; lists again after an interval and whenever the watch ends."""

    def __init__(
        self,
        policy: DiscoveryPolicy,
        watches: Sequence[SliceWatch],
        metrics: Metrics,
        supervisor: Supervisor,
        environment: Mapping[str, str],
    ) -> None:
        self._policy = policy
        self._metrics = metrics
        self._supervisor = supervisor
        self._server = _api_server(policy, environment)
        self._watches = watches
        self._session: aiohttp.ClientSession | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start one watch per Service; an API server that is away is retried, not fatal."""
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None, sock_connect=5))
        self._tasks = [
            self._supervisor.start(self._follow(watch), f"endpointslices {watch.service}")
            for watch in self._watches
        ]

    async def stop(self) -> None:
        """End the watches."""
        await cancelled(*self._tasks)
        if self._session is not None:
            await self._session.close()

    async def _follow(self, watch: SliceWatch) -> None:
        failures = 0
        while True:
            try:
                version = await self._list(watch)
                failures = 0
                async with asyncio.timeout(self._policy.resync_seconds):
                    await self._watch(watch, version)
            except TimeoutError:
                self._metrics.discovery_events.labels("resync").inc()
            except _ResyncNeededError:
                self._metrics.discovery_events.labels("resync").inc()
                # a server or a proxy that ends every watch at once must not be asked without a pause
                await asyncio.sleep(_RETRY_SECONDS[0])
            except (aiohttp.ClientError, OSError, msgspec.DecodeError, msgspec.ValidationError) as error:
                # the workers that are known stay: their own health decides
                self._metrics.discovery_events.labels("failed").inc()
                log.warning(
                    "API server not reachable",
                    extra={"fields": {"service": watch.service, "error": type(error).__name__}},
                )
                await asyncio.sleep(_RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)])
                failures += 1

    def _request(self, watch: SliceWatch, /, **query: str) -> "aiohttp.client._RequestContextManager":
        assert self._session is not None
        path = f"/apis/discovery.k8s.io/v1/namespaces/{urllib.parse.quote(watch.namespace)}/endpointslices"
        parameters = {"labelSelector": f"{_SERVICE_LABEL}={watch.service}", **query}
        options: dict[str, Any] = {"headers": self._authorization()}
        if self._server.startswith("https:"):
            options["ssl"] = self._tls()
        return self._session.get(self._server + path, params=parameters, **options)

    def _authorization(self) -> dict[str, str]:
        # the token is bound and rotates: it is read for every request
        token = self._policy.service_account_directory / "token"
        with contextlib.suppress(FileNotFoundError):
            return {"Authorization": f"Bearer {token.read_text(encoding='latin-1').strip()}"}
        return {}

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self._policy.service_account_directory / "ca.crt"))
        # Python 3.13 and later refuse certificates without an authority key identifier by default, and those of EKS
        # have none (awslabs/mcp #3791); chain, dates and host name are checked all the same
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return context

    async def _list(self, watch: SliceWatch) -> str:
        async with asyncio.timeout(30), self._request(watch) as response:
            response.raise_for_status()
            listed = msgspec.json.decode(await response.read(), type=SliceList)
        watch.replace(listed.items or [])
        self._metrics.discovery_events.labels("list").inc()
        return listed.metadata.resource_version

    async def _watch(self, watch: SliceWatch, version: str) -> None:
        query = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
        async with self._request(watch, **query) as response:
            if response.status == _GONE:
                raise _ResyncNeededError
            response.raise_for_status()
            async for line in _lines(response):
                event = msgspec.json.decode(line, type=_Event)
                self._metrics.discovery_events.labels(event.type.lower()).inc()
                if event.type == "ERROR":
                    status = msgspec.json.decode(event.object, type=_Status)
                    log.info("watch ended", extra={"fields": {"service": watch.service, "code": status.code}})
                    raise _ResyncNeededError
                if event.type != "BOOKMARK":
                    watch.change(event.type, msgspec.json.decode(event.object, type=Slice))
        raise _ResyncNeededError


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    rest = b""
    async for data in response.content.iter_any():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line.strip():
                yield line
        if len(rest) > _MAX_LINE_BYTES:
            raise _ResyncNeededError


def _api_server(policy: DiscoveryPolicy, environment: Mapping[str, str]) -> str:
    if policy.api_server:
        return policy.api_server.rstrip("/")
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError(
            [
                (
                    "`--discovery endpointslices` and no API server: `KUBERNETES_SERVICE_HOST` is not set. "
                    "help: run in a pod, or set `--api-server`"
                )
            ]
        )
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def make_discovery(
    policy: DiscoveryPolicy,
    pool: Pool,
    metrics: Metrics,
    supervisor: Supervisor,
    environment: Mapping[str, str],
    *,
    others: OtherRouters,
) -> Discovery:
    """Return the discovery of the settings.

    Raises:
        ConfigError: the API server is not known.
    """
    if policy.discovery is DiscoveryKind.STATIC:
        return StaticDiscovery(policy, pool)
    roles = ((Role.PREFILL, policy.prefill_service), (Role.DECODE, policy.decode_service))
    watches: list[SliceWatch] = [
        WorkerWatch(policy, role, service, pool) for role, service in roles if service
    ]
    if policy.router_service:
        watches.append(others)
    return EndpointSliceDiscovery(policy, watches, metrics, supervisor, environment)
