"""As much of an API server as the router asks: EndpointSlices of one Service, listed and watched."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from aiohttp import web

from hyperpod_dpd.rehearsal.pod import LocalPod
from hyperpod_dpd.rehearsal.wiring import ServicePlan

PORT: Final = 6443
_API_VERSION: Final = "discovery.k8s.io/v1"
_SERVICE_LABEL: Final = "kubernetes.io/service-name"


def endpoint_slice(service: ServicePlan, pods: Sequence[LocalPod]) -> dict[str, Any]:
    """Return the EndpointSlice of `service`, as the controller would write it for `pods`."""
    return {
        "apiVersion": _API_VERSION,
        "kind": "EndpointSlice",
        "addressType": "IPv4",
        "metadata": {
            "name": f"{service.name}-rehearsal",
            "namespace": service.namespace,
            "labels": {_SERVICE_LABEL: service.name},
        },
        "endpoints": [
            {
                "addresses": [pod.address],
                "nodeName": pod.node,
                "targetRef": {"kind": "Pod", "name": pod.name, "namespace": service.namespace},
                "conditions": {
                    "ready": (pod.ready or service.publishes_not_ready) and not pod.terminating,
                    "serving": pod.ready,
                    "terminating": pod.terminating,
                },
            }
            for pod in pods
            if not pod.gone
        ],
        "ports": [{"name": port.name, "port": port.target, "protocol": "TCP"} for port in service.ports],
    }


class ApiServer:
    """Serves the slices that `current` returns, and events whenever `publish` finds one changed."""

    def __init__(self, current: Callable[[], Mapping[tuple[str, str], dict[str, Any]]]) -> None:
        """Describe it.

        Args:
            current: slices by namespace and Service.
        """
        self._current = current
        self._version = 1
        self._known: dict[tuple[str, str], str] = {}
        self._changed = asyncio.Condition()
        self._runner: web.AppRunner | None = None
        self._closing = False

    async def start(self, host: str) -> str:
        """Listen on `host` and return the URL."""
        app = web.Application()
        app.router.add_get(
            "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices", self._endpoint_slices
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, PORT).start()
        return f"http://{host}:{PORT}"

    async def stop(self) -> None:
        """End every watch and stop listening."""
        self._closing = True
        async with self._changed:
            self._changed.notify_all()
        if self._runner is not None:
            await self._runner.cleanup()

    async def publish(self) -> None:
        """Tell the watches, when a slice is another than before."""
        written = {key: json.dumps(data) for key, data in self._current().items()}
        if written != self._known:
            self._known = written
            self._version += 1
            async with self._changed:
                self._changed.notify_all()

    async def _endpoint_slices(self, request: web.Request) -> web.StreamResponse:
        service = request.query.get("labelSelector", "").partition("=")[2]
        key = (request.match_info["namespace"], service)
        if request.query.get("watch") == "true":
            return await self._watch(request, key)
        found = self._current().get(key)
        return web.json_response(
            {
                "apiVersion": _API_VERSION,
                "kind": "EndpointSliceList",
                "metadata": {"resourceVersion": str(self._version)},
                "items": [] if found is None else [self._versioned(found)],
            }
        )

    async def _watch(self, request: web.Request, key: tuple[str, str]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        seen = int(request.query.get("resourceVersion", "0"))
        sent = ""
        while not self._closing:
            if self._version > seen:
                seen = self._version
                found = self._current().get(key)
                text = json.dumps(found)
                if found is not None and text != sent:
                    sent = text
                    event = {"type": "MODIFIED", "object": self._versioned(found)}
                    await response.write(json.dumps(event).encode() + b"\n")
            async with self._changed:
                await self._changed.wait_for(lambda: self._closing or self._version > seen)  # noqa: B023 -- awaited here
        return response

    def _versioned(self, data: dict[str, Any]) -> dict[str, Any]:
        return {**data, "metadata": {**data["metadata"], "resourceVersion": str(self._version)}}
