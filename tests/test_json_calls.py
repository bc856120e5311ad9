"""Calls as JSON objects: their spellings, and where the reading ends if it is none (F1, F2, F6, F29)."""

from __future__ import annotations

import json

import pytest

from proxy.formats.json_calls import json_calls
from proxy.reader import NotACall, Reader, Window

from .helpers import all_cuts, offered, read_pieces

NONE = "no call"
LS = '{"command": "ls"}'


def read(cut: list[str], *, wrapped: bool = False) -> list[tuple[str, str]] | str:
    """The calls in a text that comes in these pieces, with names as they were written."""
    found = read_pieces(json_calls, cut, wrapped=wrapped)
    return NONE if found is None else [(call.tool.name, call.arguments) for call in found[1]]


READ: dict[str, tuple[str, list[tuple[str, str]]]] = {
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
    "braces in a string": ('{"name": "bash", "arguments": {"command": "}}]"}}', [("bash", '{"command": "}}]"}')]),
    "markup in a string": (
        '{"name": "bash", "arguments": {"command": "</tool_call>```"}}',
        [("bash", '{"command": "</tool_call>```"}')],
    ),
    "a lone surrogate": ('{"name": "bash", "arguments": {"command": "\\ud83d"}}', [("bash", '{"command": "\\ud83d"}')]),
    "UTF-8": ('{"name": "bash", "arguments": {"command": "ï🙂｜"}}', [("bash", '{"command": "ï🙂｜"}')]),
    "a key named name": ('{"name": "bash", "arguments": {"name": "x"}}', [("bash", '{"name": "x"}')]),
}


@pytest.mark.parametrize("name", READ)
def test_each_spelling_is_read_at_every_cut_with_its_arguments_as_written(name: str) -> None:
    text, expected = READ[name]
    for cut in all_cuts(text):
        assert read(cut) == expected


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
    "arguments are no JSON": '{"name": "bash", "arguments": {\'command\': 1}}',
    "arguments with a comma more": '{"name": "bash", "arguments": {"command": "ls",}}',
    "arguments open": '{"name": "bash", "arguments": {"command": "ls"}',
    "a string of no JSON": '{"name": "bash", "arguments": "{"}',
    "another type": '{"type": "object", "name": "bash", "arguments": {}}',
    "function and name": '{"name": "bash", "function": {"name": "bash", "arguments": {}}}',
    "function, then arguments": '{"function": {"name": "bash", "arguments": {}}, "arguments": {}}',
    "function, then name": '{"function": {"name": "bash", "arguments": {}}, "name": "bash"}',
    "function in function": '{"function": {"function": {"name": "bash", "arguments": {}}}}',
    "function is a string": '{"function": "bash", "arguments": {}}',
    "empty object": "{}",
    "empty array": "[]",
    "array of numbers": "[1, 2]",
    "array with something else": '[{"name": "now", "arguments": {}}, 1]',
    "array open": '[{"name": "now", "arguments": {}}',
    "array without comma": '[{"name": "now", "arguments": {}} {"name": "now", "arguments": {}}]',
    "one of two not offered": '[{"name": "now", "arguments": {}}, {"name": "nope", "arguments": {}}]',
    "no colon": '{"name" "bash"}',
    "no comma": '{"name": "bash" "arguments": {}}',
    "single quotes": "{'name': 'bash', 'arguments': {}}",
    "a broken key": '{"na\\xme": 1}',
    "prose": "{ x }",
    "half": '{"name": "bash", "argu',
    "nothing": "{",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_call_is_refused_at_every_cut(name: str) -> None:
    """C3: precision before recall."""
    for cut in all_cuts(REFUSED[name], 50):
        assert read(cut) == NONE


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
    reader = Reader(Window(bytearray(start.encode())), 0, offered())
    try:
        next(json_calls(reader))
    except NotACall:
        return
    assert reader.void


@pytest.mark.parametrize("start", ['{"x', '{"name": "x', '{"name": "bash", "x', '[{"x'])
def test_a_key_or_a_name_that_does_not_end_is_let_go(start: str) -> None:
    """C2, F68: a quotation mark in prose must not hold what follows it."""
    window = Window(bytearray((start + " and so on" * 100).encode()))
    with pytest.raises(NotACall):
        next(json_calls(Reader(window, 0, offered())))


def test_a_key_with_a_line_end_is_let_go_at_the_line_end() -> None:
    """No JSON string holds a raw line end, so that what follows may be a call again."""
    window = Window(bytearray(b'{"an open quote\n'))
    reader = Reader(window, 0, offered())
    with pytest.raises(NotACall):
        next(json_calls(reader))
    assert reader.pos <= len(b'{"an open quote\n')


@pytest.mark.parametrize("text", ['{"name": "now"}', '{"name": "bash"}', '[{"name": "now"}]'])
def test_in_a_wrapper_a_call_may_lack_its_arguments(text: str) -> None:
    """F26: a call without arguments has the arguments `{}`."""
    assert read([text]) == NONE
    found = read([text], wrapped=True)
    assert isinstance(found, list)
    assert [arguments for _, arguments in found] == ["{}"]
