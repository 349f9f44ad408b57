"""A whole rehearsal: the profiles of one deployment, one after the other on the same machine."""

import asyncio
import signal
import tempfile
from collections.abc import Coroutine, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from hyperpod_dpd import __version__
from hyperpod_dpd.derive import resolve
from hyperpod_dpd.derive.backend import on_backend
from hyperpod_dpd.evidence.results import BenchmarkResult, System, Traffic, Workers
from hyperpod_dpd.planner.cost import hourly_price
from hyperpod_dpd.planner.shape import Shape
from hyperpod_dpd.rehearsal.budgets import allows, budgets_of, expected
from hyperpod_dpd.rehearsal.faults import ROLLING_RESTART, Fault
from hyperpod_dpd.rehearsal.options import Options
from hyperpod_dpd.rehearsal.plan import RehearsalPlan, plan_rehearsal
from hyperpod_dpd.rehearsal.prediction import shape_of
from hyperpod_dpd.rehearsal.run import ProfileResult, rehearse
from hyperpod_dpd.rehearsal.trouble import Kind, RefusedError, Trouble, trouble
from hyperpod_dpd.rehearsal.view import Show
from hyperpod_dpd.spec import Deployment, Role
from hyperpod_dpd.spec.value import record

TOOL: Final = "hyperpod-dpd rehearsal"


@record
class Rehearsal:
    """Results of every profile."""

    deployment: Deployment
    made_at: str
    """UTC, ISO 8601."""

    results: tuple[ProfileResult, ...]
    plans: tuple[RehearsalPlan, ...]
    """What was run, in the same order."""

    input_tokens: int
    output_tokens: int

    @property
    def disaggregated(self) -> ProfileResult | None:
        """The profile that hands over, with runs of the announcement's scenario."""
        return self._with_role(Role.PREFILL)

    @property
    def colocated(self) -> ProfileResult | None:
        """The first profile that does not, with runs."""
        return self._with_role(Role.COLOCATED)

    @property
    def colocated_shape(self) -> Shape | None:
        """Shape of the colocated workers."""
        return next((shape_of(plan) for plan in self.plans if Role.COLOCATED in plan.roles), None)

    @property
    def gpu(self) -> str:
        """Name of the decoders' GPU, such as `H100`."""
        return resolve(self.deployment).decode.instance.gpu.name.partition(" ")[0]

    @property
    def troubles(self) -> tuple[Trouble, ...]:
        """Everything that did not work."""
        return tuple(each for result in self.results for each in result.troubles)

    def _with_role(self, role: Role) -> ProfileResult | None:
        for plan, result in zip(self.plans, self.results, strict=True):
            if role in plan.roles and result.outcome.runs:
                return result
        return None


def rehearse_profiles(
    deployment: Deployment,
    profiles: Sequence[tuple[str, Path]],
    *,
    options: Options,
    keep: Path | None = None,
    show: Show = lambda _: None,
) -> Rehearsal:
    """Rehearse profiles one after the other.

    Args:
        deployment: what they were rendered from.
        profiles: name and folder of each.
        options: what is done with each.
        keep: folder for volumes and logs; by default they are removed.
        show: is shown a view every second.

    Raises:
        RefusedError: with every trouble of every profile, before any of them is started; or a profile did not start.
        UnreadableManifestError: with every file that is not YAML text.
    """
    # the operator's pods cannot run here: what is rehearsed of its deployments is their rendering for the other backend
    deployment = on_backend(deployment, "self-managed")
    plans = [plan_rehearsal([folder], deployment) for _, folder in profiles]
    troubles = [each for plan in plans for each in plan.troubles]
    # a plan with troubles may lack a role for that reason
    if troubles := troubles or [each for plan in plans for each in _cannot_happen(plan, options)]:
        raise RefusedError(tuple(troubles))
    results = []
    with tempfile.TemporaryDirectory(prefix="dpd-rehearsal-", ignore_cleanup_errors=True) as scratch:
        for (name, _), plan in zip(profiles, plans, strict=True):
            folder = (keep or Path(scratch)).resolve() / name
            work = rehearse(plan, deployment, profile=name, folder=folder, options=options, show=show)
            results.append(_run(work))
    return Rehearsal(
        deployment=deployment,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        results=tuple(results),
        plans=tuple(plans),
        input_tokens=options.input_tokens,
        output_tokens=options.output_tokens,
    )


def _cannot_happen(plan: RehearsalPlan, options: Options) -> Iterator[Trouble]:
    """Yield the faults that would hit nobody in `plan`, never end, or begin when the traffic is over."""
    for fault in options.faults:
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


def _run(work: Coroutine[Any, Any, ProfileResult]) -> ProfileResult:
    """Run `work`; SIGTERM and the end of the terminal end it as Ctrl-C does, so that nothing is left behind."""

    async def interruptible() -> ProfileResult:
        task = asyncio.ensure_future(work)
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        return await task

    try:
        return asyncio.run(interruptible())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def benchmark_results(rehearsal: Rehearsal) -> dict[str, BenchmarkResult]:
    """Return the runs of each profile in the format that `dpd compare` reads, by profile."""
    return {
        result.profile: BenchmarkResult(
            made_at=rehearsal.made_at,
            system=_system(rehearsal.deployment, plan, result.profile),
            traffic=Traffic(
                tool=f"{TOOL} {__version__}",
                endpoint="/v1/completions",
                input_tokens=rehearsal.input_tokens,
                output_tokens=rehearsal.output_tokens,
                ignore_eos=True,
            ),
            runs=tuple(run.as_run() for run in result.outcome.runs),
        )
        for plan, result in zip(rehearsal.plans, rehearsal.results, strict=True)
        # one rank on one GPU is not the system that the manifests describe
        if result.outcome.runs and result.simulated
    }


def _system(deployment: Deployment, plan: RehearsalPlan, profile: str) -> System:
    workers = [
        Workers(
            role=worker.role.value,
            count=replicas,
            gpus_per_worker=worker.gpus,
            instance_type=worker.instance.name if worker.instance else "",
        )
        for worker, replicas in plan.workers
    ]
    shape = shape_of(plan)
    usd = None if shape is None else shape.usd_per_hour(deployment.prices)
    prices = {each.instance_type: hourly_price(each.instance_type, deployment.prices) for each in workers}
    return System(
        deployment=deployment.name,
        profile=profile,
        model=resolve(deployment).geometry.name,
        engine=resolve(deployment).engine.triple.name,
        workers=tuple(workers),
        usd_per_hour=usd,
        price="; ".join(f"{name}: {price}" for name, price in prices.items() if price is not None)
        or "not known",
        simulated=True,
    )
