"""The fast lane on the wire: for every framing of the upstream's body, the client gets the same with and without it."""

from __future__ import annotations

import gzip
import json
import select
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pytest

from proxy.exchange import attempt
from proxy.exchange.reply_stream import LONG
from proxy.web.answer import HAND_OVER
from tests.conftest import Front, Inside
from tests.support.scripted import (
    DONE,
    LAST,
    PATIENCE,
    ROLE,
    SSE,
    WRITE_FILE,
    Act,
    Action,
    Client,
    Gate,
    Upstream,
    chat,
    chunked,
    finish,
    head,
    text,
)

pytestmark = pytest.mark.once

CHAT = "/v1/chat/completions"
BEGIN = [ROLE, text("So"), text(" it")]
WORDS = [text(word) for word in (" is,", " Tom", " said", " and", " went", " on")]
EVENTS = [*BEGIN, *WORDS, finish(), DONE]
PLAIN = {"Content-Type": "text/event-stream"}


@dataclass
class Driven:
    """A driven stream: the client's bytes, the bytes that used the lane, and what the stream needed after each step."""

    data: bytes = b""
    passed: list[bytes] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)


def drive(client: Any, upstream: Upstream, script: Sequence[Action], *, lanes: bool = True) -> Driven:
    """Play a script, each action after the previous one was read, and drive the stream until its end."""
    beginning, *rest = script
    gates = [upstream.gate() for _ in rest]
    upstream.play([beginning, *(each for pair in zip(gates, rest, strict=True) for each in pair)])
    closed = iter(gates)
    waits: list[Any] = []
    driven = Driven()
    given = {HAND_OVER: waits.append}
    with client.post(CHAT, json=chat(tools=[WRITE_FILE]), buffered=False, environ_overrides=given) as response:
        assert response.status_code == 200, response.data
        [wait] = waits
        wait.drive()
        for part in response.iter_encoded():
            driven.data += part
            driven.needs.append("bytes" if wait.parked else "a long step" if wait.computes else "a turn")
            if wait.parked:
                pass_what_may(driven, wait, closed, lanes=lanes)
    return driven


def pass_what_may(driven: Driven, wait: Any, closed: Iterator[Gate], *, lanes: bool) -> None:
    while True:
        poll = select.poll()
        poll.register(wait.descriptor, select.POLLIN)
        if not poll.poll(0):
            for gate in islice(closed, 1):
                gate.open()
        assert poll.poll(int(PATIENCE * 1000))
        data = wait.pass_by() if lanes else None
        if data is None:
            wait.readable()
            return
        driven.data += data
        driven.passed.append(data)


def begun(*events: bytes, first: bytes = SSE) -> bytes:
    return first + b"".join(map(chunked, events))


def end() -> bytes:
    return chunked(finish()) + chunked(DONE) + LAST


def sized(data: bytes, size: str) -> bytes:
    return b"%b\r\n%b\r\n" % (size.encode(), data)


ALL = b"".join(WORDS)
HONEST: dict[str, list[Action]] = {
    "a chunk each": [begun(*BEGIN), b"".join(map(chunked, WORDS)), end()],
    "one chunk for all": [begun(*BEGIN), chunked(ALL), end()],
    "chunks that cut events": [begun(*BEGIN), chunked(ALL[:30]) + chunked(ALL[30:]), end()],
    "upper case and zeros": [begun(*BEGIN), sized(ALL, f"00{len(ALL):X}"), end()],
    "until the connection ends": [head(200, PLAIN) + b"".join(BEGIN), ALL, finish() + DONE],
}


@pytest.mark.parametrize("name", HONEST)
def test_a_batch_of_words_uses_the_lane_in_one_piece(inside: Inside, name: str) -> None:
    with Upstream() as upstream:
        driven = drive(inside(upstream.url), upstream, HONEST[name])
    assert driven.data == b"".join(EVENTS)
    assert b"".join(driven.passed) == ALL and len(driven.passed) <= 2


ZIPPED = gzip.compress(b"".join(EVENTS))
OTHERS: dict[str, list[Action]] = {
    "extensions": [begun(*BEGIN), sized(ALL, f'{len(ALL):x};name="value"'), end()],
    "trailers": [begun(*BEGIN), chunked(ALL), chunked(finish()) + chunked(DONE) + b"0\r\nX-Sum: 1\r\n\r\n"],
    "a length": [
        head(200, {**PLAIN, "Content-Length": str(len(b"".join(EVENTS)))}) + b"".join(BEGIN),
        ALL,
        finish() + DONE,
    ],
    "gzip": [head(200, {**PLAIN, "Content-Encoding": "gzip"}) + ZIPPED[:60], ZIPPED[60:]],
    "half a chunk": [begun(*BEGIN), chunked(ALL)[:50], chunked(ALL)[50:] + end()],
    "half an event": [begun(*BEGIN), chunked(ALL[:50]), chunked(ALL[50:]) + end()],
    "half an event in the first part": [begun(*BEGIN, ALL[:50]), chunked(ALL[50:]), end()],
    "a comment between events": [begun(*BEGIN), chunked(WORDS[0] + b": ping\n\n" + b"".join(WORDS[1:])), end()],
}
LIES: dict[str, list[Action]] = {
    "a size too small": [begun(*BEGIN), sized(ALL, f"{len(ALL) - 5:x}"), end()],
    "a size too large": [begun(*BEGIN), sized(ALL, f"{len(ALL) + 5:x}"), end()],
    "a size that includes the next chunk": [begun(*BEGIN), sized(ALL, f"{len(ALL) + 200:x}"), end()],
    "a size with a sign": [begun(*BEGIN), sized(ALL, f"+{len(ALL):x}"), end()],
    "a size with a prefix": [begun(*BEGIN), sized(ALL, f"0x{len(ALL):x}"), end()],
    "a size with an underscore": [begun(*BEGIN), sized(ALL, "1_0"), end()],
    "no size": [begun(*BEGIN), sized(ALL, ""), end()],
    "no line end after a chunk": [begun(*BEGIN), chunked(ALL)[:-2], end()],
    "only a line feed": [begun(*BEGIN), b"%x\n%b\n" % (len(ALL), ALL), end()],
    "no end": [begun(*BEGIN), chunked(ALL)],
    "half a chunk, no end": [begun(*BEGIN), chunked(ALL)[:60]],
    "the end in the middle": [begun(*BEGIN), chunked(WORDS[0]) + LAST + chunked(WORDS[1])],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*HONEST, *OTHERS, *LIES])
