"""Figures of a run, intervals, flaws, and what is compared with what."""

import contextlib
import dataclasses
import json
import math
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperpod_dpd.catalog.announcement import ANNOUNCED
from hyperpod_dpd.cli.compare import COMMAND
from hyperpod_dpd.evidence.compare import (
    MEASURES,
    Comparison,
    Difference,
    NotComparableError,
    Row,
    compare,
)
from hyperpod_dpd.evidence.figures import NothingMeasuredError, figures
from hyperpod_dpd.evidence.interval import paired, unpaired
from hyperpod_dpd.evidence.results import (
    AWS_ROUTER,
    DIRECT,
    DISAGGREGATED,
    FALLBACK,
    UNKNOWN,
    BenchmarkResult,
    Run,
    read_result,
)
from hyperpod_dpd.evidence.soundness import flaws
from tests.evidence.benchmarks import (
    COLOCATED,
    CONNECTION,
    DPD,
    TRAFFIC,
    colocated,
    dpd,
    request,
    result,
    run,
)
from tests.support.deployments import ROOT


def row(comparison: Comparison, measure: str, concurrency: int = 8) -> Row:
    (found,) = (
        each for each in comparison.rows if each.measure.name == measure and each.concurrency == concurrency
    )
    return found


# -- figures ------------------------------------------------------------------------------------------------------


def test_figures_are_those_of_the_steady_part() -> None:
    # eight users whose answers take exactly 3.05 s: as many tokens a second as eight streams give
    found = figures(run(8, 1, spread=0.0))
    assert found.tpot_mean_seconds == pytest.approx(0.01)
    assert found.ttft_p50_seconds == pytest.approx(0.5)
    assert found.e2e_p50_seconds == pytest.approx(3.05)
    assert found.output_tokens_per_second == pytest.approx(8 * 256 / 3.05)


def test_waiting_for_the_last_answers_or_cutting_them_off_makes_no_difference() -> None:
    waited = run(8, 1, requests=200)
    end = max(each.start_seconds for each in waited.requests)
    cut_off = dataclasses.replace(
        waited,
        requests=tuple(
            each
            if each.end_seconds <= end
            else dataclasses.replace(each, ttft_seconds=None, e2e_seconds=None, output_tokens=None)
            for each in waited.requests
        ),
    )
    assert figures(cut_off) == figures(waited)


def test_a_slow_start_is_not_measured() -> None:
    slow = [request(start_seconds=0.0, ttft_seconds=20.0, e2e_seconds=25.0 + 0.1 * n) for n in range(8)]
    later = [
        dataclasses.replace(each, start_seconds=each.start_seconds + 25.7) for each in run(8, 1).requests
    ]
    whole = dataclasses.replace(run(8, 1), requests=(*slow, *later))
    # not one of the slow ones, also not of those that ended a little later than the first
    assert figures(whole).requests == figures(run(8, 1)).requests + 8
    assert figures(whole).ttft_p50_seconds == pytest.approx(0.5, rel=0.02)
    assert figures(whole).output_tokens_per_second == pytest.approx(8 * 256 / 3.05, rel=0.02)


@pytest.mark.parametrize("requests", [1, 7, 8, 9])
def test_a_run_without_a_steady_part_says_so(requests: int) -> None:
    with pytest.raises(NothingMeasuredError, match="at least ten requests per user"):
        figures(run(8, 1, requests=requests))


def test_answers_of_one_token_have_no_time_between_tokens() -> None:
    single = dataclasses.replace(
        run(2, 1), requests=tuple(dataclasses.replace(each, output_tokens=1) for each in run(2, 1).requests)
    )
    with pytest.raises(NothingMeasuredError, match="second token"):
        figures(single)


# -- intervals ----------------------------------------------------------------------------------------------------


