"""Time of rendering manifests: one profile beyond the start of jsii, and fifty deployments in one process.

Two limits, both against a floor of the same run, because a machine's speed is nobody's merit. Processor time is
counted, ours and that of jsii's Node process, because others on the machine only add to the clock on the wall:

- a process that renders one profile takes at most 0.5 s more than one that only starts jsii with the same packages,
- the last ten of fifty deployments cost at most 1.3 times the first ten: cost grows linearly.
"""

import dataclasses
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from hyperpod_dpd.serving.profile import Profile
from hyperpod_dpd.serving.render import render
from hyperpod_dpd.spec.load import load

ROOT = Path(__file__).resolve().parent.parent
DEPLOYMENT = ROOT / "deployments" / "llama-3.3-70b-p5.yaml"

BEYOND_JSII_SECONDS = 0.5
LINEAR_FACTOR = 1.3
DEPLOYMENTS = 50
EDGE = 10
ROUNDS = 5

_START_JSII = """
import cdk8s, cdk8s_plus_27
chart = cdk8s.Chart(cdk8s.App(), "chart")
cdk8s.ApiObject(chart, "object", api_version="v1", kind="Thing")
chart.to_json()
"""

_RENDER = f"""
from hyperpod_dpd.serving.profile import Profile
from hyperpod_dpd.serving.render import render
from hyperpod_dpd.spec.load import load
render(load({str(DEPLOYMENT)!r}).deployment, Profile.SELF_MANAGED).texts()
"""


def process_seconds(code: str) -> float:
    """Return the processor time of an interpreter that runs `code`, its children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def one_profile() -> bool:
    """Measure both processes in turns and compare their best times."""
    floors, renders = [], []
    for _ in range(ROUNDS):
        floors.append(process_seconds(_START_JSII))
        renders.append(process_seconds(_RENDER))
    floor, rendered = min(floors), min(renders)
    beyond = rendered - floor
    print(
        f"render one profile: {rendered:.2f} s, of which jsii {floor:.2f} s; "
        f"beyond it {beyond:.2f} s (limit {BEYOND_JSII_SECONDS} s)"
    )
    return beyond <= BEYOND_JSII_SECONDS


def seconds_so_far() -> float:
    """Return the processor time of this process and of its living children, jsii's Node process among them."""
    total = time.process_time()
    ticks = os.sysconf("SC_CLK_TCK")
    for children in Path("/proc/self/task").glob("*/children"):
        for child in children.read_text(encoding="utf-8").split():
            fields = Path(f"/proc/{child}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / ticks
    return total


def fifty_deployments() -> bool:
    """Render fifty deployments in this process and compare the first ten with the last ten."""
    deployment = load(DEPLOYMENT).deployment
    # what is done once per process, such as compiling on the JavaScript side, is behind us after these
    for _ in range(EDGE):
        render(deployment, Profile.SELF_MANAGED).texts()
    marks = [seconds_so_far()]
    for number in range(DEPLOYMENTS):
        render(dataclasses.replace(deployment, name=f"deployment-{number}"), Profile.SELF_MANAGED).texts()
        marks.append(seconds_so_far())
    first, last = marks[EDGE] - marks[0], marks[-1] - marks[-1 - EDGE]
    print(
        f"render {DEPLOYMENTS} deployments in one process: {marks[-1] - marks[0]:.1f} s; first ten {first:.2f} s, "
        f"last ten {last:.2f} s, ratio {last / first:.2f} (limit {LINEAR_FACTOR})"
    )
    return last <= first * LINEAR_FACTOR


def main() -> int:
    """Run both measurements and return 1 when a limit is exceeded."""
    return 0 if all([one_profile(), fifty_deployments()]) else 1


if __name__ == "__main__":
    sys.exit(main())
