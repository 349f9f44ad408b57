"""One pod of this machine."""

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import aiohttp

from hyperpod_dpd.rehearsal.container import LocalContainer, PodView
from hyperpod_dpd.rehearsal.pods import PodPlan
from hyperpod_dpd.spec.value import record

_SUFFIX_LENGTH: Final = 5


@record
class Adaptation:
    """How a pod's command lines and files become those of this machine."""

    command: Callable[[list[str]], list[str]]
    text: Callable[[str], str]
    probe_speed: float
    image: Mapping[str, str]
    """Variables that an image would bring along."""


class LocalPod:
    """A pod: its containers, its address, and whether it is ready."""

    def __init__(
        self,
        plan: PodPlan,
        *,
        node: str,
        address: str,
        folder: Path,
        place: int,
        extra: Mapping[str, str],
        adaptation: Adaptation,
        http: aiohttp.ClientSession,
        changed: Callable[[], None],
    ) -> None:
        """Write the files of its volumes.

        Args:
            plan: the workload it belongs to.
            node: node on which the scheduler puts it.
            place: its number among the pods of the plan; a pod that replaces one has the same.
            address: loopback address that is its own.
            folder: folder of its volumes and logs.
            extra: variables of the rehearsal.
            adaptation: what this machine cannot have, replaced.
            http: what probes ask with.
            changed: called when anything about it changes.
        """
        uid = str(uuid.uuid4())
        self.plan = plan
        self.node = node
        self.address = address
        self.place = place
        self.name = f"{plan.name}-{uid[:_SUFFIX_LENGTH]}"
        self.terminating = False
        self.gone = False
        self._changed = changed
        view = PodView(folder=folder / self.name, address=address, fields=self._fields(uid))
        view.folder.mkdir(parents=True)
        _write_volumes(plan, view, adaptation)
        self.containers = [
            LocalContainer(
                container,
                view,
                image=adaptation.image,
                extra=extra,
                adapt=adaptation.command,
                probe_speed=adaptation.probe_speed,
                logs=view.folder / f"{container.name}.log",
                http=http,
                changed=changed,
            )
            for container in plan.containers
        ]
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def ready(self) -> bool:
        """Whether every container is ready."""
        return not self.gone and all(container.ready for container in self.containers)

    @property
    def restarts(self) -> int:
        """Restarts of its containers."""
        return sum(container.restarts for container in self.containers)

    def url(self, port: int) -> str:
        """Return the base URL of a port."""
        return f"http://{self.address}:{port}"

    @property
    def engine_url(self) -> str:
        """Base URL of its engine, which it must have."""
        assert self.plan.worker is not None
        return self.url(self.plan.worker.http_port)

    @property
    def router_url(self) -> str:
        """Base URL of its router, which it must have."""
        assert self.plan.router is not None
        return self.url(self.plan.router.http_port)

    def start(self) -> None:
        """Start its containers."""
        self._tasks = [
            asyncio.create_task(container.run(), name=f"{self.name}/{container.plan.name}")
            for container in self.containers
        ]

    async def delete(self) -> list[int | None]:
        """End it as Kubernetes does: out of its Services, pre-stop hooks, SIGTERM, SIGKILL. Return exit statuses."""
        if self.gone:
            return []
        self.terminating = True
        self._changed()
        started = asyncio.get_running_loop().time()
        await asyncio.gather(*(each.pre_stop(self.plan.grace_seconds) for each in self.containers))
        left = self.plan.grace_seconds - (asyncio.get_running_loop().time() - started)
        # Kubernetes grants two seconds where a hook has used the whole time
        return await self._end(max(2.0, left))

    async def end(self, grace_seconds: float) -> list[int | None]:
        """End it without its hooks, which only make room for traffic that is over. Return exit statuses."""
        self.terminating = True
        return await self._end(grace_seconds)

    async def lose(self) -> None:
        """End it at once, as when its node is gone."""
        for container in self.containers:
            container.kill(for_good=True)
        await self._end(0)

    async def _end(self, grace_seconds: float) -> list[int | None]:
        codes = await asyncio.gather(*(each.stop(grace_seconds) for each in self.containers))
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for container in self.containers:
            container.kill()
        self.gone = True
        self._changed()
        return list(codes)

    def trouble(self) -> str:
        """Return why it is not ready, for a message."""
        lines = []
        for container in self.containers:
            if container.ready:
                continue
            codes = ", ".join(map(str, container.exit_codes)) or "none"
            lines.append(
                f"container `{container.plan.name}`: exit statuses {codes}, {container.restarts} restarts, "
                f"last probe `{container.last_probe or 'none'}`"
            )
        return "; ".join(lines)

    def _fields(self, uid: str) -> dict[str, str]:
        labels = {f"metadata.labels['{key}']": value for key, value in self.plan.labels.items()}
        return {
            **labels,
            "metadata.name": self.name,
            "metadata.namespace": self.plan.namespace,
            "metadata.uid": uid,
            "spec.nodeName": self.node,
            "spec.serviceAccountName": self.plan.pod.node.text_at("serviceAccountName") or "default",
            "status.hostIP": self.address,
            "status.hostIPs": self.address,
            "status.podIP": self.address,
            "status.podIPs": self.address,
        }


def _write_volumes(plan: PodPlan, view: PodView, adaptation: Adaptation) -> None:
    mounted = {mount.volume for container in plan.containers for mount in container.mounts}
    for name in mounted | set(plan.files):
        folder = view.volume(name)
        folder.mkdir(parents=True)
        for path, text in plan.files.get(name, {}).items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(adaptation.text(view.loopback(text)), encoding="utf-8")
