"""Calls as JSON objects: their spellings, and where the reading ends if it is none (F1, F2, F6, F29)."""

from __future__ import annotations

import json

import pytest

from proxy.formats.json_calls import json_array, json_object, shown_json
from proxy.parsing.buffer import TextBuffer
from proxy.parsing.cursor import Context, Cursor, NotACall, Parsing, RawCall
from tests.support.helpers import Outcome, offered, outcome

LS = '{"command": "ls"}'
Read = list[tuple[str, str]]


def json_calls(reader: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """One object, or an array of them."""
    here = yield from reader.byte()
    return (yield from (json_array if here == b"[" else json_object)(reader))


def written(found: Outcome[tuple[RawCall, ...]]) -> Read | None:
    """The calls with their arguments as they were written."""
    return None if found.given is None else [(call.tool.name, call.arguments) for call in found.given]


READ: dict[str, tuple[str, Read]] = {
    "plain": (f'{{"name": "bash", "arguments": {LS}}}', [("bash", LS)]),
    "compact": ('{"name":"bash","arguments":{"command":"ls"}}', [("bash", '{"command":"ls"}')]),
    "arguments first": (f'{{"arguments": {LS}, "name": "bash"}}', [("bash", LS)]),
    "parameters": (f'{{"name": "bash", "parameters": {LS}}}', [("bash", LS)]),
    "args": (f'{{"name": "bash", "args": {LS}}}', [("bash", LS)]),
    "input": (f'{{"name": "bash", "input": {LS}}}', [("bash", LS)]),
    "type, id, index": (
        f'{{"type": "function", "id": "x", "index": 0, "name": "bash", "arguments": {LS}}}',
        [("bash", LS)],
    ),
    "OpenAI": (f'{{"type": "function", "function": {{"name": "bash", "arguments": {LS}}}}}', [("bash", LS)]),
    "OpenAI with id": (
        f'{{"id": "c", "function": {{"name": "bash", "arguments": {LS}}}, "type": "function"}}',
        [("bash", LS)],
    ),
    "a string of JSON": (f'{{"name": "bash", "arguments": {json.dumps(LS)}}}', [("bash", LS)]),
    "null": ('{"name": "now", "arguments": null}', [("now", "{}")]),
    "no keys": ('{"name": "now", "arguments": {}}', [("now", "{}")]),
    "pretty": (
        '{\n  "name": "bash",\n  "arguments": {\n    "command": "ls"\n  }\n}',
        [("bash", '{\n    "command": "ls"\n  }')],
    ),
    "name by case": (f'{{"name": "Bash", "arguments": {LS}}}', [("bash", LS)]),
    "name escaped": (f'{{"name": "b\\u0061sh", "arguments": {LS}}}', [("bash", LS)]),
    "array of one": (f'[{{"name": "bash", "arguments": {LS}}}]', [("bash", LS)]),
    "array": (
        f'[ {{"name": "bash", "arguments": {LS}}} , {{"name": "now", "arguments": {{}}}} ]',
        [("bash", LS), ("now", "{}")],
    ),
    "an array without commas": (
        '[{"name": "now", "arguments": {}}\n{"name": "now", "arguments": {}}]',
        [("now", "{}"), ("now", "{}")],
    ),
    "braces in a string": ('{"name": "bash", "arguments": {"command": "}}]"}}', [("bash", '{"command": "}}]"}')]),
    "markup in a string": (
        '{"name": "bash", "arguments": {"command": "</tool_call>```"}}',
        [("bash", '{"command": "</tool_call>```"}')],
    ),
    "a lone surrogate": ('{"name": "bash", "arguments": {"command": "\\ud83d"}}', [("bash", '{"command": "\\ud83d"}')]),
    "UTF-8": ('{"name": "bash", "arguments": {"command": "ï🙂｜"}}', [("bash", '{"command": "ï🙂｜"}')]),
    "tool_name": (f'{{"tool_name": "bash", "arguments": {LS}}}', [("bash", LS)]),
    "tool": (f'{{"tool": "bash", "args": {LS}}}', [("bash", LS)]),
    "function": (f'{{"function": "bash", "arguments": {LS}}}', [("bash", LS)]),
    "an empty string": ('{"name": "now", "arguments": ""}', [("now", "{}")]),
    "single quotation marks": ("{'name': 'bash', 'arguments': {'command': 'ls'}}", [("bash", LS)]),
    "the words of Python": (
        '{"name": "typed", "arguments": {"flag": True, "maybe": None}}',
        [("typed", '{"flag": true, "maybe": null}')],
    ),
    "a comma too many in the arguments": ('{"name": "bash", "arguments": {"command": "ls",}}', [("bash", LS)]),
    "a comma too many": (f'{{"name": "bash", "arguments": {LS},}}', [("bash", LS)]),
    "a comma too many in the array": (f'[{{"name": "bash", "arguments": {LS}}},]', [("bash", LS)]),
    "a raw line end in a string": (
        '{"name": "bash", "arguments": {"command": "a\nb"}}',
        [("bash", '{"command": "a\\nb"}')],
    ),
    "keys as names in an array": (f'[{{"bash": {LS}}}, {{"now": {{}}}}]', [("bash", LS), ("now", "{}")]),
    "a key named name": ('{"name": "bash", "arguments": {"name": "x"}}', [("bash", '{"name": "x"}')]),
}


@pytest.mark.parametrize("name", READ)
def test_each_spelling_is_read_at_every_cut_with_its_arguments_as_written(name: str) -> None:
    text, expected = READ[name]
    found = outcome(json_calls, text, first=True)
    assert (written(found), found.rest) == (expected, "")
    assert written(outcome(json_calls, text, wrapped=True)) == expected


REFUSED = {
    "name not offered": '{"name": "nope", "arguments": {}}',
    "name one letter off": '{"name": "bas", "arguments": {}}',
    "package.json": '{"name": "read", "version": "1.0.0", "arguments": {}}',
    "another key first": '{"version": "1", "name": "bash", "arguments": {}}',
    "no name": '{"arguments": {"command": "ls"}}',
    "no arguments": '{"name": "bash"}',
    "name is no string": '{"name": 7, "arguments": {}}',
    "name is null": '{"name": null, "arguments": {}}',
    "arguments twice": '{"name": "bash", "arguments": {}, "parameters": {}}',
    "name twice": '{"name": "bash", "name": "read", "arguments": {}}',
    "arguments are an array": '{"name": "bash", "arguments": ["ls"]}',
    "arguments are a number": '{"name": "bash", "arguments": 1}',
    "arguments are a word": '{"name": "bash", "arguments": "ls"}',
    "arguments are no value": '{"name": "bash", "arguments": {"command": ls}}',
    "arguments end in a string": '{"name": "bash", "arguments": {"command": "ls',
    "an id that is an object": '{"id": {"a": 1}, "name": "bash", "arguments": {}}',
    "a key behind the call": '{"name": "bash", "arguments": {}, "result": 1}',
    "a key as name, and another": '[{"bash": {}, "now": {}}]',
    "a key that is no name": '[{"nope": {"command": "ls"}}]',
    "a string of no JSON": '{"name": "bash", "arguments": "{"}',
    "another type": '{"type": "object", "name": "bash", "arguments": {}}',
    "function and name": '{"name": "bash", "function": {"name": "bash", "arguments": {}}}',
    "function, then arguments": '{"function": {"name": "bash", "arguments": {}}, "arguments": {}}',
    "function, then name": '{"function": {"name": "bash", "arguments": {}}, "name": "bash"}',
    "function in function": '{"function": {"function": {"name": "bash", "arguments": {}}}}',
    "empty object": "{}",
    "empty array": "[]",
    "array of numbers": "[1, 2]",
    "array with something else": '[{"name": "now", "arguments": {}}, 1]',
    "one of two not offered": '[{"name": "now", "arguments": {}}, {"name": "nope", "arguments": {}}]',
    "no colon": '{"name" "bash"}',
    "no comma": '{"name": "bash" "arguments": {}}',
    "a broken key": '{"na\\xme": 1}',
    "prose": "{ x }",
    "half": '{"name": "bash", "argu',
    "nothing": "{",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_call_is_refused_at_every_cut(name: str) -> None:
    """C3: precision before recall."""
    found = outcome(json_calls, REFUSED[name])
    assert found.calls is None and found.why


CALL = f'{{"name": "bash", "arguments": {LS}}}'
WHERE: dict[str, tuple[str, str]] = {
    "at the end": (CALL[:-1], ""),
    "behind a blank": (f"{CALL[:-1]}\n", ""),
    "in an array": (f"[{CALL}", ""),
    "before a wrapper's end": (f"{CALL[:-1]}\n</tool_call>", "</tool_call>"),
    "before a marker's end": (f"[{CALL}<|tool_call_end|>", "<|tool_call_end|>"),
    "before the end of the turn": (f"{CALL[:-1]}<|im_end|>", "<|im_end|>"),
    "one too many": (f"{CALL}}}", "}"),
}


@pytest.mark.parametrize("name", WHERE)
def test_a_brace_may_be_missing_where_the_call_must_be_over(name: str) -> None:
    """F30: one too many is for the row or the wrapper to read."""
    text, rest = WHERE[name]
    found = outcome(json_calls, text)
    assert (written(found), found.rest) == ([("bash", LS)], rest)


@pytest.mark.parametrize("text", [CALL[:-1], f"{CALL[:-1]}\n", f"[{CALL}"])
def test_a_brace_is_never_supplied_where_the_reply_was_cut_off(text: str) -> None:
    """C4."""
    assert outcome(json_calls, text, stopped=False).calls is None


@pytest.mark.parametrize("text", ['{"a": "<tool_call>"} x', '[{"a": 1}] x', '["a", {"b": []}] x'])
def test_json_in_the_middle_of_a_line_is_passed_over_as_a_whole(text: str) -> None:
    """C3: its strings are strings, whatever they hold."""
    found = outcome(shown_json, text)
    assert (found.given, found.rest) == (None, " x")


@pytest.mark.parametrize(
    "start",
    [
        '{"answer": 1',
        '{"name": "nope"',
        '{"name": "read", "version": 1',
        '{"type": "object"',
        '{"items": [',
        '{"name": ["',
        "[1",
        '["',
        "[[",
        "{x",
        '{"name": "bash" x',
        '{"name": 7',
    ],
)
def test_a_json_answer_is_no_call_from_the_first_thing_that_no_call_has(start: str) -> None:
    """C2: not from its end, which may be far away; it is read on, but what is void need not wait."""
    reader = Cursor(TextBuffer(bytearray(start.encode())), 0, Context(offered()))
    try:
        next(json_calls(reader))
    except NotACall:
        return
    assert reader.void


@pytest.mark.parametrize("start", ['{"x', '{"name": "x', '{"name": "bash", "x', '[{"x'])
def test_a_key_or_a_name_that_does_not_end_is_let_go(start: str) -> None:
    """C2, F68: a quotation mark in prose must not hold what follows it."""
    reader = Cursor(TextBuffer(bytearray((start + " and so on" * 100).encode())), 0, Context(offered()))
    next(json_calls(reader))
    assert reader.void


def test_a_key_with_a_line_end_is_let_go_at_the_line_end() -> None:
    """No JSON string holds a raw line end, so that what follows may be a call again."""
    window = TextBuffer(bytearray(b'{"an open quote\n'))
    reader = Cursor(window, 0, Context(offered()))
    with pytest.raises(NotACall):
        next(json_calls(reader))
    assert reader.pos <= len(b'{"an open quote\n')


@pytest.mark.parametrize("text", ['{"name": "now"}', '{"name": "bash"}', '[{"name": "now"}]'])
def test_in_a_wrapper_a_call_may_lack_its_arguments(text: str) -> None:
    """F26: a call without arguments has the arguments `{}`."""
    assert outcome(json_calls, text).calls is None
    found = outcome(json_calls, text, wrapped=True).calls
    assert found is not None and [arguments for _, arguments in found] == [{}]


def test_in_a_wrapper_the_name_may_be_the_key() -> None:
    """Apertus writes arrays of such objects; a bare one could be any JSON."""
    text = f'{{"bash": {LS}}}'
    assert outcome(json_calls, text).calls is None
    assert written(outcome(json_calls, text, wrapped=True)) == [("bash", LS)]
