"""Plots as SVG: readable without a network, on paper and without colour."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH = 480
"""Half a page wide, so that text keeps its size on paper."""
_PLOT_LEFT = 70
_PLOT_RIGHT = 464
_PLOT_TOP = 16
_PLOT_HEIGHT = 200
_AXIS_HEIGHT = 46
_LEGEND_LINE_HEIGHT = 20
_MOST_TICKS = 6
_ROW_HEIGHT = 44
_LANE_HEIGHT = 26

COLOURS = (
    "#0b5cad",
    "#c2410c",
    "#4d7c0f",
    "#7c3aed",
    "#64748b",
    "#0f766e",
    "#d4a017",
    "#be185d",
    "#38bdf8",
    "#57534e",
)
_DASHES = ("", "7 4", "2 3", "9 3 2 3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line of a chart."""

    label: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A horizontal line that should not be crossed."""

    label: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a bar."""

    label: str
    size: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar of parts that add up."""

    label: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A span of time in a lane."""

    lane: str
    label: str
    start: float
    end: float


def line_chart(
    series: Sequence[Series], *, x_label: str, y_label: str, title: str, limit: Limit | None = None
) -> str:
    """Return lines over a logarithmic horizontal axis, whose ticks are the given points."""
    xs = sorted({x for one in series for x, _ in one.points})
    tallest = max(y for one in series for _, y in one.points)
    # a limit far above every line would flatten them; then it is only named
    shown = limit if limit is not None and limit.value <= 2.5 * tallest else None
    ticks = nice_ticks(max(tallest, shown.value if shown else 0.0))
    bottom = _PLOT_TOP + _PLOT_HEIGHT

    def x_of(x: float) -> float:
        span = math.log(xs[-1] / xs[0]) if len(xs) > 1 else 1.0
        share = math.log(x / xs[0]) / span if len(xs) > 1 else 0.5
        return _PLOT_LEFT + 10 + share * (_PLOT_RIGHT - _PLOT_LEFT - 20)

    def y_of(y: float) -> float:
        return bottom - y / ticks[-1] * _PLOT_HEIGHT

    parts = [
        _horizontal_grid(ticks, y_of, y_label),
        _vertical_ticks([(x_of(x), f"{x:g}") for x in xs], x_label),
    ]
    entries: list[tuple[str, str, str, int | None]] = []
    for position, one in enumerate(series):
        colour, dash = COLOURS[position % len(COLOURS)], _DASHES[position % len(_DASHES)]
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in one.points)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.2" stroke-dasharray="{dash}"/>'
        )
        parts += [_marker(position, x_of(x), y_of(y), colour) for x, y in one.points]
        entries.append((one.label, colour, dash, position))
    if shown is not None:
        y = y_of(shown.value)
        parts.append(
            f'<line x1="{_PLOT_LEFT}" x2="{_PLOT_RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#b91c1c" '
            'stroke-width="1.2" stroke-dasharray="4 4"/>'
        )
    if limit is not None:
        note = limit.label if shown else f"{limit.label} (above the plot)"
        entries.append((note, "#b91c1c", "4 4", None))
    top = bottom + _AXIS_HEIGHT
    parts.append(_line_legend(entries, top))
    return _svg(title, top + _LEGEND_LINE_HEIGHT * len(entries) + 6, parts)


