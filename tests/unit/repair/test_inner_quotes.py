"""Quotation marks without a backslash in strings, read by the schema (contract C9)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.codec.json_text import JsonObject
from proxy.repair.arguments import read_arguments
from proxy.tools.schema import compile_schema
from proxy.tools.validator import violations
from tests.support.work import over_soon

pytestmark = pytest.mark.once

TEXT: JsonObject = {"type": "string"}
WRITE: dict[str, Any] = {
    "type": "object",
    "properties": {"path": TEXT, "content": TEXT, "mode": TEXT},
    "required": ["path", "content"],
}
EDIT: JsonObject = {"type": "object", "properties": {"old": TEXT, "new": TEXT, "all": {"type": "boolean"}}}
PAIR: JsonObject = {**EDIT, "required": ["old", "new"]}
EDITS: JsonObject = {
    "type": "object",
    "properties": {"path": TEXT, "edits": {"type": "array", "items": PAIR}, "tags": {"type": "array", "items": TEXT}},
    "required": ["path", "edits"],
}
NESTED: JsonObject = {"type": "object", "properties": {"edit": PAIR, "path": TEXT}, "required": ["edit", "path"]}
# Texts with marks that come in pairs.
PAIRED = (
    'say "hi"',
    '"all of it"',
    '{"a": {"b": 1}}',
    '{"a": "b", "c": "d"}',
    '[{"a": "b"}, {"a": "c"}]',
    'x = {"a": "b"}; y',
    'node -e "f("x")"',
    'print("}")',
    'print("]}")\nprint("}, {")',
    '"a", "b", "c"',
    '<a href="x" title="y">\n\t<b class="z">ü</b>\r\n</a>',
    'if [ "$a" == "b" ]; then echo "c: d"; fi',
    'a "b\\c" d',
)
UNPAIRED = ('5" wide', 'a "')


def broken(values: Any) -> str:
    """The JSON text of values, of whose strings no mark has a backslash."""
    text = json.dumps(values, ensure_ascii=False)
    return text.replace('\\"', '"')


def read(values: Any, schema: JsonObject) -> JsonObject | None:
    """What comes of values that were written so; None if it is refused."""
    return text_read(broken(values), schema)


def text_read(text: str, schema: JsonObject) -> JsonObject | None:
    """What comes of a text; None if it is refused, or if the schema does not accept it."""
    compiled = compile_schema(schema)
    found = read_arguments(text, compiled)
    if found is None or (found.told and violations(found.values, compiled)):
        return None
    return found.values


@pytest.mark.parametrize("text", PAIRED)
def test_a_string_ends_before_the_next_own_key_and_the_last_one_at_the_last_mark(text: str) -> None:
    for values in (
        {"path": "a", "content": text},
        {"content": text, "path": "a"},
        {"path": text, "content": text},
        {"mode": text, "path": text, "content": text},
        {"path": "a", "content": text, "mode": "b"},
        {"content": text, "mode": text, "path": "a"},
    ):
        assert read(values, WRITE) == values


@pytest.mark.parametrize("text", UNPAIRED)
def test_marks_need_no_pairs_where_only_one_end_can_be_meant(text: str) -> None:
    for values in ({"path": "a", "content": text}, {"content": text, "path": "a"}, {"path": text, "content": "a"}):
        assert read(values, WRITE) == values


@pytest.mark.parametrize("text", [*UNPAIRED, '{"a": "b", "mode": "c"}'])
def test_a_key_that_may_be_missing_ends_no_string_whose_marks_do_not_come_in_pairs(text: str) -> None:
    """C9: all from there on may belong to the string."""
    assert read({"path": "a", "content": text, "mode": "b"}, WRITE) is None


@pytest.mark.parametrize("text", PAIRED)
def test_objects_in_objects_and_arrays_end_where_what_follows_them_does(text: str) -> None:
    for values in (
        {"path": "a", "edits": [{"old": text, "new": "b"}]},
        {"path": "a", "edits": [{"old": "b", "new": text}]},
        {"edits": [{"old": text, "new": text}, {"old": "b", "new": text}, {"new": text, "old": text}], "path": "a"},
        {"edits": [{"old": text, "all": True, "new": text}], "path": text, "tags": ["a", "b"]},
    ):
        assert read(values, EDITS) == values
    for edit in ({"old": text, "new": text}, {"new": "a", "old": text}):
        for nested in ({"edit": edit, "path": text}, {"path": text, "edit": edit}):
            assert read(nested, NESTED) == nested


@pytest.mark.parametrize(
    "text",
    [
        '{"path": "p", "content": "{"path": "x", "content": "y"}"}',
        '{"content": "{"a": "x", "path": "y"}", "path": "p"}',
        '{"path": "p", "content": "a", "mode": "b", "mode": "c "d" e"}',
        '{"path": "p", "path": "q", "content": "c "d" e"}',
    ],
)
def test_c9_an_own_keys_opener_that_stands_twice_leaves_no_reading(text: str) -> None:
    assert text_read(text, WRITE) is None


NOTE: JsonObject = {"type": "object", "properties": {"note": TEXT, "kind": TEXT}}
DEEP: JsonObject = {
    "type": "object",
    "properties": {
        "edits": {"type": "array", "items": EDIT},
        "mixed": {"type": "array", "items": {"anyOf": [NOTE, {"type": "integer"}]}},
        "o": {"type": "object", "properties": {"n": NOTE, "kind": TEXT, "at": TEXT}},
        "path": TEXT,
        "mode": TEXT,
    },
}


@pytest.mark.parametrize(
    "text",
    [
        # The outer key's opener stands twice behind what closes around a nested string.
        '{"edits": [{"old": "a", "new": "f("}], "path": "z")"}], "path": "p"}',
        '{"o": {"n": {"note": "f("}}, "path": "z")"}}, "path": "p"}',
        '{"o": {"n": {"note": "f("}, "at": "z")"}, "at": "p"}}',
        # That of a key in the middle, whose object is closed when it stands there again.
        '{"o": {"n": {"note": "f("}, "at": "z"}, "path": ")"}, "at": "y"}, "mode": "w"}',
        '{"o": {"n": {"note": "f(", "kind": "z"}}, "path": ""x)", "kind": "y"}}, "mode": "w"}',
        # That of an item.
        '{"edits": [{"old": "f("}, {"old": "z"}], "path": ")"}, {"old": "y"}], "mode": "w"}',
        # The next item is no object.
        '{"mixed": [{"note": "x"}, 5], "path": "q "b" [{"}]}',
        # A comma may be lost.
        '{"o": {"n": {"note": "f("}} "path": "z")"}, "mode": "w"}',
        # Several objects.
        '{"path": "a"}, {"path": "b"}',
        '{"path": "a"}\n{"mode": "b "c""}',
        '{"o": {"n": {"note": "a"}}}, {"path": "b"}',
    ],
)
def test_c9_what_may_close_more_than_the_string_leaves_no_reading(text: str) -> None:
    assert text_read(text, DEEP) is None


@pytest.mark.parametrize("last", ["p", 'it\'s "p" '])
@pytest.mark.parametrize(
    "more", ['{"old": "b c", "all": 0}', '{"all": 0}', '{"kind": 1}', "{}", "5", '{"old": "b", "all": true}']
)
def test_c9_an_opener_behind_brackets_that_stands_there_again_leaves_no_reading(more: str, last: str) -> None:
    """A text may show the end of its array and the key behind it, and further items follow it."""
    text = f'{{"edits": [{{"all": 1, "new": "f("}}], "path": "z")"}}, {more}], "path": "{last}"}}'
    assert text_read(text, {**DEEP, "required": ["path"]}) is None


@pytest.mark.parametrize("text", ['a \\\\"b\\\\" "c"', 'C:\\\\"b" c'])
def test_c9_a_mark_behind_two_backslashes_leaves_no_reading(text: str) -> None:
    """One of them may be meant for the mark."""
    assert text_read(f'{{"path": "p", "content": "{text}"}}', WRITE) is None


@pytest.mark.parametrize("text", ["C:\\Users\\me\\notes.txt", "C:\\new\\d", "\\d\\n", 'a \\" C:\\notes\\me'])
def test_c9_backslashes_that_can_be_read_in_two_ways_leave_no_reading(text: str) -> None:
    """Where one escapes nothing, the others may not either."""
    for string in (text, text + ' "b" c'):
        assert text_read(f'{{"path": "p", "content": "{string}"}}', WRITE) is None
    assert text_read('{"path": "p", "content": "\\d \\"b\\" \\n"}', WRITE) == {"path": "p", "content": '\\d "b" \n'}


def test_an_empty_object_among_items_ends_strings_too() -> None:
    values = {"path": "p", "edits": [{"old": 'a "b"', "new": "c"}, {}, {"old": "d", "new": 'e "f"'}]}
    assert read(values, {"properties": {"path": TEXT, "edits": {"items": EDIT}}}) == values


@pytest.mark.parametrize("item", ['a "b" c', 'a", b', '"'])
def test_c9_marks_in_an_array_of_strings_leave_no_reading(item: str) -> None:
    assert read({"path": "p", "edits": [], "tags": [item, "x"]}, EDITS) is None
    assert read({"path": "p", "edits": [], "tags": ["x", item]}, EDITS) is None


@pytest.mark.parametrize(
    "text",
    [
        # A key that the tool does not declare: its value, or a part of the string?
        '{"path": "p", "content": "echo "hi"", "description": "greets"}',
        '{"path": "p", "content": "echo "hi""\n"mode": "b"}',
    ],
)
def test_c9_where_a_string_can_be_read_in_two_ways_neither_is_taken(text: str) -> None:
    assert text_read(text, WRITE) is None


def test_a_declared_key_that_holds_everything_wins_over_one_that_is_not_declared() -> None:
    schema: JsonObject = {**WRITE, "additionalProperties": TEXT}
    for text in ('a "b" c', '{"a": "b", "c": "d"}'):
        assert read({"path": "p", "content": text}, schema) == {"path": "p", "content": text}


@pytest.mark.parametrize(
    "text",
    [
        '{"path": "p", "content": "a "b" c',
        '{"path": "p", "content": "a "b" c"',
        '{"path": "p", "content": "a "b" c}',
        '{"path": "p", "content": "x = {"a": "b"}}',
        '{"path": "p", "content": "x = {"a": 1}"',
        '{"path": "p", "content": "x = {"a": "b"}',
        '{"path": "p", "content": "x = {"a": ["b"]}',
        '{"path": "p", "edits": [{"old": "x = ["a"}]}',
        '{"path": "p", "content": "a "b" c"} and more',
        '{"path": "p", "content": """a "b" c"}',
        '{"path": "p", "content": """a',
        '{"path": "p", "content": """, "mode": "a"}',
    ],
)
def test_c9_nothing_supplies_the_end_of_a_string(text: str) -> None:
    assert text_read(text, WRITE) is None


