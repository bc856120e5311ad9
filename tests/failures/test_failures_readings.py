"""Ambiguous text is not read at all (contract C9): missing ends, words in place of numbers, brackets that are not a
list, paths with single backslashes. All are in structured calls, streamed and whole, and in tagged calls.
"""

from __future__ import annotations

import json
from itertools import cycle
from typing import Any

import pytest

from proxy.notations.toolset import ToolSet
from tests.failures.test_failures_damage import is_refused, is_right
from tests.support.client_view import argued, kept
from tests.support.helpers import function, offered
from tests.support.json_wrappers import WRAPPERS, read
from tests.support.rows import rows, table

pytestmark = pytest.mark.once

TEXT = {"type": "string"}
HERMES = WRAPPERS["Hermes"]
# Values in place of a string that the schema requires.
OBJECTS = ('{"a": {"b": 1}}', '{"a": [{"b": "c"}]}', '{"a": {}}', '{"a": "b"}', '{\n  "name": "x",\n  "v": {"w": 1}\n}')
ARRAYS = ('[{"a": 1}]', '["a", "b"]', "[[1], [2]]")
# Notations with a string, as the text before it and after it.
STRING_PLACES = (
    ("write", '{"path": "p", "content": ', "}"),
    ("write", '{"content": ', "}"),
    ("bash", '{"command": ', "}"),
    ("edits", '{"path": "p", "edits": [{"old": "a", "new": ', "}]}"),
    ("edits", '{"path": "p", "edits": [{"new": "a", "old": "b"}, {"old": "a", "new": ', "}]}"),
    ("tag", '{"tags": ["a", ', "]}"),
)


@pytest.mark.slow
@pytest.mark.parametrize("value", [*OBJECTS, *ARRAYS])
@pytest.mark.parametrize(("name", "before", "after"), STRING_PLACES)
def test_an_unclosed_value_in_place_of_a_string_is_refused(name: str, before: str, after: str, value: str) -> None:
    """The end of the text is unknown if a bracket is missing. The families take turns."""
    text = before + value + after
    families = (HERMES, WRAPPERS["Kimi"], WRAPPERS["functionary"])
    turn = [*OBJECTS, *ARRAYS].index(value)
    for lost in range(1, len(text) - len(text.rstrip("}]")) + 1):
        cut = text[:-lost]
        assert is_refused(name, cut), cut
        tagged = families[(turn + lost) % len(families)](name, cut)
        assert read(tagged) == ([], tagged)


@pytest.mark.parametrize("value", OBJECTS)
def test_an_object_in_place_of_a_string_is_its_text(value: str) -> None:
    """F23: no bracket is missing."""
    meant = json.dumps(json.loads(value))
    for name, before, after in STRING_PLACES:
        values = json.loads(before + json.dumps(meant) + after)
        if name == "write" and "path" not in values:
            continue
        assert is_right(name, values, before + value + after)


@pytest.mark.parametrize("value", OBJECTS)
def test_an_object_that_ended_before_the_next_key_is_its_text_if_later_closers_are_missing(value: str) -> None:
    meant = json.dumps(json.loads(value))
    text = f'{{"content": {value}, "path": "p"'
    assert is_right("write", {"content": meant, "path": "p"}, text)
    # The end of these objects is unknown: all text after them may belong to them.
    assert is_refused("write", f'{{"content": {value[:-1]}, "path": "p"}}')


OBJECT_TOOLS: ToolSet = offered(
    function("put", {"path": TEXT, "body": {"type": "object"}, "rows": {"type": "array"}, "free": {}}, "path")
)


@rows(__file__, "text")
def test_missing_closers_are_added_if_the_schema_requires_an_object(text: str) -> None:
    """F20: the model stopped, and only brackets are missing at the very end."""
    got = argued("put", text, finish="stop", tools=OBJECT_TOOLS)
    closers = next(end for end in ("}", "}}", "]}", "}}}", "}]}", "]}}") if _is_json(text + end))
    assert got.values == [("put", json.loads(text + closers))]
    assert argued("put", text, finish="length", tools=OBJECT_TOOLS).arguments == (text,)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


NUMBERS: ToolSet = offered(
    function(
        "put",
        {"text": TEXT, "ratio": {"type": "number"}, "maybe": {"type": ["number", "null"]}, "free": {}, "rows": {}},
    )
)


