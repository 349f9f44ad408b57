"""The cluster: pods of a plan as processes, their Services, and what happens to them."""

import asyncio
import uuid
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final, Self

import aiohttp

from hyperpod_dpd.catalog.models import ModelGeometry
from hyperpod_dpd.lint.model import KubernetesObject
from hyperpod_dpd.rehearsal.addresses import Addresses
from hyperpod_dpd.rehearsal.api_server import ApiServer
from hyperpod_dpd.rehearsal.beside import beside
from hyperpod_dpd.rehearsal.budgets import allows, budgets_of, covers, expected
from hyperpod_dpd.rehearsal.container import base_environment
from hyperpod_dpd.rehearsal.engines import Engines, Gpu
from hyperpod_dpd.rehearsal.guard import guarded
from hyperpod_dpd.rehearsal.plan import RehearsalPlan
from hyperpod_dpd.rehearsal.pod import Adaptation, LocalPod
from hyperpod_dpd.rehearsal.pods import PodPlan
from hyperpod_dpd.rehearsal.process import MARK, left_behind
from hyperpod_dpd.rehearsal.real import RealEngines
from hyperpod_dpd.rehearsal.services import LocalServices
from hyperpod_dpd.rehearsal.simulated import SimulatedEngines
from hyperpod_dpd.rehearsal.trouble import Kind, RefusedError, Trouble
from hyperpod_dpd.spec import Role

_END_SECONDS: Final = 15.0
"""What a process gets after SIGTERM when the rehearsal ends; traffic is over by then."""

_ROUTER_END_SECONDS: Final = 60.0
"""The router may have hand-offs to drain; `--drain-grace-seconds` is 30 by default."""

REPLACED: Final = (
    "addresses: every pod and Service has one of its own in 127.0.0.0/8; 127.0.0.1 inside a pod is the pod's",
    "paths: volumes are folders of this machine, and paths below a mount lead there",
    "router: `--host`, `--notification-host` and `--api-server`, as variables",
    "probes run ten times as often (as often, with real engines), and a crashed container waits a tenth of the back-off",
    "images are not pulled, init containers are not run, resources are compared and not enforced",
    "NetworkPolicies are evaluated from the text and not enforced",
)
"""What differs from a cluster, for the report."""


