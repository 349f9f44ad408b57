"""One container as a process: environment and paths as in its pod, probes, restarts."""

import asyncio
import contextlib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import aiohttp

from hyperpod_dpd.rehearsal.beside import beside
from hyperpod_dpd.rehearsal.pods import ContainerPlan, Probe
from hyperpod_dpd.rehearsal.process import LocalProcess

_RESTART_DELAYS_SECONDS: Final = (0, 10, 20, 40, 80, 160, 300)
"""The kubelet's back-off."""

_REFERENCE: Final = re.compile(r"\$\$|\$\(([^()]*)\)")
_LOOPBACK: Final = re.compile(r"(?<![\w.-])(?:127\.0\.0\.1|localhost)(?![\w.-])")


class PodView:
    """What a container sees of its pod: address, fields and folders."""

    def __init__(self, *, folder: Path, address: str, fields: Mapping[str, str]) -> None:
        self.folder = folder
        self.address = address
        self.fields = fields

    def volume(self, name: str) -> Path:
        """Return the folder of a volume."""
        return self.folder / "volumes" / name

    def local(self, text: str, plan: ContainerPlan) -> str:
        """Return `text` with mounted paths as paths of this machine, and the pod's own loopback as its address."""
        places = {mount.path.rstrip("/"): self.volume(mount.volume) for mount in plan.mounts}
        if places:
            longest_first = sorted(places, key=len, reverse=True)
            pattern = re.compile(rf"(?<![\w./-])({'|'.join(map(re.escape, longest_first))})(?![\w.-])")
            text = pattern.sub(lambda match: str(places[match.group(1)]), text)
        return self.loopback(text)

    def loopback(self, text: str) -> str:
        """Return `text` with 127.0.0.1 as the pod's own address: pods of this machine share the real one."""
        return _LOOPBACK.sub(self.address, text)


def environment_of(plan: ContainerPlan, pod: PodView) -> dict[str, str]:
    """Return the variables of a container, references to earlier ones written out as the kubelet does."""
    found: dict[str, str] = {}
    for variable in plan.environment:
        if variable.field is not None:
            found[variable.name] = pod.fields.get(variable.field, "")
        else:
            found[variable.name] = pod.local(expanded(variable.text or "", found), plan)
    return found


def expanded(text: str, environment: Mapping[str, str]) -> str:
    """Write `$(NAME)` out; unknown names stay as they are, and `$$` is a dollar."""

    def value(match: re.Match[str]) -> str:
        if match.group(0) == "$$":
            return "$"
        return environment.get(match.group(1), match.group(0))

    return _REFERENCE.sub(value, text)


