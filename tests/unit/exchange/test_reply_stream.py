"""One reply, from upstream bytes to client bytes: whatever fails, nothing is lost or sent twice (C4, C6)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.config.rules import StripFields
from proxy.dialects.chat.answer import ChatOptions, read_whole
from proxy.dialects.chat.writer import ChatWriter
from proxy.engine.engine import Engine
from proxy.engine.events import Chunk
from proxy.errors import LimitExceeded, UpstreamBroken
from proxy.exchange.reply_stream import MAX_KEPT, StreamReply, UnsentEvents
from tests.support.answers import answer_as_answer, answer_as_stream
from tests.support.helpers import (
    call_json,
    calls,
    chunk,
    delta,
    ends,
    event_bytes,
    new_engine,
    piece,
    received,
    says,
)

DONE = b"data: [DONE]\n\n"
LS = '{"command": "ls"}'
WEAK = call_json("bash", command="ls")
STRONG = f"<tool_call>\n{WEAK}\n</tool_call>"
ROLE = chunk(delta(role="assistant", content=""))
TEXT = [ROLE, says("Just "), says("text."), ends()]
ERROR = event_bytes({"error": {"message": "no", "type": "server_error", "code": 500}})


class Crashes(list[Exception]):
    """Exceptions that the reply reported."""


def options(**given: Any) -> ChatOptions:
    return ChatOptions(**{"model": "m", "usage": True, "clean": StripFields(), **given})


def reply(engine: Engine | None = None, crashes: Crashes | None = None, **limits: Any) -> StreamReply:
    reported = Crashes() if crashes is None else crashes
    return StreamReply(engine or new_engine(), ChatWriter(options(parsed=True)), reported.append, **limits)


def wire(chunks: list[Chunk], *, done: bool = True) -> bytes:
    return b"".join(each.raw for each in chunks) + (DONE if done else b"")


def sent(data: bytes | list[bytes], one: StreamReply | None = None) -> bytes:
    """Return the client's bytes of a complete body."""
    one = one or reply()
    given = b"".join(one.receive(part) for part in (data if isinstance(data, list) else [data]))
    return given + one.finish()


@pytest.mark.parametrize("done", [b"data: [DONE]\r\n\r\n", b"data:[DONE]\n\n", b"data:  [DONE] \n\n", b"data: [DONE]"])
def test_every_spelling_of_the_end_marker_is_recognized(done: bytes) -> None:
    one = reply()
    assert sent(wire(TEXT, done=False) + done, one) == wire(TEXT)
    assert one.done


def test_held_text_does_not_start_the_reply_but_its_release_does() -> None:
    one = reply()
    assert one.receive(says("<tool_call>").raw) == b""
    assert one.held
    assert not one.started
    assert one.release() == says("<tool_call>").raw
    assert one.started
    assert not one.held


def test_an_error_event_without_a_blank_line_loses_no_text() -> None:
    """F65, F66: held text is sent first, even if the error ends the body."""
    one = reply()
    given = one.receive(says("a <tool").raw + ERROR.rstrip()) + one.finish()
    assert one.failure
    got = received(given + one.fail(one.failure))
    assert (got[0].text, got.done) == ("a <tool", False)
    assert got.error


def test_an_event_over_the_limit_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """C7."""
    monkeypatch.setattr("proxy.exchange.reply_stream.MAX_EVENT", 500)
    one = reply()
    one.receive(says("a").raw)
    assert one.receive(b"data: " + b"x" * 1000) == b""
    assert isinstance(one.failure, LimitExceeded)


def test_a_final_event_over_the_limit_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """C7: the error has the same type wherever the limit is exceeded."""
    monkeypatch.setattr("proxy.exchange.reply_stream.MAX_EVENT", 500)
    one = reply()
    one.receive(says("a").raw + b"data: " + b"x" * 1000)
    one.finish()
    assert isinstance(one.failure, LimitExceeded)


def test_unsent_events_over_the_limit_are_discarded() -> None:
    """C7."""
    unsent, half = UnsentEvents(changed=False), b"x" * (MAX_KEPT // 2)
    unsent.keep(half)
    unsent.keep(half)
    assert not unsent.changed
    unsent.leave(1)
    unsent.keep(half)
    assert not unsent.changed and unsent.keep(b"x") == 4
    assert unsent.changed and not unsent.kept


def test_too_many_calls_are_a_failure() -> None:
    one = reply(new_engine(max_calls=1))
    one.receive(calls(piece(0, LS, "bash", "a")).raw + calls(piece(1, LS, "bash", "b")).raw)
    assert isinstance(one.failure, UpstreamBroken)


def test_too_many_calls_in_a_whole_answer_are_a_failure() -> None:
    """C4."""
    made = [{"id": id_, "type": "function", "function": {"name": "bash", "arguments": LS}} for id_ in "ab"]
    entry = {"index": 0, "message": {"role": "assistant", "tool_calls": made}, "finish_reason": "tool_calls"}
    body = json.dumps({"id": "w", "choices": [entry]}).encode()
    with pytest.raises(UpstreamBroken, match="more than 1"):
        answer_as_answer(body, read_whole(body), new_engine(max_calls=1), ChatWriter(options()))
    with pytest.raises(UpstreamBroken, match="more than 1"):
        answer_as_stream(read_whole(body), new_engine(max_calls=1), ChatWriter(options()))


class Raises:
    """An engine method that raises at its n-th call."""

    def __init__(self, engine: Engine, step: str, at: int) -> None:
        self._left = at
        self._step = getattr(engine, step)
        setattr(engine, step, self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise RuntimeError("a defect")
        return self._step(*args, **kwargs)


def test_a_failing_release_loses_no_text() -> None:
    """C6."""
    engine = new_engine()
    one = reply(engine)
    given = one.receive(says("a").raw + says("<tool").raw)
    Raises(engine, "release", 0)
    given += one.release()
    assert not one.held
    given += one.receive(says("b").raw + ends().raw + DONE) + one.finish()
    assert given == wire([says("a"), says("<tool"), says("b"), ends()])
