"""All runs of a benchmark, one after the other, each stored as soon as it is there."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Protocol

from hyperpod_dpd.evidence.benchmark.counters import grown, read_counters
from hyperpod_dpd.evidence.benchmark.settings import Settings
from hyperpod_dpd.evidence.benchmark.store import Store
from hyperpod_dpd.evidence.figures import NothingMeasuredError, figures
from hyperpod_dpd.evidence.results import BenchmarkResult, Connection, Request, Run, Traffic

ENDPOINT: Final = "/v1/chat/completions"
"""Where genai-bench sends chats."""

WARM_UP_SEED: Final = "warm-up"
WARM_UP_REQUESTS_PER_USER: Final = 2
"""The first hand-off between two workers connects them, and the first batch of a size may compile."""


class Drive(Protocol):
    """Sends the requests of one run."""

    def __call__(
        self, *, folder: Path, concurrency: int, seed: str, requests: int
    ) -> tuple[tuple[Request, ...], str]:
        """Return the requests and the digest of their prompts."""
        ...


def benchmark(
    settings: Settings,
    drive: Drive,
    store: Store,
    *,
    connection: Connection,
    folder: Path,
    say: Callable[[str], None],
) -> BenchmarkResult:
    """Measure every concurrency with every seed, and store the result after each run.

    Args:
        settings: what is measured.
        drive: what sends the requests.
        store: where the result goes.
        connection: how the requests reach the endpoint.
        folder: where the runs may write.
        say: takes a line about each run.

    Raises:
        RunFailedError: the load generator failed.
        NoCountersError: the router cannot be read.
        NotStoredError: the result cannot be stored.
    """
    now = datetime.now(UTC)
    name = f"{settings.system.profile}-{now:%Y%m%dT%H%M%SZ}.json"
    result = BenchmarkResult(
        made_at=now.isoformat(timespec="seconds").replace("+00:00", "Z"),
        system=settings.system,
        traffic=_traffic(settings),
        runs=(),
        connection=connection,
    )
    # an endpoint that is not there is named at once, and not by genai-bench after hundreds of requests
    _counters(settings)
    _warm_up(settings, drive, folder, say)
    for concurrency, seed in _plan(settings):
        run = _run(settings, drive, folder, concurrency, seed)
        result = replace(result, runs=(*result.runs, run))
        # a pod may be evicted, and an hour of measurements with it
        address = store.put(name, result.as_json())
        say(f"{_summary(run)}; in {address}")
    return result


def _plan(settings: Settings) -> Iterator[tuple[int, int]]:
    """Yield the runs. Seeds are the outer loop, so that what drifts with time hits every concurrency alike."""
    for seed in settings.seeds:
        for concurrency in settings.concurrencies:
            yield concurrency, seed


def _warm_up(settings: Settings, drive: Drive, folder: Path, say: Callable[[str], None]) -> None:
    concurrency = max(settings.concurrencies)
    requests, _ = drive(
        folder=folder / "warm-up",
        concurrency=concurrency,
        seed=WARM_UP_SEED,
        requests=WARM_UP_REQUESTS_PER_USER * concurrency,
    )
    say(f"warm-up: {sum(each.ended for each in requests)} answers, not counted")


def _run(settings: Settings, drive: Drive, folder: Path, concurrency: int, seed: int) -> Run:
    before = _counters(settings)
    requests, digest = drive(
        folder=folder / f"c{concurrency}-seed{seed}",
        concurrency=concurrency,
        # other prompts at every concurrency: what was sent before would be in the workers' prefix caches
        seed=f"{seed}/{concurrency}",
        requests=settings.requests_per_user * concurrency,
    )
    after = _counters(settings)
    return Run(
        concurrency=concurrency,
        seed=seed,
        prompts_digest=digest,
        requests=requests,
        router=grown(before, after),
    )


def _counters(settings: Settings) -> dict[str, float]:
    return read_counters(settings.url) if settings.reads_router else {}


def _traffic(settings: Settings) -> Traffic:
    try:
        tool = f"genai-bench {version('genai-bench')}"
    except PackageNotFoundError:
        tool = "no genai-bench"
    return Traffic(
        tool=tool,
        endpoint=ENDPOINT,
        input_tokens=settings.input_tokens,
        output_tokens=settings.output_tokens,
        ignore_eos=True,
    )


def _summary(run: Run) -> str:
    where = f"concurrency {run.concurrency}, seed {run.seed}"
    try:
        found = figures(run)
    except NothingMeasuredError as error:
        return f"{where}: {error}"
    return (
        f"{where}: {found.requests} requests, TTFT p50 {found.ttft_p50_seconds * 1e3:.0f} ms, TPOT "
        f"{found.tpot_mean_seconds * 1e3:.2f} ms, E2E p50 {found.e2e_p50_seconds:.2f} s, "
        f"{found.output_tokens_per_second:.0f} tok/s"
    )