def test_three_equal_ratios_are_certain() -> None:
    change = paired([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    assert change.value == pytest.approx(1.0)
    assert change.low == pytest.approx(1.0)
    assert change.high == pytest.approx(1.0)


def test_the_interval_is_student_s() -> None:
    # logarithms -0.1, 0, 0.1: mean 0, standard error 0.1 / sqrt(3), t for two degrees of freedom 4.303
    change = paired([math.exp(-0.1), 1.0, math.exp(0.1)], [1.0, 1.0, 1.0])
    reach = 4.303 * 0.1 / math.sqrt(3)
    assert change.value == pytest.approx(0.0)
    assert change.high == pytest.approx(math.expm1(reach))
    assert change.low == pytest.approx(math.expm1(-reach))
    assert not change.is_clear


def test_what_prompts_do_to_both_sides_widens_only_the_unpaired_interval() -> None:
    new, old = [1.0, 2.0, 4.0], [2.0, 4.0, 8.0]
    certain, wide = paired(new, old), unpaired(new, old)
    assert certain.value == pytest.approx(wide.value) == pytest.approx(-0.5)
    assert certain.is_clear
    assert not wide.is_clear


def test_unpaired_errors_of_both_sides_add_up() -> None:
    spread = [math.exp(-0.1), 1.0, math.exp(0.1)]
    change = unpaired(spread, [2 * each for each in spread])
    reach = 4.303 * math.sqrt(2) * 0.1 / math.sqrt(3)
    assert change.high == pytest.approx(0.5 * math.exp(reach) - 1)


def test_a_single_run_has_no_interval() -> None:
    change = paired([1.0], [2.0])
    assert change.value == pytest.approx(-0.5)
    assert (change.low, change.high) == (None, None)
    assert not change.is_clear


def test_a_better_system_is_found_better_and_an_equal_one_is_not() -> None:
    better = compare(dpd(), colocated())
    tpot = row(better, "tpot_mean_seconds").change
    assert tpot is not None
    assert tpot.value == pytest.approx(0.01 / 0.013 - 1, abs=0.01)
    assert tpot.is_clear
    equal = compare(dpd(), colocated(tpot=0.01, spread=0.3, seeds=(1, 2, 3), prompts="prompts"))
    change = row(equal, "tpot_mean_seconds").change
    assert change is not None
    assert not change.is_clear


# -- per GPU, per dollar, announced -------------------------------------------------------------------------------


def test_twice_the_gpus_at_the_same_speed_is_half_per_gpu_and_twice_per_token() -> None:
    half = dataclasses.replace(
        COLOCATED, workers=(dataclasses.replace(COLOCATED.workers[0], count=1),), usd_per_hour=63.3
    )
    old = dataclasses.replace(colocated(tpot=0.01), system=half)
    found = compare(dpd(), old, may_differ=frozenset({Difference.GPUS}))
    per_gpu = row(found, "output_tokens_per_second_per_gpu").change
    cost = row(found, "usd_per_million_output_tokens").change
    assert per_gpu is not None
    assert cost is not None
    assert per_gpu.value == pytest.approx(-0.5, abs=0.01)
    assert cost.value == pytest.approx(1.0, abs=0.02)
    assert list(found.allowed) == [Difference.GPUS]


def test_the_cost_of_a_token_is_the_hour_s_price_over_the_hour_s_tokens() -> None:
    found = compare(dpd(spread=0.0), colocated(spread=0.0))
    cost = row(found, "usd_per_million_output_tokens").new
    assert cost == pytest.approx(126.6 / (3600 * 8 * 256 / 3.05) * 1e6)


def test_without_a_price_there_is_no_cost_and_everything_else() -> None:
    free = dataclasses.replace(dpd(), system=dataclasses.replace(DPD, usd_per_hour=None))
    found = compare(free, colocated())
    assert row(found, "usd_per_million_output_tokens").change is None
    assert row(found, "output_tokens_per_second").change is not None


def test_the_announcement_stands_beside_what_it_is_about() -> None:
    levels = (8, 32, 64)
    found = compare(dpd(levels=levels), colocated(levels=levels))
    assert row(found, "tpot_mean_seconds", 8).announced == "-22 %"
    assert row(found, "tpot_mean_seconds", 32).announced == ""
    assert row(found, "tpot_mean_seconds", 64).announced == "-66 %"
    assert row(found, "output_tokens_per_second", 64).announced == "up to +35 %"
    # two nodes against one: the gain per GPU is a loss
    assert row(found, "output_tokens_per_second_per_gpu", 64).announced == "up to -32 %"
    assert row(found, "usd_per_million_output_tokens", 64).announced == "at best +48 %"
    assert set(ANNOUNCED) == {"H100", "H200"}


def test_what_only_one_side_has_is_named_and_not_compared() -> None:
    comparison = compare(dpd(levels=(8, 16)), colocated(levels=(4, 8)))
    assert {each.concurrency for each in comparison.rows} == {8}
    assert comparison.left_out == (4, 16)
    assert compare(dpd(), colocated()).left_out == ()


def test_every_measure_has_a_row_at_every_concurrency() -> None:
    found = compare(dpd(levels=(8, 16)), colocated(levels=(8, 16, 32)))
    assert [(each.concurrency, each.measure) for each in found.rows] == [
        (level, measure) for level in (8, 16) for measure in MEASURES
    ]


def test_tokens_that_all_come_at_once_have_no_change_of_tpot() -> None:
    at_once = result(
        DPD, [with_requests(run(8, seed), ttft_seconds=0.5, e2e_seconds=0.5) for seed in (1, 2, 3)]
    )
    found = compare(at_once, colocated())
    assert row(found, "tpot_mean_seconds").change is None
    assert row(found, "output_tokens_per_second").change is not None


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1e6), st.floats(0, 1e4), st.floats(0, 1e6), st.integers(1, 5000), st.booleans()
        ),
        min_size=1,
        max_size=40,
    ),
    st.integers(1, 12),
)
@settings(max_examples=60, deadline=None)
def test_any_result_is_compared_or_refused(
    times: list[tuple[float, float, float, int, bool]], users: int
) -> None:
    requests = tuple(
        request(
            start_seconds=start,
            ttft_seconds=first,
            e2e_seconds=first + more if ends else None,
            output_tokens=tokens,
        )
        for start, first, more, tokens, ends in times
    )
    odd = result(DPD, [dataclasses.replace(run(users, 1), requests=requests)])
    odd = read_result(odd.as_json())
    flaws(odd)
    with contextlib.suppress(NothingMeasuredError):
        compare(odd, dataclasses.replace(odd, system=COLOCATED))


