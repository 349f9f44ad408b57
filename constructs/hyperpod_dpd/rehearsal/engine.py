"""A simulated worker, in place of `vllm`: takes a rendered command line, and its step times from the planner.

    python -m hyperpod_dpd.rehearsal.engine serve MODEL --port 8000 …

`DPD_REHEARSAL_ENGINE` names a file with what a command line does not say; `engines` writes it.
"""

import dataclasses
import json
import logging
import os
import sys
from pathlib import Path

from dpd_simulator.__main__ import run
from dpd_simulator.arguments import StartupError, parse
from hyperpod_dpd.planner.step import StepModel
from hyperpod_dpd.rehearsal.process import SETTINGS

_REFUSED = 2


def main() -> int:
    """Run until SIGTERM or death; the exit status is that of the engine."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    settings = json.loads(Path(os.environ[SETTINGS]).read_text(encoding="utf-8"))
    try:
        startup = parse([*sys.argv[1:], *settings["arguments"]], os.environ)
    except StartupError as error:
        sys.stderr.write(f"engine: error: {error}\n")
        return _REFUSED
    return run(dataclasses.replace(startup, step_times=StepModel(**settings["step_model"])))


if __name__ == "__main__":
    sys.exit(main())
