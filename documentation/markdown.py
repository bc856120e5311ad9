"""Tables, code and text as Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

_TICKS = re.compile(r"`+")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table; a bar in a cell does not end it."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines]


def code(text: str) -> str:
    """A text as code within a line: line ends are shown, and no backtick of it ends the code."""
    shown = text.replace("\n", "⏎")
    if not shown:
        return ""
    longest = max((len(found) for found in _TICKS.findall(shown)), default=0)
    if not longest:
        return f"`{shown}`"
    ticks = "`" * (longest + 1)
    return f"{ticks} {shown} {ticks}"


def block(text: str, language: str = "text") -> list[str]:
    """A text as lines of code; no fence in it ends the block."""
    longest = max((len(found) for found in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *text.rstrip("\n").split("\n"), fence]


def as_json(value: object) -> str:
    """A value as its JSON, for people."""
    return json.dumps(value, ensure_ascii=False)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
