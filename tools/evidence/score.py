"""How far the planner is from what `tools.evidence.isolation` measured, figure by figure.

The planner sees the same deployment file, the same users and the same lengths, and nothing of the results.

    python -m tools.evidence.score RESULTS.jsonl ...
"""

import argparse
import json
import random
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
from hyperpod_dpd.planner.workload import ClosedLoop, Lengths
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.load import load
from tools.evidence.isolation import Traffic, fixed, mixed

_SEED: Final = "planner"
"""Of the order of long and short prompts, which is another one than the engines had."""


class InTurn:
    """The prompts of some traffic, one after the other."""

    def __init__(self, traffic: Traffic) -> None:
        self._prompts = iter(traffic.prompts)
        self._output_tokens = traffic.output_tokens

    def draw(self, random_source: random.Random) -> Lengths:  # noqa: ARG002
        """See `LengthSource`."""
        return Lengths(input_tokens=next(self._prompts), output_tokens=self._output_tokens)


@dataclass(frozen=True, kw_only=True)
class Score:
    """One figure, measured and predicted."""

    arrangement: str
    traffic: str
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


def predicted(deployment: Deployment, arrangement: str, traffic: Traffic, gpus: int) -> Summary:
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
    loop = ClosedLoop(concurrency=traffic.users, requests=len(traffic.prompts), lengths=InTurn(traffic))
    return summarize(simulate(system, loop))


def _budget(deployment: Deployment, arrangement: str) -> int:
    if arrangement == "colocated-tuned":
        return deployment.serving.baseline.tuned_max_num_batched_tokens
    return VLLM_DEFAULTS.max_num_batched_tokens


def scores(deployment: Deployment, *results: Path) -> Iterator[Score]:
    """Yield every figure of every arrangement, traffic and number of users; repetitions are averaged."""
    grouped: dict[tuple[str, str, int, int], list[dict[str, Any]]] = defaultdict(list)
    for result in runs(*results):
        key = result["arrangement"], result["traffic"], result["users"], result["gpus"]
        grouped[key].append(result)
    for (arrangement, traffic, users, gpus), repeated in grouped.items():
        sent = fixed(users) if traffic == "fixed" else mixed(users, _SEED)
        expected = predicted(deployment, arrangement, sent, gpus)
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
                traffic=traffic,
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
        "| arrangement | traffic | users | GPUs | figure | measured | planner | error |",
        "| --- " * 8 + "|",
        sep="\n",
    )
    for score in scores(load(options.deployment).deployment, *options.results):
        print(
            f"| {score.arrangement} | {score.traffic} | {score.users} | {score.gpus} | {score.figure}"
            f" | {score.measured:.1f} | {score.predicted:.1f} | {score.error_percent:+.1f} % |"
        )


if __name__ == "__main__":
    main()
