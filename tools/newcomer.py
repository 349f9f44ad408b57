"""Walk the path of somebody who has just cloned the repository, and time each step.

clone, `make synth`, change the instance type, read what that does, plan, ask an (emulated) account. Ends with 1 when a step does
not do what a newcomer is told that it does. `--write` records the times in docs/evidence/newcomer-path.md.
"""

import logging
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from moto.server import ThreadedMotoServer

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "evidence" / "newcomer-path.md"
FILE = "deployments/llama-3.3-70b-p5.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that a newcomer types."""

    what: str
    command: str
    codes: frozenset[int] = frozenset({0})
    """Exit codes that mean that it worked."""
    says: str
    """What the output must say."""


STEPS = (
    Step(what="clone", command="git clone --quiet {origin} .", says=""),
    Step(what="synthesize", command="make synth", says=r"instance groups at list price: \$126\.60/h"),
    Step(
        what="change the instance type",
        command=f"cp {FILE} before.yaml && sed -i s/ml.p5.48xlarge/ml.p5en.48xlarge/ {FILE}",
        says="",
    ),
    Step(
        what="read what that does",
        command=f".venv/bin/dpd diff before.yaml {FILE}",
        codes=frozenset({0, 1}),
        says=r"ml\.p5en\.48xlarge",
    ),
    Step(what="synthesize again", command="make synth", says=r"2 x ml\.p5en|1 x ml\.p5en"),
    Step(
        what="read the manifests' difference",
        command="git diff --stat manifests/rendered",
        says=r"prefill\.yaml",
    ),
    Step(
        what="plan",
        command=f".venv/bin/dpd plan {FILE}",
        says=r"verdict:",
    ),
    Step(
        what="ask the account",
        command=f".venv/bin/dpd preflight {FILE}",
        # moto has no quotas: what it cannot answer is unknown, and what it answers may be wrong
        codes=frozenset({1, 3}),
        says=r"account 123456789012 in us-east-1: \d+ checks",
    ),
)

HEAD = """\
<!-- written by `python -m tools.newcomer --write` -->
# A newcomer's path

From a clone to an answer of the account, typed by `make newcomer`, on {day} on {cores} cores (load {load:.0f} at the start). The
packages were in this machine's caches; a first run also downloads them. The account is emulated by moto, which knows no
quotas, so part of the checks end as unknown.

| step | command | seconds | its last line |
| --- | --- | --- | --- |
"""


def main() -> int:
    rows, failed = [], []
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="newcomer-") as folder, emulated_account() as address:
        for step in STEPS:
            seconds, code, output = run(step, Path(folder), address)
            last = next((line for line in reversed(output.splitlines()) if line.strip()), "").strip()
            rows.append(
                f"| {step.what} | `{step.command.format(origin='URL')}` | {seconds:.1f} | {_cell(last)} |"
            )
            print(f"{step.what}: {seconds:.1f} s, exit {code}", flush=True)
            if code not in step.codes or not re.search(step.says, output):
                failed.append(f"`{step.command}` ended with {code} and said:\n{output}")
                break
    for failure in failed:
        print(f"error: {failure}", file=sys.stderr)
    if "--write" in sys.argv[1:] and not failed:
        head = HEAD.format(day=datetime.now(tz=UTC).date(), cores=os.cpu_count(), load=load)
        PAGE.write_text(head + "\n".join(rows) + "\n", encoding="utf-8")
    return 1 if failed else 0


def _cell(line: str) -> str:
    shown = (line if len(line) <= 120 else f"{line[:119]}…").replace("|", "\\|")
    fence = "``" if "`" in shown else "`"
    space = " " if "`" in shown else ""
    return f"{fence}{space}{shown}{space}{fence}" if shown else "–"


def run(step: Step, folder: Path, address: str) -> tuple[float, int, str]:
    """Type the step's command in `folder`, and return how long it took, its exit code and its output."""
    # make hands its own settings down to whatever it starts
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MAKE", "MFLAGS", "AWS_", "JSII_"))
    }
    environment = {
        **kept,
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    started = time.monotonic()
    done = subprocess.run(
        ["bash", "-c", step.command.format(origin=ROOT)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return time.monotonic() - started, done.returncode, done.stdout


@contextmanager
def emulated_account() -> Iterator[str]:
    """Serve an empty account on a free port of this machine."""
    # a traceback for each call that moto does not know would hide the path's own lines
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
