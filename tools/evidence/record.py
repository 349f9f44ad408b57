"""What a run says of itself and of what it saw, on disk as it comes."""

import json
import platform
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from tools.evidence.engines import REPLACED


class Record:
    """Results as JSON lines, on disk as they come, so that an interrupted run still tells what it saw."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)
        self._begin = time.monotonic()

    def write(self, what: str, **data: Any) -> None:
        """Write one result."""
        line = json.dumps({"at_seconds": round(time.monotonic() - self._begin, 1), "what": what, **data})
        self._file.write(line + "\n")
        print(line, flush=True)

    def setting(self, *, simulated: bool) -> None:
        """Write what the results depend on: date, versions, GPUs, what was replaced, the command line."""
        self.write(
            "setting",
            date=time.strftime("%Y-%m-%d"),
            simulated=simulated,
            versions=_versions("vllm", "lmcache", "nixl", "torch", "aiohttp", "pyzmq"),
            python=platform.python_version(),
            gpu=_gpu(),
            replaced=REPLACED,
            arguments=sys.argv[1:],
        )


def _versions(*names: str) -> dict[str, str | None]:
    versions: dict[str, str | None] = {}
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return versions


def _gpu() -> str | None:
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        return None
