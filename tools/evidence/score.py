"""How far the planner is from what `tools.evidence.isolation` measured, figure by figure.

The planner sees the same deployment file, the same users and the same lengths, and nothing of the results.

    python -m tools.evidence.score RESULTS.jsonl ...
"""

import argparse
import json
import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hyperpod_dpd.catalog.vllm_defaults import VLLM_DEFAULTS
from hyperpod_dpd.derive import resolve
from hyperpod_dpd.planner.shape import Shape
from hyperpod_dpd.planner.simulation import simulate
from hyperpod_dpd.planner.summary import Summary, summarize
from hyperpod_dpd.planner.workbench import Workbench
from hyperpod_dpd.planner.workload import ClosedLoop, FixedLengths
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.load import load

OUTPUT_TOKENS: Final = 256
INPUT_TOKENS: Final = 4096


@dataclass(frozen=True, kw_only=True)
class Score:
    """One figure, measured and predicted."""

    arrangement: str
    users: int
    gpus: int
    figure: str
    measured: float
    predicted: float

    @property
    def error_percent(self) -> float:
        """Prediction against measurement."""
        return 100 * (self.predicted / self.measured - 1)


def runs(*paths: Path) -> Iterator[dict[str, Any]]:
    """Yield the runs in the results of `tools.evidence.isolation`."""
    for path in paths:
        for line in path.read_text(encoding="utf-8").splitlines():
            result = json.loads(line)
            if result["what"] == "run":
                yield result


def predicted(deployment: Deployment, arrangement: str, users: int, gpus: int, requests: int) -> Summary:
    """Return what the planner expects of an arrangement."""
    facts = resolve(deployment)
    disaggregated = arrangement == "disaggregated"
    instance = facts.decode.instance
    shape = Shape(
        prefillers=1 if disaggregated else 0,
        decoders=1 if disaggregated else gpus,
        prefill_instance=instance,
        decode_instance=instance,
        gpus_per_worker=1,
        max_num_batched_tokens=_budget(deployment, arrangement),
        max_num_seqs=facts.decode.max_num_seqs if disaggregated else VLLM_DEFAULTS.max_num_seqs,
    )
    system = Workbench(deployment, facts).system(shape)
    lengths = FixedLengths(input_tokens=INPUT_TOKENS, output_tokens=OUTPUT_TOKENS)
    return summarize(simulate(system, ClosedLoop(concurrency=users, requests=requests, lengths=lengths)))


def _budget(deployment: Deployment, arrangement: str) -> int:
    if arrangement == "colocated-tuned":
        return deployment.serving.baseline.tuned_max_num_batched_tokens
    return VLLM_DEFAULTS.max_num_batched_tokens


def scores(deployment: Deployment, *results: Path) -> Iterator[Score]:
    """Yield every figure of every arrangement and number of users with fixed lengths; repetitions are averaged."""
    grouped: dict[tuple[str, int, int], list[dict[str, Any]]] = defaultdict(list)
    for result in runs(*results):
        if result["traffic"] == "fixed":
            grouped[result["arrangement"], result["users"], result["gpus"]].append(result)
    for (arrangement, users, gpus), repeated in grouped.items():
        expected = predicted(deployment, arrangement, users, gpus, repeated[0]["requests"])
        assert expected.tpot_seconds is not None
        figures = {
            "tpot mean ms": ([r["tpot"]["mean_ms"] for r in repeated], 1e3 * expected.tpot_seconds.mean),
            "ttft p50 ms": ([r["ttft"]["p50_ms"] for r in repeated], 1e3 * expected.ttft_seconds.p50),
            "e2e mean ms": ([r["e2e"]["mean_ms"] for r in repeated], 1e3 * expected.e2e_seconds.mean),
            "tokens/s/GPU": (
                [r["output_tokens_per_second_per_gpu"] for r in repeated],
                expected.output_tokens_per_second / gpus,
            ),
        }
        for figure, (measured, prediction) in figures.items():
            yield Score(
                arrangement=arrangement,
                users=users,
                gpus=gpus,
                figure=figure,
                measured=statistics.fmean(measured),
                predicted=prediction,
            )


def main() -> None:
    """Print one line a figure, as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--deployment", type=Path, default=Path(__file__).with_name("two-gpus.yaml"))
    options = parser.parse_args()
    print(
        "| arrangement | users | GPUs | figure | measured | planner | error |", "| --- " * 7 + "|", sep="\n"
    )
    for score in scores(load(options.deployment).deployment, *options.results):
        print(
            f"| {score.arrangement} | {score.users} | {score.gpus} | {score.figure} | {score.measured:.1f}"
            f" | {score.predicted:.1f} | {score.error_percent:+.1f} % |"
        )


if __name__ == "__main__":
    main()
