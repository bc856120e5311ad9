"""Fixes that users of OpenClaw patched into their client (PR 11210): a call reaches the agent with its name and
arguments, even through a chain of LiteLLM, LMDeploy and gpt-oss.
"""

from __future__ import annotations

from typing import Any

import pytest

from proxy.engine.events import Chunk
from tests.support.client_view import Got, entry, streamed
from tests.support.helpers import calls, chunk, ends, function, offered, piece

PATH = {"path": {"type": "string"}, "limit": {"type": "integer"}}
OPENCLAW = offered(
    function("read", PATH, "path"),
    function("exec", {"command": {"type": "string"}, "timeout": {"type": "integer"}}, "command"),
    function("ls", {"path": {"type": "string"}}, "path"),
)
SKILL = '{"path": "/app/my skills/weather/SKILL.md"}'
CURL = '{"command": "curl -s wttr.in/Johannesburg"}'


def got_of(*chunks: Chunk) -> Got:
    """Return OpenClaw's view of these chunks and a finish."""
    return streamed(*chunks, ends("tool_calls"), tools=OPENCLAW)


def message(*entries: dict[str, Any], finish: str | None = "tool_calls") -> Chunk:
    said = {"role": "assistant", "content": None, "tool_calls": [*entries]}
    return chunk({"index": 0, "delta": {}, "message": said, "finish_reason": finish})


def is_read(got: Got) -> bool:
    """Return whether the client has exactly the call that reads the skill's file."""
    return (got.calls, got.ids, got.finish, got.empty) == ([("read", SKILL)], ("a",), "tool_calls", 0)


@pytest.mark.parametrize("begun", ["", None, "{}", SKILL[:9], SKILL[:18], SKILL])
@pytest.mark.parametrize("id_", ["a", "other", None])
def test_a_whole_message_at_the_end_completes_a_call(begun: Any, id_: str | None) -> None:
    """The call is matched by id, or else by position, and nothing is sent twice."""
    assert is_read(got_of(calls(piece(0, begun, "read", "a")), message(entry("read", SKILL, id_))))
    assert is_read(got_of(calls(piece(0, begun, id="a")), message(entry("read", SKILL, id_))))


def test_a_whole_message_at_the_end_may_contain_all_calls() -> None:
    """It may also contain more calls than the deltas did."""
    both = [entry("read", SKILL), entry("exec", CURL, "b")]
    for begun in ([], [calls(piece(0, SKILL, "read", "a"))], [calls(piece(0, "{}", "read", "a"))]):
        got = got_of(*begun, message(*both))
        assert (got.calls, got.ids) == ([("read", SKILL), ("exec", CURL)], ("a", "b"))
    same_tool = [entry("read", SKILL), entry("read", '{"path": "b"}', "b")]
    assert got_of(calls(piece(0, SKILL, "read", "a")), message(*same_tool)).ids == ("a", "b")