def stacked_bars(bars: Sequence[Bar], *, x_label: str, title: str) -> str:
    """Return horizontal bars of parts, with a legend that names every part."""
    ticks = nice_ticks(max(sum(part.size for part in bar.parts) for bar in bars))
    height = _ROW_HEIGHT * len(bars)
    bottom = _PLOT_TOP + height
    left = _PLOT_LEFT + 66

    def x_of(size: float) -> float:
        return left + size / ticks[-1] * (_PLOT_RIGHT - left)

    labels = list(dict.fromkeys(part.label for bar in bars for part in bar.parts))
    parts = [
        f'<line x1="{x_of(tick):.1f}" x2="{x_of(tick):.1f}" y1="{_PLOT_TOP}" y2="{bottom}" class="grid"/>'
        for tick in ticks
    ]
    parts.append(_vertical_ticks([(x_of(tick), f"{tick:g}") for tick in ticks], x_label, bottom))
    for row, bar in enumerate(bars):
        y = _PLOT_TOP + row * _ROW_HEIGHT + 8
        parts.append(f'<text x="{left - 8}" y="{y + 18}" text-anchor="end">{escape(bar.label)}</text>')
        begin = 0.0
        for part in bar.parts:
            colour = COLOURS[labels.index(part.label) % len(COLOURS)]
            width = x_of(begin + part.size) - x_of(begin)
            parts.append(
                f'<rect x="{x_of(begin):.1f}" y="{y}" width="{width:.1f}" height="28" fill="{colour}" '
                'stroke="#fff" stroke-width="1"/>'
            )
            if width > 44:
                middle = x_of(begin) + width / 2
                parts.append(
                    f'<text x="{middle:.1f}" y="{y + 18}" text-anchor="middle" class="inside">{part.size:.1f}</text>'
                )
            begin += part.size
    legend, legend_height = _box_legend(
        [(label, COLOURS[position % len(COLOURS)]) for position, label in enumerate(labels)],
        bottom + _AXIS_HEIGHT,
    )
    return _svg(title, bottom + _AXIS_HEIGHT + legend_height, [*parts, legend])


def gantt(
    blocks: Sequence[Block],
    *,
    kinds: Sequence[str],
    marks: Sequence[tuple[str, float]],
    until: float,
    x_label: str,
    title: str,
) -> str:
    """Return spans of time in lanes up to `until`; longer ones are cut there and drawn open.

    Args:
        blocks: spans.
        kinds: labels of blocks in the order of their colours, so that several charts share them.
        marks: labelled moments, drawn as vertical lines.
        until: right end of the time axis.
        x_label: label of the time axis, with its unit.
        title: for readers that do not see.
    """
    lanes = list(dict.fromkeys(block.lane for block in blocks))
    shown = {block.label for block in blocks}
    ticks = nice_ticks(until)
    bottom = _PLOT_TOP + 18 + _LANE_HEIGHT * len(lanes)
    left = _PLOT_LEFT + 16

    def x_of(at: float) -> float:
        return left + min(at, ticks[-1]) / ticks[-1] * (_PLOT_RIGHT - left)

    parts = [
        f'<line x1="{x_of(tick):.1f}" x2="{x_of(tick):.1f}" y1="{_PLOT_TOP + 14}" y2="{bottom}" class="grid"/>'
        for tick in ticks
    ]
    parts.append(_vertical_ticks([(x_of(tick), f"{tick:g}") for tick in ticks], x_label, bottom))
    for row, lane in enumerate(lanes):
        y = _PLOT_TOP + 18 + row * _LANE_HEIGHT
        parts.append(f'<text x="{left - 8}" y="{y + 17}" text-anchor="end">{escape(lane)}</text>')
        for block in blocks:
            if block.lane == lane and block.start < ticks[-1]:
                colour = COLOURS[kinds.index(block.label) % len(COLOURS)]
                width = max(1.5, x_of(block.end) - x_of(block.start))
                parts.append(
                    f'<rect x="{x_of(block.start):.1f}" y="{y + 3}" width="{width:.1f}" height="{_LANE_HEIGHT - 6}" '
                    f'fill="{colour}"><title>{escape(block.label)}: {block.end - block.start:.1f}</title></rect>'
                )
    for label, at in marks:
        x = x_of(at)
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_PLOT_TOP + 8}" y2="{bottom}" stroke="#111" stroke-width="1.4"/>'
            f'<text x="{x + 4:.1f}" y="{_PLOT_TOP + 8}">{escape(label)}</text>'
        )
    legend, legend_height = _box_legend(
        [(kind, COLOURS[position % len(COLOURS)]) for position, kind in enumerate(kinds) if kind in shown],
        bottom + _AXIS_HEIGHT,
    )
    return _svg(title, bottom + _AXIS_HEIGHT + legend_height, [*parts, legend])


