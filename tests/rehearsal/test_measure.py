"""What is sent, what is measured, and what it is compared with."""

import math
from pathlib import Path

import pytest

from hyperpod_dpd.planner.workload import ClosedLoop, FixedLengths
from hyperpod_dpd.rehearsal.measure import Measurement, observe
from hyperpod_dpd.rehearsal.metrics import parse
from hyperpod_dpd.rehearsal.plan import plan_rehearsal
from hyperpod_dpd.rehearsal.prediction import predict, shape_of
from hyperpod_dpd.rehearsal.prompts import requests
from hyperpod_dpd.rehearsal.traffic import Answer, Ending
from tests.rehearsal.support import RENDERED, deployment
from tests.support.deployments import ROOT, ready

OUTPUT_TOKENS = 11
LOOP = ClosedLoop(concurrency=64, lengths=FixedLengths(input_tokens=4096, output_tokens=256), requests=128)


def answer(issued: float, first: float, finished: float, ending: Ending = Ending.ANSWERED) -> Answer:
    return Answer(
        input_tokens=4096,
        output_tokens=OUTPUT_TOKENS,
        issued=issued,
        first_token=first,
        finished=finished,
        ending=ending,
        path="direct",
    )


def test_figures_are_those_of_answered_requests_only() -> None:
    answers = [
        answer(0.0, 1.0, 2.0),
        answer(0.0, 2.0, 5.0),
        answer(0.0, 0.5, math.nan, Ending.LEFT),
        answer(1.0, math.nan, math.nan, Ending.REFUSED),
    ]
    seen = observe(answers)
    assert seen is not None
    assert (seen.requests, seen.seconds) == (2, 5.0)
    assert seen.ttft_mean_seconds == 1.5
    assert seen.tpot_mean_seconds == pytest.approx(0.2)
    assert seen.tpot_p95_seconds == pytest.approx(0.3)
    assert seen.output_tokens_per_second == pytest.approx(22 / 5)
    assert observe(answers[2:]) is None


def test_counters_are_told_apart_by_labels_and_start_again_with_their_process() -> None:
    before = parse('a_total{x="1",y="2"} 5\na_total{x="2",y="2"} 1\nb 3\n')
    after = parse('a_total{x="1",y="2"} 7\na_total{x="2",y="2"} 0.5\nb 4\n')
    grown = after.since(before)
    assert grown.sum("a_total", y="2") == 2.5
    assert grown.by("a_total", "x") == {"1": 2.0, "2": 0.5}


def test_prompts_are_never_alike_and_the_same_for_the_same_seed() -> None:
    lengths = FixedLengths(input_tokens=64, output_tokens=4)
    first, second = (
        [next(source).body for _ in range(20)]
        for source in (requests("m", lengths, seed=7) for _ in range(2))
    )
    assert first == second
    assert len(set(first)) == 20


def test_a_run_says_how_far_it_is_from_the_planner() -> None:
    shape = shape_of(plan_rehearsal([RENDERED / "baseline"], deployment()))
    assert shape is not None
    predicted = predict(deployment(), shape, LOOP)
    assert predicted.tpot_seconds is not None
    tokens = OUTPUT_TOKENS - 1
    run = Measurement(
        users=1,
        seed=1,
        sent=(),
        answers=(answer(0.0, 0.0, 1.2 * predicted.tpot_seconds.mean * tokens),),
        observed=observe([answer(0.0, 0.0, 1.2 * predicted.tpot_seconds.mean * tokens)]),
        predicted=predicted,
        counted=parse('dpd_router_decisions_total{decision="direct",reason="x"} 1\n'),
        real_seconds=1.0,
    )
    assert run.tpot_difference == pytest.approx(0.2)
    assert run.agrees is False
    written = run.as_run()
    assert written.router == {'dpd_router_decisions_total{decision="direct",reason="x"}': 1.0}
    assert (written.requests[0].path, written.requests[0].output_tokens) == ("direct", 11)


def test_the_shape_is_that_of_the_manifests() -> None:
    dpd = shape_of(plan_rehearsal([RENDERED / "self-managed"], deployment()))
    assert dpd is not None
    assert (dpd.prefillers, dpd.decoders, dpd.max_num_seqs, dpd.gpus_per_worker) == (1, 1, 32, 8)
    colocated = shape_of(plan_rehearsal([RENDERED / "baseline"], deployment()))
    assert colocated is not None
    assert (colocated.prefillers, colocated.decoders, colocated.max_num_seqs) == (0, 2, 1024)
    tuned = shape_of(plan_rehearsal([RENDERED / "baseline-tuned"], deployment()))
    assert tuned is not None
    assert tuned.max_num_batched_tokens < colocated.max_num_batched_tokens


def test_colocated_workers_on_two_instance_types_are_nothing_the_planner_knows() -> None:
    mixed = ready("llama-3.3-70b-p5-p5en")
    folder = ROOT / "manifests/rendered" / mixed.name
    assert shape_of(plan_rehearsal([folder / "baseline"], mixed)) is None
    dpd = shape_of(plan_rehearsal([folder / "self-managed"], mixed))
    assert dpd is not None
    assert dpd.mixed


def test_the_prediction_knows_that_the_router_waits_in_real_seconds(tmp_path: Path) -> None:
    shape = shape_of(plan_rehearsal([RENDERED / "self-managed"], deployment()))
    assert shape is not None
    real = predict(deployment(), shape, LOOP)
    compressed = predict(deployment(), shape, LOOP, compression=10)
    # 64 prompts do not fit into the buffer at once: with a longer wait more of them are handed over
    assert real.disaggregated_share < compressed.disaggregated_share == 1.0
