"""Draw the layout of every dashboard, from the JSON that Grafana gets, into `docs/observability/`.

A picture shows where a panel is, what it is called, its unit and its series: what can be reviewed without a Grafana.
"""

import json
from html import escape
from pathlib import Path
from typing import Any

from hyperpod_dpd.observability.dashboards import BOARDS, as_json

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "observability"

COLUMN, ROW, GAP, HEADER = 48, 22, 4, 56
COLOURS = ("#3274d9", "#ff9830", "#73bf69", "#f2495c", "#b877d9", "#8ab8ff")


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for board in BOARDS:
        (FOLDER / f"{board.uid}.svg").write_text(picture(json.loads(as_json(board))), encoding="utf-8")


def picture(dashboard: dict[str, Any]) -> str:
    """Return an SVG of a dashboard's grid."""
    panels = dashboard["panels"]
    width = 24 * COLUMN + 2 * GAP
    height = HEADER + max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels) * ROW + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="#f4f5f5"/>',
        _text(GAP + 8, 26, dashboard["title"], size=20, weight="bold"),
        _text(GAP + 8, 46, f"{dashboard['description']} uid: {dashboard['uid']}", size=13, fill="#555"),
        *(line for panel in panels for line in _panel(panel)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _panel(panel: dict[str, Any]) -> list[str]:
    grid = panel["gridPos"]
    x, y = GAP + grid["x"] * COLUMN, HEADER + grid["y"] * ROW
    width, height = grid["w"] * COLUMN - GAP, grid["h"] * ROW - GAP
    if panel["type"] == "row":
        return [_text(x + 8, y + 15, f"▾ {panel['title']}", size=14, weight="bold")]
    unit = panel["fieldConfig"]["defaults"]["unit"].removeprefix("suffix: ")
    lines = [
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="3" fill="#fff" stroke="#c7d0d9"/>',
        _text(x + 8, y + 17, panel["title"], size=13, weight="bold"),
        _text(x + width - 8, y + 17, unit, size=12, fill="#777", anchor="end"),
    ]
    if panel["type"] == "stat":
        return [
            *lines,
            _text(x + width / 2, y + height / 2 + 18, "0.00", size=26, fill="#3274d9", anchor="middle"),
        ]
    described = _wrapped(panel["description"], int((width - 16) / 6.2))
    lines += [_text(x + 8, y + 36 + 14 * n, line, size=11, fill="#555") for n, line in enumerate(described)]
    targets = panel["targets"]
    first = y + height - 8 - 15 * (len(targets) - 1)
    for n, target in enumerate(targets):
        colour, base = COLOURS[n % len(COLOURS)], first + 15 * n
        lines.append(f'<rect x="{x + 8}" y="{base - 6}" width="14" height="3" fill="{colour}"/>')
        lines.append(_text(x + 28, base, target["legendFormat"], size=11))
    return lines


def _wrapped(text: str, letters: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > letters:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int,
    weight: str = "normal",
    fill: str = "#222",
    anchor: str = "start",
) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" font-weight="{weight}" fill="{fill}" '
        f'text-anchor="{anchor}">{escape(text)}</text>'
    )


if __name__ == "__main__":
    main()
