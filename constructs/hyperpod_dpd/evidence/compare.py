"""Two results side by side: what changes, how sure that is, per GPU and per dollar."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean
from typing import Final

from hyperpod_dpd.catalog.announcement import ANNOUNCED, AnnouncedChange
from hyperpod_dpd.catalog.instances import instance_type
from hyperpod_dpd.catalog.row import UnknownCatalogEntryError
from hyperpod_dpd.evidence.figures import Figures, figures
from hyperpod_dpd.evidence.interval import Change, paired, unpaired
from hyperpod_dpd.evidence.results import BenchmarkResult, Run, System


class Difference(StrEnum):
    """What two results must have in common, unless one says that it may differ."""

    PROMPTS = "prompts"
    GPUS = "gpus"
    TRAFFIC = "traffic"
    MODEL = "model"
    KIND = "kind"
    """Whether GPUs were involved."""


class NotComparableError(ValueError):
    """Two results measure different things; `differences` says which, `reasons` with which values."""

    def __init__(self, reasons: dict[Difference, str]) -> None:
        self.reasons = reasons
        super().__init__("\n".join(reasons.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One thing that is compared."""

    name: str
    title: str
    unit: str
    scale: float
    """From the figure to the unit."""
    less_is_better: bool
    of: Callable[[Figures, System], float | None]


MEASURES: Final = (
    Measure(
        name="tpot_mean_seconds",
        title="TPOT mean",
        unit="ms",
        scale=1e3,
        less_is_better=True,
        of=lambda found, _: found.tpot_mean_seconds,
    ),
    Measure(
        name="e2e_p50_seconds",
        title="E2E p50",
        unit="s",
        scale=1,
        less_is_better=True,
        of=lambda found, _: found.e2e_p50_seconds,
    ),
    Measure(
        name="ttft_p50_seconds",
        title="TTFT p50",
        unit="ms",
        scale=1e3,
        less_is_better=True,
        of=lambda found, _: found.ttft_p50_seconds,
    ),
    Measure(
        name="output_tokens_per_second",
        title="output",
        unit="tok/s",
        scale=1,
        less_is_better=False,
        of=lambda found, _: found.output_tokens_per_second,
    ),
    Measure(
        name="output_tokens_per_second_per_gpu",
        title="output per GPU",
        unit="tok/s",
        scale=1,
        less_is_better=False,
        of=lambda found, system: found.output_tokens_per_second / system.gpus,
    ),
    Measure(
        name="usd_per_million_output_tokens",
        title="cost of 1 M output tokens",
        unit="$",
        scale=1,
        less_is_better=True,
        of=lambda found, system: (
            system.usd_per_hour / 3600 / found.output_tokens_per_second * 1e6 if system.usd_per_hour else None
        ),
    ),
)
"""What is compared, in the order of the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measure at one concurrency."""

    concurrency: int
    measure: Measure
    new: float | None
    """Mean over seeds; None: there is no price."""
    old: float | None
    change: Change | None
    announced: str
    """What the announcement shows, in words; empty where it says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All rows, and what was let through."""

    new: BenchmarkResult
    old: BenchmarkResult
    rows: tuple[Row, ...]
    seeds: int
    """Runs per concurrency and side."""
    is_paired: bool
    allowed: dict[Difference, str]
    """Differences that exist and were allowed, each with its values."""

    left_out: tuple[int, ...]
    """Concurrencies that only one of them has: nothing is said about them."""


def compare(
    new: BenchmarkResult, old: BenchmarkResult, *, may_differ: frozenset[Difference] = frozenset()
) -> Comparison:
    """Return how `new` differs from `old`.

    Raises:
        NotComparableError: they differ in something that is not in `may_differ`, or share no concurrency.
        NothingMeasuredError: a run is too short.
    """
    found = dict(_differences(new, old))
    refused = {kind: says for kind, says in found.items() if kind not in may_differ}
    if not _shared(new, old):
        refused[Difference.TRAFFIC] = f"no concurrency in common: {_traffic(new)} against {_traffic(old)}"
    if refused:
        raise NotComparableError(refused)
    is_paired = Difference.PROMPTS not in found
    rows = tuple(
        row for concurrency in _shared(new, old) for row in _rows(new, old, concurrency, is_paired=is_paired)
    )
    return Comparison(
        new=new,
        old=old,
        rows=rows,
        seeds=min(len(_runs(each, level)) for each in (new, old) for level in _shared(new, old)),
        is_paired=is_paired,
        allowed=found,
        left_out=tuple(sorted(_levels(new) ^ _levels(old))),
    )


