"""Comments that stand where the next member of an object may begin, and may as well be a string's own."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.repair.shown_comments import alike, without_comments_between
from tests.support.work import over_soon

TAKEN = {
    "between items": ('[{"a": 1}, /* c */ {"b": 2}]', '[{"a": 1},   {"b": 2}]'),
    "to the end of the line": ('["a", // c\n"b"]', '["a",  "b"]'),
    "over lines": ('{"a": 1, /* c,\n d */ "b": 2}', '{"a": 1,   "b": 2}'),
    "several": ('["a", /* c */ // d\n "b"]', '["a",     "b"]'),
    "at the beginning": ('{ /* c */ "a": 1}', '{   "a": 1}'),
    "before the end": ('["a", /* c */ ]', '["a",   ]'),
}
LEFT = {
    "an address": '"see http://a.b/c"',
    "none that ends": '["a", /* c "b"]',
    "none that ends its line": '["a", // c "b"]',
    "a string": 'x = "/*"; y = "*/"; z',
    "behind a word": 'call(a) /* c */ then',
    "before a word": '"a", /* c */ then',
    "between marks": '"a" /* c */ "b"',
    "half of a sign": '["a", / * c * / "b"]',
    "nothing": "",
}


@pytest.mark.parametrize(("text", "left"), TAKEN.values(), ids=TAKEN)
def test_a_comment_between_what_may_be_members_is_taken_out(text: str, left: str) -> None:
    found = without_comments_between(text)
    assert found.split() == left.split()
    assert without_comments_between(found) == found


@pytest.mark.parametrize("text", LEFT.values(), ids=LEFT)
def test_all_else_is_text(text: str) -> None:
    assert without_comments_between(text) == text


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": ["x"]}, {"a": ["another text"]}, True),
        ({"a": 1}, {"a": 2}, True),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        (["a"], ["a", "b"], False),
        ([{"a": 1}], [{"b": 1}], False),
        ([], {}, False),
        (None, None, True),
    ],
)
def test_values_are_alike_whatever_their_strings_are(one: Any, other: Any, same: bool) -> None:
    assert alike(one, other) is alike(other, one) is same


@pytest.mark.parametrize("unit", ['"/*', '", /* c */ "', '"//', '"// c\n', "/*/", '"} /* c */ {"', '"//\n', '"/*"//'])
def test_c7_no_comments_take_long(unit: str) -> None:
    with over_soon():
        without_comments_between(unit * (300_000 // len(unit)))
