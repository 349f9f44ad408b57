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
        AssertionError: it failed; the text is what it said.
    """
    # the engines are started as `python3`
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": ":".join(str(ROOT / path) for path in ("constructs", "router", "router/simulator")),
    }
    done = subprocess.run(
        [sys.executable, "-m", f"tools.evidence.{module}", "--simulate", *arguments],
        cwd=ROOT,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=_LIMIT_SECONDS,
    )
    # an exception of `subprocess` would not say what the program said
    assert done.returncode == 0, done.stdout + done.stderr
