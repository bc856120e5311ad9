"""Calls as Python writes them: literals alone, and where a value ends (F15)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.formats.grammar import grammars
from proxy.formats.python_calls import MAX_BARE, python_arguments, python_list
from proxy.formats.scanner import Scanner
from proxy.formats.spans import CallSpan
from tests.support.helpers import all_cuts, function, new_scanner, offered, outcome, scan

LS = ("bash", {"command": "ls"})


def bash(command: str) -> tuple[str, dict[str, Any]]:
    return ("bash", {"command": command})


LISTS: dict[str, tuple[str, list[tuple[str, Any]]]] = {
    "one": ("[bash(command='ls')]", [LS]),
    "two": ('[bash(command="ls", timeout=5), now()]', [("bash", {"command": "ls", "timeout": 5}), ("now", {})]),
    "over lines": ("[\n  bash(\n    command='ls',\n  ),\n  now(),\n]", [LS, ("now", {})]),
    "blanks": ("[ bash ( command = 'ls' ) ]", [LS]),
    "a dotted name": ("[default_api.bash(command='ls')]", [LS]),
    "the closing bracket is missing": ("[bash(command='ls'), now()", [LS, ("now", {})]),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_calls_is_read(name: str) -> None:
    text, expected = LISTS[name]
    found = outcome(python_list, text)
    assert (found.calls, found.rest) == (expected, "")


VALUES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "strings": ("typed", "label='a', free=\"b\"", {"label": "a", "free": "b"}),
    "a string over lines": ("typed", "label='''a\n'b' c'''", {"label": "a\n'b' c"}),
    "escapes": ("typed", r"label='a\n\'b\' \\ \d'", {"label": "a\n'b' \\ \\d"}),
    "inner quotation marks": ("typed", "label='it's 'so' here'", {"label": "it's 'so' here"}),
    "inner quotation marks before a comma": ("typed", "label='say 'hi', then go'", {"label": "say 'hi', then go"}),
    "what looks like the end": ("typed", "label='f(x), y=1'", {"label": "f(x), y=1"}),
    "brackets and markup": ("typed", "label='[a](b) </tool_call>'", {"label": "[a](b) </tool_call>"}),
    "numbers": ("typed", "count=-3, ratio=1.5", {"count": -3, "ratio": 1.5}),
    "an exponent": ("typed", "ratio=1e3", {"ratio": 1000.0}),
    "words": ("typed", "flag=True, maybe=None", {"flag": True, "maybe": None}),
    "the words of JSON": ("typed", "flag=false, maybe=null", {"flag": False, "maybe": None}),
    "a list": ("typed", "items=['a', \"b\"]", {"items": ["a", "b"]}),
    "a dictionary": ("typed", "options={'a': {'b': [None]}}", {"options": {"a": {"b": [None]}}}),
    "a string where the schema wants a number": ("typed", "count='3', label='3'", {"count": 3, "label": "3"}),
    "a word where the schema wants a string": ("typed", "label=None", {"label": "None"}),
    "no quotation marks": ("bash", "command=ls src, timeout=5", {"command": "ls src", "timeout": 5}),
    "no comma": ("bash", "command='ls' timeout=5", {"command": "ls", "timeout": 5}),
    "a comma too many": ("bash", "command='ls', ", {"command": "ls"}),
    "the one parameter that is required": ("bash", "'ls'", {"command": "ls"}),
    "an object": ("bash", '{"command": "ls"}', {"command": "ls"}),
    "a keyword that is not declared": ("bash", "cmd='ls', n=1", {"cmd": "ls", "n": 1}),
    "nothing": ("now", "", {}),
    "blanks": ("now", " \n", {}),
}


@pytest.mark.parametrize("name", VALUES)
def test_arguments_are_read_as_literals_typed_by_the_schema(name: str) -> None:
    tool, inside, values = VALUES[name]
    found = outcome(python_list, f"[{tool}({inside}), now()]")
    assert found.calls == [(tool, values), ("now", {})]
    assert outcome(python_list, f"[{tool}({inside})]").calls == [(tool, values)]


REFUSED = {
    "nothing in it": "[]",
    "a name that was not offered": "[nope(a=1)]",
    "one of two was not offered": "[now(), nope()]",
    "a name alone": "[now]",
    "numbers": "[1, 2]",
    "a string": "['bash']",
    "prose in brackets": "[read this first]",
    "a footnote": "[1]: see there",
    "prose behind a call": "[now() and so on]",
    "a sum": "[bash(command='a' + 'b')]",
    "a formatted string": "[bash(command='%s' % x)]",
    "a call for a value": "[bash(command=open('a'))]",
    "an item of a list": "[bash(command=['a'][0])]",
    "a value without a keyword, of several": "[write_file('a', 'b')]",
    "a value where none can be": "[now(1)]",
    "a keyword twice": "[bash(command='a', command='b')]",
    "a string that does not end": "[bash(command='ls)]",
    "an open list": "[bash(command='ls'",
    "a dictionary that is none": "[typed(options={1, 2})]",
    "an object and more": '[bash({"command": "ls"}, 1)]',
    "no brackets": "now()",
    "a string without quotation marks that is too long": f"[bash(command={'x' * (MAX_BARE + 2)})]",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_list_of_calls_is_refused_and_nothing_is_evaluated(name: str) -> None:
    for wrapped in (False, True):
        found = outcome(python_list, REFUSED[name], wrapped=wrapped, cuts=10)
        assert found.calls is None and found.why


@pytest.mark.parametrize("inside", ["command=", "command=,", "command=, timeout=5", ",", ",,", "=", "*", "**", "="])
def test_a_value_that_is_missing_ends_the_reading(inside: str) -> None:
    """C7: in a step or two, not never."""
    for text in (f"[bash({inside})]", f"[bash({inside}", f"[nope({inside})]"):
        outcome(python_list, text, cuts=10, wrapped=True)


def test_a_list_in_prose_is_let_go_at_the_name() -> None:
    """C2."""
    found = outcome(python_list, "[nope(a='x')] and so on")
    assert found.rest == "(a='x')] and so on"


def test_a_list_ends_at_its_bracket_or_where_its_wrapper_does() -> None:
    assert outcome(python_list, "[now()] so").rest == " so"
    found = outcome(python_list, "[now()\n</tool_call>")
    assert (found.calls, found.rest) == ([("now", {})], "</tool_call>")
    assert outcome(python_list, "[now()", stopped=False).calls is None


@pytest.mark.parametrize(
    ("text", "arguments", "rest"),
    [
        ("(command='ls') so", None, ""),
        ("(command='ls')", '{"command": "ls"}', ""),
        ('({"command": "ls"}) x', '{"command": "ls"}', " x"),
    ],
)
def test_the_brackets_of_a_call_may_stand_alone(text: str, arguments: str | None, rest: str) -> None:
    """F6, F16: behind the name."""
    tool = offered().resolve("bash")
    assert tool is not None
    found = outcome(lambda reader: python_arguments(reader, tool), text)
    assert found.given == arguments
    assert arguments is None or found.rest == rest


WORDS = ("from", "class", "import", "lambda", "in", "is", "not", "def", "return", "async", "global", "pass", "None")
KEYWORDS = offered(
    function(
        "find",
        {word: {"type": "string"} for word in WORDS} | {"if": {"type": "integer"}, "or": {"type": ["object", "null"]}},
    )
)
FAMILIES = {
    "a list": "[{}]",
    "LFM2": "<|tool_call_start|>[{}]<|tool_call_end|>",
    "Llama 4": "<|python_start|>[{}]<|python_end|>",
    "OLMo 3": "<function_calls>{}</function_calls>",
    "MiniCPM3": "<|tool_call_start|>```python\n{}\n```<|tool_call_end|>",
    "Gemma's older prompts": "<tool_code>{}</tool_code>",
    "the whole reply": "{}",
    "a fence": "```python\n{}\n```",
}


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_pythons_own_words_may_be_names_of_parameters(family: str, word: str) -> None:
    """F15: Python would not read it; models write it all the same."""
    for inside, values in (
        (f'find({word}="x y")', {word: "x y"}),
        (f"find(if=1, {word}='x=1, from=2')", {"if": 1, word: "x=1, from=2"}),
    ):
        for cut in all_cuts(FAMILIES[family].format(inside), 3):
            found = scan(cut, new_scanner(KEYWORDS))
            assert (found.parsed, found.text) == ([("find", values)], "")


LITERALS: dict[str, Any] = {
    "null": None,
    "None": None,
    "{'x': null}": {"x": None},
    '{"x": true, "y": [false, null]}': {"x": True, "y": [False, None]},
    "{'x': True, 'y': {'z': None}}": {"x": True, "y": {"z": None}},
}


@pytest.mark.parametrize("literal", LITERALS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_words_of_json_are_literals_at_any_depth(family: str, literal: str) -> None:
    """F15, F30."""
    for cut in all_cuts(FAMILIES[family].format(f"find(or={literal}, if=1)"), 3):
        found = scan(cut, new_scanner(KEYWORDS))
        assert (found.parsed, found.text) == ([("find", {"or": LITERALS[literal], "if": 1})], "")


@pytest.mark.parametrize(
    ("word", "value"),
    [("null", None), ("None", None), ("true", True), ("True", True), ("false", False), ("False", False)],
)
def test_words_are_no_texts_but_where_nothing_else_may_stand(word: str, value: Any) -> None:
    """JSON's as well as Python's, whatever the schema makes of them; where only a string may stand they are one."""
    tools = offered(function("f", {"count": {"type": "integer"}, "free": {}, "text": {"type": "string"}}))
    scanner = Scanner(tools, grammars(json_reply=False, raw_text=False))
    text = f"<|tool_call_start|>[f(count={word}, free={word}, text={word})]<|tool_call_end|>"
    (found,) = [piece for piece in (*scanner.feed(text), *scanner.finish(stopped=True)) if isinstance(piece, CallSpan)]
    assert json.loads(found.calls[0].arguments) == {"count": value, "free": value, "text": word}


@pytest.mark.parametrize("mark", ['"', "'"])
@pytest.mark.parametrize("command", ["ls", "ls -la /tmp", "f(a)", ""])
def test_c9_a_text_without_its_last_mark_takes_nothing_along(command: str, mark: str) -> None:
    """Its end would be the mark of another text: the next call's, or the next keyword's."""
    tools = offered(function("bash", {"command": {"type": "string"}, "mode": {"type": "string"}}, "command"))
    broken = f"bash(command={mark}{command}"
    for text in (
        f"[{broken}), bash(command={mark}pwd{mark})]",
        f"[{broken}, mode={mark}b{mark})]",
        f"[{broken}), bash(mode={mark}b{mark}, command={mark}pwd{mark})]",
    ):
        for cut in all_cuts(text):
            assert scan(cut, new_scanner(tools)).parsed == []