class LocalContainer:
    """A container that is kept running until its pod ends."""

    def __init__(
        self,
        plan: ContainerPlan,
        pod: PodView,
        *,
        image: Mapping[str, str],
        extra: Mapping[str, str],
        adapt: Callable[[list[str]], list[str]],
        probe_speed: float,
        logs: Path,
        http: aiohttp.ClientSession,
        changed: Callable[[], None],
    ) -> None:
        """Describe it; `run` starts it.

        Args:
            plan: the container.
            pod: its pod.
            image: variables of its image, over which the container's own go.
            extra: variables of the rehearsal, which come after the container's own.
            adapt: turns its command into what runs here.
            probe_speed: how many times as often as the manifest says probes run, and how much shorter a crashed
                container waits.
            logs: file of what it writes.
            http: what probes ask with.
            changed: called when it becomes ready, unready, or restarts.
        """
        self.plan = plan
        self.ready = False
        self.restarts = 0
        self.crashes = 0
        """Ends since it was last ready."""

        self.last_probe = ""
        self.exit_codes: list[int] = []
        self.log = logs
        self._pod = pod
        self._http = http
        self._changed = changed
        self._ending = asyncio.Event()
        self._process: LocalProcess | None = None
        own = environment_of(plan, pod)
        self._environment = {**image, "HOME": str(pod.folder), **own, **extra}
        self._speed = probe_speed
        self.command = adapt([pod.local(expanded(word, own), plan) for word in plan.command])

    @property
    def running(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.code is None

    async def run(self) -> None:
        """Start it, and start it again whenever it ends, until `stop`."""
        while not self._ending.is_set():
            self._process = await LocalProcess.start(
                self.command, environment=self._environment, log=self.log
            )
            async with beside(self._probe(self._process), f"probes {self.plan.name}"):
                self.exit_codes.append(await self._process.wait())
            self._set_ready(ready=False)
            if self._ending.is_set():
                return
            delay = _RESTART_DELAYS_SECONDS[min(self.restarts, len(_RESTART_DELAYS_SECONDS) - 1)]
            self.restarts += 1
            self.crashes += 1
            self._changed()
            await asyncio.sleep(delay / self._speed)

    def kill(self, *, for_good: bool = False) -> None:
        """End its process at once; it is started again, as after a crash, unless it is `for_good`."""
        if for_good:
            self._ending.set()
        if self._process is not None:
            self._process.kill()

    async def stop(self, grace_seconds: float) -> int | None:
        """End it for good: SIGTERM, and SIGKILL after the grace period. Return the exit status."""
        self._ending.set()
        return None if self._process is None else await self._process.stop(grace_seconds)

    async def pre_stop(self, grace_seconds: float) -> None:
        """Run what the manifest wants before SIGTERM."""
        hook = self.plan.pre_stop
        if hook is None or not self.running:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await asyncio.sleep(hook.sleep_seconds)
                if hook.command:
                    await self._execute(hook.command)

    async def _execute(self, command: tuple[str, ...]) -> None:
        words = [self._pod.local(expanded(word, self._environment), self.plan) for word in command]
        process = await LocalProcess.start(words, environment=self._environment, log=self.log)
        try:
            await process.wait()
        finally:
            process.kill()

    # -- probes -----------------------------------------------------------------------------------------------------

    async def _probe(self, process: LocalProcess) -> None:
        plan = self.plan
        if plan.startup is not None and not await self._succeeds(plan.startup):
            process.kill()
            return
        if plan.readiness is None:
            self._set_ready(ready=True)
        async with asyncio.TaskGroup() as group:
            if plan.readiness is not None:
                group.create_task(self._readiness(plan.readiness))
            if plan.liveness is not None:
                group.create_task(self._liveness(plan.liveness, process))

    async def _succeeds(self, probe: Probe) -> bool:
        await asyncio.sleep(probe.initial_delay_seconds / self._speed)
        for _ in range(probe.failure_threshold):
            if await self._ask(probe):
                return True
            await asyncio.sleep(probe.period_seconds / self._speed)
        return False

    async def _readiness(self, probe: Probe) -> None:
        await asyncio.sleep(probe.initial_delay_seconds / self._speed)
        failures = 0
        while True:
            failures = 0 if await self._ask(probe) else failures + 1
            if not failures:
                self._set_ready(ready=True)
            elif failures >= probe.failure_threshold:
                self._set_ready(ready=False)
            await asyncio.sleep(probe.period_seconds / self._speed)

    async def _liveness(self, probe: Probe, process: LocalProcess) -> None:
        await asyncio.sleep(probe.initial_delay_seconds / self._speed)
        failures = 0
        while failures < probe.failure_threshold:
            await asyncio.sleep(probe.period_seconds / self._speed)
            failures = 0 if await self._ask(probe) else failures + 1
        process.kill()

    async def _ask(self, probe: Probe) -> bool:
        url = f"http://{self._pod.address}:{probe.port}{probe.path}"
        try:
            timeout = aiohttp.ClientTimeout(total=probe.timeout_seconds)
            async with self._http.get(url, timeout=timeout) as answer:
                self.last_probe = f"{probe.path} answered {answer.status}"
                return 200 <= answer.status < 400
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self.last_probe = f"{probe.path}: {str(error) or type(error).__name__}"
            return False

    def _set_ready(self, *, ready: bool) -> None:
        if ready != self.ready:
            self.ready = ready
            self.crashes = 0 if ready else self.crashes
            self._changed()


def base_environment(programs: Path) -> dict[str, str]:
    """Return what every process needs of this machine: where programs are, and how texts are encoded."""
    return {
        "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
    }