# -- refusals -----------------------------------------------------------------------------------------------------

OTHERS: dict[Difference, BenchmarkResult] = {
    Difference.PROMPTS: colocated(prompts="others"),
    Difference.GPUS: dataclasses.replace(
        colocated(),
        system=dataclasses.replace(COLOCATED, workers=(dataclasses.replace(COLOCATED.workers[0], count=1),)),
    ),
    Difference.TRAFFIC: dataclasses.replace(
        colocated(), traffic=dataclasses.replace(TRAFFIC, output_tokens=128)
    ),
    Difference.MODEL: dataclasses.replace(colocated(), system=dataclasses.replace(COLOCATED, model="qwen")),
    Difference.KIND: dataclasses.replace(colocated(), system=dataclasses.replace(COLOCATED, simulated=True)),
}


@pytest.mark.parametrize("kind", list(Difference))
def test_what_differs_is_refused_unless_it_may(kind: Difference) -> None:
    with pytest.raises(NotComparableError) as refused:
        compare(dpd(), OTHERS[kind])
    assert list(refused.value.reasons) == [kind]
    assert f"`--different-{kind}`" in str(refused.value)
    assert list(compare(dpd(), OTHERS[kind], may_differ=frozenset({kind})).allowed) == [kind]
    with pytest.raises(NotComparableError):
        compare(dpd(), OTHERS[kind], may_differ=frozenset(Difference) - {kind})


