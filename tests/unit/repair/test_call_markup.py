"""Markup of the call in its structured name, or in place of its arguments, is read as in text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.repair.policy import Policy
from proxy.repair.repairer import Repairer
from tests.support.helpers import function, offered

TEXT = {"type": "string"}
TOOLS = offered(
    function("bash", {"command": TEXT}, "command"),
    function("read_file", {"path": TEXT, "limit": {"type": "integer"}}, "path"),
    function("write_file", {"path": TEXT, "content": TEXT}, "path", "content"),
    function("now", {}),
)


def repaired(name: str, arguments: str) -> tuple[str, Any] | None:
    """The call that comes of a name and the text of its arguments."""
    found = Repairer(TOOLS, Policy()).repair(name, arguments, stopped=True)
    return (found.name, json.loads(found.arguments)) if found else None


@pytest.mark.parametrize(
    ("name", "arguments", "call"),
    [
        ("bash<arg_key>command</arg_key><arg_value>ls</arg_value>", "{}", ("bash", {"command": "ls"})),
        ("read_file>\n<parameter=path>\n/x\n</parameter>", "", ("read_file", {"path": "/x"})),
        ('bash{"command": "ls"}', "{}", ("bash", {"command": "ls"})),
        ('bash command="ls"', "{}", ("bash", {"command": "ls"})),
        ("now</arg_value>", "{}", ("now", {})),
        ("bash", "<parameter=command>\nls\n</parameter>", ("bash", {"command": "ls"})),
        ("bash", "<arg_key>command</arg_key><arg_value>ls</arg_value>", ("bash", {"command": "ls"})),
        ("read_file", "<arg_key>path</arg_key><arg_value>a</arg_value></tool_call>", ("read_file", {"path": "a"})),
        ("bash<tool_call>", '{"command": "ls"}', ("bash", {"command": "ls"})),
        ("bash", '{"name": "bash", "arguments": {"command": "ls"}}', ("bash", {"command": "ls"})),
        ("bash", '{"bash": {"command": "ls"}}', ("bash", {"command": "ls"})),
    ],
)
def test_markup_of_the_call_is_read(name: str, arguments: str, call: tuple[str, Any]) -> None:
    assert repaired(name, arguments) == call


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_file", '{"path<arg_key": "limit</arg_key><arg_value>5"}'),
        ("bash", "<parameter=command>\nls"),
        ("bash", '{"command=ls": ""}'),
        ("bash", "<parameter=command>ls</parameter> and so on, as I said before"),
        ("bash", "<arg_key>path</arg_key><arg_value>a</arg_value>"),
    ],
)
def test_what_the_schema_does_not_accept_or_does_not_end_is_no_call(name: str, arguments: str) -> None:
    assert repaired(name, arguments) is None


@pytest.mark.parametrize(
    "arguments",
    [
        '/* {"command": "ls"} */',
        '<example>{"command": "ls"}</example>',
        'Never do {"command": "rm -rf /"}',
        'error: could not parse {"command": "ls"}',
        '{"error": {"command": "ls"}}',
    ],
)
def test_arguments_that_are_only_shown_are_not_taken(arguments: str) -> None:
    found = repaired("bash", arguments)
    assert found is None or found == ("bash", json.loads(arguments))


def test_c4_markup_in_a_reply_that_was_cut_off_is_no_call() -> None:
    text = "<parameter=command>rm -rf a</parameter>"
    assert Repairer(TOOLS, Policy()).repair("bash", text, stopped=False) is None


@pytest.mark.parametrize("name", ["bash -l", "bashrc", "bash.run", "bash<arg_key>path</arg_key>"])
def test_another_name_stays_for_the_client_to_answer(name: str) -> None:
    assert repaired(name, '{"command": "ls"}') == (name, {"command": "ls"})


def test_a_value_that_shows_markup_stays_as_it_is() -> None:
    text = json.dumps({"path": "a.md", "content": "<arg_key>k</arg_key>\n<arg_value>v</arg_value>"})
    assert repaired("write_file", text) == ("write_file", json.loads(text))
