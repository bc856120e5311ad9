"""What came of the runs, kept from one call to the next, and the table of it for a page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tests.agents.agent import Agent
from tests.agents.rows import Row

BEGIN = "<!-- the table of make agents: python -m tests.agents --table docs/agents.md -->"
VLLM = "<!-- the table of a real vLLM: python -m tests.vllm --agents --table docs/agents.md -->"
END = "<!-- its end -->"
NOTHING = "?"  # it was not run


class Page(NamedTuple):
    """A page, and the mark above its table."""

    text: str
    mark: str

    def column(self, agent: Agent, title: str) -> dict[str, Any]:
        """Return what the page's table has of an agent, as it is kept; empty if there is nothing, or if the table has
        another title in its corner.
        """
        table = self.text.partition(self.mark)[2].partition(END)[0]
        lines = [[cell.strip() for cell in line[1:-1].split("|")] for line in table.splitlines() if line[:1] == "|"]
        if not lines or lines[0][0] != title:
            return {}
        for place, head in enumerate(lines[0]):
            if told := re.fullmatch(rf"{re.escape(agent.setup.title)} (\S+) \((\S+)\)", head):
                cells = {line[0].strip("`"): _sides(line[place]) for line in lines[2:]}
                return {"version": told[1], "date": told[2], "cells": cells}
        return {}


NO_PAGE = Page("", BEGIN)


def _sides(cell: str) -> dict[str, str]:
    """Return the two sides of a cell of the table, as far as they were run."""
    without, arrow, through = cell.partition(" > ")
    sides = {"without": without, "with": through} if arrow else {}
    return {side: word for side, word in sides.items() if word != NOTHING}


class Results:
    """The cells of each agent's version, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept = self._read()

    def _read(self) -> dict[str, dict[str, Any]]:
        """Return what is in the file."""
        if not self._path.exists():
            return {}
        kept: dict[str, dict[str, Any]] = json.loads(self._path.read_text(encoding="utf-8"))
        return kept

    def keep(self, agent: Agent, row: Row, side: str, cell: str) -> None:
        """Keep a cell, with the day; those of another version are forgotten."""
        self._kept = self._read()  # another call may run other agents
        told = self._kept.get(agent.name, {})
        if told.get("version") != agent.version:
            told = {"version": agent.version, "cells": {}}
        told["date"] = datetime.now(UTC).date().isoformat()
        told["cells"].setdefault(row.name, {})[side] = cell
        self._kept[agent.name] = told
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(self._kept, indent=1), encoding="utf-8")

    def table(self, agents: Iterable[Agent], rows: Sequence[Row], title: str = "", page: Page = NO_PAGE) -> str:
        """Return the table, with `title` in its corner: a column an agent, a line a row, `without > with` in a cell.

        What `page` has of an agent's version stays where nothing is kept here.
        """
        columns = ((agent, self._column(agent, page.column(agent, title))) for agent in agents)
        found = [(agent, column) for agent, column in columns if column]
        lines = [
            [title, *(f"{agent.setup.title} {told['version']} ({told['date']})" for agent, told in found)],
            ["---"] * (len(found) + 1),
        ]
        for row in rows:
            cells = [_cell(told["cells"].get(row.name, {})) if row.is_for(agent) else "" for agent, told in found]
            if {*cells} - {"", NOTHING}:
                lines.append([f"`{row.name}`", *cells])
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def _column(self, agent: Agent, shown: dict[str, Any]) -> dict[str, Any]:
        """Return what is kept of an agent, over what is shown of the same version; empty if there is nothing."""
        kept = self._kept.get(agent.name)
        if kept is None:
            return shown if shown.get("version") == agent.version else {}
        if shown.get("version") != kept["version"]:
            return kept
        cells = {name: {**sides, **kept["cells"].get(name, {})} for name, sides in shown["cells"].items()}
        return {**kept, "cells": {**kept["cells"], **cells}}


def _cell(sides: dict[str, str]) -> str:
    """Return a cell of the table."""
    if not sides:
        return NOTHING
    return f"{sides.get('without', '?')} > {sides.get('with', '?')}"


def with_table(page: str, table: str, mark: str = BEGIN) -> str:
    """Return the page with the table between its marks. Raises ValueError if they are not there."""
    start = page.index(mark)
    end = page.index(END, start)
    return f"{page[:start]}{mark}\n\n{table}\n\n{page[end:]}"
