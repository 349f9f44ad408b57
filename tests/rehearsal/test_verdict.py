"""What is wrong with what was seen while a profile ran, and where it is written."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest

from hyperpod_dpd.evidence.proof import Finding, ProofResult, Verdict
from hyperpod_dpd.planner.workload import ClosedLoop, FixedLengths
from hyperpod_dpd.rehearsal.cluster import LocalCluster
from hyperpod_dpd.rehearsal.faults import parse_fault
from hyperpod_dpd.rehearsal.measure import Measurement, observe
from hyperpod_dpd.rehearsal.metrics import NOTHING, Samples
from hyperpod_dpd.rehearsal.options import Options
from hyperpod_dpd.rehearsal.plan import RehearsalPlan, plan_rehearsal
from hyperpod_dpd.rehearsal.prediction import predict, shape_of
from hyperpod_dpd.rehearsal.run import Outcome, leftover
from hyperpod_dpd.rehearsal.run.leftover import Leftover, left_over, settle
from hyperpod_dpd.rehearsal.run.result import BEARABLE_BLIND_SECONDS, BEARABLE_LAG_SECONDS
from hyperpod_dpd.rehearsal.run.verdict import verdict
from hyperpod_dpd.rehearsal.traffic import Answer, Ending
from hyperpod_dpd.rehearsal.trouble import Kind, Trouble
from tests.rehearsal.support import RENDERED, deployment

CLEAN = Leftover(hand_offs=0, chunks={"decode-1": [0, 0]})
QUIET = Options(proves=False)


@cache
def plan(profile: str = "self-managed") -> RehearsalPlan:
    return plan_rehearsal([RENDERED / profile], deployment())


def answer(input_tokens: int = 4096, path: str = "disaggregated", ending: Ending = Ending.ANSWERED) -> Answer:
    return Answer(
        input_tokens=input_tokens,
        output_tokens=11,
        issued=0.0,
        first_token=0.5,
        finished=1.5,
        ending=ending,
        path=path,
        says="" if ending is Ending.ANSWERED else "503: no worker",
    )


def measurement(*answers: Answer) -> Measurement:
    return Measurement(
        users=8,
        seed=1,
        sent=(),
        answers=answers,
        observed=observe(answers),
        predicted=None,
        counted=NOTHING,
        real_seconds=1.0,
    )


def said(options: Options = QUIET, profile: str = "self-managed", **seen: Any) -> list[str]:
    """Return what is said of an outcome in which all is well but what is given."""
    outcome = Outcome(**{"leftover": CLEAN, **seen})
    return [each.says for each in verdict(outcome, plan(profile), deployment(), options)]


def test_nothing_is_said_where_all_is_well() -> None:
    proved = ProofResult(verdict=Verdict.PROVED)
    mixed = measurement(answer(), answer(512, "direct"))
    assert said(Options(), mixed=mixed, runs=(measurement(answer()),), proof=proved, alerts={}) == []


def test_requests_that_were_not_answered_are_counted_for_each_run() -> None:
    refused = answer(ending=Ending.REFUSED)
    runs = (measurement(answer()), measurement(answer(), refused, refused))
    assert said(runs=runs) == [
        "2 of 3 requests of 8 users were not answered: the first refused, 503: no worker"
    ]


def test_a_time_per_token_that_is_not_the_planners_is_said_unless_the_machine_was_too_slow() -> None:
    shape = shape_of(plan())
    assert shape is not None
    lengths = FixedLengths(input_tokens=4096, output_tokens=11)
    predicted = predict(deployment(), shape, ClosedLoop(concurrency=8, lengths=lengths, requests=16))
    assert predicted.tpot_seconds is not None
    assert predicted.tpot_seconds.mean < 0.05
    run = replace(measurement(answer()), predicted=predicted)  # 100 ms for each token after the first
    (says,) = said(runs=(run,), lost_seconds=BEARABLE_LAG_SECONDS)
    assert says.startswith("TPOT with 8 users is 100.0 ms and by the planner 1")
    assert says.endswith("limit 10%")
    assert said(runs=(run,), lost_seconds=BEARABLE_LAG_SECONDS + 0.1) == []


@pytest.mark.parametrize(
    ("profile", "tokens", "path", "wanted"),
    [
        ("self-managed", 4096, "direct", "disaggregated"),
        ("self-managed", 4095, "disaggregated", "direct"),
        ("baseline", 4096, "disaggregated", "direct"),
    ],
)
def test_a_prompt_on_the_wrong_side_of_the_threshold_is_said(
    profile: str, tokens: int, path: str, wanted: str
) -> None:
    mixed = measurement(answer(tokens, path), answer(tokens, wanted))
    (says,) = said(profile=profile, mixed=mixed)
    assert says == (
        f"1 of 2 prompts of {tokens:,} tokens were `{path}`, and `threshold_tokens: 4096` of the deployment wants "
        f"`{wanted}`"
    )


def test_only_a_request_that_hangs_is_wrong_under_faults() -> None:
    options = replace(QUIET, faults=(parse_fault("decoder-crash"),))
    endings = (Ending.REFUSED, Ending.FAILED, Ending.LEFT)
    assert said(options, under_faults=measurement(*(answer(ending=each) for each in endings))) == []
    hung = measurement(answer(ending=Ending.HUNG), answer(ending=Ending.HUNG))
    assert said(options, under_faults=hung) == ["2 requests hung"]


def test_an_alert_that_a_fault_must_bring_and_one_that_it_may_not_are_said() -> None:
    options = replace(QUIET, faults=(parse_fault("decoder-crash@10s"),))
    assert said(options, alerts={"DpdNoDecoder": "none", "DpdTtftHigh": "late"}) == []
    assert said(options, alerts={"DpdPairBroken": "a pair is broken"}) == [
        "alert `DpdNoDecoder` did not fire",
        "alert `DpdPairBroken` fired: a pair is broken",
    ]


def test_an_alert_is_not_awaited_for_a_fault_near_the_end() -> None:
    late = replace(QUIET, faults=(parse_fault("decoder-crash@16s"),), fault_seconds=45.0)
    assert said(late, alerts={}) == []
    assert said(replace(late, fault_seconds=46.0), alerts={}) == ["alert `DpdNoDecoder` did not fire"]


@pytest.mark.parametrize(
    ("slow", "bearable"),
    [("blind_seconds", BEARABLE_BLIND_SECONDS), ("lost_seconds", BEARABLE_LAG_SECONDS)],
)
def test_alerts_of_a_machine_that_was_too_slow_are_undecided_and_no_trouble(
    slow: str, bearable: float
) -> None:
    options = replace(QUIET, faults=(parse_fault("client-disconnects=20%"),))
    seen: dict[str, Any] = {"alerts": {"DpdNoDecoder": "none"}, "under_faults": measurement(answer())}
    assert said(options, **{**seen, slow: bearable}) == ["alert `DpdNoDecoder` fired: none"]
    assert said(options, **{**seen, slow: bearable + 0.1}) == []
    assert not Outcome(leftover=CLEAN, **{**seen, slow: bearable}).undecided
    assert Outcome(leftover=CLEAN, **{**seen, slow: bearable + 0.1}).undecided


def test_a_blind_prometheus_decides_nothing_where_alerts_are_not_judged() -> None:
    assert not Outcome(leftover=CLEAN, blind_seconds=BEARABLE_BLIND_SECONDS + 1, alerts={}).undecided


def test_alerts_are_no_trouble_where_nobody_watched_or_no_fault_happened() -> None:
    assert said(replace(QUIET, faults=(parse_fault("decoder-crash"),)), alerts=None) == []
    assert said(QUIET, alerts={"DpdTtftHigh": "late"}) == []


def test_a_proof_that_was_not_made_is_a_trouble_of_the_router() -> None:
    (unproved,) = verdict(Outcome(leftover=CLEAN), plan(), deployment(), Options())
    assert unproved.says == "the proof was not made: no router was ready at the end"
    assert Path(unproved.file or "").name == "router.yaml"


def test_every_finding_of_a_proof_is_said() -> None:
    findings = tuple(
        Finding(id=name, says=f"{name} was seen", cause="c", rules=(), fix="f") for name in ("one", "two")
    )
    proof = ProofResult(verdict=Verdict.FAILED, findings=findings)
    assert said(Options(), proof=proof) == ["proof: one was seen", "proof: two was seen"]


def test_what_did_not_come_to_its_end_is_said_first() -> None:
    unfinished = Trouble(kind=Kind.RUNNING, says="a fault did not end", fix="f")
    first, last = said(unfinished=(unfinished,), leftover=replace(CLEAN, hand_offs=None))
    assert first == "a fault did not end"
    assert "not every router said" in last


def test_an_engine_that_does_not_say_what_is_left_in_its_buffer_has_not_said_that_it_is_empty() -> None:
    node = plan().placements[0].plan.owner.node
    (unsaid,) = left_over(node, replace(CLEAN, silent=("decode-2",)), ())
    assert unsaid.says == "engines did not say at the end what is left in their PD buffers: `decode-2`"


SILENT = SimpleNamespace(name="decode-1", engine_url="http://127.0.0.1:9", router_url="http://127.0.0.1:9")


@pytest.mark.parametrize("simulated", [True, False])
async def test_who_does_not_answer_at_the_end_is_named_and_its_hand_offs_are_unknown(
    simulated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftover, "_SETTLE_SECONDS", 0.1)
    answering = {"router-1": Samples(values={("dpd_router_handoffs_open", frozenset()): 0.0})}

    async def one_of_two(_: object) -> dict[str, Samples]:
        return answering

    monkeypatch.setattr(leftover, "samples_by_router", one_of_two)
    async with aiohttp.ClientSession() as http:
        cluster = SimpleNamespace(
            routers=[SILENT, SILENT],
            workers=[SILENT],
            engines=SimpleNamespace(simulated=simulated),
            http=http,
        )
        left = await settle(cast("LocalCluster", cluster))
        # real engines have no such page
        assert left == Leftover(hand_offs=None, chunks={}, silent=("decode-1",) if simulated else ())
        cluster.routers = [SILENT]
        assert (await settle(cast("LocalCluster", cluster))).hand_offs == 0


def test_what_is_left_over_is_a_trouble_unless_the_fault_takes_the_books_with_it() -> None:
    node = plan().placements[0].plan.owner.node
    crash, restart = parse_fault("decoder-crash"), parse_fault("router-restart")
    assert left_over(node, CLEAN, ()) == []
    (owned,) = left_over(node, replace(CLEAN, hand_offs=3), (restart,))
    assert owned.says.startswith("3 hand-offs were still open")
    leaked = Leftover(hand_offs=0, chunks={"decode-1": [0, 16], "decode-2": [0, 0]})
    (lost,) = left_over(node, leaked, (crash,))
    assert lost.says.endswith("`decode-1` 16")
    assert lost.file == node.file
    assert left_over(node, leaked, (crash, restart)) == []
