"""One reply from upstream bytes to client bytes: nothing lost, nothing doubled, whatever goes wrong (C4, C6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from proxy.config.rules import StripFields
from proxy.dialects.chat.writer import ChatOptions, ChatWriter
from proxy.engine.engine import Engine
from proxy.engine.events import Chunk
from proxy.errors import InternalError, LimitExceeded, UpstreamBroken, UpstreamRefused
from proxy.exchange.reply_stream import StreamReply
from tests.support.helpers import (
    RECORDINGS,
    all_cuts,
    call_json,
    calls,
    chunk,
    delta,
    ends,
    event_bytes,
    new_engine,
    piece,
    received,
    recording,
    says,
)

DONE = b"data: [DONE]\n\n"
LS = '{"command": "ls"}'
WEAK = call_json("bash", command="ls")
STRONG = f"<tool_call>\n{WEAK}\n</tool_call>"
ROLE = chunk(delta(role="assistant", content=""))
USAGE = chunk(usage={"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3})
TEXT = [ROLE, says("Just "), says("text."), ends()]
ERROR = event_bytes({"error": {"message": "no", "type": "server_error", "code": 500}})


class Crashes(list[Exception]):
    """What the reply told of."""


def options(**given: Any) -> ChatOptions:
    return ChatOptions(**{"model": "m", "usage": True, "clean": StripFields(), **given})


def reply(engine: Engine | None = None, crashes: Crashes | None = None, **limits: Any) -> StreamReply:
    told = Crashes() if crashes is None else crashes
    return StreamReply(engine or new_engine(), ChatWriter(options(parsed=True)), told.append, **limits)


def wire(chunks: list[Chunk], *, done: bool = True) -> bytes:
    return b"".join(each.raw for each in chunks) + (DONE if done else b"")


def sent(data: bytes | list[bytes], one: StreamReply | None = None) -> bytes:
    """All that the client gets of a body that ended properly."""
    one = one or reply()
    given = b"".join(one.receive(part) for part in (data if isinstance(data, list) else [data]))
    return given + one.finish()


@pytest.mark.parametrize("chunks", [TEXT, [*TEXT, USAGE], [ROLE, says("so"), says("<"), says(" b"), ends("length")]])
def test_a_clean_reply_leaves_byte_for_byte_at_every_cut(chunks: list[Chunk]) -> None:
    """C1."""
    data = wire(chunks)
    for cut in all_cuts(data):
        assert sent(cut) == data


@pytest.mark.parametrize("text", ["Just text.", STRONG, f"a\n{STRONG}\nb", WEAK, f"{WEAK} no", "a <tool_c"])
def test_a_reply_says_the_same_at_every_cut_of_its_bytes(text: str) -> None:
    """Style, point 5."""
    data = wire([ROLE, *(says(text[at : at + 7]) for at in range(0, len(text), 7)), ends(), USAGE])
    whole = received(sent(data))
    assert whole.done
    for cut in all_cuts(data):
        assert received(sent(cut)) == whole


@pytest.mark.parametrize("path", sorted(RECORDINGS.glob("*/*stream*200.txt")), ids=lambda path: path.stem)
def test_a_recorded_stream_is_a_reply_that_a_strict_client_can_read(path: Any) -> None:
    """C5."""
    data = path.read_bytes()
    one = reply()
    got = received(sent(data, one) + (one.fail(one.failure) if one.failure else b""))
    assert got.done is (b"[DONE]" in data)
    assert bool(got.error) is (b'"error"' in data)


def test_comments_pass_in_their_place() -> None:
    data = ROLE.raw + b": ping\n\n" + says("a").raw + ends().raw + DONE
    assert sent(data) == data


def test_an_event_that_says_nothing_passes() -> None:
    """U15: not ours to understand."""
    for odd in (b"data: null\n\n", b"data: [1]\n\n", b"event: x\ndata: 7\n\n", b"data:\n\n"):
        data = ROLE.raw + odd + says("a").raw + ends().raw + DONE
        assert sent(data) == data


@pytest.mark.parametrize("done", [b"data: [DONE]\r\n\r\n", b"data:[DONE]\n\n", b"data:  [DONE] \n\n", b"data: [DONE]"])
def test_the_end_marker_is_known_in_each_spelling(done: bytes) -> None:
    one = reply()
    assert sent(wire(TEXT, done=False) + done, one) == wire(TEXT)
    assert one.done


def test_what_follows_the_end_marker_is_dropped() -> None:
    """C5."""
    assert sent(wire(TEXT) + says("late").raw + ERROR) == wire(TEXT)


def test_a_role_alone_does_not_start_the_reply() -> None:
    """The status can still be an error's."""
    one = reply()
    one.receive(ROLE.raw + b": ping\n\n")
    assert not one.started
    one.receive(says("Hi ").raw)
    assert one.started


