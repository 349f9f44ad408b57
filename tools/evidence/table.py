"""Bring the table of all figures in `docs/evidence/h200-two-gpus.md` up to date with the raw results beside it.

python -m tools.evidence.table
"""

import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tools.evidence.score import runs

_EVIDENCE: Final = Path(__file__).parents[2] / "docs/evidence"
PAGE: Final = _EVIDENCE / "h200-two-gpus.md"
_TABLE: Final = re.compile(r"(?<=<!-- all figures -->\n)(?:.*\n)*?(?=<!-- end of all figures -->)")
ARRANGEMENTS: Final = ("colocated", "colocated-tuned", "disaggregated")
_HEAD: Final = (
    "arrangement", "traffic", "C", "GPUs", "runs", "TPOT, ms", "TTFT, ms", "E2E, ms", "tokens/s per GPU",
)  # fmt: skip


def results() -> tuple[Path, ...]:
    """Return the raw results of two GPUs, and of one GPU with half the users."""
    return tuple(
        path
        for pattern in ("h200-*-two-gpus*.jsonl", "h200-*-one-gpu-half-the-users*.jsonl")
        for path in sorted((_EVIDENCE / "raw").glob(pattern))
    )


def lines(paths: Sequence[Path]) -> Iterator[str]:
    """Yield the table's lines: mean, median and 99th percentile, each the mean over the repetitions."""
    grouped: dict[tuple[int, int, int, int], list[dict[str, Any]]] = defaultdict(list)
    for run in runs(*paths):
        traffic, arrangement = (
            ("fixed", "mixed").index(run["traffic"]),
            ARRANGEMENTS.index(run["arrangement"]),
        )
        grouped[traffic, run["users_on_two_gpus"], arrangement, -run["gpus"]].append(run)
    yield _row(_HEAD)
    yield _row(["---"] * len(_HEAD))
    for (_, users, _, gpus), repeated in sorted(grouped.items()):
        first = repeated[0]
        cells = [_spread(repeated, figure) for figure in ("tpot", "ttft", "e2e")]
        tokens = statistics.fmean(run["output_tokens_per_second_per_gpu"] for run in repeated)
        name = first["arrangement"], first["traffic"], users, -gpus, len(repeated)
        yield _row([*name, *cells, f"{tokens:,.0f}"])


def _spread(repeated: list[dict[str, Any]], figure: str) -> str:
    digits = 2 if figure == "tpot" else 0
    means = (
        statistics.fmean(run[figure][part] for run in repeated) for part in ("mean_ms", "p50_ms", "p99_ms")
    )
    return " / ".join(f"{mean:,.{digits}f}" for mean in means)


def _row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def main() -> int:
    """Write the table into the page."""
    table = "".join(f"{line}\n" for line in lines(results()))
    text, count = _TABLE.subn(lambda _: f"\n{table}\n", PAGE.read_text(encoding="utf-8"))
    if count != 1:
        print(f"error: {PAGE.name} has {count} places for the table", file=sys.stderr)
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