def nice_ticks(largest: float) -> list[float]:
    """Return ticks from 0 to a round number not below `largest`, at most six steps.

    Raises:
        ValueError: `largest` is not a positive number.
    """
    if not (math.isfinite(largest) and largest > 0):
        raise ValueError(f"an axis needs a positive end, given {largest}")
    magnitude = 10 ** math.floor(math.log10(largest / _MOST_TICKS))
    step = next(
        factor * magnitude for factor in (1, 2, 2.5, 5, 10, 20) if factor * magnitude * _MOST_TICKS >= largest
    )
    count = math.ceil(largest / step - 1e-9)
    return [round(step * position, 12) for position in range(count + 1)]


def _horizontal_grid(ticks: Sequence[float], y_of: Callable[[float], float], label: str) -> str:
    lines = [
        f'<line x1="{_PLOT_LEFT}" x2="{_PLOT_RIGHT}" y1="{y_of(tick):.1f}" y2="{y_of(tick):.1f}" class="grid"/>'
        f'<text x="{_PLOT_LEFT - 8}" y="{y_of(tick) + 4:.1f}" text-anchor="end">{tick:,g}</text>'
        for tick in ticks
    ]
    middle = _PLOT_TOP + _PLOT_HEIGHT / 2
    lines.append(
        f'<text transform="translate(13 {middle}) rotate(-90)" text-anchor="middle" class="axis">{escape(label)}</text>'
    )
    return "".join(lines)


def _vertical_ticks(
    ticks: Sequence[tuple[float, str]], label: str, bottom: float = _PLOT_TOP + _PLOT_HEIGHT
) -> str:
    texts = [
        f'<text x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">{escape(text)}</text>' for x, text in ticks
    ]
    middle = (_PLOT_LEFT + _PLOT_RIGHT) / 2
    texts.append(
        f'<text x="{middle}" y="{bottom + 36}" text-anchor="middle" class="axis">{escape(label)}</text>'
    )
    return "".join(texts)


def _marker(position: int, x: float, y: float, colour: str) -> str:
    """Circles, squares and triangles, so that lines are told apart without colour."""
    if position % 3 == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.6" fill="{colour}"/>'
    if position % 3 == 1:
        return f'<rect x="{x - 3.4:.1f}" y="{y - 3.4:.1f}" width="6.8" height="6.8" fill="{colour}"/>'
    return f'<path d="M{x:.1f} {y - 4.4:.1f} l4.2 7.6 h-8.4 z" fill="{colour}"/>'


def _line_legend(entries: Sequence[tuple[str, str, str, int | None]], top: float) -> str:
    lines = []
    for row, (label, colour, dash, marker) in enumerate(entries):
        y = top + row * _LEGEND_LINE_HEIGHT + 6
        lines.append(
            f'<line x1="{_PLOT_LEFT}" x2="{_PLOT_LEFT + 34}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2.2" '
            f'stroke-dasharray="{dash}"/>'
            + (_marker(marker, _PLOT_LEFT + 17, y, colour) if marker is not None else "")
            + f'<text x="{_PLOT_LEFT + 44}" y="{y + 4}">{escape(label)}</text>'
        )
    return "".join(lines)


def _box_legend(entries: Sequence[tuple[str, str]], top: float) -> tuple[str, float]:
    """Return boxes with labels, two a row, and their height."""
    cells = []
    for position, (label, colour) in enumerate(entries):
        x = 20 + position % 2 * 230
        y = top + position // 2 * _LEGEND_LINE_HEIGHT
        cells.append(
            f'<rect x="{x}" y="{y}" width="12" height="12" fill="{colour}"/>'
            f'<text x="{x + 18}" y="{y + 10.5}">{escape(label)}</text>'
        )
    return "".join(cells), -(-len(entries) // 2) * _LEGEND_LINE_HEIGHT + 4


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:g}" role="img" aria-label="{escape(title, quote=True)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )
