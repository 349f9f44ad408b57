"""The Services of a plan on this machine: an address for each, and whoever is behind it."""

import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from hyperpod_dpd.rehearsal.addresses import Addresses
from hyperpod_dpd.rehearsal.api_server import endpoint_slice
from hyperpod_dpd.rehearsal.pod import LocalPod
from hyperpod_dpd.rehearsal.relay import ServiceRelay
from hyperpod_dpd.rehearsal.wiring import ServicePlan


class LocalServices:
    """Leads names, connections and routers to the pods behind each Service."""

    def __init__(
        self,
        plans: Sequence[ServicePlan],
        addresses: Addresses,
        alive: Callable[[], Sequence[LocalPod]],
    ) -> None:
        """Give each Service an address.

        Args:
            plans: the Services.
            addresses: addresses of the rehearsal.
            alive: returns the pods that are there.
        """
        self._addresses = {(each.namespace, each.name): addresses.service() for each in plans}
        self._plans = plans
        self._alive = alive
        self._random = random.Random(0)  # noqa: S311 -- which pod a connection goes to

    @asynccontextmanager
    async def relayed(self) -> AsyncIterator[None]:
        """Pass connections on to ready pods until the block ends; whoever asks a headless Service finds a pod itself."""
        async with AsyncExitStack() as stack:
            for service in self._plans:
                if service.headless:
                    continue
                for port in service.ports:
                    relay = ServiceRelay(partial(self._chosen, service, port.target))
                    await relay.start(self._addresses[service.namespace, service.name], port.port)
                    stack.push_async_callback(relay.stop)
            yield

    def names(self, namespace: str) -> dict[str, str]:
        """Return what a pod of `namespace` resolves: names of Services and their addresses."""
        found: dict[str, str] = {}
        for service in self._plans:
            address = self._addresses[service.namespace, service.name]
            if service.headless:
                pods = self._pods_of(service)
                if not pods:
                    continue
                address = pods[0].address
            found |= dict.fromkeys(service.names, address)
            if service.namespace == namespace:
                found[service.name] = address
        return found

    def slices(self) -> Mapping[tuple[str, str], dict[str, Any]]:
        """Return the EndpointSlice of every Service by its namespace and name."""
        return {
            (service.namespace, service.name): endpoint_slice(service, self._pods_of(service))
            for service in self._plans
        }

    def _pods_of(self, service: ServicePlan) -> list[LocalPod]:
        return [pod for pod in self._alive() if pod.plan in service.backends]

    def _chosen(self, service: ServicePlan, port: int) -> tuple[str, int] | None:
        open_to = [
            pod
            for pod in self._pods_of(service)
            if (pod.ready and not pod.terminating) or service.publishes_not_ready
        ]
        return (self._random.choice(open_to).address, port) if open_to else None