def test_a_stream_is_the_same_with_and_without_the_lane(inside: Inside, name: str) -> None:
    script = {**HONEST, **OTHERS, **LIES}[name]
    with Upstream() as upstream:
        client = inside(upstream.url)
        without = drive(client, upstream, script, lanes=False)
        with_lane = drive(client, upstream, script)
    assert not without.passed
    assert with_lane.data == without.data
    if name in OTHERS:
        assert with_lane.data.replace(b": ping\n\n", b"") == b"".join(EVENTS)
    if name in LIES:
        assert DONE not in with_lane.data


PRINTED = text('<tool_call>\n{"name": "write_file", "arguments": {"path": "a", "content": "')
CONTENT = [text(each) for each in ("import", " json", "\\n", 'print(\\"', "</tool_call>", "é", '\\")', " #", " end")]
CALLED = {"a call": text('"}}\n</tool_call>'), "no call": text('" so on')}


@pytest.mark.parametrize("end_of_it", CALLED)
@pytest.mark.parametrize("together", [False, True])
def test_a_call_in_the_text_is_held_in_the_lane(inside: Inside, end_of_it: str, together: bool) -> None:
    inner = [b"".join(map(chunked, CONTENT))] if together else [*map(chunked, CONTENT)]
    said = [PRINTED, text("from"), text(" here")]
    script: list[Action] = [begun(*BEGIN), *map(chunked, said), *inner, chunked(CALLED[end_of_it]), end()]
    with Upstream() as upstream:
        driven = drive(inside(upstream.url), upstream, script)
    # Text that may be the call's end tag is checked.
    assert driven.passed.count(b"") >= len(inner) - 1
    if end_of_it == "a call":
        assert b'"tool_calls"' in driven.data and DONE in driven.data
    else:
        assert driven.data == b"".join([*BEGIN, *said, *CONTENT, CALLED[end_of_it], finish(), DONE])


def test_a_reset_in_the_lane_is_an_error(inside: Inside) -> None:
    with Upstream() as upstream:
        client = inside(upstream.url)
        driven = drive(client, upstream, [begun(*BEGIN), chunked(ALL), Act.RST])
    assert b'"error"' in driven.data and DONE not in driven.data


def test_only_a_long_step_reads_several_events(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data that a long step has read may contain the end of a call anywhere."""
    monkeypatch.setattr(attempt, "SLICE", 0.0)
    said = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a", "content": "' + "x" * LONG
    held = [text(said[at : at + 50]) for at in range(0, len(said), 50)]
    rest = [text("x")] * 20 + [text('"}}\n</tool_call>')] + [text(" ")] * 20
    with Upstream() as upstream:
        script = [begun(*BEGIN), b"".join(map(chunked, held)), b"".join(map(chunked, rest)), end()]
        driven = drive(inside(upstream.url), upstream, script)
    assert b'"tool_calls"' in driven.data and DONE in driven.data
    assert driven.needs.count("a turn") > len(held) // 2
    long = driven.needs.index("a long step")
    assert driven.needs[long:][:3] == ["a long step", "a turn", "bytes"]


def test_paced_words_are_unchanged_over_tls(either_front: Front) -> None:
    """A real worker's pump drives the stream, and the generator reads data buffered in the TLS layer."""
    upstream = either_front.upstream
    words = [text(f" {number}") for number in range(60)]
    paced: list[Action] = [each for word in words for each in (0.005, chunked(word))]
    together = b"".join(map(chunked, words))
    upstream.play([begun(*BEGIN), *paced, together, end()])
    with Client.post(either_front.proxy.port, chat(tools=[WRITE_FILE])) as client, client.answer() as response:
        assert response.read() == b"".join([*BEGIN, *words, *words, finish(), DONE])


def test_paced_words_are_unchanged_for_an_http_1_0_client(front: Front) -> None:
    words = [text(f" {number}") for number in range(30)]
    front.upstream.play([begun(*BEGIN), *(each for word in words for each in (0.005, chunked(word))), end()])
    body = json.dumps(chat(tools=[WRITE_FILE])).encode()
    asked = b"POST /v1/chat/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    with closing(socket.create_connection(("127.0.0.1", front.proxy.port), PATIENCE)) as client:
        client.sendall(asked % len(body) + body)
        said = b"".join(iter(lambda: client.recv(65536), b""))
    assert said.partition(b"\r\n\r\n")[2] == b"".join([*BEGIN, *words, finish(), DONE])
