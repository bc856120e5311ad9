"""SVG chart of the results: the shares of calls found, and of right calls, for each model and setup."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from benchmarks.models.table import Row

WIDTH, LABELS, TEXT, BAR, GAP = 720, 230, 190, 18, 6
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#24292f}.title{font-weight:600}.found{fill:#9ec5fe}.right{fill:#0d6efd}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.found{fill:#34507a}.right{fill:#6ea8fe}}"
)


def picture(rows: Sequence[Row]) -> str:
    """Return the SVG chart of a table."""
    shapes, y, model = list[str](), 46, ""
    for row in rows:
        if row.model != model:
            model = row.model
            y += 14
            shapes.append(f'<text class="title" x="10" y="{y + 13}">{escape(model)}</text>')
            y += BAR + GAP
        shapes.append(f'<text x="10" y="{y + 13}">{escape(row.setup)}</text>')
        scale = (WIDTH - LABELS - TEXT) / row.wanted
        for kind, number in (("found", row.found), ("right", row.right)):
            width = max(number * scale, 1)
            shapes.append(f'<rect class="{kind}" x="{LABELS}" y="{y}" width="{width:.1f}" height="{BAR}"/>')
        label = f"{row.found} found, {row.right} right of {row.wanted}"
        shapes.append(f'<text x="{LABELS + row.found * scale + 8:.1f}" y="{y + 13}">{label}</text>')
        y += BAR + GAP
    legend = (
        f'<rect class="found" x="10" y="14" width="{BAR}" height="{BAR}"/><text x="34" y="27">calls found</text>'
        f'<rect class="right" x="124" y="14" width="{BAR}" height="{BAR}"/><text x="148" y="27">right calls</text>'
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 10}" width="{WIDTH}" height="{y + 10}">'
    return "\n".join([head, f"<style>{STYLE}</style>", legend, *shapes, "</svg>", ""])
