"""Results of the runs: the table in a page, which new runs update."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.agents.agent import Agent
from tests.agents.known import AGENTS
from tests.agents.rows import Row

BEGIN = "<!-- the table of make agents: python -m tests.agents --table docs/agents.md -->"
VLLM = "<!-- the table of a real vLLM: python -m tests.vllm --agents --table docs/agents.md -->"
END = "<!-- its end -->"
NOTHING = "?"  # not run


@dataclass
class Column:
    """The runs of an agent's version: the date of the last one, and the cells by row and side."""

    version: str
    date: str = ""
    cells: dict[str, dict[str, str]] = field(default_factory=dict)


class Results:
    """The table below `mark` in `page`, or an empty one without a page.

    `title` is in its corner. Tables with another title and columns of other versions are ignored.
    """

    def __init__(self, page: Path | None, mark: str = BEGIN, title: str = "") -> None:
        self._page, self._mark, self._title = page, mark, title
        self._columns: dict[str, Column] = {}
        text = "" if page is None else page.read_text(encoding="utf-8").partition(mark)[2].partition(END)[0]
        lines = [[cell.strip() for cell in line[1:-1].split("|")] for line in text.splitlines() if line[:1] == "|"]
        if not lines or lines[0][0] != title:
            return
        for name, agent in AGENTS.items():
            for place, head in enumerate(lines[0]):
                told = re.fullmatch(rf"{re.escape(agent.setup.title)} (\S+) \((\S+)\)", head)
                if told and told[1] == agent.version:
                    cells = {line[0].strip("`"): _sides(line[place]) for line in lines[2:]}
                    self._columns[name] = Column(told[1], told[2], cells)

    def keep(self, agent: Agent, row: Row, side: str, cell: str) -> None:
        """Set a cell, with today's date."""
        column = self._columns.setdefault(agent.name, Column(agent.version))
        column.date = datetime.now(UTC).date().isoformat()
        column.cells.setdefault(row.name, {})[side] = cell

    def table(self, rows: Sequence[Row]) -> str:
        """Return the table: one column per agent, one line per row, `without > with` in a cell."""
        found = [(agent, self._columns[name]) for name, agent in AGENTS.items() if name in self._columns]
        heads = (f"{agent.setup.title} {column.version} ({column.date})" for agent, column in found)
        lines = [[self._title, *heads], ["---"] * (len(found) + 1)]
        for row in rows:
            cells = [_cell(column.cells.get(row.name, {})) if row.is_for(agent) else "" for agent, column in found]
            if {*cells} - {"", NOTHING}:
                lines.append([f"`{row.name}`", *cells])
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def write(self, rows: Sequence[Row]) -> None:
        """Write the table into the page, if there is one. Raises ValueError if the page lacks the marks."""
        if self._page is not None:
            text = self._page.read_text(encoding="utf-8")
            start = text.index(self._mark)
            made = f"{text[:start]}{self._mark}\n\n{self.table(rows)}\n\n{text[text.index(END, start) :]}"
            self._page.write_text(made, encoding="utf-8")


def _sides(cell: str) -> dict[str, str]:
    """Return the results in a table cell by side."""
    without, arrow, through = cell.partition(" > ")
    sides = {"without": without, "with": through} if arrow else {}
    return {side: word for side, word in sides.items() if word != NOTHING}


def _cell(sides: dict[str, str]) -> str:
    return f"{sides.get('without', NOTHING)} > {sides.get('with', NOTHING)}" if sides else NOTHING
