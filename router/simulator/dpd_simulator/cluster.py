"""Several simulated engines on this machine, each like a pod with an address of its own."""

import asyncio
import itertools
import os
import random
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from dpd_simulator.clock import Clock
from dpd_simulator.config import EngineConfig, LMCacheConfig, Role
from dpd_simulator.faults import Fault
from dpd_simulator.process import SimulatedEngine, can_listen
from dpd_simulator.step_times import StepTimes

ROUTER_HTTP_PORT = 8081
NOTIFICATION_PORT = 7500
_HIGHEST_OCTET = 254
# processes whose second octets are the same by chance begin at different places, so it is unseeded
_thirds = itertools.cycle(random.SystemRandom().sample(range(_HIGHEST_OCTET + 1), _HIGHEST_OCTET + 1))


class SimulatedCluster:
    """x prefillers, y decoders and z colocated engines for the length of an `async with` block.

    Engines listen on addresses of their own in 127.0.0.0/8 (Linux), so that all of them use the ports of a pod and
    clusters of parallel tests do not meet. `router_host` is the address of the router under test: its HTTP port and
    its notification port are free there.
    """

    def __init__(
        self,
        *,
        prefill: int = 0,
        decode: int = 0,
        colocated: int = 0,
        engine: EngineConfig | None = None,
        lmcache: LMCacheConfig | None = None,
        step_times: StepTimes | None = None,
        clock: Clock | None = None,
        seed: int = 0,
    ) -> None:
        """Describe the cluster.

        Args:
            prefill: number of prefillers.
            decode: number of decoders.
            colocated: number of engines without hand-off.
            engine: settings of every engine; the role and LMCache's addresses are filled in.
            lmcache: hand-off settings; left out together with `engine.nixl`, LMCache's defaults are used.
            step_times: durations of steps.
            clock: time of all engines.
            seed: of faults with a probability.
        """
        self._engine = engine or EngineConfig()
        self._lmcache = lmcache
        self._step_times = step_times
        self._clock = clock or Clock()
        self._seed = seed
        self._net = _free_net()
        self.router_host = f"{self._net}.1"
        self.prefillers = [self._make(Role.PREFILL, 10 + index) for index in range(prefill)]
        self.decoders = [self._make(Role.DECODE, 100 + index) for index in range(decode)]
        self.colocated = [self._make(Role.COLOCATED, 200 + index) for index in range(colocated)]

    @property
    def engines(self) -> Sequence[SimulatedEngine]:
        """All engines."""
        return (*self.prefillers, *self.decoders, *self.colocated)

    def _make(self, role: Role, octet: int) -> SimulatedEngine:
        return SimulatedEngine(
            config=self._config(role),
            host=f"{self._net}.{octet}",
            step_times=self._step_times,
            clock=self._clock,
            fault_seed=self._seed + octet,
        )

    def _config(self, role: Role) -> EngineConfig:
        base = replace(self._engine, role=role)
        if role is Role.COLOCATED:
            return replace(base, lmcache=None, nixl=None)
        if base.nixl is not None:
            return base
        ranks = base.tensor_parallel_size
        lmcache = self._lmcache or LMCacheConfig()
        ports = tuple(range(7300, 7300 + ranks)), tuple(range(7400, 7400 + ranks))
        if len(lmcache.init_ports) >= ranks:
            ports = lmcache.init_ports, lmcache.alloc_ports
        return replace(
            base,
            lmcache=replace(
                lmcache,
                init_ports=ports[0],
                alloc_ports=ports[1],
                proxy_host=self.router_host,
                proxy_port=NOTIFICATION_PORT,
            ),
        )

    async def __aenter__(self) -> Self:
        """Start every engine."""
        try:
            for engine in self.engines:
                await engine.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every engine."""
        await self.close()

    async def close(self) -> None:
        """End every engine."""
        await asyncio.gather(*(engine.stop() for engine in self.engines))

    async def add_fault(self, fault: Fault, engines: Sequence[SimulatedEngine] | None = None) -> None:
        """Switch a fault on in some engines, or in all."""
        for engine in self.engines if engines is None else engines:
            await engine.add_fault(fault)

    async def remove_faults(self) -> None:
        """Switch off all faults everywhere."""
        for engine in self.engines:
            await engine.remove_faults()


def _free_net() -> str:
    """Three octets under 127 that nobody listens on.

    Processes that choose at the same time differ in the second octet, clusters of one process in the third: what is chosen
    is listened on only later.
    """
    while True:
        net = f"127.{1 + os.getpid() % _HIGHEST_OCTET}.{next(_thirds)}"
        if can_listen(f"{net}.1", NOTIFICATION_PORT) and can_listen(f"{net}.1", ROUTER_HTTP_PORT):
            return net