class LocalCluster:
    """The pods of one plan for the length of an `async with` block."""

    def __init__(
        self,
        plan: RehearsalPlan,
        *,
        folder: Path,
        geometry: ModelGeometry,
        compression: float = 1.0,
        gpus: Sequence[Gpu] = (),
    ) -> None:
        """Describe it.

        Args:
            plan: a plan without troubles.
            folder: where volumes, logs and programs go; it is made and stays.
            geometry: the model, for engines whose manifests name none of the catalog.
            compression: simulated seconds that pass for simulated engines in a real one.
            gpus: GPUs on which real engines run; none: engines are simulated.

        Raises:
            RefusedError: the plan has troubles, or what containers run is not installed.
        """
        if plan.troubles:
            raise RefusedError(plan.troubles)
        self.plan = plan
        self.folder = folder
        self.identity = uuid.uuid4().hex
        self.addresses = Addresses()
        self.pods: list[LocalPod] = []
        self.events: list[str] = []
        """What happened to pods, in order, with no time in it."""

        folder.mkdir(parents=True)
        self.engines = _engines(plan, folder, geometry, compression, gpus)
        self._services = LocalServices(plan.services, self.addresses, lambda: self.alive)
        self._api_server = ApiServer(self._services.slices)
        self._stack = AsyncExitStack()
        self._happened = asyncio.Event()
        self._waiters: list[asyncio.Future[None]] = []
        self._http: aiohttp.ClientSession | None = None
        self._api_url = ""

    # -- life -------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Start every pod; `until_all_ready` waits for them."""
        try:
            await self._stack.enter_async_context(guarded(self.identity))
            self._http = await self._stack.enter_async_context(
                aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))
            )
            self._api_url = await self._api_server.start(self.addresses.api_server)
            self._stack.push_async_callback(self._api_server.stop)
            await self._stack.enter_async_context(self._services.relayed())
            await self._stack.enter_async_context(beside(self._publish(), "publish endpoints"))
            pods = [
                self._new_pod(placement.plan, node)
                for placement in self.plan.placements
                for node in placement.nodes
            ]
            await self._stack.enter_async_context(beside(self._start(pods), "start pods"))
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End every pod and everything around them; at once, when something went wrong or somebody interrupted."""
        if kind is not None:
            self._kill()
        await self.close()

    def _kill(self) -> None:
        for pod in self.pods:
            for container in pod.containers:
                container.kill(for_good=True)

    async def close(self) -> list[tuple[LocalPod, list[int | None]]]:
        """End everything: the router first, as long as engines can still take its drains. Return exit statuses."""
        ended: list[tuple[LocalPod, list[int | None]]] = []
        try:
            alive, routers = self.alive, self.routers
            for group, seconds in (
                (routers, _ROUTER_END_SECONDS),
                ([pod for pod in alive if pod not in routers], _END_SECONDS),
            ):
                codes = await asyncio.gather(*(pod.end(seconds) for pod in group))
                ended += zip(group, codes, strict=True)
        finally:
            self._kill()
            await self._stack.aclose()
        return ended

    def left_behind(self) -> list[str]:
        """Return processes that are still there; none after `close`."""
        return left_behind(self.identity)

    @property
    def marked(self) -> dict[str, str]:
        """Variables that every process gets."""
        return {**base_environment(self.engines.programs), MARK: self.identity}

    # -- pods -------------------------------------------------------------------------------------------------------

    async def _start(self, pods: Sequence[LocalPod]) -> None:
        for pod in pods:
            self._start_pod(pod)
            if self.engines.one_by_one and pod.plan.worker is not None:
                await self.until_ready(pod)

    def _start_pod(self, pod: LocalPod) -> None:
        self.events.append(f"{pod.name} started on {pod.node}")
        pod.start()
        self._happened.set()

    def replace(self, pod: LocalPod) -> LocalPod:
        """Start the successor of `pod`, on its node and its GPU."""
        fresh = self._new_pod(pod.plan, pod.node, place=pod.place)
        self._start_pod(fresh)
        return fresh

    def _new_pod(self, plan: PodPlan, node: str, *, place: int | None = None) -> LocalPod:
        assert self._http is not None
        address = self.addresses.pod()
        place = len(self.pods) if place is None else place
        pod = LocalPod(
            plan,
            node=node,
            address=address,
            folder=self.folder / "pods",
            place=place,
            extra={**self.marked, **self._local_variables(plan, address, place)},
            adaptation=self._adaptation(plan, address),
            http=self._http,
            changed=self.changed,
        )
        self.pods.append(pod)
        return pod

    def _local_variables(self, plan: PodPlan, address: str, place: int) -> dict[str, str]:
        if plan.worker is not None:
            names = self._services.names(plan.namespace)
            return self.engines.variables(plan.worker, address=address, names=names, place=place)
        if plan.router is not None:
            return {
                "DPD_ROUTER_HOST": address,
                "DPD_ROUTER_NOTIFICATION_HOST": address,
                "DPD_ROUTER_API_SERVER": self._api_url,
            }
        return {}

    def _adaptation(self, plan: PodPlan, address: str) -> Adaptation:
        engines, worker, router = self.engines, plan.worker, plan.router
        names = self._services.names(plan.namespace)
        command: Callable[[list[str]], list[str]] = list
        if worker is not None:
            command = partial(engines.command, worker, address=address)
        elif router is not None:
            command = partial(engines.router_command, router)
        return Adaptation(
            command=command,
            text=partial(engines.text, address=address, names=names),
            probe_speed=engines.probe_speed,
            image=engines.image if worker is not None else {},
        )

    @property
    def alive(self) -> list[LocalPod]:
        """Pods that are there."""
        return [pod for pod in self.pods if not pod.gone]

    @property
    def workers(self) -> list[LocalPod]:
        """Pods of these with an engine."""
        return [pod for pod in self.alive if pod.plan.worker is not None]

    @property
    def routers(self) -> list[LocalPod]:
        """Pods of these with a router."""
        return [pod for pod in self.alive if pod.plan.router is not None]

    def with_role(self, role: Role) -> list[LocalPod]:
        """Return the pods of these whose engine has the role `role`."""
        return [pod for pod in self.alive if pod.plan.role is role]

    async def until_ready(self, pod: LocalPod) -> None:
        """Wait until `pod` is ready, or gone."""
        while not pod.ready and not pod.gone:
            await self.next_change()

    def changed(self) -> None:
        """Tell everybody who waits that something about a pod is another."""
        self._happened.set()

    async def next_change(self) -> None:
        """Wait for the next change of a pod; others may have been told of it already."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    @property
    def http(self) -> aiohttp.ClientSession:
        """What asks the parts for probes and metrics."""
        assert self._http is not None
        return self._http

    def endpoint(self) -> str | None:
        """Return the base URL at which a client of the router's Service arrives now; None where nobody is."""
        open_to = (pod for pod in self.routers if pod.ready and not pod.terminating)
        return next((pod.router_url for pod in open_to), None)

    async def _publish(self) -> None:
        while True:
            await self._happened.wait()
            self._happened.clear()
            await self._api_server.publish()
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    # -- what happens to pods ---------------------------------------------------------------------------------------

    async def lose(self, pod: LocalPod, *, replaced_after_seconds: float) -> LocalPod:
        """Lose a pod with its node, and return the one that replaces it, with another address."""
        self.events.append(f"{pod.name} lost with {pod.node}")
        await pod.lose()
        await asyncio.sleep(replaced_after_seconds)
        return self.replace(pod)

    async def evict(self, pod: LocalPod) -> LocalPod:
        """Evict a pod as a node drain does: wait until its disruption budget allows it, then end and replace it.

        The replacement starts when the old pod is gone: its node and its GPUs are those of the old one.
        """
        while not self._disruption_allowed(pod.plan):
            await self.next_change()
        self.events.append(f"{pod.name} evicted")
        await pod.delete()
        return self.replace(pod)

    def _disruption_allowed(self, plan: PodPlan) -> bool:
        return all(self._allows(budget) for budget in budgets_of(self.plan.manifests) if covers(budget, plan))

    def _allows(self, budget: KubernetesObject) -> bool:
        healthy = sum(pod.ready and not pod.terminating for pod in self.alive if covers(budget, pod.plan))
        return allows(budget, healthy=healthy, expected=expected(budget, self.plan.pods))


def _engines(
    plan: RehearsalPlan, folder: Path, geometry: ModelGeometry, compression: float, gpus: Sequence[Gpu]
) -> Engines:
    if not gpus:
        return SimulatedEngines(folder, geometry=geometry, compression=compression)
    first, _ = plan.workers[0]
    workers = sum(replicas for _, replicas in plan.workers)
    try:
        return RealEngines(
            folder, geometry=geometry, ranks=first.tensor_parallel or 1, workers=workers, gpus=gpus
        )
    except ValueError as error:
        says = Trouble(
            kind=Kind.ELSEWHERE, says=str(error), fix="rehearse with simulated engines: `--simulate`"
        )
        raise RefusedError((says,)) from None