@pytest.mark.slow
@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "nan", "inf", "-inf"])
@pytest.mark.parametrize("key", ["text", "ratio", "maybe", "free", "rows"])
def test_a_word_that_is_not_json_is_not_read_as_a_number(key: str, word: str) -> None:
    """C9: numbers and literals keep their value, and null would change it."""
    for value in (word, f"[{word}]", f'{{"a": {word}}}'):
        for text in (f'{{"{key}": {value}}}', f'{{"{key}": {value}, "x": 1}}', f"{{'{key}': {value},}}"):
            got = argued("put", text, tools=NUMBERS)
            assert got.calls == [] or got.error, text
            assert not got.error or got.arguments == ()
            assert got.error or got.text == f"put{text}"
            tagged = HERMES("put", text)
            assert read(tagged, tools=NUMBERS) == ([], tagged)
    assert kept("put", json.dumps({key: word}), tools=NUMBERS)


SCALARS: ToolSet = offered(
    function(
        "put",
        {
            "text": TEXT,
            "count": {"type": "integer"},
            "flag": {"type": "boolean"},
            "free": {},
            "names": {"type": "array", "items": TEXT},
            "counts": {"type": "array", "items": {"type": "integer"}},
        },
    )
)


@rows(__file__, "key,written,meant")
def test_a_value_in_parentheses_is_that_value_and_a_tuple_is_a_list(key: str, written: str, meant: Any) -> None:
    """As in Python, only the comma makes a tuple."""
    for text in (f"{{'{key}': {written}}}", f'{{"{key}": {written}}}'):
        got = argued("put", text, tools=SCALARS)
        assert (got.values, got.text, got.error) == ([("put", {key: meant})], "", "")
        for name in ("Hermes", "Kimi"):
            assert read(WRAPPERS[name]("put", text), tools=SCALARS) == ([("put", {key: meant})], "")
    python = f"[put({key}={written})]"
    if not written.startswith("["):
        assert read(python, tools=SCALARS) == ([("put", {key: meant})], "")


WINDOWS: list[str] = table(__file__, "WINDOWS")
COMMANDS = ('dir "{}"', '"{}"', 'copy "a b" {} /y', 'type "{}" > "x y"')


@pytest.mark.slow
@pytest.mark.parametrize("path", WINDOWS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_path_with_single_backslashes_next_to_unescaped_marks_is_refused(command: str, path: str) -> None:
    """The model escaped no quotation mark, so its backslashes may be escapes or parts of the path."""
    told = command.format(path)
    written = cycle((HERMES, WRAPPERS["DeepSeek V3.1"]))
    for name, text in (
        ("bash", f'{{"command": "{told}"}}'),
        ("bash", f'{{"timeout": 5, "command": "{told}"}}'),
        ("write", f'{{"path": "{path}", "content": "say "hi""}}'),
        ("write", f'{{"content": "say "hi"", "path": "{path}"}}'),
        ("edits", f'{{"path": "p", "edits": [{{"old": "{told}", "new": "b"}}]}}'),
    ):
        assert is_refused(name, text), text
        tagged = next(written)(name, text)
        assert read(tagged) == ([], tagged)
    python = f'[bash(command="{told}")]'
    assert read(python) == ([], python)


@pytest.mark.parametrize("path", WINDOWS)
def test_a_path_that_is_valid_json_is_unchanged(path: str) -> None:
    """C1."""
    assert kept("bash", json.dumps({"command": f'dir "{path}"'}), tools=PATHS)


PATHS: ToolSet = offered(function("bash", {"command": TEXT}, "command"))


@pytest.mark.slow
@rows(__file__, "code")
def test_escapes_in_code_are_read_next_to_unescaped_marks(code: str) -> None:
    meant = json.loads('"' + code.replace('"', '\\"') + '"')
    for name, key, before in (("bash", "command", ""), ("write", "content", '"path": "p", ')):
        text = f'{{{before}"{key}": "{code}"}}'
        values = {**({"path": "p"} if before else {}), key: meant}
        assert is_right(name, values, text)
        assert read(HERMES(name, text), 3) == ([(name, values)], "")


@pytest.mark.slow
@pytest.mark.parametrize("path", ["C:\\Users\\me", "C:\\Windows\\System32", "D:\\my docs\\x", "E:\\"])
def test_a_path_without_escapes_is_unchanged(path: str) -> None:
    for command in ('dir "{} x"', 'copy "{} y" a'):
        told = command.format(path)
        if path.endswith("\\"):
            told = told.replace("\\ ", "\\\\ ")
        meant = told.replace("\\\\", "\\")
        assert is_right("bash", {"command": meant}, f'{{"command": "{told}"}}')


@pytest.mark.parametrize("path", WINDOWS)
def test_a_path_with_all_its_backslashes_is_read(path: str) -> None:
    escaped = path.replace("\\", "\\\\")
    assert is_right("bash", {"command": f'dir "{path}"'}, f'{{"command": "dir "{escaped}""}}')
