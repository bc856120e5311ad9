"""Buffered events are processed in slices, and a long step is announced before it is taken."""

from __future__ import annotations

import pytest

from proxy.exchange.reply_stream import LONG
from tests.support.helpers import call_json, calls, new_engine, piece, says
from tests.unit.exchange.test_reply_stream import ROLE, TEXT, Crashes, reply, wire

LARGE = "x" * (2 * LONG)


def always() -> bool:
    return True


def test_a_slice_may_be_a_single_event() -> None:
    one = reply()
    assert one.receive(wire(TEXT), always) == ROLE.raw
    assert one.unread
    assert one.receive(b"", always) == says("Just ").raw


def test_after_a_failure_no_event_is_unread() -> None:
    one = reply()
    one.receive(b'data: {"error": {"message": "no"}}\n\n' + wire(TEXT), always)
    assert one.failure is not None and not one.unread


def test_many_small_events_take_no_long_step() -> None:
    one = reply()
    data = b"".join(says("word ").raw for _ in range(500))
    assert len(data) > LONG and not one.takes_long(data)
    one.receive(data)
    assert not one.ends_long


def test_a_large_event_takes_a_long_step() -> None:
    one = reply()
    event = says(LARGE).raw
    assert one.takes_long(event)
    one.receive(event[: LONG + 100])
    assert one.takes_long(event[LONG + 100 :])


def test_an_event_after_large_held_text_takes_a_long_step() -> None:
    one = reply()
    opened = f"<tool_call>\n{call_json('bash', command=LARGE)[:-2]}"
    for at in range(0, len(opened), 100):
        one.receive(says(opened[at : at + 100]).raw)
    assert one.held and one.takes_long(says('"}}').raw) and one.ends_long


def test_only_the_end_of_a_large_call_takes_a_long_step() -> None:
    one = reply()
    one.receive(calls(piece(0, '{"command": "', "bash", "a")).raw)
    for at in range(0, len(LARGE), 100):
        one.receive(calls(piece(0, LARGE[at : at + 100])).raw)
    assert not one.takes_long(calls(piece(0, "more")).raw)
    assert one.takes_long(calls(piece(1, "{}", "bash", "b")).raw)
    assert one.takes_long(says("Done.").raw)
    assert one.ends_long


def test_a_crashed_reply_takes_no_long_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object) -> None:
        raise ZeroDivisionError("a defect")

    engine = new_engine()
    monkeypatch.setattr(engine, "feed", fails)
    one = reply(engine, Crashes())
    data = says(LARGE).raw
    assert one.receive(data) == data
    assert not one.takes_long(data) and not one.ends_long
