"""What counts as the whole reply, and what stays text beside a call, as clients of both fronts have it (C4, C5)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.engine.engine import Engine
from proxy.engine.task import Task
from proxy.tools.toolset import read_tools
from tests.support.helpers import SEED, all_cuts, call_json, ends, function, new_engine, run, says, view
from tests.support.messages_client import INPUT
from tests.support.siblings import FAMILIES, GIVEN
from tests.support.siblings import content as left
from tests.support.siblings import reply as written
from tests.unit.dialects.messages.test_blocks import content

X, Y = call_json("nope", a=1), {"name": "write_file", "arguments": INPUT}


@pytest.mark.parametrize("order", ["xb", "bx", "bxr"])
@pytest.mark.parametrize("family", FAMILIES)
def test_text_beside_calls_is_a_block_in_its_place(family: str, order: str) -> None:
    """Messages: blocks open and close one behind the other."""
    text, _ = written(family, order)
    kinds = {"x": "text", "b": "tool_use", "r": "tool_use"}
    for cut in all_cuts(text, 3):
        blocks = content(*run([*map(says, cut), ends()], new_engine()))
        assert [kind for kind, _ in blocks] == [kinds[each] for each in order]
        assert [inside for kind, inside in blocks if kind == "text"] == [left(family, order)]
        inputs = [inside for kind, inside in blocks if kind != "text"]
        assert inputs == [GIVEN[each][1] for each in order if each != "x"]


@pytest.mark.parametrize("finish", ["stop", "length"])
def test_a_wrapper_with_one_that_was_not_offered_has_its_true_finish(finish: str) -> None:
    """C4: a closed wrapper counts whatever ended the reply, and the finish stays."""
    text = f"<tool_call>[{X}, {call_json('bash', command='ls')}]</tool_call>"
    for cut in all_cuts(text, 3):
        seen = view(run([*map(says, cut), ends(finish)], new_engine()))[0]
        assert seen.names == ["bash"]
        assert seen.finish == ("tool_calls" if finish == "stop" else "length")


def test_with_one_tool_that_any_key_may_be_given_the_call_is_whole() -> None:
    """What is repaired later sees the key that the tool does not declare."""
    tool: dict[str, Any] = function("bash", {"command": {"type": "string"}}, "command")
    engine = Engine(Task(tools=read_tools([tool]), seed=SEED))
    seen = view(run([says(call_json("bash", command="ls", description="Lists")), ends()], engine))[0]
    assert seen.calls == [("bash", '{"command": "ls", "description": "Lists"}')]
