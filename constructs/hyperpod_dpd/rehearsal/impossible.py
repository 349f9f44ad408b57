"""What is asked of a rehearsal and could not happen."""

from collections.abc import Iterator

from hyperpod_dpd.rehearsal.budgets import allows, budgets_of, expected
from hyperpod_dpd.rehearsal.faults import ROLLING_RESTART, Fault
from hyperpod_dpd.rehearsal.options import Options
from hyperpod_dpd.rehearsal.plan import RehearsalPlan
from hyperpod_dpd.rehearsal.trouble import Kind, Trouble, trouble


def impossible(plan: RehearsalPlan, options: Options) -> Iterator[Trouble]:
    """Yield what keeps clients from being answered at all, and faults that hit nobody, never end or come too late."""
    engines = sum(replicas for _, replicas in plan.workers)
    routers = sum(pod.replicas for pod in plan.pods if pod.router is not None)
    for what, count in (("engine", engines), ("router", routers)):
        if not count:
            yield Trouble(
                kind=Kind.ELSEWHERE,
                says=f"`{plan.folder}` has no {what}, and no client would get an answer",
                fix="rehearse a whole profile, as `make synth` renders it",
                file=plan.folder,
            )
    for fault in options.faults:
        yield from _impossible_fault(fault, plan, options)


def _impossible_fault(fault: Fault, plan: RehearsalPlan, options: Options) -> Iterator[Trouble]:
    needs = fault.kind.needs
    if needs is not None and needs not in plan.roles:
        yield Trouble(
            kind=Kind.ELSEWHERE,
            says=f"`{plan.folder}` has no {needs.value} worker that `{fault}` could hit",
            fix="choose a profile that disaggregates, or another fault",
        )
    if fault.kind.name == ROLLING_RESTART:
        yield from _never_evicted(plan, fault)
    if fault.at_seconds >= options.fault_seconds:
        yield Trouble(
            kind=Kind.ELSEWHERE,
            says=f"`{fault}` begins when {options.fault_seconds:g} s of traffic are over",
            fix="raise `--fault-seconds`, or let it begin sooner",
        )


def _never_evicted(plan: RehearsalPlan, fault: Fault) -> Iterator[Trouble]:
    for budget in budgets_of(plan.manifests):
        count = expected(budget, plan.pods)
        if count and not allows(budget, healthy=count, expected=count):
            yield trouble(
                Kind.ELSEWHERE,
                budget.node.get("spec") or budget.node,
                f"{budget.title} lets none of its {count} pods go, and `{fault}` would wait for ever, as a node drain does",
                "allow one, or choose another fault",
            )
