"""Ratios of two processes in one run: the only speed that says something on a machine that others use, too."""

import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PAIRS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A process against a floor that nobody could undercut without leaving something out."""

    name: str
    floor: Sequence[str]
    """Command that only does what is unavoidable."""
    product: Sequence[str]
    limit: float
    """Most that the product may take, as a multiple of the floor."""


def processor_seconds(command: Sequence[str], environment: Mapping[str, str] | None = None) -> float:
    """Return the processor time of `command`, its children included; time on the wall depends on the neighbours."""
    # without bytecode every run would compile the library again, which no user's run does
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, env={**inherited, **(environment or {})}
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def holds(comparison: Comparison, pairs: int = PAIRS) -> bool:
    """Run both processes in turns, print medians and ratio, and return whether the ratio is within the limit."""
    processor_seconds(comparison.floor)  # the first run of each writes bytecode and fills caches
    processor_seconds(comparison.product)
    floors, products = [], []
    for _ in range(pairs):
        floors.append(processor_seconds(comparison.floor))
        products.append(processor_seconds(comparison.product))
    floor, product = statistics.median(floors), statistics.median(products)
    # each pair met the same neighbours, so the ratio is taken pair by pair
    ratio = statistics.median(ours / theirs for ours, theirs in zip(products, floors, strict=True))
    verdict = "ok" if ratio <= comparison.limit else "TOO SLOW"
    print(
        f"{comparison.name}: {1000 * product:.0f} ms, floor {1000 * floor:.0f} ms, "
        f"ratio {ratio:.2f} (limit {comparison.limit}) {verdict}"
    )
    sys.stdout.flush()
    return ratio <= comparison.limit