def test_other_seeds_are_other_prompts() -> None:
    with pytest.raises(NotComparableError, match=r"seeds \[1, 2, 3\] against \[1, 2\]"):
        compare(dpd(), colocated(seeds=(1, 2)))


def test_every_difference_is_said_at_once() -> None:
    other = dataclasses.replace(OTHERS[Difference.MODEL], traffic=OTHERS[Difference.TRAFFIC].traffic)
    with pytest.raises(NotComparableError) as refused:
        compare(dpd(), other)
    assert set(refused.value.reasons) == {Difference.MODEL, Difference.TRAFFIC}


def test_nothing_in_common_cannot_be_allowed() -> None:
    with pytest.raises(NotComparableError, match="no concurrency in common"):
        compare(dpd(levels=(8,)), colocated(levels=(16,)), may_differ=frozenset(Difference))


# -- flaws --------------------------------------------------------------------------------------------------------


def with_requests(made: Run, *, every: int = 1, **changes: Any) -> Run:
    return dataclasses.replace(
        made,
        requests=tuple(
            dataclasses.replace(each, **changes) if number % every == 0 else each
            for number, each in enumerate(made.requests)
        ),
    )


def test_sound_results_have_no_flaws() -> None:
    assert flaws(dpd()) == ()
    assert flaws(colocated()) == ()


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (result(DPD, [run(8, 1, requests=50)]), "50 answers, wanted 80"),
        (result(DPD, [with_requests(run(8, 1), output_tokens=40)]), "`ignore_eos` did not reach the engine"),
        (result(DPD, [with_requests(run(8, 1), prompt_tokens=1000)]), "another tokenizer than the engine's"),
        (
            result(DPD, [with_requests(run(8, 1), path=DIRECT)]),
            "88 of 88 requests were not disaggregated (88 direct, 0 fallback): the threshold is above the prompts",
        ),
        (result(DPD, [with_requests(run(8, 1), every=4, path=FALLBACK)]), "22 of 88 requests were not"),
        (
            result(DPD, [with_requests(run(8, 1), path=UNKNOWN)]),
            "nothing says that 88 of 88 requests were disaggregated",
        ),
        (
            # what a chat template leaves in every cache says nothing
            result(DPD, [with_requests(run(8, 1, path=UNKNOWN), cached_tokens=48)]),
            "nothing says that 88 of 88 requests were disaggregated",
        ),
        (
            result(DPD, [with_requests(run(8, 1), every=8, path=UNKNOWN)]),
            "nothing says that 11 of 88 requests were disaggregated",
        ),
        (
            result(DPD, [with_requests(run(8, 1), every=8, prompt_tokens=None)]),
            "11 of 88 answers do not say how long their prompt was",
        ),
        (
            result(COLOCATED, [with_requests(run(8, 1, path=DIRECT), every=2, cached_tokens=None)]),
            "44 of 88 answers do not say how much of their prompt was cached",
        ),
        (result(DPD, [run(8, 1, router={})]), "the router counted 0 of 88 answers"),
        (result(DPD, [run(8, 1), run(16, 1), run(8, 2)]), "concurrency 16, seed 2: not measured"),
        (
            result(
                DPD,
                [run(8, 1, router={'dpd_router_decisions_total{decision="disaggregated",reason="x"}': 40.0})],
                connection=None,
            ),
            "the router counted 40 of 88 answers: it began anew or was not read",
        ),
        (
            result(COLOCATED, [run(8, 1)]),
            "88 requests of a system without prefill workers were disaggregated",
        ),
        (
            result(COLOCATED, [with_requests(run(8, 1, path=DIRECT), cached_tokens=2000)]),
            "46.9% of the prompts' tokens were cached already",
        ),
        (
            result(
                DPD, [with_requests(run(8, 1), every=8, error="503 no\n\x1b[2Jdecoder", e2e_seconds=None)]
            ),
            "11 of 88 requests failed, first `503 no  [2Jdecoder`",
        ),
        (
            result(
                DPD,
                [run(8, 1, router={'dpd_router_decisions_total{decision="fallback",reason="x"}': 3.0})],
            ),
            "3 requests fell back after their answer had begun",
        ),
        (
            result(DPD, [run(8, 1, router={'dpd_router_handoff_hits_total{result="miss"}': 2.0})]),
            "the decoder found 2 hand-offs incomplete",
        ),
    ],
)
def test_a_trap_is_found_in_the_file(made: BenchmarkResult, words: str) -> None:
    assert any(words in flaw for flaw in flaws(made)), flaws(made)


def test_the_beginning_of_a_chat_template_is_no_flaw() -> None:
    made = result(COLOCATED, [with_requests(run(8, 1, path=DIRECT), cached_tokens=48)])
    assert flaws(made) == ()


def test_aws_s_router_says_nothing_and_the_cache_does() -> None:
    # the operator's decoder reports what it took from the hand-off as cached
    aws = dataclasses.replace(CONNECTION, router=AWS_ROUTER)
    made = result(
        DPD, [with_requests(run(8, 1, router={}), path=UNKNOWN, cached_tokens=4096)], connection=aws
    )
    assert flaws(made) == ()


def test_a_failed_request_does_not_count_as_an_answer() -> None:
    failed = with_requests(run(8, 1), every=40, error="cut off", e2e_seconds=None)
    assert figures(failed).requests < figures(run(8, 1)).requests


# -- the command --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class Done:
    code: int
    stdout: str
    stderr: str


Command = Callable[..., Done]


@pytest.fixture
def dpd_compare(capsys: pytest.CaptureFixture[str]) -> Command:
    """The command without the start of an interpreter."""
    parser = ArgumentParser()
    COMMAND.add_arguments(parser)

    def command(*arguments: str) -> Done:
        code = COMMAND.run(parser.parse_args(arguments))
        said = capsys.readouterr()
        return Done(code=code, stdout=said.out, stderr=said.err)

    return command


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    new, old = tmp_path / "dpd.json", tmp_path / "baseline.json"
    new.write_text(dpd(levels=(8, 64)).as_json())
    old.write_text(colocated(levels=(8, 64)).as_json())
    return str(new), str(old)


