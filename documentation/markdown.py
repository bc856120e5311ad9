"""Markdown of tables and code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

_TICKS = re.compile(r"`+")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table; bars in cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines]


def code(text: str) -> str:
    """Return the text as inline code, with line ends as ⏎ and enough backticks around it."""
    shown = text.replace("\n", "⏎")
    if not shown:
        return ""
    longest = max((len(found) for found in _TICKS.findall(shown)), default=0)
    if not longest:
        return f"`{shown}`"
    ticks = "`" * (longest + 1)
    return f"{ticks} {shown} {ticks}"


def block(text: str, language: str = "text") -> list[str]:
    """Return the text as a code block with a fence longer than any in the text."""
    longest = max((len(found) for found in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *text.rstrip("\n").split("\n"), fence]


def as_json(value: object) -> str:
    """Return the value as JSON with non-ASCII characters unescaped."""
    return json.dumps(value, ensure_ascii=False)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
