"""Every benchmark of `make bench`, one after the other; each compares with a floor measured in the same run."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent

# Needs routers that a fresh checkout does not have; its docstring says which.
BY_HAND = {"bench_router"}


def main() -> int:
    names = sorted(file.stem for file in FOLDER.glob("bench_*.py") if file.stem not in BY_HAND)
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
