"""Every benchmark of `make bench`, one after the other; each compares with a floor measured in the same run."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent

# The first needs routers that a fresh checkout does not have, see its docstring; the second is a floor, not a benchmark.
NOT_HERE = {"bench_router", "bench_synth_bare"}


def main() -> int:
    names = sorted(file.stem for file in FOLDER.glob("bench_*.py") if file.stem not in NOT_HERE)
    slow = []
    for name in names:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"tools.{name}"], cwd=FOLDER.parent, check=False).returncode:
            slow.append(name)
    for name in slow:
        print(f"error: `{name}` is above its limit", file=sys.stderr)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
