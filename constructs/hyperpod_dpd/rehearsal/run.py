"""One profile, from its manifests to its results."""

import asyncio
import contextlib
import dataclasses
import resource
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import aiohttp

from hyperpod_dpd.derive import resolve
from hyperpod_dpd.evidence.proof import ProofResult, Target, prove
from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.planner.summary import Summary
from hyperpod_dpd.planner.workload import ClosedLoop, FixedLengths, LengthSource, SpreadLengths
from hyperpod_dpd.rehearsal.cluster import REPLACED, LocalCluster, router_port
from hyperpod_dpd.rehearsal.faults import CLIENT_DISCONNECTS, Fault
from hyperpod_dpd.rehearsal.inject import inject, remove_faults
from hyperpod_dpd.rehearsal.leftover import left_over
from hyperpod_dpd.rehearsal.measure import AGREEMENT, Measurement, observe
from hyperpod_dpd.rehearsal.metrics import NOTHING, Samples, scrape
from hyperpod_dpd.rehearsal.options import Options
from hyperpod_dpd.rehearsal.plan import RehearsalPlan
from hyperpod_dpd.rehearsal.pods import SECRET_VALUE
from hyperpod_dpd.rehearsal.prediction import predict, shape_of
from hyperpod_dpd.rehearsal.prometheus import Monitoring, program
from hyperpod_dpd.rehearsal.prompts import Request, requests
from hyperpod_dpd.rehearsal.traffic import Clients, Ending, Patience
from hyperpod_dpd.rehearsal.trouble import Kind, RefusedError, Trouble, trouble
from hyperpod_dpd.rehearsal.view import Show
from hyperpod_dpd.rehearsal.watch import Watch
from hyperpod_dpd.spec import Deployment, Role
from hyperpod_dpd.spec.value import record

_LEAST_REQUESTS: Final = 50
"""Requests of a run of the announcement's benchmark."""

_POLL_SECONDS: Final = 0.1
_MIXED_USERS: Final = 8
_MIXED_REQUESTS: Final = 24
_MIXED_SEED: Final = 900_001
_GREETING_SEED: Final = 900_002
_GREETING_TOKENS: Final = 2
"""A hand-off needs two at least."""

_SETTLE_SECONDS: Final = 90.0
"""Real seconds in which the router clears away what it owns: its grace for late notifications is 30."""

_TRIED_AGAIN: Final = ("dpd_router_pairs_broken", "dpd_router_worker_hung")
_RECOVERY_SECONDS: Final = 330.0
"""Real seconds; by its default the router tries a pair again after one minute and a prefiller after five."""

_RECOVERY_PAUSE_SECONDS: Final = 5.0

_SCRAPES_BEFORE: Final = 4.0
"""Real seconds of scrapes before the first request: rates need two points."""

BEARABLE_LAG_SECONDS: Final = 0.5
"""Simulated seconds by which engines may fall behind; with more, times say something about this machine only."""

_SIMULATED_STATISTICS_SECONDS: Final = 5.0
"""Real seconds in which simulated engines show what they did; LMCache itself takes 10."""

_ALERT_SECONDS: Final = 30.0
"""Real seconds within which an alert for a fault has fired: a quarter of an hour for the rules."""

_RULES_AFTER_SECONDS: Final = 12.0
"""Real seconds after a fault's traffic in which rules with a window of five minutes still speak."""


