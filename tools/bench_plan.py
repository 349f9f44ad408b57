"""Speed of the planner: one scenario, a large one, the whole command, and the share of what a naive loop takes.

Processor time is measured, because the clock belongs to the neighbours, too.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hyperpod_dpd.catalog.instances import instance_type
from hyperpod_dpd.catalog.models import model
from hyperpod_dpd.derive import resolve
from hyperpod_dpd.planner.engine import EngineLimits
from hyperpod_dpd.planner.plan import make_plan
from hyperpod_dpd.planner.predict import one_rank_of, run_colocated
from hyperpod_dpd.planner.search import Shapes
from hyperpod_dpd.planner.simulation import simulate
from hyperpod_dpd.planner.step import step_model
from hyperpod_dpd.planner.workbench import Workbench
from hyperpod_dpd.planner.workload import ClosedLoop, FixedLengths
from hyperpod_dpd.spec.load import load
from tools.measure import ROOT, processor_seconds
from tools.naive_engine import run_closed_loop

DEFAULT = ROOT / "deployments" / "llama-3.3-70b-p5.yaml"
LENGTHS = FixedLengths(input_tokens=4096, output_tokens=256)
RANK = one_rank_of(model("llama-3.3-70b-instruct"), 8)
H200 = instance_type("ml.p5en.48xlarge")


@dataclass(frozen=True)
class Row:
    """One measurement."""

    name: str
    value: float
    unit: str
    limit: float

    @property
    def kept(self) -> bool:
        """Whether the promise is kept."""
        return self.value <= self.limit

    def __str__(self) -> str:
        verdict = "ok" if self.kept else "TOO SLOW"
        return f"{self.name}: {self.value:.3g} {self.unit} (limit {self.limit:g} {self.unit}) {verdict}"


def measure() -> list[Row]:
    """Return every row; takes about ten seconds on one core."""
    return [
        Row("colocated scenario, 50 requests, C=32", 1e3 * _best(_colocated), "ms", 15),
        Row("1P:1D scenario, 50 requests, C=32", 1e3 * _best(_disaggregated), "ms", 15),
        Row("colocated, 100,000 requests, C=512", _once(_large), "s", 30),
        Row("200 requests, C=32, share of a naive loop", _share_of_naive(), "", 0.25),
        Row("dpd plan, whole process", _command(), "s", 1),
        Row("full search", _once(_full_search), "s", 10),
    ]


def _best(work: Callable[[], object], repeats: int = 7) -> float:
    return min(_once(work) for _ in range(repeats))


def _once(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def _colocated() -> None:
    run_colocated(RANK, H200, ClosedLoop(concurrency=32, requests=50, lengths=LENGTHS))


def _disaggregated() -> None:
    deployment = load(DEFAULT).deployment
    facts = resolve(deployment)
    bench = Workbench(deployment, facts)
    system = bench.system(Shapes(deployment, facts, bench).deployed())
    begin = ClosedLoop(concurrency=32, requests=50, lengths=LENGTHS)
    simulate(system, begin)


def _large() -> None:
    run_colocated(RANK, H200, ClosedLoop(concurrency=512, requests=100_000, lengths=LENGTHS))


def _share_of_naive() -> float:
    times = step_model(RANK, H200.gpu, tensor_parallel=1)
    limits = EngineLimits(max_num_batched_tokens=8192, max_num_seqs=1024, kv_tokens=10**9)
    naive = _best(lambda: run_closed_loop(times, limits, [(4096, 256)] * 200, 32, 8e-3), repeats=3)
    ours = _best(lambda: run_colocated(RANK, H200, ClosedLoop(concurrency=32, requests=200, lengths=LENGTHS)))
    return ours / naive


def _command() -> float:
    command = (str(Path(sys.executable).with_name("dpd")), "plan", str(DEFAULT))
    return min(processor_seconds(command) for _ in range(5))


def _full_search() -> None:
    make_plan(load(DEFAULT).deployment, full=True)


def main() -> int:
    rows = measure()
    for row in rows:
        print(row)
    return int(not all(row.kept for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
