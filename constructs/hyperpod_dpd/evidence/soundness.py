"""What makes a result worth less than it looks: the traps of this benchmark, looked for in its own file."""

import math
from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Final

from hyperpod_dpd.evidence.results import (
    DIRECT,
    DISAGGREGATED,
    FALLBACK,
    OWN_ROUTER,
    UNKNOWN,
    BenchmarkResult,
    Request,
    Run,
)

REQUESTS_PER_USER: Final = 10
"""Fewer, and a run is mostly its own beginning and end."""

TEMPLATE_TOKENS: Final = 64
"""What every prompt begins with, by its chat template, and every worker has cached after the first."""

CACHED_SHARE: Final = 0.01
"""Prompts are random: what is cached beyond their beginning was sent before."""

FAILED_SHARE: Final = 0.01

DECISIONS: Final = "dpd_router_decisions_total"
HITS: Final = "dpd_router_handoff_hits_total"


def flaws(result: BenchmarkResult) -> tuple[str, ...]:
    """Return what is wrong with `result`, each with what was found and what was wanted."""
    found = (flaw for run in result.runs for flaw in _flaws(result, run))
    return (*found, *_interrupted(result))


def path_shares(result: BenchmarkResult) -> dict[str, float]:
    """Return the share of answered requests by the path that they took."""
    counted = Counter(each.path for run in result.runs for each in run.requests if each.ended)
    return {path: count / counted.total() for path, count in counted.most_common()}


def _flaws(result: BenchmarkResult, run: Run) -> Iterator[str]:
    where = f"concurrency {run.concurrency}, seed {run.seed}"
    ended = [each for each in run.requests if each.ended]
    failed = [each for each in run.requests if each.error is not None]
    wanted = REQUESTS_PER_USER * run.concurrency
    if len(ended) < wanted:
        yield f"{where}: {len(ended)} answers, wanted {wanted}: mostly the run's beginning and end"
    if len(failed) > FAILED_SHARE * len(run.requests):
        yield f"{where}: {len(failed)} of {len(run.requests)} requests failed, first `{_one_line(failed[0].error)}`"
    if not ended:
        return
    yield from _lengths(result, where, ended)
    yield from _paths(result, where, ended)
    yield from _cache(result, where, ended)
    yield from _counters(result, where, run)


def _interrupted(result: BenchmarkResult) -> Iterator[str]:
    """Every seed runs at every concurrency; the file is written after each run."""
    there = {(run.concurrency, run.seed) for run in result.runs}
    levels, seeds = ({each[place] for each in there} for place in (0, 1))
    for concurrency, seed in sorted(set(product(levels, seeds)) - there):
        yield f"concurrency {concurrency}, seed {seed}: not measured: the benchmark was interrupted"


def _one_line(error: str | None) -> str:
    """Return the words of a server as they can be shown."""
    return "".join(each if each.isprintable() else " " for each in error or "")


def _lengths(result: BenchmarkResult, where: str, ended: list[Request]) -> Iterator[str]:
    traffic = result.traffic
    other = [each for each in ended if each.output_tokens != traffic.output_tokens]
    if other:
        yield (
            f"{where}: {len(other)} of {len(ended)} answers do not have {traffic.output_tokens} tokens, the first "
            f"{other[0].output_tokens}: `ignore_eos` did not reach the engine"
        )
    uncounted = [each for each in ended if each.prompt_tokens is None]
    if uncounted:
        yield f"{where}: {len(uncounted)} of {len(ended)} answers do not say how long their prompt was"
    short = [each for each in ended if (each.prompt_tokens or math.inf) < 0.9 * traffic.input_tokens]
    if short:
        yield (
            f"{where}: {len(short)} of {len(ended)} prompts are more than a tenth shorter than "
            f"{traffic.input_tokens} tokens, the first {short[0].prompt_tokens}: another tokenizer than the engine's"
        )


def _paths(result: BenchmarkResult, where: str, ended: list[Request]) -> Iterator[str]:
    counted = Counter(each.path for each in ended)
    if _disaggregates(result):
        elsewhere = counted[DIRECT] + counted[FALLBACK]
        if elsewhere:
            yield (
                f"{where}: {elsewhere} of {len(ended)} requests were not disaggregated "
                f"({counted[DIRECT]} direct, {counted[FALLBACK]} fallback): the threshold is above the prompts, or "
                "the hand-off fails"
            )
        unproved = sum(
            each.path == UNKNOWN and (each.cached_tokens or 0) <= TEMPLATE_TOKENS for each in ended
        )
        if unproved:
            yield f"{where}: nothing says that {unproved} of {len(ended)} requests were disaggregated"
    elif counted[DISAGGREGATED]:
        yield f"{where}: {counted[DISAGGREGATED]} requests of a system without prefill workers were disaggregated"


def _cache(result: BenchmarkResult, where: str, ended: list[Request]) -> Iterator[str]:
    if _disaggregates(result):
        return
    silent = sum(each.cached_tokens is None for each in ended)
    # the rehearsal's clients do not keep what its engines say of their caches
    if silent and not result.system.simulated:
        yield (
            f"{where}: {silent} of {len(ended)} answers do not say how much of their prompt was cached, so that it may "
            "have been sent before. help: serve with `--enable-prompt-tokens-details`"
        )
    cached = sum(max(0, (each.cached_tokens or 0) - TEMPLATE_TOKENS) for each in ended)
    prompts = sum(each.prompt_tokens or 0 for each in ended)
    if cached > CACHED_SHARE * prompts:
        yield (
            f"{where}: {cached / prompts:.1%} of the prompts' tokens were cached already: the prompts were sent "
            "before. help: restart the workers, or take other seeds"
        )


def _counters(result: BenchmarkResult, where: str, run: Run) -> Iterator[str]:
    """Compare what the answers said when they began with how the router counted them when they ended."""
    decided, ended = _counted(run, DECISIONS, ""), sum(each.ended for each in run.requests)
    if _router_counts(result, run) and decided < ended:
        yield (
            f"{where}: the router counted {decided:.0f} of {ended} answers: it began anew or was not read, and what it "
            "counts of hand-offs is not complete"
        )
    late = _counted(run, DECISIONS, f'decision="{FALLBACK}"') - sum(
        each.path == FALLBACK for each in run.requests
    )
    if _disaggregates(result) and late > 0:
        yield f"{where}: {late:.0f} requests fell back after their answer had begun"
    missed = _counted(run, HITS, 'result="miss"') + _counted(run, HITS, 'result="partial"')
    if missed:
        yield f"{where}: the decoder found {missed:.0f} hand-offs incomplete and computed their prompts again"


def _router_counts(result: BenchmarkResult, run: Run) -> bool:
    """Whether it is this project's router, whose counters are a part of every run."""
    own = result.connection is not None and result.connection.router == OWN_ROUTER
    return own or bool(run.router)


def _counted(run: Run, name: str, label: str) -> float:
    return sum(value for key, value in run.router.items() if key.startswith(name) and label in key)


def _disaggregates(result: BenchmarkResult) -> bool:
    return any(each.role == "prefill" for each in result.system.workers)
