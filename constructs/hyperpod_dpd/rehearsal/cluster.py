"""The cluster: pods of a plan as processes, their Services, and what happens to them."""

import asyncio
import contextlib
import random
import shutil
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import aiohttp

from hyperpod_dpd.catalog.models import ModelGeometry
from hyperpod_dpd.lint.model import KubernetesObject
from hyperpod_dpd.rehearsal.addresses import Addresses
from hyperpod_dpd.rehearsal.api_server import ApiServer, endpoint_slice
from hyperpod_dpd.rehearsal.container import base_environment
from hyperpod_dpd.rehearsal.engines import Engines, Gpu
from hyperpod_dpd.rehearsal.guard import guarded
from hyperpod_dpd.rehearsal.metrics import scrape
from hyperpod_dpd.rehearsal.plan import RehearsalPlan
from hyperpod_dpd.rehearsal.pod import Adaptation, LocalPod
from hyperpod_dpd.rehearsal.pods import PodPlan
from hyperpod_dpd.rehearsal.process import MARK, left_behind, tail
from hyperpod_dpd.rehearsal.real import RealEngines
from hyperpod_dpd.rehearsal.relay import ServiceRelay
from hyperpod_dpd.rehearsal.simulated import SimulatedEngines
from hyperpod_dpd.rehearsal.trouble import Kind, RefusedError, Trouble, trouble
from hyperpod_dpd.rehearsal.wiring import ServicePlan, allows, covers, expected

_END_SECONDS: Final = 15.0
"""What a process gets after SIGTERM when the rehearsal ends; traffic is over by then."""

_CRASHES: Final = 3
"""Ends in a row after which nobody waits any more for a container to become ready."""

