"""Which shapes are tried, and which is best."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from hyperpod_dpd.catalog.calibration import MEASURED, StepCalibration
from hyperpod_dpd.catalog.instances import InstanceType, instance_types
from hyperpod_dpd.catalog.vllm_defaults import VLLM_DEFAULTS
from hyperpod_dpd.derive import ServingFacts
from hyperpod_dpd.planner.capacity import Capacity, capacity
from hyperpod_dpd.planner.cost import hourly_price
from hyperpod_dpd.planner.ratio import Balance, balance
from hyperpod_dpd.planner.shape import Shape
from hyperpod_dpd.planner.workbench import Evaluation, Workbench
from hyperpod_dpd.spec import Deployment

_FULL_BUDGETS = (256, 512, 1024, 2048, 4096, 8192)
_FULL_NODES = 8
_FULL_TRIED = 16
_QUICK_NODES = 4
_QUICK_TRIED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpace:
    """What is tried."""

    instances: tuple[InstanceType, ...]
    """Pools; with two of them also prefill on one and decode on the other."""

    most_nodes: int
    budgets: tuple[int, ...]
    """Token budgets of colocated workers."""

    tried: int
    """Disaggregated shapes that are simulated, the most promising ones by arithmetic."""


def search_space(deployment: Deployment, facts: ServingFacts, *, full: bool) -> SearchSpace:
    """Return what is tried for `deployment`: its own pools up to four nodes, or with `full` every priced type."""
    own = tuple(dict.fromkeys((facts.prefill.instance, facts.decode.instance)))
    deployed = facts.prefill.nodes + facts.decode.nodes
    tuned = deployment.serving.baseline.tuned_max_num_batched_tokens
    instances = own
    if full:
        priced = (row for row in instance_types() if hourly_price(row.name, deployment.prices) is not None)
        instances = tuple(dict.fromkeys((*own, *priced)))
    budgets = {tuned, VLLM_DEFAULTS.max_num_batched_tokens, *(_FULL_BUDGETS if full else ())}
    return SearchSpace(
        instances=instances,
        most_nodes=max(deployed, _FULL_NODES if full else _QUICK_NODES),
        budgets=tuple(sorted(budgets)),
        tried=_FULL_TRIED if full else _QUICK_TRIED,
    )


class Shapes:
    """Makes the shapes of one deployment."""

    def __init__(self, deployment: Deployment, facts: ServingFacts, bench: Workbench) -> None:
        self._deployment = deployment
        self._facts = facts
        self._bench = bench

    def deployed(self) -> Shape:
        """Return the shape that the deployment describes."""
        facts = self._facts
        return Shape(
            prefillers=facts.prefill.replicas,
            decoders=facts.decode.replicas,
            prefill_instance=facts.prefill.instance,
            decode_instance=facts.decode.instance,
            gpus_per_worker=facts.decode.gpus,
            max_num_batched_tokens=facts.decode.max_num_batched_tokens,
            max_num_seqs=min(facts.decode.max_num_seqs, facts.decode.max_num_batched_tokens),
        )

    def colocated(self, instance: InstanceType, budget: int, workers: int | None = None) -> Shape:
        """Return colocated workers with the baseline's settings and `budget`; by default as many as fill a node."""
        most = self._deployment.serving.baseline.max_num_seqs or VLLM_DEFAULTS.max_num_seqs
        return Shape(
            prefillers=0,
            decoders=workers if workers is not None else instance.gpus // self._facts.decode.gpus,
            prefill_instance=instance,
            decode_instance=instance,
            gpus_per_worker=self._facts.decode.gpus,
            max_num_batched_tokens=budget,
            max_num_seqs=min(most, budget),
        )

    def disaggregated(self, space: SearchSpace, nodes: int | None = None) -> list[Shape]:
        """Return the most promising shapes of `space`, best first; with `nodes`, those of exactly that many.

        Multiples of a smaller ratio are left out: they serve so many times as much for so many times the price.
        """
        ranked = sorted(self._ranked(space, nodes), key=lambda pair: pair[0])
        return [shape for _, shape in ranked[: space.tried]]

    def balance(self, prefill: InstanceType, decode: InstanceType) -> Balance:
        """Return what one prefiller and one decoder serve under the deployment's promises."""
        shape = replace(self.deployed(), prefillers=1, prefill_instance=prefill, decode_instance=decode)
        traffic = self._deployment.traffic
        return balance(
            self._bench.kernel_times(prefill),
            self._bench.kernel_times(decode),
            input_tokens=traffic.input_tokens,
            output_tokens=traffic.output_tokens,
            prefill_budget=self._facts.prefill.max_num_batched_tokens,
            tpot_seconds=self._deployment.slo.tpot_p95_seconds,
            kv_tokens=self._bench.memory(shape)[1].kv_tokens,
        )

    def _ranked(self, space: SearchSpace, nodes: int | None) -> Iterator[tuple[float, Shape]]:
        for prefill, decode in product(space.instances, repeat=2):
            balanced = self.balance(prefill, decode)
            if not balanced.decode_batch:
                continue
            for shape in self._ratios(space, prefill, decode, balanced):
                if shape.nodes > space.most_nodes or (nodes is not None and shape.nodes != nodes):
                    continue
                if nodes is None and _is_multiple(shape):
                    continue
                price = shape.usd_per_hour(self._deployment.prices)
                effort = price if price is not None else float(shape.nodes)
                yield effort / balanced.requests_per_second(shape.prefillers, shape.decoders), shape

    def _ratios(
        self, space: SearchSpace, prefill: InstanceType, decode: InstanceType, balanced: Balance
    ) -> Iterator[Shape]:
        facts = self._facts
        most = space.most_nodes * (decode.gpus // facts.decode.gpus)
        # whole eights are sizes that vLLM captures graphs for
        batch = max(8, balanced.decode_batch // 8 * 8)
        budget = facts.decode.max_num_batched_tokens
        for prefillers, decoders in product(range(1, most), repeat=2):
            if prefillers + decoders <= most:
                yield replace(
                    self.deployed(),
                    prefillers=prefillers,
                    decoders=decoders,
                    prefill_instance=prefill,
                    decode_instance=decode,
                    max_num_seqs=min(batch, budget),
                )


def _is_multiple(shape: Shape) -> bool:
    """Return whether the shape is several smaller ones side by side, on the same number of nodes."""
    common = math.gcd(shape.prefillers, shape.decoders)
    return any(
        shape.prefillers % part == 0
        and shape.decoders % part == 0
        and replace(shape, prefillers=shape.prefillers // part, decoders=shape.decoders // part).nodes * part
        == shape.nodes
        for part in range(2, common + 1)
    )


def capacities(
    bench: Workbench, shapes: Iterable[Shape], calibration: StepCalibration = MEASURED
) -> list[Capacity]:
    """Return the capacity of those of `shapes` that fit into memory and keep the promises at all."""
    found = []
    guess = 16
    for shape in shapes:
        if not all(memory.fits for memory in bench.memory(shape)):
            continue
        measured = capacity(bench, shape, calibration, guess=guess)
        if measured is not None:
            found.append(measured)
            guess = measured.users
    return found


def best(found: Sequence[Capacity]) -> Capacity | None:
    """Return the one whose tokens cost least, or None of none."""
    return min(found, key=lambda one: effort(one.evaluation)) if found else None


def effort(evaluation: Evaluation) -> tuple[float, float]:
    """Return what a token costs: dollars where the price is known, node seconds otherwise; fewer nodes break ties."""
    dollars = evaluation.usd_per_million_output_tokens
    rate = evaluation.summary.output_tokens_per_second
    nodes = evaluation.shape.nodes
    if dollars is None:
        return (nodes / rate if rate > 0 else math.inf, nodes)
    return (dollars, nodes)
