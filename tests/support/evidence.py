"""Run a program of `tools/evidence` with simulated engines."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.deployments import ROOT

_LIMIT_SECONDS = 300
"""Ends a run that hangs."""


def run_simulated(module: str, *arguments: str | Path) -> None:
    """Run `tools.evidence.<module>` with `--simulate` and `arguments`.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    # the engines are started as `python3`
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": ":".join(str(ROOT / path) for path in ("constructs", "router", "router/simulator")),
    }
    subprocess.run(
        [sys.executable, "-m", f"tools.evidence.{module}", "--simulate", *arguments],
        cwd=ROOT,
        env=environment,
        check=True,
        capture_output=True,
        timeout=_LIMIT_SECONDS,
    )
