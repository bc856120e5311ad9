"""The engine's events as blocks of a Messages stream: in order, one open at a time (F53, F93), whatever comes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.dialects.messages.writer import MessagesWriter, ReplyOptions, assemble
from proxy.engine.events import (
    Call,
    CallArguments,
    CallClosed,
    CallOpened,
    Chunk,
    Event,
    Finished,
    Reasoning,
    Text,
)
from proxy.errors import LimitExceeded, UpstreamBroken
from tests.support.messages_checker import check_stream

ASKED = ReplyOptions("claude-x", frozenset(("END", "\n\nHuman:")), "abc-1")


def closed(index: int, arguments: str = "{}") -> CallClosed:
    return CallClosed(0, index, Call("c", "f", arguments), ())


def opened(index: int, name: str = "f", id_: str | None = None) -> CallOpened:
    return CallOpened(0, index, f"call_{index}" if id_ is None else id_, name)


def stream(events: Iterable[Event]) -> bytes:
    """The bytes of a stream that the server finished."""
    writer = MessagesWriter(ASKED)
    writer.observe_chunk(Chunk({"id": "chatcmpl-42"}, b""))
    said = b"".join(map(writer.write, events))
    try:
        return said + writer.end()
    except UpstreamBroken as error:
        return said + writer.error(error)


def content(*events: Event) -> list[tuple[str, Any]]:
    """The blocks of a finished stream: kind and what is in it."""
    made = check_stream(stream(events))["content"]
    return [(block["type"], block[{"tool_use": "input"}.get(block["type"], block["type"])]) for block in made]


def test_calls_that_take_turns_are_not_read_anew_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two long calls, fragment by fragment: what is read of them stays linear (C7)."""
    read: list[int] = []

    def counting(text: str) -> bool:
        read.append(len(text))
        return False

    monkeypatch.setattr("proxy.dialects.reply_parts.is_object_text", counting)
    blocks = MessagesWriter(ASKED)
    for index in (0, 1):
        blocks.take(opened(index))
    for _ in range(5000):
        for index in (0, 1):
            blocks.take(CallArguments(0, index, "0123456789" * 4))
    assert sum(read) < 20 * 5000 * 40


def test_calls_that_wait_behind_another_are_limited() -> None:
    """Where nothing is repaired nobody else counts them."""
    blocks = MessagesWriter(ASKED)
    blocks.take(opened(0))
    with pytest.raises(LimitExceeded, match="max_calls"):
        for index in range(1, 3000):
            blocks.take(opened(index))


@pytest.mark.parametrize("leave_open", [False, True])
@pytest.mark.parametrize("event", [Text(0, "a"), Reasoning(0, "a"), opened(0)])
def test_an_error_ends_the_open_block_except_for_claude_code(event: Event, leave_open: bool) -> None:
    """Claude Code keeps every block that has ended, and retries while none has."""
    writer = MessagesWriter(ReplyOptions("claude-x", leave_open=leave_open))
    data = writer.write(event) + writer.error(UpstreamBroken("it broke off"))
    made = check_stream(data, left_open=leave_open)
    assert made["error"] == {"type": "api_error", "message": "it broke off"}
    assert (b"content_block_stop" in data) is not leave_open


FRAGMENTS = st.sampled_from(["{", "}", '"a": 1', '{"a": "', '"}', " ", "{}", ""])
TEXTS = st.sampled_from(
    ["a", " ", "\n", "<think>", "</think>", "<th", "ink>", "b c", "<", "<|channel|>final<|message|>"]
)
INDEXES = st.integers(0, 2)
EVENTS = st.lists(
    st.one_of(
        st.builds(Text, st.just(0), TEXTS),
        st.builds(Reasoning, st.just(0), TEXTS),
        st.builds(opened, INDEXES),
        st.builds(CallArguments, st.just(0), INDEXES, FRAGMENTS),
        st.builds(closed, INDEXES),
    ),
    max_size=14,
)


def strict(events: list[Event]) -> list[Event]:
    """What an engine says: each call is opened once, and closed with whole arguments."""
    texts: dict[int, str] = {}
    kept: list[Event] = []
    for event in events:
        if isinstance(event, CallOpened):
            if event.index in texts:
                continue
            texts[event.index] = ""
        elif isinstance(event, CallArguments):
            whole = _is_object(texts.get(event.index))
            if event.index not in texts or (whole and event.fragment.strip()):
                continue
            texts[event.index] += event.fragment
        elif isinstance(event, CallClosed):
            continue
        kept.append(event)
    # An engine completes what it opened.
    for index, text in texts.items():
        if not _is_object(text):
            kept = [event for event in kept if getattr(event, "index", None) != index]
    return kept


def _is_object(text: str | None) -> bool:
    try:
        return isinstance(json.loads(text or ""), dict)
    except ValueError:
        return False


@given(EVENTS)
@settings(max_examples=200)
def test_a_whole_message_is_what_the_stream_builds(events: list[Event]) -> None:
    events = [*strict(events), Finished(0, "stop", None)]
    blocks = MessagesWriter(ASKED)
    blocks.observe_body({"id": "chatcmpl-42"})
    whole = assemble([*(given for event in events for given in blocks.take(event)), *blocks.last_events()])
    streamed = check_stream(stream(events))
    assert whole["content"] == streamed["content"]
    assert whole["stop_reason"] == streamed["stop_reason"]