@pytest.mark.parametrize("mark", ['"', "'"])
@pytest.mark.parametrize(
    "inner", ['def f():\n    "doc"\n    return "a"', 'it\'s "x"', 'x = "a", "mode": "b"', "x" * 5000]
)
def test_three_marks_are_one_delimiter(mark: str, inner: str) -> None:
    quoted = mark * 3 + inner + mark * 3
    assert text_read(f'{{"path": "p", "content": {quoted}}}', WRITE) == {"path": "p", "content": inner}
    assert text_read(f'{{"content": {quoted}, "path": "p"}}', WRITE) == {"path": "p", "content": inner}
    assert text_read(f'{{"path": "p", "content": {quoted}, "mode": "m"}}', WRITE) in (
        {"path": "p", "content": inner, "mode": "m"},
        None if "mode" in inner else {},
    )


@pytest.mark.parametrize("text", ['"', '""', '"" + a', '"""doc""" and more', '"""'])
def test_c9_three_marks_that_begin_a_string_and_do_not_end_it_leave_no_reading(text: str) -> None:
    for values in ({"path": "a", "content": text}, {"content": text, "path": "a"}):
        assert read(values, WRITE) is None


def test_escapes_are_decoded_and_marks_with_a_backslash_end_nothing() -> None:
    text = r'{"path": "a\tb", "content": "say \"a\", \"path\": and "b"\n\u00fc \d \\", "mode": ""}'
    assert text_read(text, WRITE) == {"path": "a\tb", "content": 'say "a", "path": and "b"\nü \\d \\', "mode": ""}


