"""What is wrong with what was seen while a profile ran."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.rehearsal.faults import Fault
from hyperpod_dpd.rehearsal.measure import AGREEMENT, Measurement
from hyperpod_dpd.rehearsal.options import Options
from hyperpod_dpd.rehearsal.plan import RehearsalPlan
from hyperpod_dpd.rehearsal.run.leftover import left_over
from hyperpod_dpd.rehearsal.run.result import Outcome
from hyperpod_dpd.rehearsal.traffic import Ending
from hyperpod_dpd.rehearsal.trouble import READ_LOGS, READ_ROUTER_LOG, Kind, Trouble, trouble
from hyperpod_dpd.spec import Deployment

_ALERT_SECONDS: Final = 30.0
"""Real seconds within which an alert for a fault has fired: a quarter of an hour for the rules."""


def verdict(
    outcome: Outcome, plan: RehearsalPlan, deployment: Deployment, options: Options
) -> Iterator[Trouble]:
    """Yield what did not work.

    Args:
        outcome: what was seen.
        plan: what ran; troubles are said where it is written.
        deployment: what it was rendered from, whose threshold the router has to keep.
        options: what was done.
    """
    first = plan.placements[0].plan.owner.node
    router = next((each.node for each in plan.routers), first)
    yield from outcome.unfinished
    for measurement in (outcome.mixed, *outcome.runs):
        if measurement is not None:
            yield from _unanswered(measurement, first)
            if not outcome.too_slow:
                yield from _differs(measurement, first)
    if outcome.mixed is not None:
        yield from _routed_otherwise(outcome.mixed, plan, deployment, router)
    if outcome.under_faults is not None:
        yield from _hung(outcome.under_faults, router)
    yield from left_over(router, outcome.leftover, options.faults)
    yield from _alerted_otherwise(outcome, options, router)
    yield from _not_proved(outcome, options, router)


def _unanswered(measurement: Measurement, node: Node) -> Iterator[Trouble]:
    bad = [answer for answer in measurement.answers if answer.ending is not Ending.ANSWERED]
    if bad:
        yield trouble(
            Kind.RUNNING,
            node,
            f"{len(bad)} of {len(measurement.answers)} requests of {measurement.users} users were not answered: "
            f"the first {bad[0].ending.value}, {bad[0].says}",
            READ_LOGS,
        )


def _differs(measurement: Measurement, node: Node) -> Iterator[Trouble]:
    """Compare what was measured with what the planner says."""
    difference, observed, predicted = measurement.tpot_difference, measurement.observed, measurement.predicted
    if measurement.agrees is not False or difference is None or observed is None or predicted is None:
        return
    assert predicted.tpot_seconds is not None
    yield trouble(
        Kind.RUNNING,
        node,
        f"TPOT with {measurement.users} users is {observed.tpot_mean_seconds * 1e3:.1f} ms and by the planner "
        f"{predicted.tpot_seconds.mean * 1e3:.1f} ms: {difference:+.0%}, limit {AGREEMENT:.0%}",
        "queueing, router or hand-off behave otherwise than the planner thinks; on a busy machine lower "
        "`--compression` first",
    )


def _routed_otherwise(
    mixed: Measurement, plan: RehearsalPlan, deployment: Deployment, node: Node
) -> Iterator[Trouble]:
    """Compare each decision with the deployment's threshold."""
    threshold = deployment.routing.threshold_tokens
    for tokens in sorted({answer.input_tokens for answer in mixed.answers}):
        hands_over = plan.disaggregates and threshold != "never" and tokens >= threshold
        wanted = "disaggregated" if hands_over else "direct"
        paths = [
            answer.path
            for answer in mixed.answers
            if answer.input_tokens == tokens and answer.ending is Ending.ANSWERED
        ]
        wrong = [path for path in paths if path != wanted]
        if wrong:
            yield trouble(
                Kind.RUNNING,
                node,
                f"{len(wrong)} of {len(paths)} prompts of {tokens:,} tokens were `{wrong[0]}`, and "
                f"`threshold_tokens: {threshold}` of the deployment wants `{wanted}`",
                "render again, or compare the router's `--threshold` (0: always, `never`: never) with the deployment",
            )


def _hung(under_faults: Measurement, node: Node) -> Iterator[Trouble]:
    if hung := under_faults.endings[Ending.HUNG.value]:
        says = f"{hung} requests hung"
        yield trouble(Kind.RUNNING, node, says, "a fault must end a request, never hold it")


def _alerted_otherwise(outcome: Outcome, options: Options, node: Node) -> Iterator[Trouble]:
    """Compare the alerts that fired with those that the faults must and may bring."""
    if outcome.alerts is None or not options.faults:
        # without a fault, users may be more than the engines carry: what fires then is told, and is no trouble
        return
    if outcome.alerts_mean_nothing:
        return
    fired = outcome.alerts
    missing = _awaited(options) - set(fired)
    unexpected = set(fired) - _allowed(options.faults)
    for says, names in (("did not fire", missing), ("fired", unexpected)):
        for name in sorted(names):
            summary = f": {fired[name]}" if name in fired else ""
            fix = f"its runbook is docs/runbooks/{name}.md"
            yield trouble(Kind.RUNNING, node, f"alert `{name}` {says}{summary}", fix)


def _allowed(faults: tuple[Fault, ...]) -> frozenset[str]:
    return frozenset[str]().union(*(each.kind.must_alert | each.kind.may_alert for each in faults))


def _awaited(options: Options) -> frozenset[str]:
    # an alert has its window; a fault at the very end is not seen
    seen = [
        each.kind.must_alert
        for each in options.faults
        if options.fault_seconds - each.at_seconds >= _ALERT_SECONDS
    ]
    return frozenset[str]().union(*seen)


def _not_proved(outcome: Outcome, options: Options, node: Node) -> Iterator[Trouble]:
    if outcome.proof is None and options.proves:
        says = "the proof was not made: no router was ready at the end"
        yield trouble(Kind.RUNNING, node, says, READ_ROUTER_LOG)
    if outcome.proof is not None and not outcome.proof.proved:
        for finding in outcome.proof.findings:
            yield trouble(Kind.RUNNING, node, f"proof: {finding.says}", finding.fix)
