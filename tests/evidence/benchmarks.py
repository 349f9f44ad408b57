"""Results for tests: users that each send the next request when the last one is answered, in an invented time."""

import dataclasses
import heapq
import random
from collections.abc import Iterable, Iterator
from typing import Any

from hyperpod_dpd.evidence.results import (
    DIRECT,
    DISAGGREGATED,
    OWN_ROUTER,
    PLAIN,
    BenchmarkResult,
    Connection,
    Request,
    Run,
    System,
    Traffic,
    Workers,
)

P5 = "ml.p5.48xlarge"
TRAFFIC = Traffic(
    tool="genai-bench 0.0.4",
    endpoint="/v1/chat/completions",
    input_tokens=4096,
    output_tokens=256,
    ignore_eos=True,
)
DPD = System(
    deployment="llama",
    profile="self-managed",
    model="llama-3.3-70b",
    engine="vllm-0.25.1",
    workers=(
        Workers(role="prefill", count=1, gpus_per_worker=8, instance_type=P5),
        Workers(role="decode", count=1, gpus_per_worker=8, instance_type=P5),
    ),
    usd_per_hour=126.6,
    price="list, derived, 2026-11-09",
    simulated=False,
)
CONNECTION = Connection(router=OWN_ROUTER, host="router.llama-system.svc", port=8081, tls=PLAIN, doubt=None)
COLOCATED = dataclasses.replace(
    DPD,
    profile="baseline",
    workers=(Workers(role="colocated", count=2, gpus_per_worker=8, instance_type=P5),),
)


def run(
    concurrency: int,
    seed: int,
    *,
    ttft: float = 0.5,
    tpot: float = 0.01,
    path: str = DISAGGREGATED,
    requests: int | None = None,
    spread: float = 0.01,
    prompts: str = "prompts",
    **changes: Any,
) -> Run:
    """Return a run of `requests` requests (eleven per user unless told), with times that vary by `spread`."""
    source = random.Random(f"{concurrency} {seed}")
    made = Run(
        concurrency=concurrency,
        seed=seed,
        prompts_digest=f"{prompts} {concurrency} {seed}",
        requests=tuple(
            _requests(source, concurrency, requests or 11 * concurrency, ttft, tpot, path, spread)
        ),
        router={
            f'dpd_router_decisions_total{{decision="{path}",reason="x"}}': float(requests or 11 * concurrency)
        },
    )
    return dataclasses.replace(made, **changes)


def _requests(
    source: random.Random, users: int, count: int, ttft: float, tpot: float, path: str, spread: float
) -> Iterator[Request]:
    free = [0.0] * users
    for _ in range(count):
        start = heapq.heappop(free)
        first = ttft * source.uniform(1 - spread, 1 + spread)
        whole = first + 255 * tpot * source.uniform(1 - spread, 1 + spread)
        heapq.heappush(free, start + whole)
        yield request(path=path, start_seconds=start, ttft_seconds=first, e2e_seconds=whole)


def request(**changes: Any) -> Request:
    given: dict[str, Any] = {
        "path": DISAGGREGATED,
        "start_seconds": 0.0,
        "ttft_seconds": 0.5,
        "e2e_seconds": 3.0,
        "prompt_tokens": 4131,
        "output_tokens": 256,
        "cached_tokens": 0,
        "error": None,
    }
    return Request(**(given | changes))


def result(system: System, runs: Iterable[Run], **changes: Any) -> BenchmarkResult:
    made = BenchmarkResult(
        made_at="2026-11-30T12:00:00Z",
        system=system,
        traffic=TRAFFIC,
        runs=tuple(runs),
        connection=CONNECTION,
    )
    return dataclasses.replace(made, **changes)


def dpd(
    *, levels: tuple[int, ...] = (8,), seeds: tuple[int, ...] = (1, 2, 3), **of_run: Any
) -> BenchmarkResult:
    return result(DPD, [run(level, seed, **of_run) for level in levels for seed in seeds])


def colocated(
    *, levels: tuple[int, ...] = (8,), seeds: tuple[int, ...] = (1, 2, 3), **of_run: Any
) -> BenchmarkResult:
    given: dict[str, Any] = {"path": DIRECT, "tpot": 0.013, **of_run}
    return result(COLOCATED, [run(level, seed, **given) for level in levels for seed in seeds])