def test_other_values_and_keys_are_read_as_they_stand() -> None:
    """C9: numbers and words keep their value; a key that stood there as a key stays."""
    schema: JsonObject = {**WRITE, "properties": {**WRITE["properties"], "n": {}, "o": {"type": "object"}}}
    text = '{"extra": 1.10, "n": null, "o": {"x": ["a", {}], "y": "b"}, "path": \'a\', "content": "b "c" d"}'
    found = text_read(text, schema)
    assert found == {"extra": 1.1, "n": None, "o": {"x": ["a", {}], "y": "b"}, "path": "a", "content": 'b "c" d'}


@pytest.mark.parametrize("text", ["[]", '"a"', '{"path" "a"}', '{"path": }', '{"path": a b}', "{} {", "a"])
def test_what_is_no_object_has_no_reading(text: str) -> None:
    assert text_read(text, WRITE) is None


def test_without_declared_keys_no_mark_is_a_strings_own() -> None:
    assert text_read('{"a": "b "c" d"}', {"type": "object"}) is None
    assert text_read('{"a": "b"}', {"type": "object"}) == {"a": "b"}


UNITS = ('"', '", ', '", "path": ', '", "x": ', '"}', '"}]', '"}, {"old": ', '"   ', "\\", '"""', "{", '{"a":', "'")


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
def test_c7_no_text_takes_long(unit: str) -> None:
    for head in ('{"path": "p", "content": "', '{"path": "p", "edits": [{"old": "', '{"path": '):
        for tail in ('"}', '"}]}', ""):
            with over_soon():
                text_read(head + unit * (60_000 // len(unit)) + tail, EDITS if "edits" in head else WRITE)


@pytest.mark.parametrize(
    "text",
    [
        # Strings that are joined, as Python, JavaScript, PHP and shells do.
        '{"path": "p", "content": "line 1\\n" + "line 2\\n"}',
        '{"path": "p", "content": "x\\n"\n "y\\n"}',
        '{"path": "p", "content": "x" "y"}',
        '{"path": "p", "content": "x" . "y"}',
        '{"path": "p", "content": "x %s" % "b"}',
        '{"path": "p", "content": "ls" || "dir"}',
        # A mark that stands there twice.
        '{"path": "p"", "content": "x"}',
        '{"path": "p", "content": "ls""}',
        '{"path": "p", "content": "ls",""}',
        # A key that the tool does not declare, and that is broken.
        '{"path": "p", "content": "ls", "description: "list"}',
        '{"path": "p", "content": "ls" "description": "list"}',
        '{"path": "p", "content": "ls","pwd"}',
    ],
)
def test_c9_a_mark_behind_which_another_string_begins_leaves_no_reading(text: str) -> None:
    assert text_read(text, WRITE) is None
    assert text_read(text, {**WRITE, "additionalProperties": False}) is None


@pytest.mark.parametrize(
    "code", ['print("a" + "b")', 'f("", "")', 'echo "" "b"', '"a" and "b"', '["a", "b"]', 'x = "a" "b"']
)
def test_strings_within_a_text_are_its_own(code: str) -> None:
    assert text_read(f'{{"path": "p", "content": "{code}"}}', WRITE) == {"path": "p", "content": code}


@pytest.mark.parametrize(
    "text",
    [
        # Something odd between two members.
        '{"content": "ls",\n  # why\n  "path": "y"}',
        '{"content": "ls"， "path": "y"}',
        '{"content": "ls"\\n "path": "y"}',
        '{"content": "ls"<br>"path": "y"}',
        '{"content": "ls"</parameter>"path": "y"}',
        '{"path": "a",x "content": "b"}',
        # Several calls.
        '{"path": "a", "content": "ls"}</tool_call><tool_call>{"path": "b", "content": "pwd"}',
        '{"path": "a", "content": "ls"} and {"path": "b", "content": "pwd"}',
        '{"path": "a", "content": "ls"}</tool_call>\n<tool_response>\n{"result": "a b"}\n</tool_response>',
        # An expression.
        '{"path": "p", "content": "a" if x else "b"}',
        '{"path": "p", "content": "a" or "b"}',
        '{"path": "p", "content": "a" == "b"}',
        # The last mark of the text may be lost.
        '{"path": "p", "content": "git commit -m "fix"}',
        "{'path': 'p', 'content': 'it''s'}",
        # A comment and a bracket that is missing.
        '{"path": "p", "content": "x", "mode": 7 // 2}',
    ],
)
def test_c9_a_string_does_not_swallow_what_may_be_another_member_or_call(text: str) -> None:
    assert text_read(text, WRITE) is None


def test_c9_items_that_nothing_parts_leave_no_reading() -> None:
    for between in (" and ", ", # x\n", "\n- ", ", 2. "):
        text = f'{{"path": "p", "edits": [{{"old": "a", "new": "b"}}{between}{{"old": "c", "new": "d"}}]}}'
        assert text_read(text, EDITS) is None


@pytest.mark.parametrize("number", ["0x1F", "+4915123", "1_000", ".5"])
def test_c9_a_number_that_json_does_not_have_stays_the_text_that_was_written(number: str) -> None:
    assert text_read(f'{{"path": {number}, "content": "a"}}', WRITE) == {"path": number, "content": "a"}
