"""Marks that may be a string's own and may be its delimiter, and comments between members whose strings hold marks
without a backslash: where two readings are left, none is taken (contract C9).
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.client_view import argued, mended, whole
from tests.support.helpers import function, offered

pytestmark = pytest.mark.once

TEXT = {"type": "string"}
EDIT = {"type": "object", "properties": {"old": TEXT, "new": TEXT}, "required": ["old", "new"]}
TOOLS = offered(
    function("write", {"path": TEXT, "content": TEXT, "mode": TEXT}, "path", "content"),
    function("edit", {"path": TEXT, "edits": {"type": "array", "items": EDIT}}, "path", "edits"),
)
WRAPPED = '<tool_call>\n{{"name": "{}", "arguments": {}}}\n</tool_call>'
COMMENTS = ("/* c */", "/* a,\n b */", "// c\n", "// c\n  // d\n", "/* c */ // d\n")


def in_text(name: str, arguments: str) -> list[tuple[str, Any]]:
    return whole({"content": WRAPPED.format(name, arguments)}, tools=TOOLS).values


def is_refused(name: str, arguments: str) -> bool:
    got = argued(name, arguments, tools=TOOLS)
    return bool(got.error or got.values == []) and in_text(name, arguments) == []


@pytest.mark.parametrize("marks", [3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("text", ['{{"path": "p", "content": {}}}', '{{"content": {}, "path": "p"}}'])
def test_marks_alone_may_be_a_delimiter_or_the_text(text: str, marks: int) -> None:
    assert is_refused("write", text.format('"' * marks))


@pytest.mark.parametrize("inside", ["a", 'say "x"', "two\nlines", "Doc. ", "a', b"])
@pytest.mark.parametrize("text", ['{{"path": "p", "content": {}}}', '{{"content": {}, "path": "p"}}'])
def test_a_text_that_begins_with_three_marks_may_be_in_one_or_in_three(text: str, inside: str) -> None:
    assert is_refused("write", text.format(f'""""{inside}""""'))


@pytest.mark.parametrize("inside", ["a", 'say "x" now', "two\nlines"])
def test_three_marks_around_a_text_are_one_delimiter(inside: str) -> None:
    values, _ = mended("write", f'{{"path": "p", "content": """{inside}"""}}', tools=TOOLS)
    assert values == {"path": "p", "content": inside}


@pytest.mark.parametrize("comment", COMMENTS)
@pytest.mark.parametrize("between", ["}}, {} {{", "}}{}, {{", "}}, {{{} ", "{}}}, {{"])
def test_items_with_a_comment_between_are_not_joined(between: str, comment: str) -> None:
    joint = between.format(comment)
    text = f'{{"path": "p", "edits": [{{"old": "a", "new": "say "x""{joint}"old": "c", "new": "d"}}]}}'
    got = argued("edit", text, tools=TOOLS)
    meant = {"path": "p", "edits": [{"old": "a", "new": 'say "x"'}, {"old": "c", "new": "d"}]}
    assert got.error or got.values in ([], [("edit", meant)])
    assert in_text("edit", text) in ([], [("edit", meant)])


@pytest.mark.parametrize("comment", COMMENTS)
@pytest.mark.parametrize("joint", ['", {} "content": "w"', '" {}, "content": "w"', '", {} "content": "say "w""'])
@pytest.mark.parametrize("first", ["z", 'say "x" and z'])
def test_the_opener_of_a_key_behind_a_comment_is_one(first: str, joint: str, comment: str) -> None:
    assert is_refused("write", f'{{"path": "p", "content": "{first}{joint.format(comment)}}}')


@pytest.mark.parametrize(
    "content",
    [
        'see "http://a.b/c" and "d"',
        'x = "/*"; y = "*/"; z',
        'a = "b"; /* c */ d = "e"; f',
        'call("a") // one\nthen call("b") // two\nend',
    ],
)
def test_comments_of_code_are_text(content: str) -> None:
    values, _ = mended("write", f'{{"path": "p", "content": "{content}"}}', tools=TOOLS)
    assert values == {"path": "p", "content": content}
