"""Pack chart, plugins and tools into one archive for a closed network.

usage: python -m hyperpod_dpd.cluster.dependencies_chart.archive FILE

Run it where the internet is, upload FILE to S3, and name its address and digest under `cluster.dependencies_chart`.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from hyperpod_dpd.cluster.dependencies_chart.environment import download_environment

SCRIPT = Path(__file__).parent / "scripts" / "dependencies.sh"


def main(arguments: Sequence[str]) -> int:
    """Write the archive to the file that `arguments` name and print its SHA-256; return the script's exit code."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    command = ["bash", str(SCRIPT), "archive", str(Path(arguments[0]).absolute())]
    return subprocess.run(command, env={**os.environ, **download_environment()}, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
