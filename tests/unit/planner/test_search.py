"""Shapes: how many nodes, which backend, which ratio, what is tried."""

import dataclasses
from pathlib import Path

import pytest

from hyperpod_dpd.catalog.instances import InstanceType, instance_type
from hyperpod_dpd.derive import resolve
from hyperpod_dpd.planner.capacity import capacity
from hyperpod_dpd.planner.plan import make_plan
from hyperpod_dpd.planner.search import Shapes, search_space
from hyperpod_dpd.planner.shape import Shape
from hyperpod_dpd.planner.workbench import Workbench, meets
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.load import load

DEPLOYMENTS = Path(__file__).parents[3] / "deployments"
P5 = instance_type("ml.p5.48xlarge")
P5EN = instance_type("ml.p5en.48xlarge")


def _shape(prefillers: int, decoders: int, gpus: int = 8, decode: InstanceType = P5) -> Shape:
    return Shape(
        prefillers=prefillers,
        decoders=decoders,
        prefill_instance=P5,
        decode_instance=decode,
        gpus_per_worker=gpus,
        max_num_batched_tokens=8192,
        max_num_seqs=32,
    )


def _shapes(deployment: Deployment) -> tuple[Shapes, Workbench]:
    facts = resolve(deployment)
    bench = Workbench(deployment, facts)
    return Shapes(deployment, facts, bench), bench


@pytest.fixture(scope="module")
def deployment() -> Deployment:
    return load(DEPLOYMENTS / "llama-3.3-70b-p5.yaml").deployment


@pytest.mark.parametrize(
    ("shape", "nodes"),
    [(_shape(2, 1), 3), (_shape(0, 3), 3), (_shape(3, 1, gpus=4), 3), (_shape(0, 3, gpus=4), 2)],
)
def test_roles_do_not_share_a_node(shape: Shape, nodes: int) -> None:
    assert shape.nodes == nodes


def test_operator_takes_one_decoder_and_mixed_pools_but_not_two_decoders() -> None:
    assert "operator" in _shape(3, 1).backends
    assert "operator" in _shape(2, 1, decode=P5EN).backends
    assert _shape(2, 2).backends == ("self-managed",)
    assert "operator" in _shape(0, 4).backends


def test_mixed_pools_cost_the_sum_of_both() -> None:
    assert _shape(2, 1, decode=P5EN).usd_per_hour(()) == pytest.approx(2 * 63.30 + 72.79)
    assert _shape(1, 1, decode=instance_type("ml.p5e.48xlarge")).usd_per_hour(()) is None


def test_capacities_of_the_roles_are_those_of_the_sizing_rule(deployment: Deployment) -> None:
    """One TP8 prefiller computes about 5 to 7 prompts of 4,096 tokens a second."""
    shapes, _ = _shapes(deployment)
    balanced = shapes.balance(P5, P5)
    assert 4.5 <= balanced.prefill_requests_per_second <= 7
    tight, _ = _shapes(
        dataclasses.replace(deployment, slo=dataclasses.replace(deployment.slo, tpot_p95_seconds=0.02))
    )
    assert 1 < tight.balance(P5, P5).prefillers_per_decoder < balanced.prefillers_per_decoder


def test_more_bandwidth_on_the_decoders_asks_for_more_prefillers(deployment: Deployment) -> None:
    shapes, _ = _shapes(deployment)
    assert shapes.balance(P5, P5EN).prefillers_per_decoder > shapes.balance(P5, P5).prefillers_per_decoder


def test_capacity_is_the_last_load_that_keeps_the_promises(deployment: Deployment) -> None:
    shapes, bench = _shapes(deployment)
    shape = shapes.colocated(P5, 512)
    found = capacity(bench, shape)
    assert found is not None
    assert meets(found.evaluation.summary, deployment.slo)
    assert not bench.evaluate(shape, bench.users(round(found.users * 1.25) + 1)).meets_slo


def test_capacity_does_not_depend_on_the_first_guess(deployment: Deployment) -> None:
    shapes, bench = _shapes(deployment)
    shape = shapes.deployed()
    low, high = capacity(bench, shape, guess=1), capacity(bench, shape, guess=700)
    assert low is not None
    assert high is not None
    assert low.users == pytest.approx(high.users, rel=0.1)


def test_every_tried_shape_is_small_enough_and_no_multiple_of_another(deployment: Deployment) -> None:
    shapes, _ = _shapes(deployment)
    space = search_space(deployment, resolve(deployment), full=True)
    tried = shapes.disaggregated(space)
    assert all(shape.nodes <= space.most_nodes for shape in tried)
    assert {shape.decode_instance for shape in tried} >= {P5, P5EN}
    ratios = [
        (shape.prefillers / shape.decoders, shape.prefill_instance.name, shape.decode_instance.name)
        for shape in tried
    ]
    assert len(set(ratios)) == len(ratios)


def test_search_on_equal_hardware_uses_exactly_those_nodes() -> None:
    mixed = load(DEPLOYMENTS / "llama-3.3-70b-p5-p5en.yaml").deployment
    search = make_plan(mixed).search
    assert search is not None
    assert search.equal_hardware.nodes == 4
    assert search.equal_hardware.colocated is not None
    assert search.equal_hardware.colocated.shape.nodes == 4
    assert search.equal_hardware.disaggregated is not None
    assert search.equal_hardware.disaggregated.shape.nodes == 4


def test_full_search_finds_nothing_dearer_than_the_quick_one(deployment: Deployment) -> None:
    quick, full = make_plan(deployment).search, make_plan(deployment, full=True).search
    assert quick is not None
    assert full is not None
    assert quick.recommended is not None
    assert full.recommended is not None
    best, found = (
        quick.recommended.evaluation.usd_per_million_output_tokens,
        full.recommended.evaluation.usd_per_million_output_tokens,
    )
    assert best is not None
    assert found is not None
    assert found <= best * 1.01
    assert {one.shape.place for one in full.capacities} >= {"p5", "p5en"}


def test_workers_of_half_a_node_are_planned_as_such(deployment: Deployment) -> None:
    half = dataclasses.replace(deployment, serving=dataclasses.replace(deployment.serving, tensor_parallel=4))
    plan = make_plan(half)
    assert plan.search is not None
    assert plan.search.recommended is not None
    assert plan.search.recommended.shape.gpus_per_worker == 4
    assert plan.search.equal_hardware.colocated is not None
    assert plan.search.equal_hardware.colocated.shape.decoders == 2 * plan.search.equal_hardware.nodes
    for one in plan.search.capacities:
        if not one.shape.disaggregated:
            assert one.shape.decoders == 2  # whole nodes are paid, so whole nodes are compared
