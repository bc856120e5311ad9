"""What OpenClaw's users patched into their client (PR 11210), as the proxy's own: calls that reach the agent have a
name and their arguments, whatever a chain of LiteLLM, LMDeploy and gpt-oss makes of them.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.engine.events import Chunk
from tests.support.client_view import Got, entry, streamed, whole
from tests.support.helpers import calls, chunk, delta, ends, function, offered, piece, says

PATH = {"path": {"type": "string"}, "limit": {"type": "integer"}}
OPENCLAW = offered(
    function("read", PATH, "path"),
    function("exec", {"command": {"type": "string"}, "timeout": {"type": "integer"}}, "command"),
    function("ls", {"path": {"type": "string"}}, "path"),
)
SKILL = '{"path": "/app/my skills/weather/SKILL.md"}'
CURL = '{"command": "curl -s wttr.in/Johannesburg"}'
FIELDS = ("arguments", "parsed_arguments", "args", "input")


def got_of(*chunks: Chunk) -> Got:
    """What OpenClaw has of these chunks and a finish."""
    return streamed(*chunks, ends("tool_calls"), tools=OPENCLAW)


def message(*entries: dict[str, Any], finish: str | None = "tool_calls") -> Chunk:
    """A chunk with the whole message in it."""
    said = {"role": "assistant", "content": None, "tool_calls": [*entries]}
    return chunk({"index": 0, "delta": {}, "message": said, "finish_reason": finish})


def is_read(got: Got) -> bool:
    """True if the client has the one call of the skill's file, with its arguments."""
    return (got.calls, got.ids, got.finish, got.empty) == ([("read", SKILL)], ("a",), "tool_calls", 0)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("inside", [True, False])
def test_arguments_are_found_under_each_name(field: str, inside: bool) -> None:
    """In `function` or beside it, as text or as an object, in one piece or in several."""

    def said(value: Any, **function_: str) -> dict[str, Any]:
        own = {**function_, field: value} if inside else function_
        return {"index": 0, "function": own, **({} if inside else {field: value})}

    first = {**said("", name="read"), "id": "a"}
    assert is_read(got_of(calls({**said(SKILL, name="read"), "id": "a"})))
    assert is_read(got_of(calls(first), *(calls(said(part)) for part in (SKILL[:4], SKILL[4:20], SKILL[20:]))))
    as_object = got_of(calls({**said(json.loads(SKILL), name="read"), "id": "a"}))
    assert (as_object.values, as_object.ids) == ([("read", json.loads(SKILL))], ("a",))
    answered = whole({"content": None, "tool_calls": [{**said(SKILL, name="read"), "id": "a"}]}, tools=OPENCLAW)
    assert is_read(answered)


def test_a_changing_id_opens_no_new_block() -> None:
    for deltas in (
        [piece(0, SKILL[:6], "read", "a"), piece(0, SKILL[6:9], id="b"), piece(0, SKILL[9:], id="c")],
        [piece(0, "", "read", "a"), piece(0, SKILL, id="call_other")],
        [piece(None, SKILL[:6], "read", "a"), piece(None, SKILL[6:], id="b")],
    ):
        assert is_read(got_of(*map(calls, deltas)))


@pytest.mark.parametrize("begun", ["", None, "{}", SKILL[:9], SKILL[:18], SKILL])
@pytest.mark.parametrize("id_", ["a", "other", None])
def test_the_whole_message_at_the_end_completes_what_had_begun(begun: Any, id_: str | None) -> None:
    """By id, else by its place; what is there already does not come twice."""
    assert is_read(got_of(calls(piece(0, begun, "read", "a")), message(entry("read", SKILL, id_))))
    assert is_read(got_of(calls(piece(0, begun, id="a")), message(entry("read", SKILL, id_))))


def test_the_whole_message_at_the_end_may_be_all_there_is() -> None:
    """And one that says more calls than the deltas did."""
    both = [entry("read", SKILL), entry("exec", CURL, "b")]
    for begun in ([], [calls(piece(0, SKILL, "read", "a"))], [calls(piece(0, "{}", "read", "a"))]):
        got = got_of(*begun, message(*both))
        assert (got.calls, got.ids) == ([("read", SKILL), ("exec", CURL)], ("a", "b"))
    same_tool = [entry("read", SKILL), entry("read", '{"path": "b"}', "b")]
    assert got_of(calls(piece(0, SKILL, "read", "a")), message(*same_tool)).ids == ("a", "b")


@pytest.mark.parametrize(
    "raw",
    [f"{SKILL}</s>", f"json\n{SKILL}", f"{SKILL}{SKILL}", SKILL[:-1], SKILL[1:], json.dumps(SKILL), f"{SKILL}}}"],
)
def test_the_first_object_is_recovered(raw: str) -> None:
    got = got_of(calls(piece(0, raw, "read", "a")))
    assert (got.values, got.ids) == ([("read", json.loads(SKILL))], ("a",))


@pytest.mark.parametrize("text", ["{}", '{"path": "x"}', "{not", "path", '{"city": "x"}'])
def test_a_block_without_a_name_never_reaches_the_agent(text: str) -> None:
    """`path` alone is `ls` or `read`: it goes back to the text, and does not disturb the calls beside it."""
    alone = streamed(calls(piece(0, text, id="a")), ends("tool_calls"), tools=OPENCLAW)
    assert (alone.calls, alone.text, alone.finish) == ([], text, "stop")
    beside = got_of(calls(piece(0, text, id="a")), calls(piece(1, CURL, "exec", "b")))
    assert (beside.calls, beside.ids, beside.text, beside.finish) == ([("exec", CURL)], ("b",), text, "tool_calls")


def test_a_block_that_cannot_be_parsed_never_reaches_the_agent() -> None:
    got = streamed(calls(piece(0, "not JSON", "read", "a")), ends("tool_calls"), tools=OPENCLAW)
    assert (got.calls, got.text, got.finish) == ([], "readnot JSON", "stop")


def test_the_session_of_the_report_has_no_empty_call() -> None:
    """Weather, then the curl that the skill asks for: once 32 of 59 calls were `{}`."""
    for opened in (piece(0, "{}", "read", "a"), piece(0, {}, "read", "a"), piece(0, None, "read", "a")):
        for late in (
            [calls({**piece(0, None, id="b"), "input": SKILL})],
            [message(entry("read", SKILL, "fc_1"), finish=None)],
        ):
            got = got_of(says("I look."), calls(opened), chunk(delta()), *late)
            assert is_read(got) and got.text == "I look."


def test_a_standard_stream_stays_as_it_is() -> None:
    got = got_of(calls(piece(0, "", "read", "a")), calls(piece(0, SKILL)), calls(piece(1, CURL, "exec", "b")))
    assert (got.calls, got.fixes) == ([("read", SKILL), ("exec", CURL)], ())
    empty = got_of(calls(piece(0, "{}", "read", "a")))
    assert (empty.calls, empty.fixes, empty.empty) == ([("read", "{}")], (), 1)
