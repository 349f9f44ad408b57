"""The plan of one deployment: fit, transfer, comparison, search, threshold, cost, verdict."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from hyperpod_dpd.catalog.calibration import MEASURED, PUBLIC
from hyperpod_dpd.catalog.vllm_defaults import VLLM_DEFAULTS
from hyperpod_dpd.derive import ServingFacts, resolve
from hyperpod_dpd.derive.quota import QuotaNeed, quotas_needed
from hyperpod_dpd.physics import Band, MemoryFit, kv_bytes_per_token, transfer_seconds_band
from hyperpod_dpd.planner.capacity import Capacity
from hyperpod_dpd.planner.cost import HourlyBurn, hourly_burn
from hyperpod_dpd.planner.nearest import Nearest, fits, nearest
from hyperpod_dpd.planner.ratio import Balance
from hyperpod_dpd.planner.scaling import scaling_warnings
from hyperpod_dpd.planner.search import SearchSpace, Shapes, best, capacities, effort, search_space
from hyperpod_dpd.planner.shape import Shape
from hyperpod_dpd.planner.step import StepModel
from hyperpod_dpd.planner.system import Disaggregated, HandOffFlow
from hyperpod_dpd.planner.threshold import ThresholdAdvice, ThresholdInputs, advise
from hyperpod_dpd.planner.timeline import Timeline, colocated_timeline, disaggregated_timeline
from hyperpod_dpd.planner.unplannable import UnplannableError
from hyperpod_dpd.planner.verdict import Comparison, Verdict
from hyperpod_dpd.planner.workbench import Evaluation, Load, Workbench
from hyperpod_dpd.planner.workload import OpenLoop, lengths_of
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.rules.serving.dpd_srv_003 import weights_and_a_sequence_fit
from hyperpod_dpd.rules.serving.dpd_srv_004 import expected_transfers_fit
from hyperpod_dpd.rules.serving.dpd_srv_008 import within_what_was_validated
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.arguments import checked

_CURVE_USERS = (1, 2, 4, 8, 16, 32, 64, 128)
_PROMISING = 3

_RULES: dict[str, Callable[[Deployment], Iterable[Problem]]] = {
    "DPD-SRV-003": weights_and_a_sequence_fit,
    "DPD-SRV-004": expected_transfers_fit,
    "DPD-SRV-008": within_what_was_validated,
}
"""Rules about the numbers of the plan; it says what they say, in their words."""


class NoWorkersError(UnplannableError):
    """The deployment has no worker that could answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRow:
    """Memory of one GPU of one kind of worker."""

    worker: str
    instance: str
    memory: MemoryFit


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferFacts:
    """What moves per prompt."""

    kv_bytes_per_token: int
    """Whole model."""

    kv_bytes_per_token_per_rank: int
    prompt_tokens: int
    prompt_bytes_per_rank: int
    prompts_held: int | None
    """Typical prompts that a decoder's PD buffer holds at once; None without a buffer."""

    seconds: Band
    """On the wire, at the efficiencies measured with that backend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficRow:
    """One shape under the deployment's traffic, with the band of both sets of constants."""

    role: str
    """Why it is in the table."""

    evaluation: Evaluation
    public: Evaluation
    """The same with the second set of constants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One shape at one number of users."""

    users: int
    evaluation: Evaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One shape over the number of users."""

    label: str
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficComparison:
    """The comparison at the deployment's own traffic."""

    description: str
    rows: tuple[TrafficRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualHardware:
    """The best of both kinds on as many nodes as are deployed."""

    nodes: int
    disaggregated: Capacity | None
    colocated: Capacity | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What each shape serves within the promises."""

    space: SearchSpace

    threshold_tokens: int
    """Threshold of the disaggregated shapes: the break-even, so that they show what they can do."""

    capacities: tuple[Capacity, ...]
    """Cheapest first."""

    recommended: Capacity | None
    equal_hardware: EqualHardware

    operator: Capacity | None
    """Best disaggregated shape that the operator backend can deploy."""

    self_managed: Capacity | None
    """Best disaggregated shape of all."""

    balance: Balance
    """What one prefiller and one decoder of the deployed types serve within the promises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that `dpd plan` says. Where the workers do not fit, only the fit and the nearest one that does."""

    deployment: Deployment
    facts: ServingFacts
    fit: tuple[FitRow, ...]
    fits: bool
    nearest: Nearest | None
    transfer: TransferFacts
    burn: HourlyBurn
    quotas: tuple[QuotaNeed, ...]
    warnings: tuple[str, ...]
    traffic: TrafficComparison | None = None
    search: Search | None = None
    threshold: ThresholdAdvice | None = None
    verdict: Verdict | None = None
    timelines: tuple[tuple[str, Timeline], ...] = ()
    curves: tuple[Curve, ...] = ()


@checked
def make_plan(deployment: Deployment, *, full: bool = False, curves: bool = False) -> Plan:
    """Plan `deployment`.

    Args:
        deployment: what is planned.
        full: search every priced instance type up to eight nodes and every token budget.
        curves: also measure over the number of users, for plots.

    Raises:
        UnresolvedError: the deployment names something that does not exist or does not go together.
        UnplannableError: there is no traffic to plan for, the trace file is not one, a price has no date, a request of
            the traffic fits into no worker, or the deployment has no decoder.
    """
    facts = resolve(deployment)
    if facts.decode.replicas < 1:
        raise NoWorkersError(
            "no decode worker: given `serving.decode.replicas: 0`. help: a deployment needs at least 1"
        )
    plan = Plan(
        deployment=deployment,
        facts=facts,
        fit=_fit(facts),
        fits=fits(facts),
        nearest=None if fits(facts) else nearest(deployment, facts),
        transfer=_transfer(deployment, facts),
        burn=hourly_burn(deployment),
        quotas=quotas_needed(deployment),
        warnings=tuple(_rule_warnings(deployment)),
    )
    return _Timed(deployment, facts, full=full, curves=curves).complete(plan) if plan.fits else plan


def _fit(facts: ServingFacts) -> tuple[FitRow, ...]:
    return tuple(
        FitRow(worker=role.role.value, instance=role.instance.name, memory=role.memory)
        for role in (facts.prefill, facts.decode)
    )


def _transfer(deployment: Deployment, facts: ServingFacts) -> TransferFacts:
    tokens = deployment.traffic.input_tokens
    buffer = facts.decode.pd_buffer
    size = buffer.bytes_for(tokens) if buffer.requested_bytes else tokens * facts.kv_bytes_per_token_per_rank
    return TransferFacts(
        kv_bytes_per_token=kv_bytes_per_token(facts.geometry, deployment.model.kv_cache),
        kv_bytes_per_token_per_rank=facts.kv_bytes_per_token_per_rank,
        prompt_tokens=tokens,
        prompt_bytes_per_rank=size,
        prompts_held=buffer.transfers(tokens) if buffer.requested_bytes else None,
        seconds=transfer_seconds_band(
            size, facts.line_rate_bytes_per_second, deployment.serving.transfer.backend
        ),
    )


def _rule_warnings(deployment: Deployment) -> Iterable[str]:
    for rule, check in _RULES.items():
        for problem in check(deployment):
            details = "; ".join(part for part in (problem.given, problem.computed, problem.limit) if part)
            yield f"{rule} {problem.says}: {details}. help: {problem.fix}"


class _Timed:
    """The parts of a plan that are about time."""

    def __init__(self, deployment: Deployment, facts: ServingFacts, *, full: bool, curves: bool) -> None:
        self._deployment = deployment
        self._facts = facts
        self._with_curves = curves
        self._bench = Workbench(deployment, facts)
        self._shapes = Shapes(deployment, facts, self._bench)
        self._space = search_space(deployment, facts, full=full)

    def complete(self, plan: Plan) -> Plan:
        load = self._bench.load()
        traffic = self._traffic(load)
        advice = self._threshold(traffic.rows[0].evaluation)
        search, verdict = self._search(advice)
        warnings = (
            *plan.warnings,
            *advice.warnings,
            *_load_warnings(load, traffic.rows[0].evaluation),
            *scaling_warnings(self._deployment.serving, search.balance),
        )
        return replace(
            plan,
            traffic=traffic,
            search=search,
            verdict=verdict,
            threshold=advice,
            timelines=self._timelines(),
            warnings=warnings,
            curves=self._curves() if self._with_curves else (),
        )

    # -- at the given traffic ---------------------------------------------------------------------------------------

    def _traffic(self, load: Load) -> TrafficComparison:
        deployed = self._shapes.deployed()
        instance = deployed.decode_instance
        same = deployed.prefillers + deployed.decoders
        tuned = self._deployment.serving.baseline.tuned_max_num_batched_tokens
        default = VLLM_DEFAULTS.max_num_batched_tokens
        shapes = {
            "deployed": deployed,
            "default": self._shapes.colocated(instance, default, same),
            "tuned": self._shapes.colocated(instance, tuned, same),
            "one node": self._shapes.colocated(instance, default),
        }
        rows = [
            TrafficRow(
                role=role,
                evaluation=self._bench.evaluate(shape, load, MEASURED),
                public=self._bench.evaluate(shape, load, PUBLIC),
            )
            for role, shape in shapes.items()
        ]
        return TrafficComparison(description=describe_traffic(self._deployment), rows=tuple(rows))

    # -- within the promises ----------------------------------------------------------------------------------------

    def _search(self, advice: ThresholdAdvice) -> tuple[Search, Verdict]:
        threshold = (
            advice.break_even_tokens if advice.break_even_tokens is not None else advice.recommended_tokens
        )
        routing = replace(self._deployment.routing, threshold_tokens=threshold)
        bench = Workbench(replace(self._deployment, routing=routing), self._facts)
        deployed = self._shapes.deployed()
        colocated = [
            self._shapes.colocated(instance, budget)
            for instance in self._space.instances
            for budget in self._space.budgets
        ]
        disaggregated = list(
            dict.fromkeys(
                [
                    *([deployed] if deployed.disaggregated else []),
                    *self._shapes.disaggregated(self._space),
                    *self._shapes.disaggregated(self._space, deployed.nodes),
                ]
            )
        )
        together = capacities(bench, colocated)
        split = capacities(bench, disaggregated)
        found = _distinct(sorted([*together, *split], key=lambda one: effort(one.evaluation)))
        search = Search(
            space=self._space,
            threshold_tokens=threshold,
            capacities=tuple(found),
            recommended=best(found),
            equal_hardware=EqualHardware(
                nodes=deployed.nodes,
                disaggregated=best([one for one in split if one.shape.nodes == deployed.nodes]),
                colocated=self._fleet(best(together), deployed.nodes),
            ),
            operator=best([one for one in split if "operator" in one.shape.backends]),
            self_managed=best(split),
            balance=self._shapes.balance(deployed.prefill_instance, deployed.decode_instance),
        )
        verdict = Verdict(
            measured=Comparison(constants=MEASURED.name, disaggregated=best(split), colocated=best(together)),
            public=Comparison(
                constants=PUBLIC.name,
                disaggregated=best(capacities(bench, _promising(split, disaggregated), PUBLIC)),
                colocated=best(capacities(bench, _promising(together, colocated), PUBLIC)),
            ),
        )
        return search, verdict

    def _fleet(self, one: Capacity | None, nodes: int) -> Capacity | None:
        """Return `nodes` nodes of the colocated worker `one`: workers do not share anything, so it scales."""
        if one is None:
            return None
        users = one.users * nodes
        evaluation = self._bench.evaluate(one.shape.times(nodes), self._bench.users(users))
        return Capacity(users=users, evaluation=evaluation)

    # -- threshold, timeline, curves --------------------------------------------------------------------------------

    def _threshold(self, deployed: Evaluation) -> ThresholdAdvice:
        facts, traffic, routing = self._facts, self._deployment.traffic, self._deployment.routing
        tpot = deployed.summary.tpot_seconds
        rate = deployed.summary.requests_per_second
        decoding = rate * (traffic.output_tokens - 1) * (tpot.mean if tpot else 0.0)
        frontend = self._bench.system(deployed.shape).frontend
        hop = frontend.router_seconds + frontend.request_seconds
        hop += traffic.input_tokens * frontend.request_seconds_per_token
        return advise(
            ThresholdInputs(
                decode=self._bench.kernel_times(facts.decode.instance),
                prefill=self._bench.kernel_times(facts.prefill.instance),
                decode_budget=facts.decode.max_num_batched_tokens,
                prefill_budget=facts.prefill.max_num_batched_tokens,
                active_sequences=decoding / deployed.shape.decoders,
                hop_seconds=hop,
                gap_seconds=self._deployment.slo.itl_max_seconds,
                requests_per_second=rate,
                prefillers=deployed.shape.prefillers,
                longest_tokens=facts.max_model_len_tokens,
                typical_tokens=traffic.input_tokens,
                lengths=lengths_of(traffic, facts.max_model_len_tokens),
                configured_tokens=None if routing.threshold_tokens == "never" else routing.threshold_tokens,
                # the operator's router knows no tokenizer
                estimated=routing.estimator == "characters" or self._deployment.serving.backend == "operator",
            )
        )

    def _timelines(self) -> tuple[tuple[str, Timeline], ...]:
        traffic = self._deployment.traffic
        deployed = self._shapes.deployed()
        colocated = self._shapes.colocated(deployed.decode_instance, VLLM_DEFAULTS.max_num_batched_tokens)
        decode = self._bench.decode_times(deployed)
        step = decode.decode_step_seconds(1, traffic.input_tokens + traffic.output_tokens // 2)
        alone = self._bench.system(colocated)
        together = colocated_timeline(
            alone.frontend,
            input_tokens=traffic.input_tokens,
            prefill_seconds=self._bench.decode_times(colocated).prefill_seconds(
                traffic.input_tokens, colocated.max_num_batched_tokens
            ),
            decode_seconds=(traffic.output_tokens - 1) * step,
        )
        found = [("colocated", together)]
        system = self._bench.system(replace(deployed, prefillers=max(1, deployed.prefillers)))
        if isinstance(system, Disaggregated):
            prefill = self._bench.prefill_times(deployed.prefill_instance)
            apart = disaggregated_timeline(
                system.frontend,
                system.hand_off,
                input_tokens=traffic.input_tokens,
                prefill_seconds=prefill.prefill_seconds(
                    traffic.input_tokens, self._facts.prefill.max_num_batched_tokens
                ),
                decode_seconds=max(0, traffic.output_tokens - 1) * step,
                recompute_seconds=_recompute_seconds(system, decode, traffic.input_tokens),
            )
            found.insert(0, ("disaggregated", apart))
        return tuple(found)

    def _curves(self) -> tuple[Curve, ...]:
        deployed = self._shapes.deployed()
        instance, same = deployed.decode_instance, deployed.prefillers + deployed.decoders
        tuned = self._deployment.serving.baseline.tuned_max_num_batched_tokens
        default = VLLM_DEFAULTS.max_num_batched_tokens
        shapes = {
            f"deployed {deployed.label}": deployed,
            f"{same} colocated, budget {default:,}": self._shapes.colocated(instance, default, same),
            f"{same} colocated, budget {tuned:,}": self._shapes.colocated(instance, tuned, same),
        }
        return tuple(
            Curve(
                label=label,
                points=tuple(
                    CurvePoint(users=users, evaluation=self._bench.evaluate(shape, self._bench.users(users)))
                    for users in _CURVE_USERS
                ),
            )
            for label, shape in shapes.items()
        )


def _recompute_seconds(system: Disaggregated, decode: StepModel, input_tokens: int) -> float:
    """What the decoder computes although everything was handed over: a token, or a unit."""
    if system.hand_off.flow is HandOffFlow.RECOMPUTE:
        unit = system.hand_off.unit_tokens
        tokens = input_tokens - (input_tokens - 1) // unit * unit
    else:
        tokens = 1
    return decode.mixed_seconds(tokens, tokens * input_tokens, 0, 1)


def _distinct(found: Sequence[Capacity]) -> list[Capacity]:
    """Leave out what differs from an earlier entry only in a sequence limit that neither reaches."""
    kept: dict[object, Capacity] = {}
    for one in found:
        kept.setdefault((replace(one.shape, max_num_seqs=1), one.evaluation.summary), one)
    return list(kept.values())


def _promising(found: Sequence[Capacity], shapes: Sequence[Shape]) -> list[Shape]:
    """Return the few best of one set of constants; the other set need not look at the rest. All, if none was good."""
    ranked = sorted(found, key=lambda one: effort(one.evaluation))[:_PROMISING]
    return [one.shape for one in ranked] or list(shapes)


def _load_warnings(load: Load, deployed: Evaluation) -> Iterable[str]:
    if load.shortened_from is not None and isinstance(load.workload, OpenLoop):
        yield (
            f"only the first {len(load.workload.requests):,} of {load.shortened_from:,} requests of the trace are "
            "used. help: plan with a sample"
        )
    if deployed.saturated:
        yield (
            f"the deployment serves {deployed.summary.requests_per_second:.2f} of "
            f"{load.offered_requests_per_second:.2f} requests per second: its queue grows for ever. "
            "help: add workers"
        )
    if deployed.summary.preemptions:
        yield (
            f"{deployed.summary.preemptions} sequences lost their KV cache to others. "
            "help: lower `max_num_seqs` or raise `gpu_memory_utilization`"
        )


def describe_traffic(deployment: Deployment) -> str:
    """Return the traffic in words."""
    traffic = deployment.traffic
    if traffic.trace_file is not None:
        return f"trace {traffic.trace_file}"
    prompts = f"{traffic.input_tokens:,}"
    if traffic.long_share < 1:
        prompts += f" ({traffic.long_share:.0%}) or {traffic.short_input_tokens:,}"
    load = (
        f"{traffic.concurrency} users"
        if traffic.concurrency is not None
        else f"{traffic.requests_per_second:g} requests/s"
    )
    hits = f", {traffic.prefix_hit_share:.0%} prefix hits" if traffic.prefix_hit_share else ""
    return f"{load}, {prompts} tokens in, {traffic.output_tokens:,} out{hits}"
