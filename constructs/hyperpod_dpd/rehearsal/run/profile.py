"""One profile, phase by phase."""

import resource
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import aiohttp

from hyperpod_dpd.derive import resolve
from hyperpod_dpd.evidence.proof import ProofResult
from hyperpod_dpd.rehearsal.cluster import REPLACED, LocalCluster
from hyperpod_dpd.rehearsal.measure import Measurement
from hyperpod_dpd.rehearsal.options import Options
from hyperpod_dpd.rehearsal.plan import RehearsalPlan
from hyperpod_dpd.rehearsal.ready import until_all_ready, until_all_routed
from hyperpod_dpd.rehearsal.run.alerts import watched_for_alerts
from hyperpod_dpd.rehearsal.run.leftover import settle
from hyperpod_dpd.rehearsal.run.proof import prove_profile
from hyperpod_dpd.rehearsal.run.result import Outcome, ProfileResult
from hyperpod_dpd.rehearsal.run.running import RunningProfile
from hyperpod_dpd.rehearsal.run.scenarios import run_announced, run_long_and_short
from hyperpod_dpd.rehearsal.run.simulator_state import lost_seconds
from hyperpod_dpd.rehearsal.run.under_faults import run_under_faults
from hyperpod_dpd.rehearsal.run.verdict import verdict
from hyperpod_dpd.rehearsal.trouble import Kind, Trouble
from hyperpod_dpd.rehearsal.view import Show
from hyperpod_dpd.rehearsal.watch import Watch
from hyperpod_dpd.spec import Deployment


async def rehearse(
    plan: RehearsalPlan,
    deployment: Deployment,
    *,
    profile: str,
    folder: Path,
    options: Options,
    show: Show = lambda _: None,
) -> ProfileResult:
    """Run a profile and measure it.

    Args:
        plan: the profile, read.
        deployment: what it was rendered from: its nodes, its threshold, its rules.
        profile: name of the profile.
        folder: folder for volumes, logs and programs, which does not exist yet; it stays.
        options: what is done.
        show: is shown a view every second.

    Raises:
        RefusedError: the plan has troubles, or not every pod became ready.
    """
    started, cpu = time.monotonic(), _cpu_seconds()
    cluster = LocalCluster(
        plan,
        folder=folder,
        geometry=resolve(deployment).geometry,
        compression=options.compression,
        gpus=options.gpus,
    )
    async with cluster:
        outcome = await _phases(cluster, deployment, options, Watch(cluster, profile, show))
        ended = await cluster.close()
    left_behind = tuple(cluster.left_behind())
    return ProfileResult(
        profile=profile,
        folder=plan.folder,
        notes=plan.notes,
        simulated=cluster.engines.simulated,
        replaced=(*cluster.engines.replaced, *REPLACED),
        compression=options.compression,
        faults=options.faults,
        outcome=outcome,
        events=tuple(cluster.events),
        exit_codes={pod.name: tuple(statuses) for pod, statuses in ended},
        left_behind=left_behind,
        troubles=(*verdict(outcome, plan, deployment, options), *_outlived(left_behind)),
        real_seconds=time.monotonic() - started,
        cpu_seconds=_cpu_seconds() - cpu,
    )


async def _phases(cluster: LocalCluster, deployment: Deployment, options: Options, watch: Watch) -> Outcome:
    mixed: Measurement | None = None
    runs: list[Measurement] = []
    under_faults: Measurement | None = None
    unfinished: tuple[Trouble, ...] = ()
    proof: ProofResult | None = None
    async with watch.watching():
        watch.phase("starting pods")
        await until_all_ready(cluster, options.ready_seconds)
        await until_all_routed(cluster, options.ready_seconds)
        async with (
            watched_for_alerts(cluster, deployment, options, cluster.folder / "prometheus") as seen,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
        ):
            running = RunningProfile(
                cluster=cluster, deployment=deployment, options=options, watch=watch, session=session
            )
            if options.faults:
                under_faults, unfinished = await run_under_faults(running)
            else:
                mixed = await run_long_and_short(running)
                runs = [await run_announced(running, users) for users in options.users]
            watch.phase("settling")
            leftover = await settle(cluster)
            if options.proves:
                watch.phase("proof")
                proof = await prove_profile(cluster, deployment)
        lost = await lost_seconds(cluster)
    return Outcome(
        mixed=mixed,
        runs=tuple(runs),
        under_faults=under_faults,
        unfinished=unfinished,
        leftover=leftover,
        alerts=None if seen is None else seen.fired,
        blind_seconds=0.0 if seen is None else seen.blind_seconds,
        proof=proof,
        lost_seconds=lost,
    )


def _outlived(processes: Sequence[str]) -> Iterator[Trouble]:
    if processes:
        yield Trouble(
            kind=Kind.RUNNING,
            says=f"{len(processes)} processes outlived the rehearsal: {'; '.join(processes)}",
            fix="end them, and report how it came about",
        )


def _cpu_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
