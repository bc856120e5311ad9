"""Replies that are only observed: they leave as they came, whatever the engine makes of them."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.dialects.chat.answer import ChatDialect
from proxy.dialects.chat.writer import ChatWriter
from proxy.dialects.responses.writer import ResponsesDialect
from proxy.engine.engine import Engine
from proxy.errors import UpstreamBroken
from proxy.exchange.observe import ObservedReply, VerbatimReply
from proxy.exchange.observe import observed as only_observed
from tests.support.helpers import all_cuts, ends, new_engine, received, says
from tests.support.responses_checker import check_stream, text_of
from tests.support.responses_view import options as response_options
from tests.unit.exchange.test_reply_stream import (
    DONE,
    ERROR,
    ROLE,
    STRONG,
    TEXT,
    USAGE,
    Crashes,
    Raises,
    options,
    reply,
    wire,
)
from tests.unit.exchange.test_slices import LARGE


def observed(engine: Engine | None = None, crashes: Crashes | None = None, **limits: int) -> ObservedReply:
    told = Crashes() if crashes is None else crashes
    reader = reply(engine, told, **limits)
    return only_observed(reader, ChatDialect(options()), told.append, **limits)


OBSERVED: dict[str, bytes] = {
    "text": wire([*TEXT, USAGE]),
    "a call in text": wire([ROLE, says("a\n"), says(STRONG[:20]), says(STRONG[20:]), ends()]),
    "an error": wire([ROLE, says("a <tool")], done=False) + ERROR,
    "comments and odd events": b": hi\n\n\n\ndata: 7\r\n\r\n" + wire(TEXT) + says("late").raw,
    "half an event": wire(TEXT, done=False) + b'data: {"cho',
    "half a chunk": says("a").raw + b'data: {"choices": [{"in',
}


@pytest.mark.parametrize("data", OBSERVED.values(), ids=OBSERVED.keys())
def test_an_observed_reply_leaves_as_the_very_bytes_at_every_cut(data: bytes) -> None:
    for cut in all_cuts(data):
        one = observed()
        given = b""
        for part in cut:
            given += one.receive(part) + one.flush_prose() + one.release()
            assert data.startswith(given)
            assert given.endswith((b"\n\n", b"\r\n")) or not given
        assert given + one.finish() == data
        assert one.failure is None and one.done is (DONE in data)


def test_an_observed_reply_is_read_as_any_other() -> None:
    engine = new_engine()
    one = observed(engine)
    assert not one.started
    for each in (ROLE, says(STRONG[:20])):
        assert one.receive(each.raw) == each.raw
    assert one.held and one.started
    for each in (says(STRONG[20:]), ends()):
        one.receive(each.raw)
    one.finish()
    assert engine.calls == 1 and not one.held and not one.swallowed


@pytest.mark.parametrize("step", ["feed", "finish", "release"])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_whatever_the_engine_raises_an_observed_reply_goes_on(step: str, at: int) -> None:
    engine, crashes = new_engine(), Crashes()
    Raises(engine, step, at)
    one = observed(engine, crashes)
    data = OBSERVED["a call in text"]
    given = b""
    for place in range(0, len(data), 50):
        given += one.receive(data[place : place + 50])
        given += one.release() if one.held else b""
    assert given + one.finish() == data
    assert len(crashes) == 1 or (len(crashes) == 0 and at > 0 and step != "feed")


def test_what_the_reader_itself_raises_is_told_once_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Any:
        raise RuntimeError("a defect")

    monkeypatch.setattr(Engine, "fast_path", fail)
    crashes = Crashes()
    one = observed(crashes=crashes)
    assert b"".join(one.receive(each.raw) for each in TEXT) + one.finish() == wire(TEXT, done=False)
    assert len(crashes) == 1 and not one.held


def test_an_observed_event_over_the_limit_passes_and_no_heartbeat_follows() -> None:
    """C7: only the reader has a limit."""
    one = observed(max_event=500)
    assert one.receive(says("a").raw + b"data: " + b"x" * 600) == says("a").raw
    assert one.heartbeat() == b": ping\n\n"
    assert one.receive(b"y") == b"data: " + b"x" * 600 + b"y"
    assert one.heartbeat() == b""
    assert one.receive(b"z\n\n") == b"z\n\n"
    assert one.failure is None


def test_an_observed_reply_that_breaks_off_ends_in_the_error_and_nothing_twice() -> None:
    one = observed()
    given = one.receive(says("a <tool").raw + b"data: {") + one.fail(UpstreamBroken("it broke off"))
    got = received(given)
    assert got[0].text == "a <tool"
    assert got.error and got.error["message"] == "it broke off"


def test_an_observed_reply_takes_long_where_its_reader_does() -> None:
    one = ObservedReply(VerbatimReply(ChatWriter(options())), reply(), Crashes().append)
    assert one.takes_long(says(LARGE).raw) and not one.takes_long(says("a").raw)
    one.receive(says(LARGE).raw)
    assert not one.unread and not one.ends_long


def verbatim(**limits: int) -> VerbatimReply:
    return VerbatimReply(ChatWriter(options()), **limits)


def test_a_reply_that_leaves_as_it_came_holds_nothing() -> None:
    one = verbatim()
    given = b"".join(one.receive(STRONG.encode()[at : at + 3]) for at in range(0, len(STRONG), 3))
    assert given == b"" and not one.started and not one.held and not one.swallowed
    assert one.release() == one.flush_prose() == b""
    assert one.finish() == STRONG.encode() and one.finish() == b""


def test_an_event_is_given_when_it_is_whole() -> None:
    one = verbatim()
    assert one.receive(ROLE.raw + DONE[:-1]) == ROLE.raw
    assert one.started and not one.done
    assert one.receive(DONE[-1:]) == DONE and one.done


def test_what_it_says_in_another_dialect_is_what_the_server_said_unrepaired() -> None:
    """A dialect that the server does not speak: there the bytes mean nothing."""
    one = only_observed(reply(), ResponsesDialect(response_options()), Crashes().append)
    data = one.receive(wire([ROLE, says(f"a\n{STRONG}"), ends()])) + one.finish()
    assert text_of(check_stream(data)) == f"a\n{STRONG}"


def test_nothing_is_ever_cut_or_kept_back() -> None:
    one = observed()
    one.receive(wire(TEXT))
    assert (one.cut, one.withheld, one.would_fail) == (False, False, None)


def test_how_it_would_have_ended_is_known_beside_how_it_did() -> None:
    one = observed()
    one.receive(wire([ROLE, says("a")], done=False) + ERROR)
    one.finish()
    assert one.failure is None and one.would_fail is not None
