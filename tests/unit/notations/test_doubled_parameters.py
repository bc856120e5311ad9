"""The opening tag of a value that stands there twice: one value, as a call's opening tag that does so is one call."""

from __future__ import annotations

import re

import pytest

from proxy.codec.json_text import Json
from tests.support.helpers import all_cuts, function, new_scanner, offered, scan
from tests.support.renderers import RENDERERS
from tests.unit.notations.test_raw_values import FAMILIES, MARKS

pytestmark = pytest.mark.once

TEXT = {"type": "string"}
TOOLS = offered(
    function("edit_text", {"path": TEXT, "old": TEXT, "new": TEXT, "count": {"type": "integer"}}, "path"),
)
OPENER = re.compile(r"((?:\]<\]minimax\[>\[)?<(?:\|open\|>[^<>]*<\|sep\|>|[^<>]*>))\s*\Z")
CLOSER = re.compile(r"\s*(?:\]<\]minimax\[>\[)?<(?:/|\|close\|>argument<\|sep\|)[^<>]*>")
TAGGED = [family for family in FAMILIES if family not in MARKS]
VALUES = {"path": ("a.py", "a b"), "old": ("x = 1\ny", "<p>b</p>"), "new": ("</a> it's", "z")}


def doubled(family: str, key: str, value: str) -> list[tuple[str, dict[str, Json]]]:
    """Calls in which the opening tag of this value stands twice, beside it or a line on."""
    values: dict[str, Json] = {"path": "p", "old": "o", "new": "n", "count": 3, key: "\0"}
    text = RENDERERS[family].render([("edit_text", values)])
    before, _, behind = text.partition("\0")
    found = OPENER.search(before)
    assert found is not None, text
    opener, blanks = found.group(1), found.group()[len(found.group(1)) :]
    # Beside it, and where the template ends the line behind it, also without that line end.
    written = {before + opener + blanks, before.removesuffix(blanks) + opener + blanks}
    return [(f"{each}{value}{behind}", values | {key: value}) for each in sorted(written)]


def parts(family: str) -> tuple[str, str, str, str, str]:
    """A call up to a value, the value's opening tag, the blanks behind it, the end tag with the blanks before it, and
    the rest.
    """
    text = RENDERERS[family].render([("edit_text", {"path": "p", "new": "\0"})])
    before, _, behind = text.partition("\0")
    opened, closed = OPENER.search(before), CLOSER.match(behind)
    assert opened is not None
    assert closed is not None
    blanks = opened.group()[len(opened.group(1)) :]
    return before[: opened.start()], opened.group(1), blanks, closed.group(), behind[closed.end() :]


# Where no end tag of a call tells its end, a shown value is no less likely.
@pytest.mark.parametrize("family", [family for family in TAGGED if family != "beam"])
def test_an_opening_tag_of_a_value_that_stands_there_three_times_is_one(family: str) -> None:
    before, opener, blanks, closer, rest = parts(family)
    for gap in (blanks, "", "\n"):
        text = f"{before}{opener}{gap}{opener}{gap}{opener}{blanks}x = 1{closer}{rest}"
        for cut in all_cuts(text, 3):
            assert scan(cut, new_scanner(TOOLS)).parsed == [("edit_text", {"path": "p", "new": "x = 1"})], text


@pytest.mark.parametrize("family", TAGGED)
def test_markup_of_its_own_in_a_text_is_kept(family: str) -> None:
    """Balanced markup is text: not a line of it is lost."""
    before, opener, blanks, closer, rest = parts(family)
    value = f"{opener}{blanks}x = 1{closer}\nmore"
    text = f"{before}{opener}{blanks}{value}{closer}{rest}"
    for cut in all_cuts(text, 3):
        for _, arguments in scan(cut, new_scanner(TOOLS)).parsed:
            assert arguments == {"path": "p", "new": value}, text


@pytest.mark.parametrize("family", [family for family in TAGGED if family != "beam"])
def test_a_parameter_that_opens_and_closes_twice_is_one(family: str) -> None:
    """C10: a value never ends with its own closer."""
    before, opener, blanks, closer, rest = parts(family)
    text = f"{before}{opener}{blanks}{opener}{blanks}x = 1{closer}{closer}{rest}"
    for cut in all_cuts(text, 3):
        assert scan(cut, new_scanner(TOOLS)).parsed == [("edit_text", {"path": "p", "new": "x = 1"})], text


@pytest.mark.parametrize("key", VALUES)
@pytest.mark.parametrize("family", TAGGED)
def test_an_opening_tag_of_a_value_that_stands_there_twice_is_one(family: str, key: str) -> None:
    for value in VALUES[key]:
        for text, values in doubled(family, key, value):
            for cut in all_cuts(text, 3):
                found = scan(cut, new_scanner(TOOLS)).parsed
                assert found == [("edit_text", values)], text


def test_a_key_of_a_pair_that_stands_there_twice_is_one() -> None:
    pair = "<arg_value>a.py</arg_value>\n</tool_call>"
    for keys in ("<arg_key>path</arg_key><arg_key>path</arg_key>", "<arg_key><arg_key>path</arg_key>"):
        for cut in all_cuts(f"<tool_call>edit_text\n{keys}\n{pair}", 6):
            assert scan(cut, new_scanner(TOOLS)).parsed == [("edit_text", {"path": "a.py"})]
