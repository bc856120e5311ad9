"""JSON in wrapped calls that no reader of JSON can follow: what is mended in a structured call is mended in a text."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache

import pytest

from proxy.codec.json_text import Json, JsonObject
from proxy.tools.toolset import ToolSet
from tests.failures.test_failures_damage import INNER, TOOLS, broken
from tests.support.client_view import Got, argued, streamed, whole
from tests.support.each_case import each_case
from tests.support.helpers import all_cuts, ends, function, new_scanner, offered, says, scan, units

pytestmark = pytest.mark.once

Written = Callable[[str, str], str]
_KIMI = "<|tool_calls_section_begin|><|tool_call_begin|>functions.{}:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
_DEEPSEEK = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
WRAPPERS: dict[str, Written] = {
    "Hermes": lambda name, text: f'<tool_call>\n{{"name": "{name}", "arguments": {text}}}\n</tool_call>',
    "Qwen2.5": lambda name, text: f'<tools>\n{{"name": "{name}", "arguments": {text}}}\n</tools>',
    "Qwen2.5, a list": lambda name, text: f'<tools>[{{"name": "{name}", "arguments": {text}}}]</tools>',
    "Mistral": lambda name, text: f"[TOOL_CALLS]{name}[ARGS]{text}",
    "Mistral, before": lambda name, text: f'[TOOL_CALLS][{{"name": "{name}", "arguments": {text}}}]',
    "Kimi": lambda name, text: _KIMI.format(name, text) + "<|tool_calls_section_end|>",
    "DeepSeek V3": lambda name, text: _DEEPSEEK.format(f"function<｜tool▁sep｜>{name}\n```json\n{text}\n```"),
    "DeepSeek V3.1": lambda name, text: _DEEPSEEK.format(f"{name}<｜tool▁sep｜>{text}"),
    "harmony": lambda name, text: (
        f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{text}<|call|>"
    ),
    "functionary": lambda name, text: f"<tool_call><function={name}>{text}</function></tool_call>",
    "OpenAI": lambda name, text: (
        f'<tool_call>{{"type": "function", "function": {{"name": "{name}", "arguments": {text}}}}}</tool_call>'
    ),
    "Apertus": lambda name, text: f'<|tools_prefix|>[{{"{name}": {text}}}]<|tools_suffix|>',
    "Llama": lambda name, text: f'<|python_tag|>{{"name": "{name}", "parameters": {text}}}',
    "Cohere": lambda name, text: (
        f'<|START_ACTION|>[\n    {{"tool_call_id": "0", "tool_name": "{name}", "parameters": {text}}}\n]<|END_ACTION|>'
    ),
}
CLOSED = [name for name in WRAPPERS if name not in ("Mistral", "Mistral, before", "Llama")]


def read(text: str, cuts: int = 2, tools: ToolSet = TOOLS) -> tuple[list[tuple[str, Json]], str]:
    """The calls of a reply and the text around them, the same at every cut."""
    seen = [scan(cut, new_scanner(tools)) for cut in all_cuts(text, cuts)]
    found = [([(name, json.loads(values)) for name, values in each.calls], each.text) for each in seen]
    assert all(each == found[0] for each in found)
    return found[0]


@pytest.mark.slow
@pytest.mark.parametrize("inner", INNER)
@each_case("name", WRAPPERS)
def test_marks_without_a_backslash_are_the_strings_own(name: str, inner: str) -> None:
    for values in ({"path": "a", "content": inner}, {"content": inner, "path": "a"}):
        text = WRAPPERS[name]("write", broken(values))
        if name == "Mistral" and '"}' in inner.replace(",", "") and read(text) == ([], text):
            continue  # nothing encloses the arguments: they may end there, and text follows
        assert read(text) == ([("write", values)], "")
        assert read(f"I do it.\n\n{text}") == ([("write", values)], "I do it.\n\n")


@pytest.mark.parametrize("behind", [' {")"}', ' // x")"}', ' and "b"}'])
def test_what_follows_on_the_line_of_arguments_that_nothing_encloses_may_be_theirs(behind: str) -> None:
    text = WRAPPERS["Mistral"]("write", '{"path": "a", "content": "f("}') + behind
    assert read(text) == ([], text)


@pytest.mark.parametrize("joint", ["", " ", ", "])
@pytest.mark.parametrize("name", WRAPPERS)
def test_another_object_behind_one_is_in_no_string_of_it(name: str, joint: str) -> None:
    text = WRAPPERS[name]("read", f'{{"path": "a"}}{joint}{{"limit": "b"}}')
    assert read(text)[0] in ([], [("read", {"path": "a"})])


@pytest.mark.parametrize("name", CLOSED)
def test_what_stands_behind_the_wrapper_stays_and_calls_beside_it_count(name: str) -> None:
    values: JsonObject = {"path": "a", "content": 'print("}")'}
    text = WRAPPERS[name]("write", broken(values))
    other = WRAPPERS[name]("read", '{"path": "b"}')
    assert read(f"{text}\nThat was it.")[0] == [("write", values)]
    assert read(f"{text}\n{other}")[0] == [("write", values), ("read", {"path": "b"})]
    assert read(f"{other}\n{text}")[0] == [("read", {"path": "b"}), ("write", values)]


@pytest.mark.parametrize(
    "text",
    [
        '{path: "a", content: "b"}',
        "{path: 'a', content: 'b'}",
        '{"path": "a", /* the file */ "content": "b"}',
        '{“path”: “a”, “content”: “b”}',
        '{"path": "a", "content": """b"""}',
    ],
)
@pytest.mark.parametrize("name", WRAPPERS)
def test_keys_comments_and_marks_are_read_as_in_structured_calls(name: str, text: str) -> None:
    assert read(WRAPPERS[name]("write", text)) == ([("write", {"path": "a", "content": "b"})], "")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("write", '{"content": "{"a": "x", "path": "y"}", "path": "p"}'),
        ("write", '{"path": "p", "content": "say "hi'),
        ("write", '{"path": "p", "content": "x = {"a": "b"}'),
        # Items of a list may be meant.
        ("tag", '{"tags": ["a "b" c"]}'),
        # The schema does not accept it.
        ("read", '{"path": "a", "other": "say "hi""}'),
        # A key that the tool does not declare, or a part of the text.
        ("write", '{"path": "p", "content": "say "hi"", "note": "x"}'),
    ],
)
@each_case("wrapper", WRAPPERS)
def test_what_has_no_reading_or_two_stays_text(wrapper: str, name: str, arguments: str) -> None:
    text = WRAPPERS[wrapper](name, arguments)
    calls, left = read(text)
    assert (calls, left.removesuffix("<|call|>")) == ([], text.removesuffix("<|call|>"))


@pytest.mark.parametrize(
    ("name", "arguments", "values"),
    [
        ("write", '{"path": "p", "content": "a" "mode": "b"}', {"path": "p", "content": "a", "mode": "b"}),
        ("write", '{"content": "say "hi""}', {"content": 'say "hi"'}),
    ],
)
@each_case("wrapper", [name for name in WRAPPERS if name != "Apertus"])
def test_what_has_one_reading_is_read(wrapper: str, name: str, arguments: str, values: JsonObject) -> None:
    """C9, C10."""
    assert read(WRAPPERS[wrapper](name, arguments)) == ([(name, values)], "")


@pytest.mark.parametrize("name", ["Hermes", "Qwen2.5", "Qwen2.5, a list", "functionary", "OpenAI"])
def test_the_end_of_its_wrapper_behind_a_mark_may_end_a_string_or_be_in_it(name: str) -> None:
    """Special tokens are never part of a value, and tags leave two readings."""
    text = WRAPPERS[name]("write", '{"path": "a", "content": "b"}')
    closer = text[text.index('"b"}') + 4 :].lstrip("}] \n")
    shown = WRAPPERS[name]("write", broken({"path": "a", "content": f'say "{closer}" and "more"'}))
    assert read(shown) == ([], shown)


@pytest.mark.parametrize("arguments", ['{"path": "a"', '{"path": "a" b"', '{"path": "a" b}', '{"path": a}'])
@pytest.mark.parametrize("name", WRAPPERS)
def test_a_call_that_cannot_be_read_takes_no_other_one_along(name: str, arguments: str) -> None:
    """No string of it holds the next call."""
    other: JsonObject = {"path": "b", "content": "c", "mode": "d"}
    text = f'{WRAPPERS[name]("read", arguments)}\n{WRAPPERS[name]("write", json.dumps(other))}'
    found, _ = read(text)
    assert all(call in (("write", other), ("read", {"path": "a"})) for call in found)


@pytest.mark.parametrize("name", WRAPPERS)
def test_without_an_offered_name_nothing_is_read_so(name: str) -> None:
    text = WRAPPERS[name]("nothing", '{"content": "say "hi""}')
    calls, left = read(text)
    assert (calls, left.removesuffix("<|call|>")) == ([], text.removesuffix("<|call|>"))


@pytest.mark.parametrize("name", CLOSED)
def test_many_that_never_end_cost_no_more_than_their_length(name: str) -> None:
    """C7: only a few times in a reply what was read is read again."""
    text = WRAPPERS[name]("write", '{"path": "a", "content": "say "hi" ')
    one = text[: text.index('"hi" ') + 5]
    assert not scan([one * 2000], new_scanner(TOOLS)).calls


MEANT: JsonObject = {"path": "a b", "content": 'say "hi"\n'}
_SAID = json.dumps(MEANT)
# What is mended in a structured call, each as it is written.
MENDED = {
    "marks": broken({"path": "a b", "content": 'say "hi"'}).replace("}", ', "mode": "x"}'),
    "marks in the last string": broken({"path": "a b", "content": 'say "hi"'}),
    "no marks around keys": _SAID.replace('"path"', "path").replace('"content"', "content"),
    "no marks around one key": _SAID.replace('"content"', "content"),
    "Python's marks": repr(MEANT),
    "a comma too many": _SAID.replace("}", ",}"),
    "a raw line end": _SAID.replace("\\n", "\n"),
    "keys in other letters": _SAID.replace("path", "Path").replace("content", "CONTENT"),
    "markup at a key": _SAID.replace('path"', 'path</arg_key>"'),
    "a comment": _SAID.replace(", ", ", // the text\n"),
    "typographic marks": "{“path”: “a b”, “content”: “x”}",
    "in arguments": json.dumps({"arguments": MEANT}),
    "in arguments, as text": json.dumps({"arguments": _SAID}),
    "in input": json.dumps({"input": MEANT}),
    "in input, as text": json.dumps({"input": _SAID}),
    "in the name": json.dumps({"write": MEANT}),
    "in arguments, without marks around keys": f"{{arguments: {_SAID}}}",
    "in arguments, with marks": f'{{"arguments": {broken({"path": "a b", "content": "x"})}}}',
}


@cache
def mended(way: str) -> Got:
    """What becomes of it in a structured call: the same for each family."""
    return argued("write", MENDED[way], cuts=2, tools=TOOLS)


@pytest.mark.slow
@pytest.mark.parametrize("way", MENDED)
@each_case("name", WRAPPERS)
def test_what_is_mended_in_a_structured_call_is_mended_in_each_family(name: str, way: str) -> None:
    """The same values, streamed and whole."""
    structured = mended(way)
    assert [set(values) <= {"path", "content", "mode"} for _, values in structured.values] == [True]
    text = WRAPPERS[name]("write", MENDED[way])
    for cut in ([text], units(text)):
        got = streamed(*map(says, cut), ends(), cuts=0, tools=TOOLS)
        assert (got.values, got.text, got.finish) == (structured.values, "", "tool_calls")
    got = whole({"content": text}, tools=TOOLS)
    assert (got.values, got.text) == (structured.values, "")


BARE_KEYS = (
    '<tool_call>{{name: "{}", arguments: {}}}</tool_call>',
    '<tool_call>\n{{"name": "{}", arguments: {}}}\n</tool_call>',
    "<tool_call>{{'name': '{}', arguments: {}}}</tool_call>",
    '<tools>[{{name: "{}", arguments: {}}}]</tools>',
    '[TOOL_CALLS][{{name: "{}", arguments: {}}}]',
    '<tool_call>{{type: "function", function: {{name: "{}", arguments: {}}}}}</tool_call>',
    '<|python_start|>{{name: "{}", parameters: {}}}<|python_end|>',
)


@pytest.mark.parametrize("call", BARE_KEYS)
def test_the_keys_of_a_wrapped_call_need_no_quotation_marks(call: str) -> None:
    for arguments in ('{path: "a", content: "b c"}', '{"path": "a", "content": "b c"}'):
        text = call.format("write", arguments)
        assert read(text) == ([("write", {"path": "a", "content": "b c"})], "")
        unknown = call.format("unknown", arguments)
        assert read(unknown) == ([], unknown)
    for broken_key in ("na me", "1name", ""):
        text = f'<tool_call>{{{broken_key}: "write", arguments: {{"path": "a", "content": "b"}}}}</tool_call>'
        assert read(text) == ([], text)


def test_without_a_wrapper_such_keys_are_code() -> None:
    for text in ('{name: "read", arguments: {"path": "a"}}', '```json\n{name: "read", arguments: {path: "a"}}\n```'):
        assert read(text) == ([], text)


@pytest.mark.parametrize("inner", INNER)
def test_arguments_before_the_name_are_read_by_the_schema_of_the_tool_that_is_named_behind_them(inner: str) -> None:
    for values in ({"path": "a", "content": inner}, {"content": inner, "path": "a"}):
        text = f'<tool_call>\n{{"arguments": {broken(values)}, "name": "write"}}\n</tool_call>'
        assert read(text) == ([("write", values)], "")
        unknown = text.replace('"write"', '"unknown"')
        assert read(unknown) == ([], unknown)
        lone = text.replace(', "name": "write"', "")
        assert read(lone) == ([], lone)


_EDITS = '{"edits": [{"new": "f("}], "path": "z")"}], "path": "p"}'
_ITEMS = '{"edits": [{"new": "x"}], "path": "z"}], "path": "p"}'
_LIST = '{"path": "a", "edits": [{"new": "x"}], "path": "q"}], "path": ["p"]}'
_NUMBER = '{"range": {"of": "x"}, "edits": "z", "line": -7}, "edits": [{"new": "x"}]}'


@pytest.mark.parametrize("text", [_EDITS, _ITEMS, _LIST, _NUMBER])
@pytest.mark.parametrize("written", ["[TOOL_CALLS]{}[ARGS]{}", "[TOOL_CALLS]{}{}", "[TOOL_CALLS]{} {}\n\nI edit it."])
def test_a_key_behind_arguments_that_nothing_encloses_says_that_they_go_on(written: str, text: str) -> None:
    """A string of a nested object shows its own end and a key of the outer one: how far it goes is not known (C9)."""
    item = {"type": "object", "properties": {"new": {"type": "string"}}}
    properties = {"edits": {"type": "array", "items": item}, "path": {"type": "string"}}
    tools = offered(function("edit", properties, "edits"))
    reply = written.format("edit", text)
    for cut in all_cuts(reply):
        assert streamed(*map(says, cut), ends(), cuts=0, tools=tools).calls == []
    got = whole({"content": reply}, tools=tools)
    assert (got.calls, got.text) == ([], reply)
