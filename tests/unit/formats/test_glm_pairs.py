"""Calls as pairs of tags: keys and values, and which tag is missing (F7)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.formats.glm_pairs import bare_key, glm_pairs
from tests.support.helpers import Outcome, offered, outcome

TOOLS = offered()


def pair(key: str, value: str, blank: str = "\n") -> str:
    return f"<arg_key>{key}</arg_key>{blank}<arg_value>{value}</arg_value>{blank}"


def read(text: str, tool: str = "bash", first: str | None = None) -> Outcome[dict[str, Any]]:
    """The values of the pairs."""
    offer = TOOLS.resolve(tool)
    assert offer is not None
    return outcome(lambda reader: glm_pairs(reader, offer, first), text, tools=TOOLS)


END = "</tool_call>"
LS = {"command": "ls"}
BOTH = {"command": "ls", "timeout": 5}
READ: dict[str, tuple[str, dict[str, Any]]] = {
    "one": (pair("command", "ls"), LS),
    "without line ends": (pair("command", "ls", ""), LS),
    "two": (pair("command", "ls") + pair("timeout", "5"), BOTH),
    "none": ("", {}),
    "a value keeps its blanks": (pair("command", "\n ls\n"), {"command": "\n ls\n"}),
    "a value that holds the end tag": (pair("command", "a</arg_value>b"), {"command": "a</arg_value>b"}),
    "a value that holds its call's end tag": (pair("command", "a</tool_call>b"), {"command": "a</tool_call>b"}),
    "a value that holds markup": (pair("command", "<b>1 < 2</b>"), {"command": "<b>1 < 2</b>"}),
    "a suffix": (
        "<arg_key:opensource>command</arg_key:opensource><arg_value:opensource>ls</arg_value:opensource>",
        LS,
    ),
    "a namespace": ("<ifm|arg_key>command</ifm|arg_key><ifm|arg_value>ls</ifm|arg_value>", LS),
    "blanks around a key": (pair(" command\n", "ls"), LS),
    "a key without its end tag": ("<arg_key>command<arg_value>ls</arg_value>", LS),
    "a key without its opening tag": (f"{pair('command', 'ls', '')}timeout</arg_key><arg_value>5</arg_value>", BOTH),
    "a value without its opening tag": ("<arg_key>command</arg_key>ls</arg_value>", LS),
    "a value without its end tag": (f"<arg_key>command</arg_key><arg_value>ls{pair('timeout', '5', '')}", BOTH),
    "the last value without its end tag": ("<arg_key>command</arg_key>\n<arg_value>ls\n", LS),
    "the end tag of a key twice": ("<arg_key>command</arg_key></arg_key><arg_value>ls</arg_value>", LS),
    "the end tag of a number twice": (f"{pair('command', 'ls')}{pair('timeout', '5')}</arg_value>", BOTH),
}


@pytest.mark.parametrize("name", READ)
def test_pairs_are_read_up_to_the_end_of_their_call(name: str) -> None:
    text, values = READ[name]
    found = read(text + END)
    assert (found.given, found.rest) == (values, END)


TYPED: dict[str, tuple[str, str, Any]] = {
    "an integer": ("count", "3", 3),
    "a string of digits": ("label", "3", "3"),
    "no schema": ("free", "3", "3"),
    "null": ("maybe", "null", None),
    "either": ("either", "3", 3),
    "either, and a text": ("either", "three", "three"),
    "an array": ("items", '["a"]', ["a"]),
    "an array of Python's": ("items", "['a']", ["a"]),
    "an object": ("options", '{"a": 1}', {"a": 1}),
}


@pytest.mark.parametrize("name", TYPED)
def test_values_are_typed_by_the_schema(name: str) -> None:
    key, text, value = TYPED[name]
    assert read(pair(key, text) + END, "typed").given == {key: value}


@pytest.mark.parametrize(
    ("key", "said", "text", "value"),
    [("label", "integer", "3", 3), ("count", "string", "3", "3"), ("free", "null", "null", None)],
)
def test_a_type_that_stands_there_decides_by_itself(key: str, said: str, text: str, value: Any) -> None:
    """K2 Horizon writes it between key and value."""
    found = read(f"<arg_key>{key}</arg_key><arg_type>{said}</arg_type><arg_value>{text}</arg_value>{END}", "typed")
    assert found.given == {key: value}


WHERE: dict[str, tuple[str, str]] = {
    "the reply ends": ("", ""),
    "the turn is over": ("<|im_end|>", "<|im_end|>"),
    "another one's end tag": ("</function>x", "</function>x"),
}


@pytest.mark.parametrize("name", WHERE)
def test_pairs_end_where_something_else_begins(name: str) -> None:
    behind, rest = WHERE[name]
    found = read(pair("command", "ls", "") + behind)
    assert (found.given, found.rest) == (LS, rest)


REFUSED = {
    "prose": "and so on",
    "prose behind a pair": pair("command", "ls") + "and so on",
    "a key twice": pair("command", "ls") + pair("command", "rm") + END,
    "an empty key": pair("", "ls") + END,
    "a key that does not end": "<arg_key>command",
    "a key that is too long": pair("k" * 200, "ls") + END,
    "a value that does not end": "<arg_key>command</arg_key><arg_value>ls",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_are_no_pairs_is_refused(name: str) -> None:
    found = read(REFUSED[name])
    assert found.given is None and found.why


def test_the_first_key_may_have_been_read_already() -> None:
    """Its opening tag is missing, and the name of the tool ran into it."""
    found = read(f"<arg_value>ls</arg_value>{END}", first="command")
    assert (found.given, found.rest) == (LS, END)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((text, True) for text in ("command</arg_key>", "com mand</arg_key>x", "command</ifm|arg_key>")),
        *((text, False) for text in ("</arg_key>", "<arg_key>", "command", "command<b>", "k" * 200 + "</arg_key>", "")),
    ],
)
def test_a_key_without_its_opening_tag_is_only_looked_at(text: str, expected: bool) -> None:
    found = outcome(bare_key, text)
    assert (found.given, found.rest) == (expected, text)