@record
class ProfileResult:
    """Everything that one profile did."""

    profile: str
    folder: str
    notes: tuple[str, ...]
    simulated: bool
    """Whether step times came from the planner, and no GPU was involved."""

    replaced: tuple[str, ...]
    """What differed from a cluster."""

    compression: float
    mixed: Measurement | None
    """Long and short prompts together."""

    runs: tuple[Measurement, ...]
    """The announcement's scenario, by users."""

    under_faults: Measurement | None
    faults: tuple[Fault, ...]
    chunks_left: Mapping[str, Sequence[int]]
    """Chunks in use in each decoder's PD buffer at the end, by rank."""

    hand_offs_left: int | None
    """Hand-offs that the router still owned at the end; None: it did not answer."""

    alerts: Mapping[str, str] | None
    """Alerts that fired, with their summaries; None: no Prometheus watched."""

    proof: ProofResult | None
    """None: it was not asked for."""

    events: tuple[str, ...]
    exit_codes: Mapping[str, Sequence[int | None]]
    """Exit statuses of the containers of each pod that was there at the end."""

    left_behind: tuple[str, ...]
    """Processes that outlived the rehearsal."""

    lost_seconds: float
    """Simulated seconds by which engines fell behind because this machine was too slow: with any, times are too long."""

    troubles: tuple[Trouble, ...]
    """What did not work."""

    @property
    def too_slow(self) -> bool:
        """Whether this machine could not keep up, so that times are not comparable with the planner's."""
        return self.lost_seconds > BEARABLE_LAG_SECONDS

    real_seconds: float
    cpu_seconds: float
    """CPU time of all processes together."""


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
    rehearsal = _Rehearsal(cluster, plan, deployment, options, Watch(cluster, profile, show))
    async with cluster:
        await rehearsal.run(folder)
        ended = await cluster.close()
    left_behind = tuple(cluster.left_behind())
    codes = {pod.name: tuple(statuses) for pod, statuses in ended}
    return ProfileResult(
        profile=profile,
        folder=plan.folder,
        notes=plan.notes,
        simulated=cluster.engines.simulated,
        replaced=(*cluster.engines.replaced, *REPLACED),
        compression=options.compression,
        mixed=rehearsal.mixed,
        runs=tuple(rehearsal.runs),
        under_faults=rehearsal.under_faults,
        faults=options.faults,
        chunks_left=rehearsal.chunks_left,
        hand_offs_left=rehearsal.hand_offs_left,
        alerts=rehearsal.alerts,
        proof=rehearsal.proof,
        events=tuple(cluster.events),
        exit_codes=codes,
        left_behind=left_behind,
        lost_seconds=rehearsal.lost_seconds,
        troubles=(*rehearsal.troubles(), *_left(left_behind)),
        real_seconds=time.monotonic() - started,
        cpu_seconds=_cpu_seconds() - cpu,
    )


def _left(processes: Sequence[str]) -> tuple[Trouble, ...]:
    if not processes:
        return ()
    return (
        Trouble(
            kind=Kind.RUNNING,
            says=f"{len(processes)} processes outlived the rehearsal: {'; '.join(processes)}",
            fix="end them, and report how it came about",
        ),
    )


