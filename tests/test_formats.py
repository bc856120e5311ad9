"""Wrappers, rows and the grammar: what is strong evidence, what is weak, and what is none (contract C3)."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.formats import Format, grammar, wrappers
from proxy.formats.row import END_OF_TURN, STARTS, end_of_turn, row
from proxy.formats.wrappers import BODIES, WRAPPERS, Body, wrapped

from .helpers import all_cuts, call_json, function, new_scanner, offered, read_pieces, scan

NONE = "no call"
LS = call_json("bash", command="ls")
PWD = call_json("bash", command="pwd")
TAGS = "<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>"
HERMES, TOOLS = WRAPPERS
ONE = ["ls"]
TWO = ["ls", "pwd"]


def read(parse: Body, cut: list[str], *, stopped: bool = True) -> list[str] | str:
    """The commands of the calls in a text that comes in these pieces."""
    found = read_pieces(parse, cut, stopped=stopped)
    if found is None:
        return NONE
    reader, calls = found
    assert all(0 <= start < end <= reader.pos for start, end in reader.spans)
    assert bool(reader.spans) == bool(calls)
    return [json.loads(call.arguments).get("command", call.tool.name) for call in calls]


WRAPPED: dict[str, tuple[str, list[str]]] = {
    "one": (f"<tool_call>\n{LS}\n</tool_call>", ONE),
    "one line": (f"<tool_call>{LS}</tool_call>", ONE),
    "two objects": (f"<tool_call>\n{LS}\n{PWD}\n</tool_call>", TWO),
    "two objects without a blank": (f"<tool_call>{LS}{PWD}</tool_call>", TWO),
    "an array": (f"<tool_call>[{LS}, {PWD}]</tool_call>", TWO),
    "tags": (f"<tool_call>\n{TAGS}\n</tool_call>", ONE),
    "tags and an object": (f"<tool_call>\n{TAGS}\n{PWD}\n</tool_call>", TWO),
    "no arguments": ('<tool_call>{"name": "now"}</tool_call>', ["now"]),
    "a required one missing": (f"<tool_call>{call_json('bash')}</tool_call>", ["bash"]),
    "an unknown key": (f"<tool_call>{call_json('bash', cmd='x')}</tool_call>", ["bash"]),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_a_closed_wrapper_gives_its_calls_at_every_cut(name: str) -> None:
    """F1, F2."""
    text, expected = WRAPPED[name]
    for cut in all_cuts(text):
        assert read(wrapped(HERMES), cut) == expected
    other = text.replace("tool_call>", "tools>")
    assert read(wrapped(TOOLS), [other]) == expected


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call></tool_call>",
        "<tool_call>\n\n</tool_call>",
        f"<tool_call>{LS}</tools>",
        f"<tool_call>{LS}",
        f"<tool_call>{LS}</tool_cal",
        f"<tool_call>{LS} and</tool_call>",
        f"<tool_call>{LS},{PWD}</tool_call>",
        f"<tool_call>{LS}{call_json('nope')}</tool_call>",
        f"<tool_call><tool_call>{LS}</tool_call></tool_call>",
        "<tool_call>bash</tool_call>",
        "<tool_call>" + " " * 300 + LS + "</tool_call>",
    ],
)
def test_a_wrapper_that_holds_anything_else_or_does_not_close_is_none(text: str) -> None:
    for cut in all_cuts(text, 30):
        assert read(wrapped(HERMES), cut) == NONE


FENCE = f"```json\n{LS}\n```"
ROWS: dict[str, tuple[str, list[str]]] = {
    "an object": (LS, ONE),
    "an array": (f"[{LS}, {PWD}]", TWO),
    "lines": (f"{LS}\n{PWD}\n", TWO),
    "blank lines between": (f"{LS}\n\n\n{PWD}", TWO),
    "a fence": (FENCE, ONE),
    "a fence without a language": (f"```\n{LS}\n```\n", ONE),
    "a fence of two": (f"```json\n{LS}\n{PWD}\n```", TWO),
    "a fence of an array": (f"```json\n[{LS}, {PWD}]\n```", TWO),
    "a fence of tags": (f"```xml\n{TAGS}\n```", ONE),
    "two fences": (f"{FENCE}\n\n```json\n{PWD}\n```", TWO),
    "tags": (TAGS, ONE),
    "tags with an orphan closer": (f"{TAGS}\n</tool_call>", ONE),
    "tags twice": (f"{TAGS}\n{TAGS.replace('ls', 'pwd')}", TWO),
    "an orphan closer": (f"{LS}\n</tools>", ONE),
    "end of turn": (f"{LS}<|im_end|>", ONE),
    "end of turn, twice and blanks": (f"{LS}\n<|eot_id|>\n<|end_of_text|>\n", ONE),
    "closer and end of turn": (f"{TAGS}\n</tool_call><|im_end|>\n", ONE),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_that_ends_the_reply_is_its_calls_at_every_cut(name: str) -> None:
    """F3, F6, F18."""
    text, expected = ROWS[name]
    for cut in all_cuts(text):
        assert read(row, cut) == expected


@pytest.mark.parametrize("name", ROWS)
def test_a_row_that_was_cut_off_is_none(name: str) -> None:
    """C4: a call cut off by `length` is never completed, and what is weak needs the end."""
    assert read(row, [ROWS[name][0]], stopped=False) == NONE


@pytest.mark.parametrize(
    "text",
    [
        f"{LS} is what I would call",
        f"{LS}\nDone.",
        f"{FENCE}\nThis calls bash.",
        f"```json\n{LS}\n```json",
        f"```json\n{LS}\n",
        f"```json with `ticks`\n{LS}\n```",
        f"```{'x' * 40}\n{LS}\n```",
        f"```json\nRun:\n{LS}\n```",
        f"```json\n{LS}\n{{}}\n```",
        f"{LS}\n{{}}",
        f"{LS}\n<tool_call>{PWD}</tool_call>",
        f"{LS},",
        call_json("bash"),
        call_json("bash", timeout=5),
        call_json("bash", command="ls", cmd="x"),
        call_json("nope", command="ls"),
        "<function=bash></function>",
        "<function=bash><parameter=cmd>ls</parameter></function>",
        f"{LS}\n{call_json('bash')}",
    ],
)
def test_a_row_with_anything_else_or_with_other_keys_is_none(text: str) -> None:
    """C3: weak evidence needs every key to be a property and every required one to be there."""
    for cut in all_cuts(text, 30):
        assert read(row, cut) == NONE


@pytest.mark.parametrize("text", ["```\n```", "```json\n\n```\n", "```\n```\n```\n```"])
def test_a_fence_without_a_call_is_no_row(text: str) -> None:
    """C1: an empty block is what the model wrote, and must not vanish."""
    assert read(row, [text]) == NONE


@pytest.mark.parametrize("token", END_OF_TURN, ids=lambda token: token.decode())
def test_end_of_turn_tokens_at_the_end_are_neither_text_nor_call(token: bytes) -> None:
    text = token.decode()
    for cut in all_cuts(f"{text}\n{text}", 20):
        assert read(end_of_turn, cut) == []
    assert read(end_of_turn, [f"{text} more"]) == NONE
    assert read(row, [LS + text]) == ONE


def names(formats: tuple[Format, ...]) -> set[str]:
    return {item.name for item in formats}


def test_a_reply_in_json_has_no_weak_formats_and_only_raw_text_has_end_of_turn_tokens() -> None:
    """C3: never weak evidence when `response_format` asks for JSON."""
    for json_reply in (False, True):
        for raw_text in (False, True):
            found = grammar(json_reply=json_reply, raw_text=raw_text)
            every = set().union(*(names(formats) for formats in found.by_first_byte.values()))
            assert ("row" in every) is not json_reply
            assert ("end_of_turn" in every) is raw_text
            assert {"<tool_call>", "<tools>"} <= every


def test_the_pattern_finds_the_first_byte_of_each_format_and_nothing_else() -> None:
    found = grammar(json_reply=False, raw_text=True)
    for byte in range(256):
        assert bool(found.first_byte.match(bytes([byte]))) is (byte in found.by_first_byte)
    for first, formats in found.by_first_byte.items():
        assert all(item.opener[0] == first for item in formats)


def test_only_bare_json_and_fences_must_begin_a_line() -> None:
    found = grammar(json_reply=False, raw_text=False)
    at_line_start = {item.opener for formats in found.by_first_byte.values() for item in formats if item.line_start}
    assert {start.opener for start in STARTS if start.line_start} == {b"{", b"[", b"```"}
    assert at_line_start == {b"{", b"[", b"```", b"<think>"}


def test_each_opener_that_a_body_can_have_is_read_by_one_parser() -> None:
    assert set(BODIES) == {b"{", b"[", b"<function="}
    assert all(wrapper.opener != wrapper.closer for wrapper in wrappers.WRAPPERS)


TYPES: list[tuple[dict[str, Any], st.SearchStrategy[Any]]] = [
    ({"type": "string"}, st.text(max_size=30)),
    ({"type": "integer"}, st.integers(-(2**53), 2**53)),
    ({"type": "boolean"}, st.booleans()),
    ({"type": "array"}, st.lists(st.text(max_size=5) | st.integers(0, 9), max_size=3)),
    ({"type": "object"}, st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.none(), max_size=3)),
    ({"type": ["integer", "null"]}, st.none() | st.integers(0, 9)),
]


@st.composite
def requests(draw: st.DrawFn) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
    """A tool with a random schema, and calls of it."""
    name = draw(st.from_regex(r"\A[a-z][a-z_]{0,12}\Z"))
    keys = draw(st.lists(st.from_regex(r"\A[a-zA-Z][a-zA-Z_0-9]{0,8}\Z"), unique=True, max_size=4))
    kinds = [draw(st.sampled_from(TYPES)) for _ in keys]
    schema = {key: kind for key, (kind, _) in zip(keys, kinds, strict=True)}
    required = [key for key in keys if draw(st.booleans())]
    calls = []
    for _ in range(draw(st.integers(1, 3))):
        values = {
            key: draw(how) for key, (_, how) in zip(keys, kinds, strict=True) if key in required or draw(st.booleans())
        }
        calls.append((name, values))
    return function(name, schema, *required), calls


def as_tags(name: str, values: dict[str, Any]) -> str:
    rendered = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    inside = "".join(f"<parameter={key}>\n{text}\n</parameter>\n" for key, text in rendered.items())
    return f"<function={name}>\n{inside}</function>"


def rendered(form: str, calls: list[tuple[str, dict[str, Any]]], indent: int | None) -> str:
    objects = [json.dumps({"name": name, "arguments": values}, indent=indent) for name, values in calls]
    match form:
        case "hermes":
            return "\n".join(f"<tool_call>\n{text}\n</tool_call>" for text in objects)
        case "tools":
            return "<tools>\n" + "\n".join(objects) + "\n</tools>"
        case "array":
            return f"<tools>[{', '.join(objects)}]</tools>"
        case "tags":
            return "\n".join(f"<tool_call>\n{as_tags(*call)}\n</tool_call>" for call in calls)
        case "bare tags":
            return "\n".join(as_tags(*call) for call in calls) + "\n</tool_call>"
        case "fence":
            return "\n".join(f"```json\n{text}\n```" for text in objects)
        case _:
            return "\n".join(objects)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    requests(),
    st.sampled_from(["hermes", "tools", "array", "tags", "bare tags", "fence", "bare"]),
    st.sampled_from([None, 2]),
    st.sampled_from(["", "I will do it.\n", "naïve `code` 🙂\n\n"]),
    st.randoms(use_true_random=False),
)
def test_random_calls_of_random_tools_come_back_in_every_form(
    request_: tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]],
    form: str,
    indent: int | None,
    lead: str,
    rng: random.Random,
) -> None:
    tool, calls = request_
    if "tags" in form and any("</parameter>" in str(values) for _, values in calls):
        return
    text = lead + rendered(form, calls, indent)
    at = sorted(rng.choices(range(len(text) + 1), k=6))
    cut = [text[start:end] for start, end in zip([0, *at], [*at, len(text)], strict=True)]
    for way in ([text], list(text), cut):
        found = scan(way, new_scanner(offered(tool)))
        assert found.parsed == calls
        assert found.text == lead
