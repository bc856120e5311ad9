"""Calls in a row on shared lines, copied from a tool result that shows its lines behind prefixes (F89)."""

from __future__ import annotations

import pytest

from tests.support.helpers import all_cuts, function, new_scanner, offered, scan
from tests.support.renderers import RENDERERS, Call

pytestmark = pytest.mark.once

TEXT = {"type": "string"}
TOOLS = offered(function("write", {"path": TEXT, "text": TEXT}, "path", "text"))
CALLS: list[Call] = [
    ("write", {"path": "a.py", "text": "one\ntwo\r\nthree\n\n\tend"}),
    ("write", {"path": "b.py", "text": "x = [\n    1,\n]\nprint(x)"}),
    ("write", {"path": "c.py", "text": "if x:\n    print(y)\n"}),
]
PREFIXES = ("{n}> ", "Line {n} | ", "[{n}] ", "{n:6}\t", "src/a.py:{n}:", "> ", "{n:05}| ")
FAMILIES = ("gemma4", "glm47")


def shown(text: str, prefix: str, end: str, first: int = 8) -> str:
    lines = text.split("\n")
    return "\n".join(f"{prefix.format(n=number)}{line}{end}" for number, line in enumerate(lines, first))


@pytest.mark.parametrize("end", ["", "$", "  |", "\r"])
@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("family", FAMILIES)
def test_none_of_a_row_that_was_copied_is_a_call(family: str, prefix: str, end: str) -> None:
    text = RENDERERS[family].render(CALLS)
    results = (f"It says:\n{shown(text, prefix, end)}\nThat is all.",)
    for cut in all_cuts(text, 2):
        assert scan(cut, new_scanner(TOOLS, results=results)).calls == ()


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_call_behind_copies_that_is_another_one_is_a_call(family: str, prefix: str) -> None:
    results = (f"It says:\n{shown(RENDERERS[family].render(CALLS), prefix, '')}\nThat is all.",)
    other: Call = ("write", {"path": "c.py", "text": "if x:\n    print(z)\n"})
    for before in (CALLS[:1], CALLS[1:2]):
        text = RENDERERS[family].render([*before, other])
        for cut in all_cuts(text, 2):
            assert scan(cut, new_scanner(TOOLS, results=results)).parsed == [other]