def _cpu_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class _Rehearsal:
    """The phases of one profile, and what each leaves."""

    def __init__(
        self,
        cluster: LocalCluster,
        plan: RehearsalPlan,
        deployment: Deployment,
        options: Options,
        watch: Watch,
    ) -> None:
        self._cluster = cluster
        self._plan = plan
        self._deployment = deployment
        self._options = options
        self._watch = watch
        # one rank alone, as on a GPU here, has no all-reduces: it is not what the planner plans
        self._shape = shape_of(plan) if not options.gpus else None
        self._disaggregates = any(
            placement.plan.worker is not None and placement.plan.worker.role is Role.PREFILL
            for placement in plan.placements
        )
        self.mixed: Measurement | None = None
        self.runs: list[Measurement] = []
        self.under_faults: Measurement | None = None
        self.chunks_left: Mapping[str, Sequence[int]] = {}
        self.hand_offs_left: int | None = None
        self.alerts: Mapping[str, str] | None = None
        self.proof: ProofResult | None = None
        self.lost_seconds = 0.0
        self._found: list[Trouble] = []

    async def run(self, folder: Path) -> None:
        options = self._options
        async with self._watch.watching():
            self._watch.phase("starting pods")
            await self._cluster.ready(options.ready_seconds)
            await self._cluster.routed(options.ready_seconds)
            async with self._monitored(folder / "prometheus"), self._session() as session:
                if options.faults:
                    self.under_faults = await self._with_faults(session)
                else:
                    self.mixed = await self._mixed(session)
                    for users in options.users:
                        self.runs.append(await self._announced(session, users))
                self._watch.phase("settling")
                await self._settle()
                if options.proves:
                    await self._prove()
            self.lost_seconds = await self._lost_seconds()

    # -- traffic ----------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncIterator[aiohttp.ClientSession]:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            yield session

    def _clients(self, session: aiohttp.ClientSession, leaving_share: float = 0.0) -> Clients:
        routers = [each.plan.router for each in self._plan.placements if each.plan.router is not None]
        asks_for_key = any(each.arguments.last("--api-keys-file") is not None for each in routers)
        return Clients(
            session,
            self._cluster.endpoint,
            compression=self._options.compression,
            patience=Patience(leaving_share=leaving_share),
            headers={"Authorization": f"Bearer {SECRET_VALUE}"} if asks_for_key else None,
        )

    @property
    def _model(self) -> str:
        worker = next(each.plan.worker for each in self._plan.placements if each.plan.worker is not None)
        return worker.arguments.value("--served-model-name") or ""

    async def _announced(self, session: aiohttp.ClientSession, users: int) -> Measurement:
        """Run the announcement's scenario with one number of users."""
        options = self._options
        lengths = FixedLengths(input_tokens=options.input_tokens, output_tokens=options.output_tokens)
        count = max(_LEAST_REQUESTS, options.requests_per_user * users)
        loop = ClosedLoop(concurrency=users, lengths=lengths, requests=count)
        predicted = (
            None
            if self._shape is None
            else predict(self._deployment, self._shape, loop, compression=options.compression)
        )
        seconds = None
        if predicted is not None:
            seconds = count / predicted.requests_per_second / options.compression
        self._watch.phase(f"{users} users", total=count, real_seconds=seconds)
        return await self._closed_loop(session, lengths, users, count, seed=users, predicted=predicted)

    async def _mixed(self, session: aiohttp.ClientSession) -> Measurement:
        """Run long and short prompts together: what the threshold is for."""
        self._watch.phase("long and short prompts", total=_MIXED_REQUESTS)
        return await self._closed_loop(
            session, self._long_and_short(), _MIXED_USERS, _MIXED_REQUESTS, seed=_MIXED_SEED, predicted=None
        )

    def _long_and_short(self) -> LengthSource:
        traffic = self._deployment.traffic
        return SpreadLengths(
            long_tokens=self._options.input_tokens,
            short_tokens=traffic.short_input_tokens,
            long_share=0.5,
            output_tokens=min(64, self._options.output_tokens),
            input_variation=0.0,
            output_variation=0.0,
            longest_tokens=self._deployment.serving.max_model_len_tokens,
        )

    async def _closed_loop(
        self,
        session: aiohttp.ClientSession,
        lengths: LengthSource,
        users: int,
        count: int,
        *,
        seed: int,
        predicted: Summary | None,
    ) -> Measurement:
        # made before the clock starts: a prompt costs a millisecond
        sent = tuple(islice(requests(self._model, lengths, seed=seed), count))
        before, started = await self._router_samples(), time.monotonic()
        answers = await self._clients(session).closed_loop(sent, users, progress=self._watch.step)
        return Measurement(
            users=users,
            seed=seed,
            sent=sent,
            answers=tuple(answers),
            observed=observe(answers),
            predicted=predicted,
            real_seconds=time.monotonic() - started,
            counted=(await self._router_samples()).since(before),
        )

    async def _router_samples(self) -> Samples:
        found = NOTHING
        for pod in self._cluster.alive:
            if pod.plan.router is not None:
                found = found.plus(await scrape(self._cluster.http, pod.url(router_port(pod))) or NOTHING)
        return found

    # -- faults -----------------------------------------------------------------------------------------------------

    async def _with_faults(self, session: aiohttp.ClientSession) -> Measurement:
        """Run mixed traffic while faults happen, and a while longer, so that rules can speak."""
        options = self._options
        leaving = sum(fault.value for fault in options.faults if fault.kind.name == CLIENT_DISCONNECTS)
        clients = self._clients(session, leaving_share=leaving)
        listed = ", ".join(map(str, options.faults))
        source = requests(self._model, self._long_and_short(), seed=_MIXED_SEED)
        await self._acquaint(session)
        self._watch.phase(listed, real_seconds=options.fault_seconds)
        started, done = time.monotonic(), asyncio.Event()
        counted = _Counted(self._cluster)
        await counted.look()
        counting = asyncio.create_task(counted.follow(), name="count decisions")
        async with asyncio.TaskGroup() as group:
            injected = [group.create_task(self._inject(fault)) for fault in options.faults]
            traffic = group.create_task(clients.until(source, options.fault_users, done))
            await asyncio.sleep(options.fault_seconds)
            # a rolling restart takes as long as it takes, and a real engine minutes to start
            await asyncio.gather(*injected)
            await self._answered_again(clients)
            done.set()
        answers = traffic.result()
        counting.cancel()
        await asyncio.gather(counting, return_exceptions=True)
        await counted.look()
        await remove_faults(self._cluster)
        await self._recover(clients, source)
        return Measurement(
            users=options.fault_users,
            seed=_MIXED_SEED,
            sent=(),
            answers=tuple(answers),
            observed=observe(answers),
            predicted=None,
            real_seconds=time.monotonic() - started,
            counted=counted.grown,
        )

    async def _acquaint(self, session: aiohttp.ClientSession) -> None:
        """Let prefillers and decoders meet: a decoder that dies while one first greets it hangs that prefiller for good.

        That is LMCache's, in every version, and another fault than those that are asked for.
        """
        self._watch.phase("prefillers and decoders meet")
        count = len([pod for pod in self._cluster.alive if pod.plan.worker is not None])
        options = self._options
        lengths = FixedLengths(input_tokens=options.input_tokens, output_tokens=_GREETING_TOKENS)
        sent = tuple(islice(requests(self._model, lengths, seed=_GREETING_SEED), 2 * count))
        await self._clients(session).closed_loop(sent, count)

    async def _inject(self, fault: Fault) -> None:
        """Make a fault happen; one that does not come to its end is a trouble, and holds nobody up for ever."""
        limit = self._options.ready_seconds * len(self._cluster.alive)
        try:
            async with asyncio.timeout(fault.at_seconds + limit):
                await inject(fault, self._cluster)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            why = f"still under way after {limit:g} s" if isinstance(error, TimeoutError) else str(error)
            self._say(f"`{fault}` did not come to its end: {why}; last `{self._cluster.events[-1]}`")

    async def _answered_again(self, clients: Clients) -> None:
        """Wait for the pods that a fault has hit, and until the first request after that got its tokens."""
        self._watch.phase("waiting until requests are answered again")
        limit = self._options.ready_seconds
        try:
            await self._cluster.ready(limit)
            await self._cluster.routed(limit)
            before = clients.served
            async with asyncio.timeout(limit):
                while clients.served == before:  # noqa: ASYNC110 -- clients tell nobody
                    await asyncio.sleep(_POLL_SECONDS)
        except RefusedError as error:
            self._found += error.troubles
        except TimeoutError:
            says = f"no request got its tokens within {limit:g} s after every pod was ready again"
            self._say(says)

    def _say(self, says: str) -> None:
        fix = "read the logs of router and workers; `--keep DIR` keeps them"
        self._found.append(Trouble(kind=Kind.RUNNING, says=says, fix=fix, file=self._plan.folder))

    async def _recover(self, clients: Clients, source: Iterator[Request]) -> None:
        """Send single requests until the router tries again what it took for broken, pairs, or hung, prefillers."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_RECOVERY_SECONDS):
                while any(map((await self._router_samples()).sum, _TRIED_AGAIN)):
                    self._watch.phase("waiting for what is broken or hung to be tried again")
                    await clients.closed_loop(tuple(islice(source, 2)), 1)
                    await asyncio.sleep(_RECOVERY_PAUSE_SECONDS)

    async def _settle(self) -> None:
        """Wait until the router owns no hand-off, and see what is left in the decoders' buffers."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_SECONDS):
                while True:  # a gauge tells nobody when it changes
                    samples = await self._router_samples()
                    self.hand_offs_left = (
                        int(samples.sum("dpd_router_handoffs_open")) if samples.values else None
                    )
                    if self.hand_offs_left == 0:
                        break
                    await asyncio.sleep(0.2)
        self.chunks_left = {
            name: state["connector"].get("used_chunks", ()) for name, state in (await self._states()).items()
        }

    async def _states(self) -> dict[str, dict[str, Any]]:
        """Return what simulated engines tell of themselves; real ones do not."""
        states: dict[str, dict[str, Any]] = {}
        if not self._cluster.engines.simulated:
            return states
        for pod in self._cluster.alive:
            worker = pod.plan.worker
            if worker is not None:
                with contextlib.suppress(aiohttp.ClientError, OSError):
                    url = f"{pod.url(worker.http_port)}/simulator/state"
                    async with self._cluster.http.get(url) as answer:
                        states[pod.name] = await answer.json()
        return states

    async def _lost_seconds(self) -> float:
        states = await self._states()
        return max((float(state["lost_seconds"]) for state in states.values()), default=0.0)

    # -- Prometheus and proof ---------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _monitored(self, folder: Path) -> AsyncIterator[None]:
        if not self._options.monitors or program() is None:
            yield
            return
        monitoring = Monitoring(
            self._deployment,
            folder=folder,
            host=self._cluster.addresses.monitoring,
            disaggregates=self._disaggregates,
        )
        cluster = self._cluster
        async with monitoring.running(cluster.alive, cluster.marked, cluster.http):
            follow = asyncio.create_task(_follow(monitoring, cluster), name="follow pods")
            try:
                await asyncio.sleep(_SCRAPES_BEFORE)
                yield
                if self._options.faults:
                    await asyncio.sleep(_RULES_AFTER_SECONDS)
            finally:
                follow.cancel()
                await asyncio.gather(follow, return_exceptions=True)
                self.alerts = dict(monitoring.fired)

    async def _prove(self) -> None:
        self._watch.phase("proof")
        target = self._target()
        if target is not None:
            self.proof = await asyncio.to_thread(prove, target)

    def _target(self) -> Target | None:
        url = self._cluster.endpoint()
        if url is None:
            return None
        urls: dict[Role, list[str]] = {role: [] for role in Role}
        for pod in self._cluster.alive:
            if pod.plan.worker is not None:
                urls[pod.plan.worker.role].append(pod.url(pod.plan.worker.http_port))
        facts = resolve(self._deployment)
        threshold = self._deployment.routing.threshold_tokens
        transfer = self._deployment.serving.transfer
        target = Target(
            url=url,
            model=self._model,
            prefillers=tuple(urls[Role.PREFILL]),
            decoders=tuple(urls[Role.DECODE] or urls[Role.COLOCATED]),
            threshold_tokens=threshold if self._disaggregates and threshold != "never" else None,
            api_key=SECRET_VALUE if self._deployment.routing.api_keys_secret else None,
            transfer=transfer.type,
            chunk_tokens=facts.chunk_tokens,
            max_model_len_tokens=facts.max_model_len_tokens,
            buffer_chunks=facts.decode.pd_buffer.chunks if transfer.type == "lmcache-pd" else None,
            expects_efa=False,
        )
        if not self._cluster.engines.simulated:
            # one rank of each
            return target
        return dataclasses.replace(
            target, tensor_parallel=facts.tensor_parallel, statistics_seconds=_SIMULATED_STATISTICS_SECONDS
        )

    # -- verdict ----------------------------------------------------------------------------------------------------

    def troubles(self) -> list[Trouble]:
        """Return what did not work."""
        node = self._plan.placements[0].plan.owner.node
        routers = [each.plan.router for each in self._plan.placements if each.plan.router is not None]
        router_node = routers[0].node if routers else node
        found = list(self._found)
        for measurement in (self.mixed, *self.runs):
            if measurement is None:
                continue
            bad = [answer for answer in measurement.answers if answer.ending is not Ending.ANSWERED]
            if bad:
                found.append(
                    trouble(
                        Kind.RUNNING,
                        node,
                        f"{len(bad)} of {len(measurement.answers)} requests of {measurement.users} users were not "
                        f"answered: the first {bad[0].ending.value}, {bad[0].says}",
                        "read the logs of router and workers; `--keep DIR` keeps them",
                    )
                )
            if self.lost_seconds <= BEARABLE_LAG_SECONDS:
                found += _differs(measurement, node)
        if self.mixed is not None:
            found += self._routed_otherwise(self.mixed, router_node)
        if self.under_faults is not None and (hung := self.under_faults.endings[Ending.HUNG.value]):
            found.append(
                trouble(
                    Kind.RUNNING,
                    router_node,
                    f"{hung} requests hung",
                    "a fault must end a request, never hold it",
                )
            )
        found += left_over(
            router_node,
            hand_offs=self.hand_offs_left,
            chunks=self.chunks_left,
            faults=self._options.faults,
        )
        found += self._alerted_otherwise(router_node)
        if self.proof is None and self._options.proves:
            says = "the proof was not made: no router was ready at the end"
            found.append(trouble(Kind.RUNNING, router_node, says, "read its log; `--keep DIR` keeps it"))
        if self.proof is not None and not self.proof.proved:
            found += [
                trouble(Kind.RUNNING, router_node, f"proof: {finding.says}", finding.fix)
                for finding in self.proof.findings
            ]
        return found

    def _alerted_otherwise(self, node: Node) -> list[Trouble]:
        """Compare the alerts that fired with those that the faults must and may bring."""
        faults, options = self._options.faults, self._options
        if self.alerts is None or not faults:
            # without a fault, users may be more than the engines carry: what fires then is told, and is no trouble
            return []
        allowed = frozenset[str]().union(*(each.kind.must_alert | each.kind.may_alert for each in faults))
        awaited = frozenset[str]().union(
            *(
                each.kind.must_alert
                for each in faults
                # an alert has its window; a fault at the very end is not seen
                if options.fault_seconds - each.at_seconds >= _ALERT_SECONDS
            )
        )
        found = []
        for says, names in (
            ("did not fire", awaited - set(self.alerts)),
            ("fired", set(self.alerts) - allowed),
        ):
            found += [
                trouble(
                    Kind.RUNNING,
                    node,
                    f"alert `{name}` {says}" + (f": {self.alerts[name]}" if name in self.alerts else ""),
                    f"its runbook is docs/runbooks/{name}.md",
                )
                for name in sorted(names)
            ]
        return found

    def _routed_otherwise(self, mixed: Measurement, node: Node) -> list[Trouble]:
        """Compare each decision with the deployment's threshold."""
        threshold = self._deployment.routing.threshold_tokens
        found = []
        for tokens in sorted({answer.input_tokens for answer in mixed.answers}):
            wanted = "direct"
            if self._disaggregates and threshold != "never" and tokens >= threshold:
                wanted = "disaggregated"
            paths = [
                answer.path
                for answer in mixed.answers
                if answer.input_tokens == tokens and answer.ending is Ending.ANSWERED
            ]
            wrong = [path for path in paths if path != wanted]
            if wrong:
                found.append(
                    trouble(
                        Kind.RUNNING,
                        node,
                        f"{len(wrong)} of {len(paths)} prompts of {tokens:,} tokens were `{wrong[0]}`, and "
                        f"`threshold_tokens: {threshold}` of the deployment wants `{wanted}`",
                        "render again, or compare the router's `--threshold` (0: always, `never`: never) with the "
                        "deployment",
                    )
                )
        return found


