"""Calls that are a name and its arguments, with nothing around them: literals alone, nothing is put right (C3)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.formats.bare_calls import bare_arguments, bare_call, begins_arguments, begins_bare
from proxy.parsing.cursor import Cursor, Parsing, RawCall
from tests.support.helpers import outcome

Q, E = '<|"|>', "<escape>"
READ: dict[str, tuple[str, dict[str, Any]]] = {
    "a keyword": ('bash(command="ls")', {"command": "ls"}),
    "two of them": ('bash(command="ls", timeout=5)', {"command": "ls", "timeout": 5}),
    "a comma behind the last": ('bash(command="ls",)', {"command": "ls"}),
    "lines": ("bash(\n    command='ls',\n    background=True,\n)", {"command": "ls", "background": True}),
    "blanks around the sign": ('bash(command = "ls")', {"command": "ls"}),
    "what looks like the end in a string": ('bash(command="a, b=1) c")', {"command": "a, b=1) c"}),
    "an escaped mark": (r'bash(command="a \"b\"")', {"command": 'a "b"'}),
    "three marks": ('bash(command="""a\n"b" \'c\'""")', {"command": 'a\n"b" \'c\''}),
    "three of the others": ("bash(command='''a 'b' \"c\"''')", {"command": "a 'b' \"c\""}),
    "an escape in three": ('bash(command="""a\\n\\"""b""")', {"command": 'a\n"""b'}),
    "a list and a dictionary": (
        "typed(items=['a', ')'], options={'a': [1, None], \"b\": {}})",
        {"items": ["a", ")"], "options": {"a": [1, None], "b": {}}},
    ),
    "a string for a number": ('bash(command="ls", timeout="5")', {"command": "ls", "timeout": 5}),
    "braces": ('bash{command: "ls", timeout: 5}', {"command": "ls", "timeout": 5}),
    "a key in marks": ('bash{"command": "ls", \'timeout\': 5}', {"command": "ls", "timeout": 5}),
    "inner keys without marks": ("typed{options: {a: 1, b: [true, null]}}", {"options": {"a": 1, "b": [True, None]}}),
    "Gemma's marks": (f"bash{{command: {Q}a, b}}{Q}}}", {"command": "a, b}"}),
    "Gemma's marks within": (f"typed{{options: {{a: {E}}}{E}}}}}", {"options": {"a": "}"}}),
    "no blanks": ('bash{command:"ls",timeout:5}', {"command": "ls", "timeout": 5}),
}
NONE = {
    "no arguments": "bash()",
    "no arguments in braces": "bash{}",
    "a value alone": 'bash("ls")',
    "a name for a value": "bash(command=ls)",
    "an expression": 'bash(command="a" + b)',
    "a call": 'bash(command=run("a"))',
    "a keyword twice": 'bash(command="a", command="b")',
    "a key twice": 'bash{command: "a", "command": "b"}',
    "no comma": 'bash(command="a" timeout=5)',
    "another closer": 'bash(command="a"}',
    "another sign": 'bash(command: "a")',
    "the sign of the other in braces": 'bash{command="a"}',
    "a key in marks in brackets": 'bash("command"="a")',
    "a tool that is not offered": 'nope(command="a")',
    "cut off": 'bash(command="a"',
    "cut off in a string": 'bash(command="a',
    "cut off in three marks": 'bash(command="""a""',
    "cut off behind a backslash": 'bash(command="""a\\',
    "no bracket": "bash",
    "a number first": 'bash(1a="x")',
}


@pytest.mark.parametrize("text,arguments", READ.values(), ids=READ)
def test_a_name_and_literals_are_a_call(text: str, arguments: dict[str, Any]) -> None:
    name = text[: min(at for at in (text.find("("), text.find("{")) if at > 0)]
    found = outcome(bare_call, f"{text} x")
    assert (found.calls, found.rest) == ([(name, arguments)], " x")


@pytest.mark.parametrize("text", NONE.values(), ids=NONE)
def test_what_is_code_or_prose_is_none(text: str) -> None:
    found = outcome(bare_call, text)
    assert found.calls is None
    assert found.why


def test_the_name_may_have_been_read_before() -> None:
    def read(cursor: Cursor) -> Parsing[RawCall]:
        return (yield from bare_arguments(cursor, "bash"))

    given = outcome(read, '(command="ls")').given
    assert given is not None and (given.written_name, given.arguments) == ("bash", '{"command": "ls"}')
    assert outcome(read, '(command="ls"').given is None


BEGINS = {
    'bash(command="ls")': True,
    "bash(command=": True,
    "bash{command: ": True,
    "bash( command =": True,
    "bash(command": False,
    "bash(command == 1)": False,
    "bash(": False,
    'bash("ls")': False,
    'bash{"command": 1}': False,
    "bash {command: 1}": False,
    "nope(command=1)": False,
    "if (a=1)": False,
    "": False,
}


@pytest.mark.parametrize(("text", "begins"), BEGINS.items(), ids=BEGINS)
def test_an_offered_name_and_a_keyword_begin_one_and_nothing_is_read(text: str, begins: bool) -> None:
    found = outcome(begins_bare, text)
    assert (found.given, found.rest) == (begins, text)


@pytest.mark.parametrize(
    ("text", "begins"), [("(a=", True), ("{a:", True), ("(a==", False), ("(=", False), ("{a=", False), ("(a:", False)]
)
def test_the_arguments_alone_begin_so_too(text: str, begins: bool) -> None:
    found = outcome(begins_arguments, text)
    assert (found.given, found.rest) == (begins, text)
