"""A simulated engine process: it listens on an address of its own, can be killed, and can start again."""

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Callable

from aiohttp import web

from dpd_simulator.clock import Clock
from dpd_simulator.config import EngineConfig
from dpd_simulator.connector import Connector, NoConnector
from dpd_simulator.engine import Engine
from dpd_simulator.faults import Fault, FaultBoard, FaultKind
from dpd_simulator.lmcache.connector import LMCacheConnector
from dpd_simulator.lmcache.sender import Resolver
from dpd_simulator.metrics import EngineMetrics
from dpd_simulator.nixl import NixlConnector
from dpd_simulator.server import Server
from dpd_simulator.step_times import ConstantStepTimes, StepTimes
from dpd_simulator.tokenizer import shared_vocabulary

_logger = logging.getLogger(__name__)

# Real seconds in which handlers tell their clients that the engine is dead, before the process ends.
_LAST_WORDS_SECONDS = 0.05
_BACKLOG = 2048
# Of the event loop: a task is started, makes the transport, the server is told; and two for another order of these.
_ROUNDS_OF_ACCEPTING = 5


def _as_is(name: str) -> str:
    return name


class SimulatedEngine:
    """One engine in this process, as a pod would run it."""

    def __init__(
        self,
        *,
        config: EngineConfig,
        host: str,
        step_times: StepTimes | None = None,
        clock: Clock | None = None,
        resolve: Resolver = _as_is,
        fault_seed: int = 0,
        on_exit: Callable[[], None] | None = None,
    ) -> None:
        """Describe the engine; `start` runs it.

        Args:
            config: how it was started.
            host: address to listen on; every simulated pod has one of its own.
            step_times: durations of its steps; by default they take no time.
            clock: its time; by default real time.
            resolve: turns names (the router's Service) into addresses.
            fault_seed: of the generator behind faults with a probability.
            on_exit: called when the process ends by itself.
        """
        self.config = config
        self.host = host
        self.vocabulary = shared_vocabulary()
        self.faults = FaultBoard(seed=fault_seed)
        self.requests: dict[str, int] = {}
        self.restarts = 0
        self._step_times = step_times or ConstantStepTimes()
        self._clock = clock or Clock()
        self._resolve = resolve
        self._on_exit = on_exit
        self._engine: Engine | None = None
        self._runner: web.AppRunner | None = None
        self._site: web.SockSite | None = None
        self._listening: socket.socket | None = None
        self._death: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Base URL of its API."""
        return f"http://{self.host}:{self.config.http_port}"

    @property
    def engine(self) -> Engine:
        """The running engine.

        Raises:
            RuntimeError: it does not run.
        """
        if self._engine is None:
            raise RuntimeError(f"the simulated engine at {self.url} does not run")
        return self._engine

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._engine is not None

    @property
    def used_chunks(self) -> tuple[int, ...]:
        """Chunks in use in the PD buffer, per rank (empty on a prefiller)."""
        connector = self.engine.connector
        if not isinstance(connector, LMCacheConnector):
            return ()
        return tuple(receiver.buffer.used_chunks for receiver in connector.receivers)

    @property
    def reserved_chunks(self) -> tuple[int, ...]:
        """Chunks promised to transfers in progress, per rank (empty on a prefiller)."""
        connector = self.engine.connector
        if not isinstance(connector, LMCacheConnector):
            return ()
        return tuple(receiver.reservations.reserved_chunks for receiver in connector.receivers)

    async def start(self) -> None:
        """Run the engine and open its ports."""
        metrics = EngineMetrics(self.config)
        engine = Engine(
            config=self.config,
            vocabulary=self.vocabulary,
            step_times=self._step_times,
            clock=self._clock,
            connector=self._connector(metrics),
            metrics=metrics,
            faults=self.faults,
            on_death=self.die,
            on_crash=self.crash,
        )
        await engine.start()
        self._engine = engine
        self._runner = web.AppRunner(
            Server(self).application(), handler_cancellation=True, access_log=None, shutdown_timeout=0
        )
        await self._runner.setup()
        if not self.faults.active(FaultKind.REFUSE_CONNECTIONS):
            await self._listen()

    def _connector(self, metrics: EngineMetrics) -> Connector:
        config = self.config
        if config.lmcache is not None and metrics.lmcache is not None:
            return LMCacheConnector(
                engine=config,
                config=config.lmcache,
                host=self.host,
                clock=self._clock,
                step_times=self._step_times,
                faults=self.faults,
                metrics=metrics.lmcache,
                resolve=self._resolve,
            )
        if config.nixl is not None and metrics.nixl is not None:
            return NixlConnector(
                engine=config,
                config=config.nixl,
                host=self.host,
                clock=self._clock,
                step_times=self._step_times,
                faults=self.faults,
                metrics=metrics.nixl,
                resolve=self._resolve,
            )
        return NoConnector()

    async def _listen(self) -> None:
        if self._runner is None:
            return
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        self._listening = socket.create_server(
            (self.host, self.config.http_port), family=family, backlog=_BACKLOG
        )
        self._listening.settimeout(0)
        self._site = web.SockSite(self._runner, self._listening, backlog=_BACKLOG)
        await self._site.start()

    async def stop(self) -> None:
        """End at once: every connection is reset, every buffer is gone, as after SIGKILL."""
        if self._death is not None:
            await asyncio.shield(self._death)
        await self._end()

    async def _end(self) -> None:
        engine, self._engine = self._engine, None
        runner, self._runner = self._runner, None
        site, self._site = self._site, None
        if runner is not None:
            _abort_connections(runner)
            if self._listening is not None:
                await _end_accepting(self._listening)
            if site is not None:
                await site.stop()
            _abort_connections(runner)
            await runner.cleanup()
        if engine is not None:
            await engine.close()

    def die(self) -> None:
        """End as if killed, from inside a handler or a step; `stop` and `start` wait for it."""
        if self._engine is not None and self._death is None:
            self._death = asyncio.create_task(self._die(), name="engine-death")

    def crash(self) -> None:
        """The engine core died: requests in flight are answered with an error, then the process ends."""
        if self._engine is not None and self._death is None:
            self._death = asyncio.create_task(self._die(last_words=True), name="engine-crash")

    async def _die(self, *, last_words: bool = False) -> None:
        if last_words:
            await asyncio.sleep(_LAST_WORDS_SECONDS)
        await self._end()
        if self._on_exit is not None:
            self._on_exit()

    async def wait_dead(self) -> None:
        """Wait for a death that has begun."""
        if self._death is not None:
            await asyncio.shield(self._death)

    async def restart(self, config: EngineConfig | None = None) -> None:
        """Start again at the same address, with other settings if given (for example the next port epoch)."""
        await self.stop()
        self._death = None
        if config is not None:
            self.config = config
        self.restarts += 1
        await self.start()

    async def add_fault(self, fault: Fault) -> None:
        """Switch a fault on."""
        self.faults.add(fault)
        if fault.kind is FaultKind.REFUSE_CONNECTIONS and self._site is not None:
            site, self._site = self._site, None
            await site.stop()

    async def remove_faults(self, kind: FaultKind | None = None) -> None:
        """Switch off all faults of a kind, or all."""
        refused = self.faults.active(FaultKind.REFUSE_CONNECTIONS) is not None
        self.faults.remove(kind)
        if refused and not self.faults.active(FaultKind.REFUSE_CONNECTIONS):
            await self._listen()
        if self._engine is not None:
            self._engine.wake()


async def _end_accepting(listening: socket.socket) -> None:
    """Accept nothing more, and let what was accepted reach the server.

    asyncio 3.11 never closes a connection that was accepted just before its server was.
    """
    if listening.fileno() != -1:
        asyncio.get_running_loop().remove_reader(listening)
    for _ in range(_ROUNDS_OF_ACCEPTING):
        await asyncio.sleep(0)


def _abort_connections(runner: web.AppRunner) -> None:
    if runner.server is None:
        return
    for connection in runner.server.connections:
        if connection.transport is not None:
            connection.transport.abort()


def can_listen(host: str, port: int) -> bool:
    """Whether an address and port are free on this machine."""
    family = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
