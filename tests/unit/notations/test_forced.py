"""The arguments alone, where the client forced the choice of a tool (F87)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.engine.engine import Engine
from proxy.engine.task import Task
from proxy.tools.toolset import read_tools
from tests.support.helpers import SEED, all_cuts, ends, run, says, view

RUN: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "run",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}, "seconds": {"type": "integer"}},
            "required": ["command"],
        },
    },
}
READ: dict[str, Any] = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
FORCED = {"type": "function", "function": {"name": "run"}}
LS = '{"command": "ls"}'


def engine(forced: str = "run", **more: Any) -> Engine:
    return Engine(Task(tools=read_tools([RUN, READ]), seed=SEED, forced=forced, **more))


def reply(text: str, why: str = "stop", **more: Any) -> tuple[list[tuple[str, str]], str]:
    """What a client gets of a text in each cut, which is always the same: the calls and the text."""
    found = []
    for cut in all_cuts(text.encode(), 4):
        got = view(run([*(says(part.decode()) for part in cut), ends(why)], engine(**more)))[0]
        found.append((got.calls, got.text))
    assert all(each == found[0] for each in found)
    return found[0]


@pytest.mark.parametrize(
    "text,arguments",
    [
        (LS, LS),
        (f"\n {LS}\n", LS),
        ('{"command": "ls", "seconds": 3}', '{"command": "ls", "seconds": 3}'),
        ("{'command': 'ls'}", LS),
        ('{"command": "ls"', LS),
        ('{"name": "run", "arguments": {"command": "ls"}}', LS),
        ('[{"name": "run", "parameters": {"command": "ls"}}]', LS),
    ],
)
def test_the_arguments_alone_are_a_call_of_the_forced_tool(text: str, arguments: str) -> None:
    found, left = reply(text)
    assert found == [("run", arguments)] and not left.strip()


@pytest.mark.parametrize(
    "text",
    [
        *("", "ls", '{"seconds": 3}', '{"command": "ls", "other": 1}', f"So: {LS}", f"{LS} is it", '["ls"]'),
        *('{"command": "l', "{}", '{"name": "ls"}'),
    ],
)
def test_what_is_not_the_tools_whole_arguments_is_text(text: str) -> None:
    assert reply(text) == ([], text)


@pytest.mark.parametrize(
    "text,arguments",
    [
        ('{"name": "a", "arguments": "b"}', '{"name": "a", "arguments": "b"}'),
        ('{"name": "a"}', '{"name": "a"}'),
        ('{"name": "run", "arguments": {"name": "a"}}', '{"name": "a"}'),
        ('{"arguments": "b", "name": "a"}', '{"arguments": "b", "name": "a"}'),
    ],
)
def test_a_tool_with_a_name_of_its_own(text: str, arguments: str) -> None:
    words: dict[str, Any] = {"name": {"type": "string"}, "arguments": {"type": "string"}}
    named: dict[str, Any] = {"name": "run", "parameters": {"type": "object", "properties": words, "required": ["name"]}}
    tools = read_tools([{"type": "function", "function": named}])
    for cut in all_cuts(text.encode(), 4):
        one = Engine(Task(tools=tools, seed=SEED, forced="run"))
        assert view(run([*(says(part.decode()) for part in cut), ends()], one))[0].calls == [("run", arguments)]


def test_what_was_cut_off_is_text() -> None:
    assert reply(LS, "length") == ([], LS)


@pytest.mark.parametrize("more", [{"forced": ""}, {"json_reply": True}])
def test_only_where_the_choice_was_forced_and_no_json_was_asked_for(more: dict[str, Any]) -> None:
    assert reply(LS, **more) == ([], LS)
