"""A dashboard before Grafana: panels in sections, laid out row by row."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final, Literal

from hyperpod_dpd.spec.value import record

COLUMNS: Final = 24
"""Columns of Grafana's grid."""

ROW_HEIGHT: Final = 1
PANEL_HEIGHT: Final = 8
STAT_HEIGHT: Final = 4


class Unit(StrEnum):
    """Units as Grafana names them."""

    SECONDS = "s"
    MEBIBYTES = "mbytes"
    BYTES_PER_SECOND = "Bps"
    PER_SECOND = "reqps"
    TOKENS_PER_SECOND = "suffix: tokens/s"
    SHARE = "percentunit"
    PERCENT = "percent"
    COUNT = "short"
    CELSIUS = "celsius"
    PACKETS_PER_SECOND = "pps"


@record
class Query:
    """One expression and how its series are called."""

    expression: str
    legend: str


@record
class Panel:
    """One picture of a few series in one unit."""

    title: str
    description: str
    unit: Unit
    queries: tuple[Query, ...]
    kind: Literal["timeseries", "stat"] = "timeseries"
    width: int = 8
    stacked: bool = False

    @property
    def height(self) -> int:
        """Rows of the grid that the panel takes."""
        return STAT_HEIGHT if self.kind == "stat" else PANEL_HEIGHT


@record
class Section:
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


@record
class Place:
    """A rectangle of the grid."""

    x: int
    y: int
    width: int
    height: int


@record
class Board:
    """One dashboard."""

    uid: str
    """Stable: links and imports refer to it."""

    title: str
    description: str
    sections: tuple[Section, ...]

    @property
    def panels(self) -> tuple[Panel, ...]:
        """Every panel, in the order of reading."""
        return tuple(panel for section in self.sections for panel in section.panels)

    def layout(self) -> Iterator[tuple[Section | Panel, Place]]:
        """Yield every heading and panel with its place: left to right, a new row where the next does not fit."""
        y = 0
        for section in self.sections:
            yield section, Place(x=0, y=y, width=COLUMNS, height=ROW_HEIGHT)
            y += ROW_HEIGHT
            x = tallest = 0
            for panel in section.panels:
                if x + panel.width > COLUMNS:
                    x, y, tallest = 0, y + tallest, 0
                yield panel, Place(x=x, y=y, width=panel.width, height=panel.height)
                x += panel.width
                tallest = max(tallest, panel.height)
            y += tallest