def test_dpd_knows_the_command(files: tuple[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hyperpod_dpd", "compare", *files], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "TPOT mean" in done.stdout


def test_the_command_prints_the_table(dpd_compare: Command, files: tuple[str, str]) -> None:
    done = dpd_compare(*files)
    assert (done.code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert any("1 prefill × 8 GPUs" in line and "$126.60/h" in line for line in lines)
    (tpot,) = (line for line in lines if line.startswith("8   TPOT mean, ms"))
    assert "10.0" in tpot
    assert "-22 %" in tpot
    assert sum("output per GPU" in line for line in lines) == 2
    assert sum("cost of 1 M output tokens, $" in line for line in lines) == 2


def test_the_head_says_how_the_requests_went_and_where_a_file_does_not(
    dpd_compare: Command, files: tuple[str, str], tmp_path: Path
) -> None:
    older = json.loads(Path(files[1]).read_text())
    older["version"] = 1
    del older["connection"]
    (tmp_path / "older.json").write_text(json.dumps(older))
    compared = (files[0], str(tmp_path / "older.json"))
    lines = [line.strip() for line in dpd_compare(*compared).stdout.splitlines()]
    assert [line for line in lines if line.startswith("connection: ")] == [
        "connection: this project's router at router.llama-system.svc, port 8081, without TLS",
        "connection: not recorded",
    ]
    shown = json.loads(dpd_compare(*compared, "--format", "json").stdout)
    assert shown["new"]["connection"] == dataclasses.asdict(CONNECTION)
    assert shown["old"]["connection"] is None


def test_json_has_every_row(dpd_compare: Command, files: tuple[str, str]) -> None:
    done = dpd_compare(*files, "--format", "json")
    shown = json.loads(done.stdout)
    assert len(shown["rows"]) == 2 * len(MEASURES)
    assert shown["new"]["paths"] == {DISAGGREGATED: 1.0}
    assert (shown["seeds"], shown["paired"]) == (3, True)
    assert all(each["low"] <= each["change"] <= each["high"] for each in shown["rows"])


def test_a_concurrency_that_one_file_lacks_is_named(
    dpd_compare: Command, files: tuple[str, str], tmp_path: Path
) -> None:
    interrupted = tmp_path / "interrupted.json"
    interrupted.write_text(colocated(levels=(8,)).as_json())
    lines = dpd_compare(files[0], str(interrupted)).stdout.splitlines()
    assert "left out: concurrency 64, which only one of them has" in lines
    shown = json.loads(dpd_compare(files[0], str(interrupted), "--format", "json").stdout)
    assert shown["left_out_concurrencies"] == [64]


def test_a_refusal_is_an_error_with_its_way_out(
    dpd_compare: Command, files: tuple[str, str], tmp_path: Path
) -> None:
    other = tmp_path / "other.json"
    other.write_text(OTHERS[Difference.PROMPTS].as_json())
    refused = dpd_compare(files[0], str(other))
    assert refused.code == 1
    assert refused.stdout == ""
    assert "different prompts" in refused.stderr
    allowed = dpd_compare(files[0], str(other), "--different-prompts")
    assert allowed.code == 0
    assert "allowed: different prompts" in allowed.stdout
    assert "not paired" in allowed.stdout


def test_flaws_are_warnings_and_not_a_success(
    dpd_compare: Command, files: tuple[str, str], tmp_path: Path
) -> None:
    short = tmp_path / "short.json"
    short.write_text(dpd(levels=(8, 64), requests=200).as_json())
    done = dpd_compare(str(short), files[1])
    assert done.code == 1
    assert "concurrency 64, seed 1: 200 answers, wanted 640" in done.stderr
    assert "TPOT mean" in done.stdout


@pytest.mark.parametrize("text", ["{}", "\x00", None])
def test_an_unreadable_file_is_2(
    dpd_compare: Command, files: tuple[str, str], tmp_path: Path, text: str | None
) -> None:
    bad = tmp_path / "bad.json"
    if text is not None:
        bad.write_text(text)
    done = dpd_compare(files[0], str(bad))
    assert done.code == 2
    assert done.stderr.startswith(f"{bad}: error: ")


def test_simulated_results_are_labelled(dpd_compare: Command, tmp_path: Path) -> None:
    paths = []
    for name, made in (("new", dpd()), ("old", colocated())):
        path = tmp_path / name
        path.write_text(
            dataclasses.replace(made, system=dataclasses.replace(made.system, simulated=True)).as_json()
        )
        paths.append(str(path))
    assert dpd_compare(*paths).stdout.count("SIMULATED") == 2


def test_recorded_results_are_sound_and_say_that_they_are_simulated() -> None:
    new, old = (
        read_result((ROOT / f"docs/evidence/benchmark/{name}.json").read_text())
        for name in ("self-managed", "baseline")
    )
    assert flaws(new) == flaws(old) == ()
    assert new.system.simulated
    assert old.system.simulated
    found = compare(new, old)
    assert (found.seeds, found.is_paired) == (3, True)


def test_one_seed_has_no_interval_and_says_why(dpd_compare: Command, tmp_path: Path) -> None:
    (tmp_path / "new").write_text(dpd(seeds=(1,)).as_json())
    (tmp_path / "old").write_text(colocated(seeds=(1,)).as_json())
    assert "no intervals: one seed" in dpd_compare(str(tmp_path / "new"), str(tmp_path / "old")).stdout
