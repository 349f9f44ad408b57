"""A whole rehearsal: the profiles of one deployment, one after the other on the same machine."""

import asyncio
import signal
import tempfile
from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hyperpod_dpd.derive import resolve
from hyperpod_dpd.derive.backend import on_backend
from hyperpod_dpd.planner.shape import Shape
from hyperpod_dpd.rehearsal.impossible import impossible
from hyperpod_dpd.rehearsal.options import Options
from hyperpod_dpd.rehearsal.plan import RehearsalPlan, plan_rehearsal
from hyperpod_dpd.rehearsal.prediction import shape_of
from hyperpod_dpd.rehearsal.run import ProfileResult, rehearse
from hyperpod_dpd.rehearsal.trouble import RefusedError, Trouble
from hyperpod_dpd.rehearsal.view import Show
from hyperpod_dpd.spec import Deployment, Role
from hyperpod_dpd.spec.value import record


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
    if troubles := troubles or [each for plan in plans for each in impossible(plan, options)]:
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
