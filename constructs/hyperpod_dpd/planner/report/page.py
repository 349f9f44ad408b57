"""Parts of a self-contained page: no scripts, nothing to fetch."""

from collections.abc import Iterable
from html import escape

from hyperpod_dpd.planner.report.tables import Table

_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 1040px; margin: 0 auto;
  padding: 24px; }
h1 { font-size: 22px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 30px 0 8px; }
p { margin: 4px 0; } .lead { font-size: 16px; border-left: 4px solid #0b5cad; padding: 8px 12px; background: #f1f6fb; }
.note { color: #555; font-size: 13px; } .warning { border-left: 4px solid #b45309; padding: 4px 12px; margin: 6px 0; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 8px; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
th { border-bottom: 2px solid #888; vertical-align: bottom; white-space: normal; }
th:first-child, td:first-child { text-align: left; white-space: normal; }
.scroll { overflow-x: auto; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(430px, 1fr)); gap: 18px 26px; }
figure { margin: 0; max-width: 560px; break-inside: avoid; } figcaption { font-weight: 600; margin-bottom: 2px; }
svg { width: 100%; height: auto; font: 13px system-ui, sans-serif; }
svg text { fill: #222; } svg .axis { font-weight: 600; } svg .inside { fill: #fff; font-weight: 600; }
svg .grid { stroke: #ddd; stroke-width: 1; }
@media (max-width: 520px) { .plots { grid-template-columns: 1fr; } body { padding: 12px; } }
@page { size: A4; margin: 13mm; }
@media print { body { padding: 0; max-width: none; font-size: 11.5px; } h1 { font-size: 17px; } h2 { font-size: 13.5px;
  margin: 16px 0 4px; } .lead { font-size: 12px; } .note { font-size: 10.5px; } table { font-size: 10.5px; }
  th, td { padding: 3px 5px; } .plots { grid-template-columns: 1fr 1fr; gap: 12px 16px; } h2 { break-after: avoid; }
  tr, .warning { break-inside: avoid; } * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""


def page(title: str, body: Iterable[str]) -> str:
    """Return a whole page."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body>{''.join(body)}</body></html>\n"
    )


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph of the class `kind`: `note`, `lead`, `warning` or none."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def table(given: Table) -> str:
    """Return a table under its title."""
    head = "".join(f"<th>{escape(header)}</th>" for header in given.headers)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in given.rows
    )
    note = paragraph(given.note, "note") if given.note else ""
    return (
        f'<h2>{escape(given.title)}</h2><div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{note}"
    )


def figure(caption: str, svg: str) -> str:
    """Return a picture with its caption."""
    return f"<figure><figcaption>{escape(caption)}</figcaption>{svg}</figure>"
