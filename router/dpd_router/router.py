"""The router: builds every part, starts and stops them in order."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Mapping

from aiohttp import web

from dpd_router.admission import Admission, ApiKeys
from dpd_router.app import App
from dpd_router.books import Books
from dpd_router.config import ConfigError, Settings, Strategy, Transfer
from dpd_router.custodian import Custodian
from dpd_router.decision import Decider
from dpd_router.discovery import make_discovery
from dpd_router.files import client_connections
from dpd_router.health import HealthMonitor
from dpd_router.leaks import Leaks
from dpd_router.metrics import Metrics
from dpd_router.notifications import Notifications, NotificationSocket
from dpd_router.other_routers import OtherRouters
from dpd_router.pairs import Pairs
from dpd_router.passthrough import Passthrough
from dpd_router.pool import Pool, Role, Worker
from dpd_router.relay import RelayPool
from dpd_router.server import ClientServer
from dpd_router.tasks import Supervisor, cancelled
from dpd_router.tokenizer_check import TokenizerCheck
from dpd_router.tokens import FileTokenizer, Tokenization
from dpd_router.tracing import Tracing, TracingError
from dpd_router.transfer import base
from dpd_router.transfer.continuation import ContinueTransfer
from dpd_router.transfer.land import LandTransfer
from dpd_router.transfer.lane import Lane
from dpd_router.transfer.nixl import NixlTransfer
from dpd_router.transfer.prefill import Prefill
from dpd_router.trouble import Trouble
from dpd_router.upstream import Upstream

log = logging.getLogger(__name__)

_KEY_CHECK_SECONDS = 2.0
# the grace for requests has passed when the server is closed; aiohttp takes 0 for no limit at all
_LAST_WORDS_SECONDS = 0.1


class Router:
    """One router process."""

    def __init__(self, settings: Settings, environment: Mapping[str, str] | None = None) -> None:
        """Build every part; nothing runs yet.

        Raises:
            ConfigError: a file of the settings cannot be used, or there are too few files for the requests.
        """
        self.settings = settings
        self._max_connections = client_connections(settings.admission.max_requests)
        self.metrics = Metrics()
        self.supervisor = Supervisor()
        routing = settings.routing
        self.metrics.describe(
            transfer=routing.transfer, strategy=routing.strategy, threshold=str(routing.threshold)
        )
        self.tracing = _tracing(settings)
        self._keys = _keys(settings, self.metrics)
        self.admission = Admission(settings.admission, self.metrics, self._keys)
        self.upstream = Upstream(settings.timeouts)
        self.relays = RelayPool(settings.timeouts.connect_timeout_seconds)
        self.pool = Pool(settings.health, self.metrics, affinity=routing.affinity)
        self.pairs = Pairs(settings.health, self.metrics, port_epochs=settings.buffers.port_epochs)
        self.books = Books(self.metrics)
        self.leaks = Leaks(self.books, self.metrics)
        self.notifications = Notifications(self.metrics)
        self.tokenizers = TokenizerCheck(
            _file_tokenizer(settings),
            self.pool,
            self.upstream,
            self.metrics,
            timeout_seconds=settings.health.health_timeout_seconds,
        )
        self.health = HealthMonitor(self.pool, self.upstream, settings.health, self.supervisor)
        self.health.on_alive.append(self.tokenizers.look)
        self.trouble = Trouble(pool=self.pool, health=self.health, metrics=self.metrics)
        self.custodian = Custodian(
            books=self.books,
            leaks=self.leaks,
            notifications=self.notifications,
            upstream=self.upstream,
            pool=self.pool,
            pairs=self.pairs,
            metrics=self.metrics,
            buffers=settings.buffers,
            timeouts=settings.timeouts,
        )
        self.socket = NotificationSocket(
            self.notifications,
            self.supervisor,
            settings.listen.notification_host,
            settings.listen.notification_port,
        )
        self.others = OtherRouters(settings.discovery, self.metrics)
        self.discovery = make_discovery(
            settings.discovery,
            self.pool,
            self.metrics,
            self.supervisor,
            os.environ if environment is None else environment,
            others=self.others,
        )
        self._listen_to_pool()
        tokenization = Tokenization(
            self.pool,
            self.upstream,
            self.metrics,
            timeout_seconds=settings.timeouts.tokenize_timeout_seconds,
            file_tokenizer=lambda: self.tokenizers.tokenizer,
        )
        passthrough = Passthrough(
            settings=settings, pool=self.pool, relays=self.relays, trouble=self.trouble, metrics=self.metrics
        )
        self.app = App(
            settings=settings,
            pool=self.pool,
            decider=Decider(settings, self.pool, tokenization, self.metrics, self.others),
            transfer=self._transfer(passthrough),
            passthrough=passthrough,
            admission=self.admission,
            metrics=self.metrics,
            tracing=self.tracing,
        )
        self._runner: web.ServerRunner | None = None
        self._key_task: asyncio.Task[None] | None = None
        self._port = settings.listen.port

    def _listen_to_pool(self) -> None:
        capacity = self.settings.buffers.decoder_buffer_chunks

        def open_account(worker: Worker) -> None:
            if worker.role is Role.DECODE:
                self.books.open_account(worker.key, capacity, worker.incarnation)

        def gone(worker: Worker) -> None:
            self.custodian.decoder_gone(worker)
            self.leaks.forget(worker.key)
            open_account(worker)
            self.pairs.forget(worker)

        def removed(worker: Worker) -> None:
            self.books.close_account(worker.key)

        self.pool.on_added.append(open_account)
        self.pool.on_gone.append(gone)
        self.pool.on_removed.append(removed)

    def _transfer(self, passthrough: Passthrough) -> base.Transfer:
        prefills = Prefill(
            timeout_seconds=self.settings.timeouts.prefill_timeout_seconds,
            pool=self.pool,
            upstream=self.upstream,
            trouble=self.trouble,
            metrics=self.metrics,
        )
        if self.settings.routing.transfer is Transfer.NIXL:
            return NixlTransfer(
                pool=self.pool, prefills=prefills, passthrough=passthrough, metrics=self.metrics
            )
        lane = Lane(
            settings=self.settings,
            pool=self.pool,
            pairs=self.pairs,
            leaks=self.leaks,
            books=self.books,
            custodian=self.custodian,
            prefills=prefills,
            health=self.health,
            metrics=self.metrics,
        )
        if self.settings.routing.strategy is Strategy.LAND:
            return LandTransfer(
                settings=self.settings,
                lane=lane,
                custodian=self.custodian,
                pool=self.pool,
                upstream=self.upstream,
                trouble=self.trouble,
                metrics=self.metrics,
            )
        return ContinueTransfer(
            settings=self.settings,
            lane=lane,
            custodian=self.custodian,
            pool=self.pool,
            upstream=self.upstream,
            trouble=self.trouble,
            metrics=self.metrics,
            tokenizers=self.tokenizers,
        )

    @property
    def port(self) -> int:
        """Port of the HTTP server."""
        return self._port

    async def start(self) -> None:
        """Open the sockets and begin to watch the workers.

        Raises:
            OSError: a port is in use.
        """
        try:
            await self._open()
        except BaseException:
            await self._close()
            raise
        log.info(
            "router started",
            extra={"fields": {"port": self._port, "notification_port": self.socket.port}},
        )

    async def _open(self) -> None:
        await self.upstream.start()
        if self.settings.disaggregates and self.settings.routing.transfer is Transfer.LMCACHE_PD:
            self.socket.start()
        await self.discovery.start()
        if self._keys is not None:
            self._key_task = self.supervisor.start(_watch_keys(self._keys), "api keys")
        server = ClientServer(
            self.app.handle,
            metrics=self.metrics,
            placed=self.app.placed,
            max_connections=self._max_connections,
            stall_seconds=self.settings.admission.stall_seconds,
            keepalive_seconds=self.settings.admission.keepalive_timeout_seconds,
        )
        runner = web.ServerRunner(server, shutdown_timeout=_LAST_WORDS_SECONDS)
        self._runner = runner
        await runner.setup()
        site = web.TCPSite(
            runner, self.settings.listen.host, self.settings.listen.port, reuse_address=True, backlog=1024
        )
        await site.start()
        self._port = runner.addresses[0][1]

    async def stop(self) -> int:
        """End in order: nothing new, requests finish or are ended, hand-offs are drained.

        Returns:
            The number of hand-offs that are left behind.
        """
        grace_seconds = self.settings.timeouts.shutdown_grace_seconds
        self.admission.closing = True
        if self._runner is not None and self._runner.server is not None:
            self.app.close_idle(self._runner.server)
        log.info("router stops", extra={"fields": {"requests": self.admission.arrived}})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await self.admission.idle()
        await self._stop_serving()
        left = await self.custodian.settle_all(
            self.settings.timeouts.drain_grace_seconds + self.settings.timeouts.drain_timeout_seconds
        )
        await self._close()
        log.info("router stopped", extra={"fields": {"handoffs_left": left}})
        return left

    async def _stop_serving(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _close(self) -> None:
        await self._stop_serving()
        await self.custodian.stop()
        await self.discovery.stop()
        await self.health.stop()
        await cancelled(self._key_task)
        await self.socket.stop()
        await self.upstream.stop()
        await self.relays.stop()
        # the exporter sends what is left, which would hold up the event loop
        await asyncio.to_thread(self.tracing.stop)


async def _watch_keys(keys: ApiKeys) -> None:
    while True:
        await asyncio.sleep(_KEY_CHECK_SECONDS)
        keys.reload()


def _keys(settings: Settings, metrics: Metrics) -> ApiKeys | None:
    path = settings.admission.api_keys_file
    if path is None:
        return None
    try:
        return ApiKeys(path, metrics)
    except (OSError, ValueError) as error:
        raise ConfigError([f"`--api-keys-file` cannot be used: {error}. help: one key per line"]) from error


def _file_tokenizer(settings: Settings) -> FileTokenizer | None:
    path = settings.routing.tokenizer
    if path is None:
        return None
    try:
        return FileTokenizer(path)
    except Exception as error:  # the library raises its own bare Exception
        raise ConfigError(
            [f"`--tokenizer` cannot be read: {error}. help: give the model's `tokenizer.json`"]
        ) from error


def _tracing(settings: Settings) -> Tracing:
    try:
        return Tracing(settings.telemetry.otlp_endpoint)
    except TracingError as error:
        raise ConfigError([str(error)]) from error