def _differences(new: BenchmarkResult, old: BenchmarkResult) -> Iterator[tuple[Difference, str]]:
    ours, theirs = new.system, old.system
    if ours.gpus != theirs.gpus:
        says = f"{ours.gpus} GPUs against {theirs.gpus}, and more hardware is faster in any way"
        yield Difference.GPUS, _refusal(says, Difference.GPUS, "measure as many")
    if new.traffic != old.traffic:
        says = f"different traffic: {_traffic(new)} against {_traffic(old)}"
        yield Difference.TRAFFIC, _refusal(says, Difference.TRAFFIC, "send the same")
    if ours.model != theirs.model:
        says = f"different models: `{ours.model}` against `{theirs.model}`"
        yield Difference.MODEL, _refusal(says, Difference.MODEL, "measure one model")
    if ours.simulated != theirs.simulated:
        says = "one side was measured on GPUs and the other was simulated"
        yield Difference.KIND, _refusal(says, Difference.KIND, "measure both")
    if (other := _other_prompts(new, old)) is not None:
        says = f"different prompts: {other}"
        yield Difference.PROMPTS, _refusal(says, Difference.PROMPTS, "measure with the same seeds")


def _refusal(says: str, kind: Difference, fix: str) -> str:
    return f"{says}. help: {fix}, or allow it with `--different-{kind}`"


def _other_prompts(new: BenchmarkResult, old: BenchmarkResult) -> str | None:
    for concurrency in _shared(new, old):
        ours, theirs = _runs(new, concurrency), _runs(old, concurrency)
        if ours.keys() != theirs.keys():
            return f"concurrency {concurrency} has the seeds {sorted(ours)} against {sorted(theirs)}"
        for seed, run in ours.items():
            if run.prompts_digest != theirs[seed].prompts_digest:
                return (
                    f"concurrency {concurrency}, seed {seed}: digest `{run.prompts_digest[:12]}` against "
                    f"`{theirs[seed].prompts_digest[:12]}`"
                )
    return None


def _traffic(result: BenchmarkResult) -> str:
    traffic = result.traffic
    levels = ", ".join(str(level) for level in sorted(_levels(result)))
    return (
        f"D({traffic.input_tokens},{traffic.output_tokens}) by {traffic.tool} to {traffic.endpoint}, "
        f"`ignore_eos: {str(traffic.ignore_eos).lower()}`, concurrency {levels}"
    )


def _shared(new: BenchmarkResult, old: BenchmarkResult) -> list[int]:
    return sorted(_levels(new) & _levels(old))


def _levels(result: BenchmarkResult) -> set[int]:
    return {run.concurrency for run in result.runs}


def _runs(result: BenchmarkResult, concurrency: int) -> dict[int, Run]:
    return {run.seed: run for run in result.runs if run.concurrency == concurrency}


def _rows(new: BenchmarkResult, old: BenchmarkResult, concurrency: int, *, is_paired: bool) -> Iterator[Row]:
    ours = {seed: figures(run) for seed, run in sorted(_runs(new, concurrency).items())}
    theirs = {seed: figures(run) for seed, run in sorted(_runs(old, concurrency).items())}
    for measure in MEASURES:
        after = [measure.of(each, new.system) for each in ours.values()]
        before = [measure.of(each, old.system) for each in theirs.values()]
        known_after = [each for each in after if each is not None]
        known_before = [each for each in before if each is not None]
        # a ratio needs figures, and tokens that all come at once have no time between them
        known = bool(known_after and known_before) and min(*known_after, *known_before) > 0
        change = (paired if is_paired else unpaired)(known_after, known_before) if known else None
        yield Row(
            concurrency=concurrency,
            measure=measure,
            new=fmean(known_after) if known_after else None,
            old=fmean(known_before) if known_before else None,
            change=change,
            announced=_announced(new.system, measure, concurrency),
        )


def _announced(system: System, measure: Measure, concurrency: int) -> str:
    row = ANNOUNCED.get(_gpu(system))
    return "" if row is None else _words(row, measure.name, concurrency)


def _words(row: AnnouncedChange, measure: str, concurrency: int) -> str:
    low, high = row.e2e_p50_percent
    said = {
        "e2e_p50_seconds": f"{low:+.0f} to {high:+.0f} %",
        "output_tokens_per_second": f"up to {row.output_throughput_percent:+.0f} %",
        "output_tokens_per_second_per_gpu": f"up to {_percent(_per_node(row) - 1)}",
        "usd_per_million_output_tokens": f"at best {_percent(1 / _per_node(row) - 1)}",
    }
    if concurrency in row.tpot_percent:
        said["tpot_mean_seconds"] = f"{row.tpot_percent[concurrency]:+.0f} %"
    return said.get(measure, "")


def _per_node(row: AnnouncedChange) -> float:
    """Return the largest ratio of throughput per node: two nodes were compared with one."""
    return (1 + row.output_throughput_percent / 100) / 2


def _percent(ratio: float) -> str:
    return f"{ratio * 100:+.0f} %"


def _gpu(system: System) -> str:
    """Return the GPU of the workers that decode; empty where the catalog does not know it."""
    for each in system.workers:
        if each.role != "prefill":
            try:
                return instance_type(each.instance_type).gpu.name.partition(" ")[0]
            except UnknownCatalogEntryError:
                return ""
    return ""
