"""Failures from the field: finish reasons (F54 to F56), one test each."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.client_view import LS, argued, bytes_of, entry, is_untouched, streamed, whole, whole_is_untouched
from tests.support.helpers import call_json, calls, chunk, delta, ends, piece, says

CALL = calls(piece(0, LS, "bash", "a"))
MESSAGE: dict[str, Any] = {"content": None, "tool_calls": [entry("bash", LS)]}
WRITTEN = f"<tool_call>{call_json('bash', command='ls')}</tool_call>"


@pytest.mark.parametrize("finish", ["stop", "function_call", "eos", "end_turn"])
def test_f54_the_finish_is_stop_although_there_are_calls(finish: str) -> None:
    """The client would not run them. The finish reason becomes `tool_calls`, once, at the end."""
    for got in (
        streamed(CALL, ends(finish)),
        streamed(CALL, chunk(delta(0, finish, content=""))),
        streamed(chunk(delta(0, finish, tool_calls=[piece(0, LS, "bash", "a")]))),
        whole(MESSAGE, finish),
    ):
        assert (got.calls, got.finish, got.fixes) == ([("bash", LS)], "tool_calls", ("finish",))
    assert streamed(says(WRITTEN), ends(finish)).finish == whole({"content": WRITTEN}, finish).finish == "tool_calls"
    assert is_untouched(CALL, ends("tool_calls")) and whole_is_untouched(MESSAGE)


def test_f55_the_finish_is_tool_calls_without_a_call() -> None:
    """The client would wait for results. The finish reason becomes `stop`, and the text is kept."""
    for got in (
        streamed(says("Hi."), ends("tool_calls")),
        streamed(chunk(delta(0, "tool_calls", content="Hi."))),
        whole({"content": "Hi."}, "tool_calls"),
    ):
        assert (got.text, got.calls, got.finish, got.fixes) == ("Hi.", [], "stop", ("finish",))
    empty: dict[str, Any] = {"content": "Hi.", "tool_calls": []}
    for got in (streamed(chunk(delta(**empty)), ends("tool_calls")), whole(empty, "tool_calls")):
        assert (got.text, got.finish, set(got.fixes)) == ("Hi.", "stop", {"finish", "empty_calls"})
    none = streamed(calls(piece(0, '{"limit": 3}', id="a")), ends("tool_calls"))
    assert (none.text, none.calls, none.finish) == ('{"limit": 3}', [], "stop")
    assert is_untouched(says("Hi."), ends("stop"))


@pytest.mark.parametrize("reason", ["length", "content_filter"])
@pytest.mark.parametrize(
    "cut", ["{", '{"comm', '{"command": "rm -rf /tmp', '{"command": "ls"', '{"command": "ls", "timeout": 1', LS]
)
def test_f56_a_truncated_call_keeps_its_finish(cut: str, reason: str) -> None:
    """Reason and text are unchanged: a shell command is never completed."""
    got = argued("bash", cut, finish=reason)
    assert (got.calls, got.finish, got.error) == ([("bash", cut)], reason, "")
    assert "closers" not in got.fixes
    assert whole_is_untouched({"content": None, "tool_calls": [entry("bash", cut)]}, reason)
    early = bytes_of(calls(piece(0, cut, "bash", "a")), ends(reason))
    assert f'"finish_reason": "{reason}"'.encode() in early and early.endswith(b"data: [DONE]\n\n")


def test_a_truncated_call_without_its_opener_stays_text() -> None:
    """No closer is added to a truncated call, even if other damage would be repaired."""
    for name, cut in (("bash", '"command": "ls"'), ("", '{"command": "ls"'), ("", '{"command": "l')):
        got = argued(name, cut, finish="length")
        assert (got.calls, got.text, got.finish, got.fixes) == ([], name + cut, "length", ("no_call",))


def test_a_truncated_call_in_text_stays_text() -> None:
    """Text that ends within a call is not a call."""
    for text in (WRITTEN[:-4], WRITTEN[:-20], call_json("bash", command="ls")):
        for got in (streamed(says(text), ends("length")), whole({"content": text}, "length")):
            assert (got.text, got.calls, got.finish, got.fixes) == (text, [], "length", ())
