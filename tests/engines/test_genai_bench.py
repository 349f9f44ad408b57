"""The benchmark job's program with the real genai-bench, against the real router and simulated workers."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dpd_simulator.step_times import ConstantStepTimes
from hyperpod_dpd.evidence.compare import compare
from hyperpod_dpd.evidence.results import (
    AWS_ROUTER,
    DIRECT,
    DISAGGREGATED,
    UNVERIFIED,
    BenchmarkResult,
    read_result,
)
from hyperpod_dpd.evidence.soundness import flaws
from hyperpod_dpd.serving.profile import Profile
from tests.support.authority import authority_like_eks
from tests.support.tls import tls_before
from tools.evidence.simulated_benchmark import PYTHON, endpoint, run_job, settings_for, write_tokenizer

pytestmark = pytest.mark.engines

STEPS = ConstantStepTimes(prefill_seconds_per_token=2e-5, decode_step_seconds=0.005)
SMALL = {"input_tokens": 512, "output_tokens": 24, "concurrencies": (2, 4), "seeds": (1,)}
"""Six processes of genai-bench, each of which starts for five seconds and ends with pictures."""


def measure(
    profile: Profile, folder: Path, *, threshold: int = 512, **changes: Any
) -> tuple[int, str, BenchmarkResult | None]:
    assert PYTHON.exists(), "no environment for genai-bench; `make test-engines` creates it"

    async def measured() -> tuple[int, str]:
        tokenizer = write_tokenizer(folder / "tokenizer")
        async with endpoint(profile, tokenizer=tokenizer, threshold=threshold, step_times=STEPS) as url:
            settings = settings_for(
                profile, url, tokenizer=tokenizer, results=folder / "results", **SMALL | changes
            )
            return await run_job(settings, folder)

    folder.mkdir()
    code, said = asyncio.run(measured())
    stored = list((folder / "results").glob("*.json"))
    return code, said, read_result(stored[0].read_text()) if stored else None


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[Profile, tuple[int, str, BenchmarkResult]]:
    folder = tmp_path_factory.mktemp("benchmark")
    found = {}
    for profile in (Profile.SELF_MANAGED, Profile.BASELINE):
        code, said, result = measure(profile, folder / profile)
        assert result is not None, said
        found[profile] = (code, said, result)
    return found


@pytest.mark.parametrize("profile", [Profile.SELF_MANAGED, Profile.BASELINE])
def test_the_job_measures_without_a_flaw(
    measured: dict[Profile, tuple[int, str, BenchmarkResult]], profile: Profile
) -> None:
    code, said, result = measured[profile]
    assert flaws(result) == ()
    assert code == 0, said
    assert result.traffic.tool == "genai-bench 0.0.4"
    assert [(run.concurrency, run.seed) for run in result.runs] == [(2, 1), (4, 1)]


def test_the_path_of_every_request_is_known(
    measured: dict[Profile, tuple[int, str, BenchmarkResult]],
) -> None:
    for profile, path in ((Profile.SELF_MANAGED, DISAGGREGATED), (Profile.BASELINE, DIRECT)):
        *_, result = measured[profile]
        for run in result.runs:
            assert Counter(each.path for each in run.requests if each.ended).keys() == {path}
            counted = sum(value for key, value in run.router.items() if f'decision="{path}"' in key)
            # those that genai-bench cuts off at the end are counted by the router too, or ended before it counts
            assert counted >= sum(each.ended for each in run.requests)


def test_prompts_are_those_of_the_seed_whatever_answers(
    measured: dict[Profile, tuple[int, str, BenchmarkResult]],
) -> None:
    digests = [
        {(run.concurrency, run.seed): run.prompts_digest for run in measured[profile][2].runs}
        for profile in (Profile.SELF_MANAGED, Profile.BASELINE)
    ]
    assert digests[0] == digests[1]
    assert len(set(digests[0].values())) == 2


def test_answers_have_exactly_the_tokens_that_were_asked_for(
    measured: dict[Profile, tuple[int, str, BenchmarkResult]],
) -> None:
    for _, _, result in measured.values():
        ended = [each for run in result.runs for each in run.requests if each.ended]
        assert {each.output_tokens for each in ended} == {24}
        # the chat template comes on top
        assert min(each.prompt_tokens or 0 for each in ended) >= 512


def test_what_is_cut_off_at_the_end_is_recorded(
    measured: dict[Profile, tuple[int, str, BenchmarkResult]],
) -> None:
    *_, result = measured[Profile.SELF_MANAGED]
    for run in result.runs:
        assert sum(each.ended for each in run.requests) >= 10 * run.concurrency
        cut_off = [each for each in run.requests if not each.ended]
        assert len(cut_off) <= run.concurrency
        assert all(each.error is None and each.e2e_seconds is None for each in cut_off)


def test_both_sides_can_be_compared(measured: dict[Profile, tuple[int, str, BenchmarkResult]]) -> None:
    comparison = compare(measured[Profile.SELF_MANAGED][2], measured[Profile.BASELINE][2])
    assert comparison.is_paired
    assert {row.concurrency for row in comparison.rows} == {2, 4}


def test_a_threshold_above_the_prompts_is_a_flaw_and_an_exit_code(tmp_path: Path) -> None:
    code, said, result = measure(Profile.SELF_MANAGED, tmp_path / "high", threshold=2000, concurrencies=(2,))
    assert code == 1
    assert result is not None
    assert "the threshold is above the prompts" in said


def test_an_endpoint_that_is_not_there_is_2_and_says_where(tmp_path: Path) -> None:
    tokenizer = write_tokenizer(tmp_path / "tokenizer")
    settings = settings_for(
        Profile.BASELINE, "http://127.0.0.1:9", tokenizer=tokenizer, results=tmp_path / "results", **SMALL
    )
    code, said = asyncio.run(run_job(settings, tmp_path))
    assert code == 2
    assert "error: `http://127.0.0.1:9/metrics`" in said


def test_a_router_with_tls_that_nobody_signed_is_measured_and_log_and_result_say_so(tmp_path: Path) -> None:
    async def measured() -> tuple[int, str]:
        tokenizer = write_tokenizer(tmp_path / "tokenizer")
        certificate = authority_like_eks(tmp_path / "authority").server
        async with (
            endpoint(Profile.SELF_MANAGED, tokenizer=tokenizer, threshold=512, step_times=STEPS) as plain,
            tls_before(plain, certificate) as url,
        ):
            small = SMALL | {"concurrencies": (2,), "reads_router": False}
            settings = settings_for(
                Profile.OPERATOR, url, tokenizer=tokenizer, results=tmp_path / "results", **small
            )
            return await run_job(settings, tmp_path)

    code, said = asyncio.run(measured())
    assert code == 0, said
    assert ", TLS, certificate not verified (" in said
    (stored,) = (tmp_path / "results").glob("*.json")
    connection = read_result(stored.read_text()).connection
    assert connection is not None
    assert (connection.router, connection.tls) == (AWS_ROUTER, UNVERIFIED)
    assert connection.doubt
