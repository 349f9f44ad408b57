"""Processes that leave nothing behind: a group of their own, which ends with the rehearsal whatever happens to it."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

MARK: Final = "DPD_REHEARSAL"
"""Variable that every process of a rehearsal carries, with the rehearsal's id."""

SETTINGS: Final = "DPD_REHEARSAL_ENGINE"
"""Variable that names the file with what a simulated engine cannot read from its command line."""

_LAUNCH: Final = Path(__file__).with_name("launch.py")
_TAIL_BYTES: Final = 4096
_GOING_SECONDS: Final = 1.0
_REPLACING_SECONDS: Final = 0.002
_REPLACING_ATTEMPTS: Final = 20


class LocalProcess:
    """One program in a process group of its own."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self.log = log

    @classmethod
    async def start(
        cls, command: Sequence[str], *, environment: Mapping[str, str], log: Path
    ) -> "LocalProcess":
        """Start `command`; what it writes goes to the file `log`.

        Args:
            command: program and arguments.
            environment: all of its variables; `PATH` finds the program.
            log: file that is appended to.
        """
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-IS",
                str(_LAUNCH),
                str(os.getpid()),
                *command,
                env=dict(environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        return cls(process, log)

    @property
    def code(self) -> int | None:
        """Exit status; None while it runs."""
        return self._process.returncode

    async def wait(self) -> int:
        """Wait for its end and return the exit status; what it started and left behind ends with it."""
        code = await self._process.wait()
        self._signal(signal.SIGKILL)
        await self._emptied()
        return code

    def terminate(self) -> None:
        """Ask it to end, as Kubernetes does: SIGTERM to the container's first process."""
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the whole group at once."""
        self._signal(signal.SIGKILL)

    async def stop(self, grace_seconds: float) -> int:
        """Ask it to end, and end it after `grace_seconds`; return the exit status."""
        self.terminate()
        try:
            async with asyncio.timeout(grace_seconds):
                return await self.wait()
        except TimeoutError:
            self.kill()
            return await self.wait()

    def tail(self, lines: int = 8) -> str:
        """Return the last lines that it wrote."""
        return tail(self.log, lines)

    async def _emptied(self) -> None:
        """Wait until the group has gone: a killed process takes a moment. One that nobody collects is no process."""
        with contextlib.suppress(ProcessLookupError, PermissionError, TimeoutError):
            async with asyncio.timeout(_GOING_SECONDS):
                while True:
                    os.killpg(self._process.pid, 0)
                    await asyncio.sleep(0.002)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def tail(log: Path, lines: int = 8) -> str:
    """Return the last lines of a file; nothing where there is none."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = stream.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def left_behind(identity: str) -> list[str]:
    """Return the processes of the rehearsal `identity` that are there, this one left out (Linux; else nothing)."""
    return [f"{number}: {command}" for number, command in marked(identity).items()]


def marked(identity: str) -> dict[int, str]:
    """Return number and command of the processes that carry the mark of the rehearsal `identity`, this one left out."""
    wanted = f"{MARK}={identity}".encode()
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        if int(folder.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if wanted in _environment(folder).split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[int(folder.name)] = command.strip()
    return found


def _environment(folder: Path) -> bytes:
    """Return what /proc tells of the variables of a process.

    While a process replaces its program (`execve`) its environment reads as empty, and it would be missed: asked again.
    A thread of the kernel and a process that nobody collects have no program and no variables.
    """
    for _ in range(_REPLACING_ATTEMPTS):
        content = (folder / "environ").read_bytes()
        if content:
            return content
        (folder / "exe").readlink()
        time.sleep(_REPLACING_SECONDS)
    return b""
