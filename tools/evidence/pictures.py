"""The pictures of `docs/evidence/h200-two-gpus.md`, from its raw results and the planner.

python -m tools.evidence.pictures
"""

import statistics
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hyperpod_dpd.planner.report.svg import Series, line_chart
from hyperpod_dpd.spec.load import load
from tools.evidence.isolation import fixed
from tools.evidence.score import predicted, runs
from tools.evidence.table import ARRANGEMENTS, results

_ROOT = Path(__file__).parents[2]
PICTURES = _ROOT / "docs/evidence/pictures"
USERS = (8, 16, 32, 64)

_STANDING_ALONE = """<svg xmlns="http://www.w3.org/2000/svg" width="720" font-family="system-ui, sans-serif" font-size="13">
<style>text { fill: #222 } .axis { font-weight: 600 } .grid { stroke: #ddd }</style>
<rect width="100%" height="100%" fill="#fff"/>"""
"""What the report's page around a chart says otherwise."""

_MEASURED = {1: "measured on one, half the users", 2: "measured"}
"""What a line is called, by the number of GPUs."""

Pick = Callable[[dict[str, Any]], float]


def main() -> None:
    """Write both pictures."""
    measurements = [run for run in runs(*results()) if run["traffic"] == "fixed"]
    deployment = load(Path(__file__).with_name("two-gpus.yaml")).deployment

    def measured(arrangement: str, gpus: int, pick: Pick) -> Series:
        repeated = defaultdict(list)
        for run in measurements:
            if run["arrangement"] == arrangement and run["gpus"] == gpus:
                repeated[run["users_on_two_gpus"]].append(pick(run))
        points = tuple((users, statistics.fmean(values)) for users, values in sorted(repeated.items()))
        return Series(label=f"{arrangement}, {_MEASURED[gpus]}", points=points)

    def planned(arrangement: str, figure: str) -> Series:
        points = []
        for users in USERS:
            spread = getattr(predicted(deployment, arrangement, fixed(users), 2), figure)
            points.append((users, 1e3 * spread.mean))
        return Series(label=f"{arrangement}, planner", points=tuple(points))

    PICTURES.mkdir(parents=True, exist_ok=True)
    for name, figure, title in (
        ("tpot", "tpot_seconds", "Time per output token on two H200"),
        ("ttft", "ttft_seconds", "Time to first token on two H200"),
    ):
        series = [
            part
            for arrangement in ARRANGEMENTS
            for part in (
                *(
                    measured(arrangement, gpus, lambda run, key=name: run[key]["mean_ms"])  # type: ignore[misc]
                    for gpus in sorted(
                        {run["gpus"] for run in measurements if run["arrangement"] == arrangement}
                    )
                ),
                planned(arrangement, figure),
            )
        ]
        picture = line_chart(series, x_label="users", y_label=f"mean {name.upper()}, ms", title=title)
        view_box = picture.partition(' role="img"')[0].removeprefix("<svg ")
        opening = _STANDING_ALONE.replace("<svg ", f"<svg {view_box} ", 1)
        standing = opening + picture.partition(">")[2]
        (PICTURES / f"h200-two-gpus-{name}.svg").write_text(standing + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