@pytest.mark.parametrize(
    "first", [says("Hi "), chunk(delta(reasoning="a")), calls(piece(0, LS[:-2], "bash", "a")), USAGE], ids=repr
)
def test_content_reasoning_and_calls_start_the_reply(first: Chunk) -> None:
    one = reply()
    one.receive(first.raw)
    assert one.started


def test_held_text_does_not_start_the_reply_and_its_release_does() -> None:
    one = reply()
    assert one.receive(says("<tool_call>").raw) == b""
    assert one.held
    assert not one.started
    assert one.release() == says("<tool_call>").raw
    assert one.started
    assert not one.held


def test_an_error_event_first_is_a_failure_before_the_start() -> None:
    """F65: it can become a real status."""
    one = reply()
    one.receive(ROLE.raw)
    assert one.receive(ERROR) == b""
    assert isinstance(one.failure, UpstreamRefused)
    assert (one.failure.message, one.failure.status) == ("no", 500)
    assert not one.started
    assert one.finish() == b""


def test_an_error_event_after_text_ends_the_stream_with_an_error() -> None:
    """F65: what was held goes first; no finish, no end marker."""
    one = reply()
    given = one.receive(says("a").raw + says(" <tool").raw + ERROR + says("late").raw)
    assert one.failure
    got = received(given + one.fail(one.failure))
    assert (got[0].text, got[0].finish, got.done) == ("a <tool", None, False)
    assert got.error == {"message": "no", "type": "server_error", "code": 500}


def test_an_error_event_that_lacks_its_blank_line_loses_no_text() -> None:
    """F65, F66: what was held goes first, also when the error is the last thing of the body."""
    one = reply()
    given = one.receive(says("a <tool").raw + ERROR.rstrip()) + one.finish()
    assert one.failure
    got = received(given + one.fail(one.failure))
    assert (got[0].text, got.done) == ("a <tool", False)
    assert got.error


def test_a_body_that_broke_off_ends_with_what_was_held_and_the_error() -> None:
    """C4."""
    one = reply()
    given = one.receive(says("a <tool").raw)
    got = received(given + one.fail(UpstreamBroken("it broke off")))
    assert (got[0].text, got.done) == ("a <tool", False)
    assert got.error
    assert got.error["message"] == "it broke off"


@pytest.mark.parametrize(
    ("data", "finish"),
    [
        (wire([ROLE, says("a")]), "stop"),
        (wire(TEXT, done=False), "stop"),
        (wire([says(STRONG)]), "tool_calls"),
        (wire([says("a"), ends("length")], done=False), "length"),
        (wire(TEXT, done=False)[:-2], "stop"),
    ],
)
def test_of_finish_and_end_marker_the_missing_one_is_supplied(data: bytes, finish: str) -> None:
    """C4, F57."""
    got = received(sent(data))
    assert (got[0].finish, got.done, got.error) == (finish, True, None)


def test_a_reply_with_neither_is_a_failure() -> None:
    """C4, F57: never a success."""
    one = reply()
    given = sent(wire([ROLE, says("a")], done=False), one)
    assert isinstance(one.failure, UpstreamBroken)
    assert b"[DONE]" not in given


def test_an_event_over_the_limit_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """C7."""
    monkeypatch.setattr("proxy.exchange.reply_stream.MAX_EVENT", 500)
    one = reply()
    one.receive(says("a").raw)
    assert one.receive(b"data: " + b"x" * 1000) == b""
    assert isinstance(one.failure, LimitExceeded)


def test_an_event_over_the_limit_at_the_end_is_a_failure_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """C7: the limit is a typed error wherever it is exceeded."""
    monkeypatch.setattr("proxy.exchange.reply_stream.MAX_EVENT", 500)
    one = reply()
    one.receive(says("a").raw + b"data: " + b"x" * 1000)
    one.finish()
    assert isinstance(one.failure, LimitExceeded)


def test_too_many_calls_are_a_failure() -> None:
    one = reply(new_engine(max_calls=1))
    one.receive(calls(piece(0, LS, "bash", "a")).raw + calls(piece(1, LS, "bash", "b")).raw)
    assert isinstance(one.failure, UpstreamBroken)