def _differs(measurement: Measurement, node: Node) -> list[Trouble]:
    """Compare what was measured with what the planner says."""
    difference, observed, predicted = measurement.tpot_difference, measurement.observed, measurement.predicted
    if measurement.agrees is not False or difference is None or observed is None or predicted is None:
        return []
    assert predicted.tpot_seconds is not None
    return [
        trouble(
            Kind.RUNNING,
            node,
            f"TPOT with {measurement.users} users is {observed.tpot_mean_seconds * 1e3:.1f} ms and by the planner "
            f"{predicted.tpot_seconds.mean * 1e3:.1f} ms: {difference:+.0%}, limit {AGREEMENT:.0%}",
            "queueing, router or hand-off behave otherwise than the planner thinks; on a busy machine lower "
            "`--compression` first",
        )
    ]


class _Counted:
    """What routers count, over restarts of their processes and over pods that replace each other."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._seen: dict[str, Samples] | None = None
        self.grown = NOTHING

    async def look(self) -> None:
        """Add what has been counted since the last look; the first one is where counting begins."""
        first, seen = self._seen is None, dict(self._seen or {})
        for pod in self._cluster.alive:
            if pod.plan.router is None:
                continue
            samples = await scrape(self._cluster.http, pod.url(router_port(pod)))
            if samples is None:
                continue
            if not first:
                self.grown = self.grown.plus(samples.since(seen.get(pod.name, NOTHING)))
            seen[pod.name] = samples
        self._seen = seen

    async def follow(self) -> None:
        """Look twice a second: what a process counts in its last moments is lost with it."""
        while True:
            await asyncio.sleep(0.5)
            await self.look()


async def _follow(monitoring: Monitoring, cluster: LocalCluster) -> None:
    """Scrape new pods and forget those that are gone."""
    known: list[str] = []
    while True:
        names = [pod.name for pod in cluster.alive]
        if names != known:
            monitoring.watch(cluster.alive)
            known = names
        await asyncio.sleep(0.5)