_POLL_SECONDS: Final = 0.1
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
        self.compression = compression
        self.identity = uuid.uuid4().hex
        self.addresses = Addresses()
        self.pods: list[LocalPod] = []
        self.events: list[str] = []
        """What happened to pods, in order, with no time in it."""

        folder.mkdir(parents=True)
        self.engines = _engines(plan, folder, geometry, compression, gpus)
        self._service_addresses = {
            (service.namespace, service.name): self.addresses.service() for service in plan.services
        }
        self._api_server = ApiServer(self._slices)
        self._stack = AsyncExitStack()
        self._happened = asyncio.Event()
        self._waiters: list[asyncio.Future[None]] = []
        self._http: aiohttp.ClientSession | None = None
        self._api_url = ""
        self._random = random.Random(0)  # noqa: S311 -- which pod a connection goes to

    # -- life -------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Start every pod; `ready` waits for them."""
        try:
            await self._stack.enter_async_context(guarded(self.identity))
            self._http = await self._stack.enter_async_context(
                aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))
            )
            self._api_url = await self._api_server.start(self.addresses.api_server)
            self._stack.push_async_callback(self._api_server.stop)
            await self._start_relays()
            await self._stack.enter_async_context(_beside(self._publish(), "publish endpoints"))
            pods = [
                self._new_pod(placement.plan, node)
                for placement in self.plan.placements
                for node in placement.nodes
            ]
            await self._stack.enter_async_context(_beside(self._start(pods), "start pods"))
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
            alive = [pod for pod in self.pods if not pod.gone]
            routers = [pod for pod in alive if pod.plan.router is not None]
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

    def remove(self) -> None:
        """Remove volumes, logs and programs."""
        shutil.rmtree(self.folder, ignore_errors=True)

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
            names = self.names(plan.namespace)
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
        names = self.names(plan.namespace)
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

    def names(self, namespace: str) -> dict[str, str]:
        """Return what a pod of `namespace` resolves: names of Services and their addresses."""
        found: dict[str, str] = {}
        for service in self.plan.services:
            address = self._service_addresses[service.namespace, service.name]
            if service.headless:
                pods = self.pods_of(service)
                if not pods:
                    continue
                address = pods[0].address
            found |= dict.fromkeys(service.names, address)
            if service.namespace == namespace:
                found[service.name] = address
        return found

    def of(self, workload: str) -> list[LocalPod]:
        """Return the living pods of the workload `workload`."""
        return [pod for pod in self.pods if pod.plan.name == workload and not pod.gone]

    @property
    def alive(self) -> list[LocalPod]:
        """Pods that are there."""
        return [pod for pod in self.pods if not pod.gone]

    async def until_ready(self, pod: LocalPod) -> None:
        """Wait until `pod` is ready, or gone."""
        while not pod.ready and not pod.gone:
            await self.next_change()

    async def ready(self, timeout_seconds: float) -> None:
        """Wait until every pod is ready; not for one that has crashed again and again.

        Raises:
            RefusedError: with what every pod that crashes, or else that is not ready, said last.
        """
        begin = time.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                while self._late() and not self._crashing():
                    await self.next_change()
        if late := self._crashing() or self._late():
            seconds = time.monotonic() - begin
            raise RefusedError(tuple(self._not_ready(pod, seconds) for pod in late))

    def _late(self) -> list[LocalPod]:
        return [pod for pod in self.alive if not pod.ready]

    def _crashing(self) -> list[LocalPod]:
        return [
            pod for pod in self._late() if any(container.crashes >= _CRASHES for container in pod.containers)
        ]

    def _not_ready(self, pod: LocalPod, seconds: float) -> Trouble:
        node = pod.plan.pod.node
        logs = "\n".join(
            f"  | {line}" for each in pod.containers for line in tail(each.log).splitlines() if not each.ready
        )
        return Trouble(
            kind=Kind.RUNNING,
            says=f"pod of {pod.plan.owner.title} is not ready after {seconds:.0f} s: {pod.trouble()}",
            fix=f"read its log:\n{logs}" if logs else "look at its probes",
            file=node.file,
            line=node.line,
        )

    def changed(self) -> None:
        """Tell everybody who waits that something about a pod is another."""
        self._happened.set()

    async def next_change(self) -> None:
        """Wait for the next change of a pod; others may have been told of it already."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    async def routed(self, timeout_seconds: float) -> None:
        """Wait until every router gives requests to every worker: it takes each in after two good checks of its own.

        Raises:
            RefusedError: a worker is not taken in.
        """
        workers = [pod for pod in self.alive if pod.plan.worker is not None]
        for router in [pod for pod in self.alive if pod.plan.router is not None]:
            up: float = 0
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_seconds):
                    while up < len(workers):  # the router tells nobody when a worker is up
                        await asyncio.sleep(_POLL_SECONDS)
                        samples = await scrape(self.http, router.url(router_port(router)))
                        up = samples.sum("dpd_router_worker_up") if samples else 0
            if up < len(workers):
                raise RefusedError(
                    (
                        trouble(
                            Kind.RUNNING,
                            router.plan.pod.node,
                            f"{router.plan.router} gives requests to {up:.0f} of {len(workers)} workers after "
                            f"{timeout_seconds:g} s",
                            "compare its `--namespace`, `--prefill-service` and `--decode-service` with the Services",
                        ),
                    )
                )

    @property
    def http(self) -> aiohttp.ClientSession:
        """What asks the parts for probes and metrics."""
        assert self._http is not None
        return self._http

    def endpoint(self) -> str | None:
        """Return the base URL at which a client of the router's Service arrives now; None where nobody is."""
        for pod in self.alive:
            if pod.plan.router is not None and pod.ready and not pod.terminating:
                return pod.url(router_port(pod))
        return None

    # -- services ---------------------------------------------------------------------------------------------------

    def pods_of(self, service: ServicePlan) -> list[LocalPod]:
        """Return the living pods behind `service`."""
        return [pod for pod in self.alive if pod.plan in service.backends]

    def _slices(self) -> Mapping[tuple[str, str], dict[str, Any]]:
        return {
            (service.namespace, service.name): endpoint_slice(service, self.pods_of(service))
            for service in self.plan.services
        }

    async def _start_relays(self) -> None:
        for service in self.plan.services:
            if service.headless:
                continue
            host = self._service_addresses[service.namespace, service.name]
            for port in service.ports:
                relay = ServiceRelay(lambda service=service, port=port: self._chosen(service, port.target))  # type: ignore[misc]
                await relay.start(host, port.port)
                self._stack.push_async_callback(relay.stop)

    def _chosen(self, service: ServicePlan, port: int) -> tuple[str, int] | None:
        open_to = [
            pod
            for pod in self.pods_of(service)
            if (pod.ready and not pod.terminating) or service.publishes_not_ready
        ]
        return (self._random.choice(open_to).address, port) if open_to else None

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
        return all(
            self._allows(budget)
            for budget in self.plan.manifests.of_kind("PodDisruptionBudget")
            if covers(budget, plan)
        )

    def _allows(self, budget: KubernetesObject) -> bool:
        healthy = sum(pod.ready and not pod.terminating for pod in self.alive if covers(budget, pod.plan))
        plans = [placement.plan for placement in self.plan.placements]
        return allows(budget, healthy=healthy, expected=expected(budget, plans))


@asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Do `work` beside the block, and end it with the block."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _engines(
    plan: RehearsalPlan, folder: Path, geometry: ModelGeometry, compression: float, gpus: Sequence[Gpu]
) -> Engines:
    if not gpus:
        return SimulatedEngines(folder, geometry=geometry, compression=compression)
    workers = [
        worker
        for each in plan.placements
        if (worker := each.plan.worker) is not None
        for _ in range(each.plan.replicas)
    ]
    ranks = workers[0].tensor_parallel or 1
    try:
        return RealEngines(folder, geometry=geometry, ranks=ranks, workers=len(workers), gpus=gpus)
    except ValueError as error:
        says = Trouble(
            kind=Kind.ELSEWHERE, says=str(error), fix="rehearse with simulated engines: `--simulate`"
        )
        raise RefusedError((says,)) from None


def router_port(pod: LocalPod) -> int:
    """Return the HTTP port of a router's pod."""
    assert pod.plan.router is not None
    return pod.plan.router.http_port
