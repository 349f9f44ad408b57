"""What the engines of a rehearsal are: real ones where a GPU and the packages are, simulated ones elsewhere."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import which
from typing import Final, Protocol

from hyperpod_dpd.lint.model import Router, Worker

_PACKAGES: Final = ("vllm", "lmcache", "nixl")
_LOOK_SECONDS: Final = 30


class Engines(Protocol):
    """Turns what the manifests say of workers and routers into what runs here."""

    @property
    def simulated(self) -> bool:
        """Whether step times come from the planner, and faults can be injected into engines."""
        ...

    @property
    def programs(self) -> Path:
        """Folder of programs that goes first in `PATH`."""
        ...

    @property
    def probe_speed(self) -> float:
        """How many times as often as the manifests say probes run."""
        ...

    @property
    def replaced(self) -> tuple[str, ...]:
        """What differs from the manifests because of these engines, for the report."""
        ...

    def variables(self, worker: Worker, *, address: str, names: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that `worker` gets on top of its own.

        Args:
            worker: an engine.
            address: of its pod.
            names: what it resolves.

        Raises:
            RefusedError: it cannot run here.
        """
        ...

    def command(self, worker: Worker, words: Sequence[str], *, address: str) -> list[str]:
        """Return the command of `worker` as it runs here."""
        ...

    def router_command(self, router: Router, words: Sequence[str]) -> list[str]:
        """Return the command of `router` as it runs here."""
        ...

    def text(self, text: str, *, address: str, names: Mapping[str, str]) -> str:
        """Return a file of a worker's volume as it is read here."""
        ...


def gpus() -> int:
    """Return how many GPUs `nvidia-smi` lists; 0 where there is none."""
    if which("nvidia-smi") is None:
        return 0
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--list-gpus"],  # noqa: S607 -- wherever the driver has put it
            capture_output=True,
            text=True,
            timeout=_LOOK_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        # a driver that hangs has no GPU that an engine could use
        return 0
    return sum(line.startswith("GPU ") for line in listed.stdout.splitlines()) if not listed.returncode else 0


def interpreter_with_engines() -> str | None:
    """Return the interpreter behind `vllm` if it has LMCache and NIXL as well; None where something is missing."""
    script = which("vllm")
    if script is None:
        return None
    code = f"import importlib.util as u, sys; sys.exit(any(u.find_spec(n) is None for n in {_PACKAGES!r}))"
    try:
        first = Path(script).read_bytes()[:200].split(b"\n", 1)[0].decode(errors="replace")
        interpreter = first.removeprefix("#!").strip()
        if not first.startswith("#!") or not Path(interpreter).is_file():
            return None
        done = subprocess.run(  # noqa: S603 -- the interpreter of the installed program
            [interpreter, "-c", code], capture_output=True, timeout=_LOOK_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return interpreter if done.returncode == 0 else None