def test_a_reply_that_used_tokens_and_said_nothing_is_swallowed() -> None:
    one = reply()
    sent(recording("vllm-0.32.0-hermes/coder-chat-stream-200.txt"), one)
    assert one.swallowed
    other = reply()
    sent(wire([*TEXT, USAGE]), other)
    assert not other.swallowed


def test_a_heartbeat_changes_nothing() -> None:
    one = reply()
    data = one.receive(TEXT[0].raw) + one.heartbeat() + one.receive(wire(TEXT[1:])) + one.finish()
    assert received(data) == received(wire(TEXT))


class Raises:
    """An engine step that raises at its n-th call."""

    def __init__(self, engine: Engine, step: str, at: int) -> None:
        self._left = at
        self._step = getattr(engine, step)
        setattr(engine, step, self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise RuntimeError("a defect")
        return self._step(*args, **kwargs)


@pytest.fixture(autouse=True)
def _no_short_way(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every chunk is fed, so that each can be the one at which the engine raises."""
    monkeypatch.setattr(Engine, "fast_path", lambda self, raw: None)
    yield


CRASHED: dict[str, list[Chunk]] = {
    "text": [*TEXT, USAGE],
    "held and let go": [ROLE, says("a"), says("<tool"), says("box"), says("b"), ends(), USAGE],
    "held again while it is let go": [ROLE, says("a <tool"), says(" b <tool"), says(" c <"), says(" d"), ends()],
    "held to the end": [ROLE, says("a"), says(STRONG[:20]), says(STRONG[20:40]), ends(), USAGE],
    "a call": [
        ROLE,
        says("a"),
        calls(piece(0, name="bash", id="a")),
        calls(piece(0, "{")),
        calls(piece(0, '"command": "ls"}')),
        ends("tool_calls"),
        USAGE,
    ],
}
# Where something has left in another shape: prose before what is held, or a call.
CUT = {"held again while it is let go": 2, "a call": 4}
PLACES = [(name, at) for name, chunks in CRASHED.items() for at in range(len(chunks))]


@pytest.mark.parametrize(("name", "at"), PLACES)
def test_if_the_engine_raises_the_upstream_s_own_bytes_go_on(name: str, at: int) -> None:
    """C6: from the first event not yet sent; nothing lost, nothing doubled, if nothing was changed before."""
    chunks = CRASHED[name]
    engine, crashes = new_engine(), Crashes()
    Raises(engine, "feed", at)
    one = reply(engine, crashes)
    given = sent(wire(chunks), one)
    assert [str(error) for error in crashes] == ["a defect"]
    if one.failure is None:
        assert given == wire(chunks)
    else:
        assert name in CUT and at >= CUT[name]
        assert isinstance(one.failure, InternalError)


@pytest.mark.parametrize("name", [name for name in CRASHED if name not in CUT])
def test_if_the_engine_raises_at_the_end_the_upstream_s_own_end_goes_on(name: str) -> None:
    """C6: the finish that waited, and the usage behind it."""
    engine, crashes = new_engine(), Crashes()
    Raises(engine, "finish", 0)
    assert sent(wire(CRASHED[name]), reply(engine, crashes)) == wire(CRASHED[name])
    assert len(crashes) == 1


def test_if_the_engine_raises_while_it_lets_go_nothing_is_lost() -> None:
    """C6."""
    engine = new_engine()
    one = reply(engine)
    given = one.receive(says("a").raw + says("<tool").raw)
    Raises(engine, "release", 0)
    given += one.release()
    assert not one.held
    given += one.receive(says("b").raw + ends().raw + DONE) + one.finish()
    assert given == wire([says("a"), says("<tool"), says("b"), ends()])


def test_if_the_engine_raises_after_a_change_the_reply_fails() -> None:
    """C6: the upstream's own bytes would no longer fit to what the client has."""
    engine, crashes = new_engine(), Crashes()
    Raises(engine, "feed", 2)
    one = reply(engine, crashes)
    given = one.receive(ROLE.raw + says(STRONG).raw + says("b").raw)
    assert isinstance(one.failure, InternalError)
    assert len(crashes) == 1
    got = received(given + one.fail(one.failure))
    assert got[0].calls == [("bash", LS)]
    assert got.error
    assert got.error["type"] == "server_error"
    assert not got.done


def test_a_reply_that_crashed_ends_as_the_upstream_s_own() -> None:
    """C4, C6: with the end marker once, and none that the upstream did not send."""
    for done in (True, False):
        engine = new_engine()
        Raises(engine, "feed", 1)
        assert sent(wire(TEXT, done=done), reply(engine)) == wire(TEXT, done=done)
