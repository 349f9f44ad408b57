"""What the engines of a rehearsal are: real ones where a GPU and the packages are, simulated ones elsewhere."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import which
from typing import Final, Protocol

from hyperpod_dpd.lint.model import Router, Worker
from hyperpod_dpd.spec.value import record

_PACKAGES: Final = ("vllm", "lmcache", "nixl")
_LOOK_SECONDS: Final = 30
_COLUMNS: Final = 3


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
    def one_by_one(self) -> bool:
        """Whether an engine may start only when the one before it is ready."""
        ...

    @property
    def image(self) -> Mapping[str, str]:
        """Variables that an image would bring along, which go under those of the manifests."""
        ...

    @property
    def replaced(self) -> tuple[str, ...]:
        """What differs from the manifests because of these engines, for the report."""
        ...

    def variables(
        self, worker: Worker, *, address: str, names: Mapping[str, str], place: int
    ) -> dict[str, str]:
        """Return the variables that `worker` gets on top of its own.

        Args:
            worker: an engine.
            address: of its pod.
            names: what it resolves.
            place: number of its pod among those of the plan; a pod that replaces one has the same.

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


@record
class Gpu:
    """A GPU of this machine."""

    device: str
    """What `CUDA_VISIBLE_DEVICES` calls it: its number, or the id that the user has named it by."""

    memory_gib: float


def gpus() -> tuple[Gpu, ...]:
    """Return the GPUs that `nvidia-smi` lists, of these the ones in `CUDA_VISIBLE_DEVICES` where that is set."""
    if which("nvidia-smi") is None:
        return ()
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--query-gpu=index,uuid,memory.total", "--format=csv,noheader,nounits"],  # noqa: S607 -- wherever the driver has put it
            capture_output=True,
            text=True,
            timeout=_LOOK_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        # a driver that hangs has no GPU that an engine could use
        return ()
    rows = [] if listed.returncode else [line.split(", ") for line in listed.stdout.splitlines()]
    found = {name: _gib(row[2]) for row in rows if len(row) == _COLUMNS for name in row[:2]}
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [row[0] for row in rows] if chosen is None else [each.strip() for each in chosen.split(",")]
    return tuple(Gpu(device=name, memory_gib=found[name]) for name in names if found.get(name))


def _gib(mebibytes: str) -> float:
    """Return 0 for `[N/A]`, which stands where a GPU has no memory of its own."""
    return float(mebibytes) / 1024 if mebibytes.isdigit() else 0.0


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
