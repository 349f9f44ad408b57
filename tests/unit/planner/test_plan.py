"""The plan: the same numbers as rules and physics, honest answers, and clear words for bad input."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

from hyperpod_dpd.cli.app import run
from hyperpod_dpd.cli.exits import Exit
from hyperpod_dpd.derive import resolve
from hyperpod_dpd.derive.quota import quotas_needed
from hyperpod_dpd.planner.plan import NoWorkersError, Plan, make_plan
from hyperpod_dpd.planner.report.data import plan_as_dict
from hyperpod_dpd.planner.simulation import PromptTooLongError
from hyperpod_dpd.planner.verdict import Answer
from hyperpod_dpd.planner.workload import NoTrafficError
from hyperpod_dpd.rules import check
from hyperpod_dpd.spec import Deployment, Price, Scaling, Spot, Worker
from hyperpod_dpd.spec.load import load

DEPLOYMENTS = Path(__file__).parents[3] / "deployments"
DEFAULT = DEPLOYMENTS / "llama-3.3-70b-p5.yaml"


@pytest.fixture(scope="module")
def deployment() -> Deployment:
    return load(DEFAULT).deployment


@pytest.fixture(scope="module")
def plan(deployment: Deployment) -> Plan:
    return make_plan(deployment)


def _with(deployment: Deployment, part: str, **changes: Any) -> Deployment:
    return dataclasses.replace(
        deployment, **{part: dataclasses.replace(getattr(deployment, part), **changes)}
    )


def test_memory_and_buffer_are_those_that_rules_and_rendering_read(
    plan: Plan, deployment: Deployment
) -> None:
    facts = resolve(deployment)
    assert [row.memory for row in plan.fit] == [facts.prefill.memory, facts.decode.memory]
    assert plan.transfer.prompts_held == facts.decode.pd_buffer.transfers(4096) == 51


def test_rules_about_the_plans_numbers_speak_in_the_plan(deployment: Deployment) -> None:
    crowded = _with(deployment, "traffic", concurrency=200)
    found = {finding.rule for finding in check(crowded).findings}
    planned = " ".join(make_plan(crowded).warnings)
    assert {"DPD-SRV-004", "DPD-SRV-008"} <= found
    assert "DPD-SRV-004" in planned
    assert "DPD-SRV-008" in planned


def test_comparison_is_normalised_per_node(plan: Plan) -> None:
    assert plan.traffic is not None
    for row in plan.traffic.rows:
        one = row.evaluation
        assert one.output_tokens_per_second_per_node * one.shape.nodes == pytest.approx(
            one.summary.output_tokens_per_second
        )


def test_deployed_shape_has_the_lowest_tpot_but_not_the_most_tokens_per_node(plan: Plan) -> None:
    """What the announcement shows, and what it does not."""
    assert plan.traffic is not None
    deployed, *others = (row.evaluation for row in plan.traffic.rows)
    assert deployed.summary.tpot_seconds is not None
    for other in others:
        assert other.summary.tpot_seconds is not None
        assert deployed.summary.tpot_seconds.mean < other.summary.tpot_seconds.mean
    assert deployed.output_tokens_per_second_per_node < max(
        one.output_tokens_per_second_per_node for one in others
    )


def test_every_capacity_keeps_the_promises_and_the_cheapest_comes_first(
    plan: Plan, deployment: Deployment
) -> None:
    assert plan.search is not None
    costs = []
    for one in plan.search.capacities:
        summary = one.evaluation.summary
        assert summary.ttft_seconds.p95 <= deployment.slo.ttft_p95_seconds
        assert summary.tpot_seconds is not None
        assert summary.tpot_seconds.p95 <= deployment.slo.tpot_p95_seconds
        costs.append(one.evaluation.usd_per_million_output_tokens)
    assert costs == sorted(costs, key=lambda cost: cost or 0.0)
    assert plan.search.recommended == plan.search.capacities[0]


def test_operator_backend_gets_a_shape_with_one_decoder(deployment: Deployment) -> None:
    search = make_plan(_with(deployment, "slo", tpot_p95_seconds=0.02)).search
    assert search is not None
    assert search.operator is not None
    assert search.operator.shape.decoders == 1


def test_tight_promise_makes_disaggregation_pay_with_measured_constants(deployment: Deployment) -> None:
    """Roughly at 15 ms and below a colocated fleet has to run nearly empty."""
    verdict = make_plan(_with(deployment, "slo", tpot_p95_seconds=0.015)).verdict
    assert verdict is not None
    assert verdict.measured.answer is Answer.PAYS
    assert verdict.measured.cost_ratio is not None
    assert verdict.measured.cost_ratio < 0.9


def test_loose_promise_makes_it_cost_about_the_same_or_more(plan: Plan) -> None:
    assert plan.verdict is not None
    assert plan.verdict.measured.answer in (Answer.ABOUT_EQUAL, Answer.DOES_NOT_PAY)


def test_impossible_promise_is_answered_as_such(deployment: Deployment) -> None:
    plan = make_plan(_with(deployment, "slo", tpot_p95_seconds=0.001))
    assert plan.verdict is not None
    assert plan.verdict.measured.answer is Answer.NO_SHAPE
    assert plan.search is not None
    assert plan.search.recommended is None
    assert "no shape keeps the promises" in plan.verdict.text


def test_price_of_the_deployment_changes_cost_and_nothing_else(deployment: Deployment, plan: Plan) -> None:
    half = Price(instance_type="ml.p5.48xlarge", usd_per_hour=31.65, as_of="2026-11-01", source="offer")
    cheap = make_plan(dataclasses.replace(deployment, prices=(half,)))
    assert plan.traffic is not None
    assert cheap.traffic is not None
    before, after = plan.traffic.rows[0].evaluation, cheap.traffic.rows[0].evaluation
    assert after.summary == before.summary
    assert after.usd_per_million_output_tokens == pytest.approx(
        (before.usd_per_million_output_tokens or 0) / 2
    )


def test_more_arrivals_than_capacity_are_called_what_they_are(deployment: Deployment) -> None:
    busy = _with(deployment, "traffic", concurrency=None, requests_per_second=20.0)
    plan = make_plan(busy)
    assert plan.traffic is not None
    assert plan.traffic.rows[0].evaluation.saturated
    assert any("its queue grows for ever" in warning for warning in plan.warnings)


def test_poisson_arrivals_within_capacity_are_served_at_their_rate(deployment: Deployment) -> None:
    calm = make_plan(_with(deployment, "traffic", concurrency=None, requests_per_second=2.0))
    assert calm.traffic is not None
    one = calm.traffic.rows[0].evaluation
    assert not one.saturated
    assert one.summary.requests_per_second == pytest.approx(2.0, rel=0.15)


def test_trace_is_planned_with_its_own_lengths_and_times(deployment: Deployment, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    lines = (
        {"arrival_seconds": number * 0.4, "input_tokens": 5000 if number % 2 else 300, "output_tokens": 64}
        for number in range(80)
    )
    trace.write_text("\n".join(map(json.dumps, lines)))
    plan = make_plan(_with(deployment, "traffic", concurrency=None, trace_file=str(trace)))
    assert plan.traffic is not None
    summary = plan.traffic.rows[0].evaluation.summary
    assert summary.requests == 80
    assert summary.disaggregated_share == 0.5


def test_answers_of_one_token_have_no_time_per_token_and_print_no_nan(deployment: Deployment) -> None:
    plan = make_plan(_with(deployment, "traffic", output_tokens=1))
    text = json.dumps(plan_as_dict(plan), allow_nan=False)
    assert '"tpot_seconds": null' in text


def test_threshold_never_makes_the_deployed_shape_colocated(deployment: Deployment) -> None:
    plan = make_plan(_with(deployment, "routing", threshold_tokens="never"))
    assert plan.traffic is not None
    assert plan.traffic.rows[0].evaluation.summary.disaggregated_share == 0


def test_traffic_on_the_threshold_is_a_warning_with_a_value_that_is_off_it(plan: Plan) -> None:
    assert plan.threshold is not None
    warning = next(text for text in plan.threshold.warnings if "sits on the threshold" in text)
    assert f"threshold_tokens: {plan.threshold.recommended_tokens}" in warning
    assert abs(plan.threshold.recommended_tokens - 4096) > 0.1 * plan.threshold.recommended_tokens


def test_threshold_parts_are_in_the_published_ranges(plan: Plan) -> None:
    """Break-even a few hundred tokens; a gap of 150 ms at about 4,000 tokens."""
    advice = plan.threshold
    assert advice is not None
    assert advice.break_even_tokens is not None
    assert 150 <= advice.break_even_tokens <= 700
    assert advice.gap_tokens is not None
    assert 3000 <= advice.gap_tokens <= 4300


def test_small_token_budget_on_the_decoder_keeps_the_gap_by_itself(deployment: Deployment) -> None:
    decode = dataclasses.replace(deployment.serving.decode, max_num_batched_tokens=1024)
    advice = make_plan(_with(deployment, "serving", decode=decode)).threshold
    assert advice is not None
    assert advice.gap_tokens is None
    assert advice.reason.startswith("break-even")


def test_quota_needed_adds_up_on_demand_groups_of_a_type(plan: Plan, deployment: Deployment) -> None:
    assert [str(need) for need in plan.quotas] == ["2 × `ml.p5.48xlarge for cluster usage` (L-8762A75F)"]
    groups = (
        dataclasses.replace(deployment.hyperpod.instance_groups[0], capacity=Spot(type="spot")),
        deployment.hyperpod.instance_groups[1],
    )
    assert [
        need.instances for need in quotas_needed(_with(deployment, "hyperpod", instance_groups=groups))
    ] == [1]


def test_scaling_limits_that_drift_apart_are_a_warning_with_the_ratio(deployment: Deployment) -> None:
    scaled = dataclasses.replace(deployment.serving.decode, scaling=Scaling(minimum=1, maximum=4))
    plan = make_plan(_with(deployment, "serving", decode=scaled))
    assert plan.search is not None
    wanted = math.ceil(4 * plan.search.balance.prefillers_per_decoder)
    assert any(f"`serving.prefill.scaling.maximum` to {wanted}" in warning for warning in plan.warnings)
    followed = dataclasses.replace(deployment.serving.prefill, scaling=Scaling(minimum=3, maximum=wanted))
    both = make_plan(_with(deployment, "serving", decode=scaled, prefill=followed))
    assert not any("scaling" in warning for warning in both.warnings)


def test_without_efa_a_request_takes_as_much_longer_as_its_transfer(deployment: Deployment) -> None:
    """UCX over EFA falls back to sockets; public reports have 1 to 3 GB/s and a time to first token above 2.5 s."""
    ucx = dataclasses.replace(deployment.serving.transfer, backend="UCX")
    alone = _with(deployment, "traffic", concurrency=1)
    slow, fast = make_plan(_with(alone, "serving", transfer=ucx)), make_plan(alone)
    assert slow.transfer.seconds.expected > 5 * fast.transfer.seconds.high
    assert slow.traffic is not None
    assert fast.traffic is not None
    longer = slow.traffic.rows[0].evaluation.summary.e2e_seconds.p50
    longer -= fast.traffic.rows[0].evaluation.summary.e2e_seconds.p50
    assert longer == pytest.approx(slow.transfer.seconds.expected - fast.transfer.seconds.expected, rel=0.02)


# -- bad input --------------------------------------------------------------------------------------------------------


def test_plan_that_cannot_fit_names_the_nearest_that_does(deployment: Deployment) -> None:
    tight = _with(deployment, "serving", tensor_parallel=2)
    plan = make_plan(tight)
    assert not plan.fits
    assert plan.traffic is None
    assert plan.nearest is not None
    assert plan.nearest.change == "`serving.tensor_parallel: 4`"
    assert plan.nearest.facts.prefill.memory.fits


def test_own_utilization_that_leaves_no_room_is_left_out_first(deployment: Deployment) -> None:
    greedy = dataclasses.replace(deployment.serving.decode, gpu_memory_utilization=0.97)
    plan = make_plan(_with(deployment, "serving", decode=greedy))
    assert not plan.fits
    assert plan.nearest is not None
    assert plan.nearest.change == "leave `gpu_memory_utilization` out"


def test_zero_traffic_is_refused_with_what_to_set(deployment: Deployment) -> None:
    with pytest.raises(NoTrafficError, match=r"zero traffic.*help: set `traffic\.concurrency`"):
        make_plan(_with(deployment, "traffic", concurrency=None))


def test_no_decoder_is_refused(deployment: Deployment) -> None:
    with pytest.raises(NoWorkersError, match=r"serving\.decode\.replicas: 0"):
        make_plan(_with(deployment, "serving", decode=Worker(replicas=0)))


def test_prompt_that_no_worker_holds_is_refused(deployment: Deployment) -> None:
    with pytest.raises(PromptTooLongError, match="is longer than"):
        make_plan(_with(deployment, "traffic", input_tokens=10_000_000))


# -- command ----------------------------------------------------------------------------------------------------------


def _file(folder: Path, *replacements: tuple[str, str]) -> str:
    text = DEFAULT.read_text()
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    path = folder / "deployment.yaml"
    path.write_text(text)
    return str(path)


def test_command_prints_verdict_tables_and_dated_cost(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", str(DEFAULT)]) == Exit.OK
    output = capsys.readouterr().out
    assert output.index("verdict:") < output.index("At your traffic")
    assert "list, derived, 2026-11-09" in output
    assert "nan" not in output.lower().split()


def test_command_writes_json_with_finite_numbers_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", str(DEFAULT), "--json"]) == Exit.OK
    data = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert data["fits"] is True
    assert data["verdict"]["measured"]["cost_ratio"] > 0
    assert data["transfer"]["prompts_held"] == 51


@pytest.mark.parametrize(
    ("replacements", "code", "message"),
    [
        (
            (("name: llama-3.3-70b-instruct", "name: gpt-5"),),
            Exit.FINDINGS,
            "unknown model: given `name: gpt-5`",
        ),
        (
            (("revision:", "weights: int4\n  revision:"),),
            Exit.UNREADABLE,
            "model.weights",
        ),
        ((("  concurrency: 32\n", ""),), Exit.FINDINGS, "zero traffic"),
        (
            (("  concurrency: 32\n", "  trace_file: none.jsonl\n"),),
            Exit.FINDINGS,
            "none.jsonl: cannot be read: No such file",
        ),
        (
            (
                (
                    "traffic:",
                    "prices:\n  - {instance_type: ml.p5.48xlarge, usd_per_hour: 40.0, source: x}\ntraffic:",
                ),
            ),
            Exit.UNREADABLE,
            "prices[0].as_of",
        ),
        (
            (
                (
                    "traffic:",
                    "prices:\n  - {instance_type: ml.p5.48xlarge, usd_per_hour: 40.0, as_of: soon, source: x}\ntraffic:",
                ),
            ),
            Exit.FINDINGS,
            "has no date: given `as_of: soon`",
        ),
    ],
)
def test_command_says_what_is_wrong_without_a_traceback(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    replacements: tuple[tuple[str, str], ...],
    code: Exit,
    message: str,
) -> None:
    assert run(["plan", _file(tmp_path, *replacements)]) == code
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


def test_command_on_a_plan_that_cannot_fit_prints_the_fit_and_the_way_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", _file(tmp_path, ("tensor_parallel: 8", "tensor_parallel: 2"))]) == Exit.FINDINGS
    output = " ".join(capsys.readouterr().out.split())
    assert "does not fit: weights 65.7 GiB + one 16,384-token sequence 2.5 GiB" in output
    assert "the nearest that fits is `serving.tensor_parallel: 4`" in output


def test_unwritable_report_is_said_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", str(DEFAULT), "--html", str(tmp_path / "missing" / "plan.html")]) == Exit.UNREADABLE
    assert "cannot be written: no such file" in capsys.readouterr().err


def test_request_longer_than_the_model_serves_is_refused(deployment: Deployment) -> None:
    with pytest.raises(PromptTooLongError, match=r"longer than `serving\.max_model_len_tokens: 16384`"):
        make_plan(_with(deployment, "traffic", input_tokens=16_384))


def test_trace_with_a_request_longer_than_the_model_serves_is_refused(
    deployment: Deployment, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"arrival_seconds": 0, "input_tokens": 20000, "output_tokens": 5}\n')
    with pytest.raises(PromptTooLongError, match=r"20,000 \+ 5 tokens"):
        make_plan(_with(deployment, "traffic", concurrency=None, trace_file=str(trace)))


def test_model_that_fits_only_with_two_changes_is_told_both(deployment: Deployment) -> None:
    plan = make_plan(_with(deployment, "model", name="deepseek-v3"))
    assert plan.nearest is not None
    assert plan.nearest.change == "`instance_type: ml.p5e.48xlarge` in every group and `model.weights: fp8`"


def test_search_hands_prompts_over_from_the_break_even_on(deployment: Deployment) -> None:
    """Otherwise a high threshold would make the prefillers of every shape look idle."""
    plan = make_plan(_with(deployment, "routing", threshold_tokens="never"))
    assert plan.search is not None
    assert plan.threshold is not None
    assert plan.search.threshold_tokens == plan.threshold.break_even_tokens
    assert plan.search.self_managed is not None
    assert plan.search.self_managed.evaluation.summary.disaggregated_share == 1


def test_operator_estimates_prompts_so_more_of_them_sit_on_the_threshold(deployment: Deployment) -> None:
    near = _with(deployment, "traffic", input_tokens=4900)
    own = make_plan(near).threshold
    operator = make_plan(_with(near, "serving", backend="operator")).threshold
    assert own is not None
    assert operator is not None
    assert not any("sits on the threshold" in warning for warning in own.warnings)
    assert any("sits on the threshold" in warning for warning in operator.warnings)
