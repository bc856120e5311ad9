"""Calls in tags: `<function=NAME><parameter=KEY>VALUE</parameter></function>`, typed by the schema (F3)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.events import load_json
from proxy.formats.function_tags import function_tags
from proxy.reader import NotACall, Reader, Window

from .helpers import all_cuts, offered, read_pieces

NONE = "no call"


def read(cut: list[str]) -> tuple[str, Any] | str:
    """The call in a text that comes in these pieces."""
    found = read_pieces(function_tags, cut)
    if found is None:
        return NONE
    ((call,),) = found[1:]
    return call.tool.name, load_json(call.arguments)


def tags(name: str, *parameters: tuple[str, str]) -> str:
    """As Qwen3-Coder writes it."""
    inside = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters)
    return f"<function={name}>\n{inside}</function>"


READ: dict[str, tuple[str, tuple[str, Any]]] = {
    "string": (tags("bash", ("command", "ls -l")), ("bash", {"command": "ls -l"})),
    "one line": ("<function=bash><parameter=command>ls</parameter></function>", ("bash", {"command": "ls"})),
    "no parameters": ("<function=now>\n</function>", ("now", {})),
    "no parameters, no line end": ("<function=now></function>", ("now", {})),
    "one line end of markup alone": (tags("bash", ("command", "\n\nls\n")), ("bash", {"command": "\n\nls\n"})),
    "blanks are the value's": (
        "<function=bash><parameter=command>  ls\t</parameter></function>",
        ("bash", {"command": "  ls\t"}),
    ),
    "empty": ("<function=bash><parameter=command></parameter></function>", ("bash", {"command": ""})),
    "empty in lines": (tags("bash", ("command", "")), ("bash", {"command": ""})),
    "integer": (tags("typed", ("count", "10")), ("typed", {"count": 10})),
    "number": (tags("typed", ("ratio", "1.5")), ("typed", {"ratio": 1.5})),
    "boolean": (tags("typed", ("flag", "true")), ("typed", {"flag": True})),
    "boolean as Python writes it": (tags("typed", ("flag", "True")), ("typed", {"flag": "True"})),
    "array": (tags("typed", ("items", '["a", "b"]')), ("typed", {"items": ["a", "b"]})),
    "array over lines": (tags("typed", ("items", '[\n  "a"\n]')), ("typed", {"items": ["a"]})),
    "object": (tags("typed", ("options", '{"a": {"b": 1}}')), ("typed", {"options": {"a": {"b": 1}}})),
    "nullable": (tags("typed", ("maybe", "null")), ("typed", {"maybe": None})),
    "nullable integer": (tags("typed", ("maybe", "5")), ("typed", {"maybe": 5})),
    "a string that looks like a number": (tags("typed", ("label", "10")), ("typed", {"label": "10"})),
    "either": (tags("typed", ("either", "10")), ("typed", {"either": "10"})),
    "untyped": (tags("typed", ("free", "10")), ("typed", {"free": "10"})),
    "no number": (tags("typed", ("count", "ten")), ("typed", {"count": "ten"})),
    "several": (
        tags("bash", ("command", "ls"), ("timeout", "5"), ("background", "false")),
        ("bash", {"command": "ls", "timeout": 5, "background": False}),
    ),
    "less-than": (
        tags("bash", ("command", "if [ 1 < 2 ]; then <b>; fi")),
        ("bash", {"command": "if [ 1 < 2 ]; then <b>; fi"}),
    ),
    "a closer in the value": (
        tags("bash", ("command", "echo '</parameter>'")),
        ("bash", {"command": "echo '</parameter>'"}),
    ),
    "a closer and blanks in the value": (
        tags("bash", ("command", "</parameter>\n\n x")),
        ("bash", {"command": "</parameter>\n\n x"}),
    ),
    "a closer and many blanks": (
        tags("bash", ("command", "</parameter>" + " " * 300 + "x")),
        ("bash", {"command": "</parameter>" + " " * 300 + "x"}),
    ),
    "the end tag in the value": (tags("bash", ("command", "</function>")), ("bash", {"command": "</function>"})),
    "a wrapper in the value": (
        tags("bash", ("command", "<tool_call>\n{}\n</tool_call>")),
        ("bash", {"command": "<tool_call>\n{}\n</tool_call>"}),
    ),
    "an opener in the value": (tags("bash", ("command", "<parameter=x>")), ("bash", {"command": "<parameter=x>"})),
    "UTF-8": (tags("bash", ("command", "ï🙂｜▁")), ("bash", {"command": "ï🙂｜▁"})),
    "half a surrogate pair": (tags("bash", ("command", "\ud83d")), ("bash", {"command": "\ud83d"})),
    "quotes and backslashes": (tags("bash", ("command", '"\\n"\t')), ("bash", {"command": '"\\n"\t'})),
    "name by the ladder": (tags("Bash", ("command", "ls")), ("bash", {"command": "ls"})),
    "an unknown key": (tags("bash", ("cmd", "ls")), ("bash", {"cmd": "ls"})),
    "CRLF": ("<function=now>\r\n</function>", ("now", {})),
}


@pytest.mark.parametrize("name", READ)
def test_a_call_is_read_at_every_cut(name: str) -> None:
    text, expected = READ[name]
    for cut in all_cuts(text):
        assert read(cut) == expected


REFUSED = {
    "name not offered": tags("nope", ("command", "ls")),
    "name one letter off": tags("bas", ("command", "ls")),
    "no name": "<function=>\n</function>",
    "the name does not end": "<function=bash\n</function>",
    "a JSON body": '<function=bash>{"command": "ls"}</function>',
    "prose": "<function=bash> runs a command",
    "no closer": "<function=bash>\n<parameter=command>\nls\n</parameter>\n",
    "no parameter closer": "<function=bash>\n<parameter=command>\nls\n</function>",
    "half a closer": "<function=bash>\n<parameter=command>\nls\n</parameter>\n</functio",
    "key twice": tags("bash", ("command", "ls"), ("command", "rm")),
    "no key": "<function=bash><parameter=>ls</parameter></function>",
    "a broken key": "<function=bash><parameter=com mand>ls</parameter></function>",
    "too long a name": "<function=" + "x" * 300 + "></function>",
    "too many blanks": "<function=now>" + " " * 300 + "</function>",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_call_is_refused_at_every_cut(name: str) -> None:
    for cut in all_cuts(REFUSED[name], 50):
        assert read(cut) == NONE


@pytest.mark.parametrize(
    "text", ["<function=nope> x", "<function=...> x", "<function=bash> x", "<function=NAME\n", "<function=" + "x" * 300]
)
def test_prose_that_mentions_the_tag_is_let_go_at_once(text: str) -> None:
    """C2, F68."""
    with pytest.raises(NotACall):
        next(function_tags(Reader(Window(bytearray(text.encode())), 0, offered())))


@pytest.mark.parametrize("value", ["1e999", "-1e999"])
def test_the_arguments_are_json_whatever_the_number(value: str) -> None:
    """`Infinity` is no JSON: the client could not read the call."""
    found = read([tags("typed", ("ratio", value))])
    assert found != NONE


# What no renderer could write: a value that holds the very end of its parameter.
_TEXT = st.text(max_size=60).filter(lambda text: "</parameter>" not in text)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "count": st.integers(-(2**63), 2**63),
    "flag": st.booleans(),
    "items": st.lists(_JSON, max_size=4),
    "options": st.dictionaries(st.text(max_size=5), _JSON, max_size=3),
    "maybe": st.none() | st.integers(-9, 9),
    "either": _TEXT,
    "label": _TEXT,
    "free": _TEXT,
}


@settings(max_examples=120, deadline=None, derandomize=True)
@given(st.fixed_dictionaries({}, optional=_VALUES), st.lists(st.integers(0, 300), max_size=6))
def test_what_is_rendered_is_read_again(values: dict[str, Any], places: list[int]) -> None:
    """The round trip over any values of the schema."""
    rendered = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    if any("</parameter>" in text for text in rendered.values()):
        return
    text = tags("typed", *rendered.items())
    at = sorted({min(place, len(text)) for place in places})
    cut = [text[start:end] for start, end in zip([0, *at], [*at, len(text)], strict=True)]
    assert read(cut) == ("typed", values)
