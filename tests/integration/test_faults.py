"""The fault matrix: faults of the model server (U1 to U17), the client (K1 to K7) and the proxy's host (P1 to P5), each
in every dialect, streamed and whole, with a real gunicorn.

In every case the client gets its dialect's error with the right status, or a valid error event: never a false success
or a truncated call that looks complete. The model server's connection is closed soon, the slot is free, and the log has
one line for the request and no traceback. `Bench.ask` asserts all of this. P6 is `make soak`.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import http.client
import itertools
import json
import os
import signal
import socket
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Any

import psutil
import pytest

from tests.conftest import Start, until
from tests.faults import scripts
from tests.faults.around import descriptors, master_of, serves, started, under_way
from tests.faults.bench import MODELS, SHOWN, Answer, Bench, Benches, Faulty, Watch, every, gone, many, read, request
from tests.faults.scripts import (
    CHUNKED,
    COMPLETION,
    HERMES,
    HTML,
    INPUT,
    JSON,
    LONG,
    REPLY,
    SAID,
    TE,
    WHOLE,
    WORDS,
    A,
    B,
    deltas,
    failing,
    tool_call,
    unchunked,
    with_headers,
)
from tests.real.processes import free_port
from tests.support.dialects import DIALECTS, Dialect, Told
from tests.support.scripted import (
    DONE,
    HELD,
    LAST,
    PATIENCE,
    ROLE,
    SSE,
    Act,
    Action,
    Client,
    Script,
    Upstream,
    answer,
    chunked,
    completion,
    event,
    finish,
    head,
    stream,
    text,
    text_reply,
    whole_reply,
)

# Whole answers, and the dialect translated like another one, run only in `make faults`.
heavy = pytest.mark.heavy
EACH = pytest.mark.parametrize(
    "dialect",
    [pytest.param(each, marks=heavy if name == "responses" else (), id=name) for name, each in DIALECTS.items()],
)
MODES = pytest.mark.parametrize("streamed", [True, pytest.param(False, marks=heavy)], ids=["streamed", "whole"])
# Tests of the components cover what differs between Python versions.
pytestmark = pytest.mark.once

NOBODY = free_port()
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Benches]:
    """Return benches by the flags of their proxies: `benches("--heartbeat", "0.2")`."""
    with ExitStack() as stack:
        yield Benches(tmp_path_factory.mktemp("faults"), stack)


@pytest.fixture
def usual(benches: Benches) -> Bench:
    return benches()


@pytest.fixture
def hasty(benches: Benches) -> Bench:
    """Return a proxy with short timeouts."""
    return benches("--heartbeat", "0.3", "--idle-timeout", "1.2")


def table(rows: Mapping[str, Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("fault", rows.values(), ids=rows.keys())


@pytest.fixture(scope="module")
def full_backlog() -> Iterator[int]:
    """Yield the port of a server whose backlog is full, so that the next connection hangs."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, ExitStack() as stack:
        for _ in range(2):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def never_whole(calls: list[tuple[str, str]]) -> bool:
    """Return whether no client could run any of these calls."""
    for _, given in calls:
        with contextlib.suppress(ValueError):
            json.loads(given)
            return False
    return True


# The model server.


@EACH
@MODES
@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"], ids=["refused", "no such name"])
def test_u1_unreachable(
    benches: Benches, monkeypatch: pytest.MonkeyPatch, dialect: Dialect, streamed: bool, host: str
) -> None:
    monkeypatch.setenv("RES_OPTIONS", "timeout:1 attempts:1")  # an unreachable name server does not answer
    bench = benches(url=f"http://{host}:{NOBODY}")
    began = time.monotonic()
    given = bench.sent(dialect, dialect.ask(streamed=streamed, tools=True), streamed=streamed)
    given.fails(502)
    assert int(given.headers["retry-after"]) > 0
    assert time.monotonic() - began < PATIENCE or host != "127.0.0.1"
    bench.settled(given)


@pytest.mark.slow
@EACH
@MODES
def test_u2_the_connection_hangs(benches: Benches, full_backlog: int, dialect: Dialect, streamed: bool) -> None:
    bench = benches("CONNECT_SECONDS=0.3", url=f"http://127.0.0.1:{full_backlog}")
    began = time.monotonic()
    given = bench.sent(dialect, dialect.ask(streamed=streamed, tools=True), streamed=streamed)
    assert "connect_timeout" in given.fails(504).words and int(given.headers["retry-after"]) > 0
    assert 0.3 <= time.monotonic() - began < PATIENCE
    bench.settled(given)


@pytest.mark.slow
@EACH
@MODES
@table(
    {
        "nothing": [Act.EXPECT_CLOSE],
        "half a head": [b"HTTP/1.1 200 OK\r\nContent-Ty", Act.EXPECT_CLOSE],
        "a head without end": [b"HTTP/1.1 200 OK\r\n", *[b"X-A: b\r\n", 0.05] * 50, Act.EXPECT_CLOSE],
    }
)
def test_u3_the_server_never_answers(hasty: Bench, dialect: Dialect, streamed: bool, fault: Faulty) -> None:
    given = hasty.ask(dialect, fault, streamed=streamed)
    assert "idle_timeout" in given.fails(504, event=streamed).words
    assert given.data.count(dialect.beat) >= (2 if streamed else 0)


@pytest.mark.slow
@EACH
@table({"nothing": stream(Act.EXPECT_CLOSE, ended=False), "a role": stream(ROLE, Act.EXPECT_CLOSE, ended=False)})
def test_u3_the_server_sends_a_head_and_no_body(hasty: Bench, dialect: Dialect, fault: Faulty) -> None:
    given = hasty.ask(dialect, fault, streamed=True)
    assert "idle_timeout" in given.fails(504, event=True).words and given.data.count(dialect.beat) >= 2


@EACH
def test_u3_a_long_stream_is_not_a_fault(hasty: Bench, dialect: Dialect) -> None:
    """Every byte restarts the idle timeout."""
    words = [action for _ in range(6) for action in (0.3, chunked(text("word ")))]
    script = [*SAID, *words, chunked(finish()), chunked(DONE), LAST]
    assert hasty.ask(dialect, script, streamed=True).succeeds().text == "So. " + "word " * 6


@EACH
@MODES
@table(
    {
        "FIN": [],
        "RST": [Act.RST],
        "a truncated status line": [b"HTTP/1.1 20"],
        "a truncated head": [b"HTTP/1.1 200 OK\r\nContent-Type: text/eve"],
        "RST in the head": [b"HTTP/1.1 200 OK\r\nContent-Type: text/eve", 0.02, Act.RST],
        "another protocol": [b"SSH-2.0-OpenSSH_9\r\n\r\n", Act.EXPECT_CLOSE],
        "noise": [b"\x00\xff\n\n" * 100],
        "a head over the limit": [head(200, {"X-A": "a" * 100_000}), Act.EXPECT_CLOSE],
    }
)
def test_u4_the_server_closes_before_it_answers(usual: Bench, dialect: Dialect, streamed: bool, fault: Faulty) -> None:
    """The server is asked once: a generation that has reached it is never requested again."""
    usual.ask(dialect, fault, streamed=streamed).fails(502)


@EACH
@MODES
@table(scripts.REFUSALS)
def test_u5_the_server_refuses(usual: Bench, dialect: Dialect, streamed: bool, fault: tuple[object, int]) -> None:
    body, status = fault
    given = usual.ask(dialect, [answer(body, status)], streamed=streamed)
    told = given.fails(status)
    assert told.words and "secret" not in told.words and given.headers["x-should-retry"] == "false"


@EACH
@MODES
@pytest.mark.parametrize("status", [429, 503])
def test_u6_the_server_is_overloaded(usual: Bench, dialect: Dialect, streamed: bool, status: int) -> None:
    headers = {"Retry-After": "7", "X-Should-Retry": "true"}
    script = [answer({"error": {"message": "busy", "type": "x", "code": status}}, status, headers)]
    given = usual.ask(dialect, script, streamed=streamed)
    assert "busy" in given.fails(status).words
    assert (given.headers["retry-after"], given.headers["x-should-retry"]) == ("7", "true")


@EACH
@MODES
@table(
    {
        "a page": ([answer(b"<html><h1>Bad Gateway</h1></html>", 502, HTML)], 502),
        "a page for a 404": ([answer(b"<!DOCTYPE html><h1>nginx</h1>", 404, HTML)], 404),
        "plain text": ([answer(b"Internal Server Error", 500, {"Content-Type": "text/plain"})], 500),
        "nothing": ([answer(b"", 500)], 500),
        "invalid JSON": ([answer(b'{"error": ', 500)], 500),
        "truncated": ([answer(b'{"error": ', 500, {"Content-Length": "500"})], 500),
        "10 MB": ([answer(LONG, 500), Act.EXPECT_CLOSE], 500),
        "10 MB of JSON": ([answer(b'{"error": {"message": "' + LONG + b'"}}', 500), Act.EXPECT_CLOSE], 500),
        "10 MB without an end": ([head(500, CHUNKED), chunked(LONG), Act.EXPECT_CLOSE], 500),
    }
)
def test_u7_the_error_is_unusable(usual: Bench, dialect: Dialect, streamed: bool, fault: tuple[Faulty, int]) -> None:
    script, status = fault
    given = usual.ask(dialect, script, streamed=streamed)
    given.fails(status)
    assert len(given.data) <= 65536 and b"<h1>" not in given.data


@EACH
@MODES
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_u8_the_server_redirects(usual: Bench, dialect: Dialect, streamed: bool, status: int) -> None:
    """The redirect is not followed: the model server is asked once."""
    script = [answer(b"", status, {"Location": f"{usual.upstream.url}/v1/chat/completions"})]
    given = usual.ask(dialect, script, streamed=streamed)
    assert "redirect" in given.fails(502).words and "location" not in given.headers


@EACH
@MODES
@table(scripts.NO_SUCCESS)
def test_u9_the_success_is_invalid(usual: Bench, dialect: Dialect, streamed: bool, fault: tuple[Script, int]) -> None:
    usual.ask(dialect, fault[0], streamed=streamed).fails(fault[1])


@EACH
@table(
    {
        "whole, streamed": (True, whole_reply(f"So. {HERMES}")),
        "whole, in chunks": (
            True,
            [head(200, {**CHUNKED, **JSON}), *map(chunked, (COMPLETION[:9], COMPLETION[9:])), LAST],
        ),
        "whole, until it closes": (True, [head(200, JSON) + COMPLETION]),
        "whole, without a type": (False, [head(200) + COMPLETION]),
    }
)
def test_u9_a_convertible_answer_is_converted(usual: Bench, dialect: Dialect, fault: tuple[bool, Script]) -> None:
    told = usual.ask(dialect, fault[1], streamed=fault[0]).succeeds()
    assert told.text.strip() == "So." and told.whole_calls == [("write_file", INPUT)] and told.finish == "calls"


@EACH
@table(
    {
        "a stream instead of JSON": (False, stream(*REPLY)),
        "a stream labeled as JSON": (False, [answer(b"".join(REPLY))]),
        "a stream labeled as text": (True, [answer(b"".join(REPLY), headers={"Content-Type": "text/plain"})]),
    }
)
def test_u9_any_other_answer_is_an_error(usual: Bench, dialect: Dialect, fault: tuple[bool, Script]) -> None:
    usual.ask(dialect, fault[1], streamed=fault[0]).fails(502)


def judge_broken(given: Answer, status: int = 502) -> Told:
    """Return the client's view of a stream that broke off."""
    told = given.fails(status, event=True)
    assert told.text.startswith("So. ") and told.odd == 0
    assert told.calls == [] or (len(told.calls) == 1 and never_whole(told.calls)), told.calls
    return told


@pytest.mark.slow
@EACH
@table(scripts.MOMENTS)
def test_u10_a_stream_stalls(hasty: Bench, dialect: Dialect, fault: tuple[Faulty, bool]) -> None:
    said, tools = fault
    given = hasty.ask(dialect, [*said, Act.EXPECT_CLOSE], streamed=True, tools=tools)
    assert "idle_timeout" in judge_broken(given, 504).words
    assert given.data.count(dialect.beat) >= 2


@pytest.mark.slow
@EACH
@table(
    {
        "after the head": [head(200, {**JSON, "Content-Length": "500"}), Act.EXPECT_CLOSE],
        "in the body": [head(200, {**JSON, "Content-Length": "500"}) + b'{"id"', Act.EXPECT_CLOSE],
        "byte by byte": [head(200, {**JSON, "Content-Length": "500"}), *[b" ", 0.05] * 50, Act.EXPECT_CLOSE],
    }
)
def test_u10_a_whole_answer_stalls(hasty: Bench, dialect: Dialect, fault: Faulty) -> None:
    assert "idle_timeout" in hasty.ask(dialect, fault, streamed=False).fails(504).words


DIED = chunked(failing(500))
# A stream that ends without success.
ENDINGS: Mapping[str, list[Action]] = {
    **scripts.BREAKS,
    "neither finish nor [DONE]": [LAST],
    "half an event": [chunked(text("you")[:40]), LAST],
    "an error, [DONE]": [DIED, chunked(DONE), LAST],
    "an error": [DIED, LAST],
    "an error, no end": [DIED, Act.EXPECT_CLOSE],
}


@EACH
@pytest.mark.parametrize("way", ENDINGS)
@table(scripts.MOMENTS)
def test_u11_a_stream_breaks_off(usual: Bench, dialect: Dialect, fault: tuple[Faulty, bool], way: str) -> None:
    """C4. Held text is released before the error."""
    said, tools = fault
    told = judge_broken(usual.ask(dialect, [*said, *ENDINGS[way]], streamed=True, tools=tools))
    assert DIED not in ENDINGS[way] or told.words == "engine died"
    assert said is not scripts.MOMENTS["in a call held as text"][0] or told.text == f"So. {HERMES[:60]}"


@EACH
@table({name: said for name, (said, tools) in scripts.MOMENTS.items() if tools})
def test_u11_the_body_is_shorter_than_its_length(usual: Bench, dialect: Dialect, fault: Faulty) -> None:
    events_ = [unchunked(each) if isinstance(each, bytes) else each for each in fault[1:]]
    script = [head(200, {"Content-Type": "text/event-stream", "Content-Length": "9999"}), *events_]
    judge_broken(usual.ask(dialect, script, streamed=True))


@EACH
@table(
    {
        "a short length": [answer(COMPLETION, headers={"Content-Length": "9999"})],
        "a short length, RST": [answer(COMPLETION, headers={"Content-Length": "9999"}), 0.02, Act.RST],
        **{name: [head(200, {**JSON, **CHUNKED}), chunked(COMPLETION), *way] for name, way in scripts.BREAKS.items()},
    }
)
def test_u11_a_whole_answer_breaks_off(usual: Bench, dialect: Dialect, fault: Faulty) -> None:
    usual.ask(dialect, fault, streamed=False).fails(502)


@EACH
@pytest.mark.parametrize("before", [b"", ROLE, b": hello\n\n"], ids=["first", "after a role", "after a comment"])
@table(
    {
        "400": (failing(400), 400),
        "500": (failing(500), 500),
        "503": (failing(503), 503),
        "no code": (event({"error": {"message": "engine died"}}), 502),
        "plain text": (event({"error": "engine died"}), 502),
        "named": (b"event: error\n" + failing(400), 400),
    }
)
def test_u12_error_is_the_first_event(usual: Bench, dialect: Dialect, before: bytes, fault: tuple[bytes, int]) -> None:
    body, status = fault
    script = [SSE, *([chunked(before)] if before else []), chunked(body), chunked(DONE), LAST]
    assert usual.ask(dialect, script, streamed=True).fails(status).words == "engine died"


@pytest.mark.slow
@EACH
@pytest.mark.parametrize("tools", [True, False], ids=["tools", "no tools"])
@table(
    {
        "no [DONE]": [chunked(finish()), LAST],
        "no finish": [chunked(DONE), LAST],
        "no end": [chunked(finish()), chunked(DONE), Act.EXPECT_CLOSE],
    }
)
def test_u13_finish_or_done_is_enough(usual: Bench, dialect: Dialect, tools: bool, fault: list[Action]) -> None:
    """C4. The proxy does not wait for a server that keeps the connection open after `[DONE]`."""
    told = usual.ask(dialect, [*SAID, *fault], streamed=True, tools=tools).succeeds()
    assert (told.text.strip(), told.finish, told.calls) == ("So.", "stop", [])


@EACH
@pytest.mark.parametrize("tools", [True, False], ids=["tools", "no tools"])
@table({name: way for name, way in scripts.BREAKS.items() if name != "RST"})
def test_u13_finish_without_end_is_not_enough(usual: Bench, dialect: Dialect, tools: bool, fault: list[Action]) -> None:
    """C4: the body must also end properly."""
    given = usual.ask(dialect, [*SAID, SHOWN, chunked(finish()), *fault], streamed=True, tools=tools)
    assert given.fails(502, event=True).text == "So. "


@EACH
def test_u13_a_whole_answer_without_a_finish(usual: Bench, dialect: Dialect) -> None:
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "tiny"}
    choice = {"index": 0, "message": {"role": "assistant", "content": "So."}}
    told = usual.ask(dialect, [answer({**body, "choices": [choice]})], streamed=False).succeeds()
    assert (told.text, told.finish) == ("So.", "stop")


@EACH
@pytest.mark.parametrize("tools", [True, False], ids=["tools", "no tools"])
@table(scripts.FORMS)
def test_u14_any_form_of_a_stream_is_parsed(usual: Bench, dialect: Dialect, tools: bool, fault: list[bytes]) -> None:
    told = usual.ask(dialect, stream(*fault), streamed=True, tools=tools).succeeds()
    assert (told.text, told.finish, told.odd) == (f"{WORDS}llo", "stop", 0)


@EACH
@pytest.mark.parametrize("tools", [True, False], ids=["tools", "no tools"])
@table({"ff": b"\xff", "truncated": b"\xc3", "truncated later": b"\xf0\x9f\x99", "a surrogate": b"\xed\xa0\x80"})
@MODES
def test_u14_invalid_utf8_is_replaced_or_an_error(
    usual: Bench, dialect: Dialect, tools: bool, fault: bytes, streamed: bool
) -> None:
    """The standard requires a decoder to insert U+FFFD."""
    body = b"".join([ROLE, text("a-z"), finish(), DONE]) if streamed else json.dumps(completion("a-z")).encode()
    body = body.replace(b"a-z", b"a" + fault + b"z")
    script = stream(body) if streamed else [answer(body)]
    given = usual.ask(dialect, script, streamed=streamed, tools=tools)
    if given.status != 200:
        given.fails(502)
    else:
        told = given.succeeds()
        assert told.text[:1] + told.text[-1:] == "az" and set(told.text[1:-1]) == {"\ufffd"}


@EACH
@table(
    {
        "byte by byte": [COMPLETION[at : at + 1] for at in range(len(COMPLETION))],
        "blanks": [b"\n \r\n", COMPLETION, b"\n\n"],
    }
)
def test_u14_any_form_of_a_whole_answer_is_parsed(usual: Bench, dialect: Dialect, fault: list[bytes]) -> None:
    script = [head(200, {**JSON, **CHUNKED}), *map(chunked, fault), LAST]
    told = usual.ask(dialect, script, streamed=False).succeeds()
    assert told.whole_calls == [("write_file", INPUT)]


@EACH
def test_u14_a_whole_answer_with_a_bom_is_parsed_or_an_error(usual: Bench, dialect: Dialect) -> None:
    given = usual.ask(dialect, [answer(b"\xef\xbb\xbf" + COMPLETION)], streamed=False)
    assert given.fails(502) if given.status != 200 else given.succeeds().finish == "calls"


@EACH
@pytest.mark.parametrize("tools", [True, False], ids=["tools", "no tools"])
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "without end"])
def test_u14_an_event_over_the_limit(benches: Benches, dialect: Dialect, tools: bool, whole: bool) -> None:
    tail = [chunked(finish() + DONE), LAST] if whole else [Act.EXPECT_CLOSE]
    long = text("x" * 100_000)
    script: Faulty = [*SAID, SHOWN, chunked(long if whole else long[:90_000]), *tail]
    given = benches("MAX_EVENT=65536").ask(dialect, script, streamed=True, tools=tools)
    assert "max_event" in judge_broken(given).words


@heavy
@EACH
@pytest.mark.parametrize("size,fits", [(15, True), (17, False)], ids=["15 MiB", "17 MiB"])
def test_u14_an_event_of_16_mib(usual: Bench, dialect: Dialect, size: int, fits: bool) -> None:
    script: Faulty = [*SAID, SHOWN, chunked(text("x" * size * 2**20)), chunked(finish()), chunked(DONE), LAST]
    given = usual.ask(dialect, script, streamed=True)
    if fits:
        assert len(given.succeeds().text) == size * 2**20 + 4
    else:
        assert "max_event" in judge_broken(given).words


@heavy
@EACH
@pytest.mark.parametrize("size,fits", [(60, True), (65, False)], ids=["60 MiB", "65 MiB"])
def test_u14_a_whole_answer_of_64_mib(usual: Bench, dialect: Dialect, size: int, fits: bool) -> None:
    script = whole_reply("x" * size * 2**20)
    given = usual.ask(dialect, script, streamed=False)
    if fits:
        assert len(given.succeeds().text) == size * 2**20
    else:
        given.fails(502)


@EACH
@pytest.mark.parametrize("tools", [True, False], ids=["tools", "no tools"])
@table(scripts.ODD)
def test_u15_an_unknown_event_is_ignored(usual: Bench, dialect: Dialect, tools: bool, fault: bytes) -> None:
    script = stream(ROLE, text("So. "), fault, text("you"), finish(), DONE)
    told = usual.ask(dialect, script, streamed=True, tools=tools).succeeds()
    assert (told.text, told.finish) == ("So. you", "stop")


@EACH
@table(scripts.CALLED)
def test_u15_odd_calls_are_repaired(usual: Bench, dialect: Dialect, fault: tuple[list[bytes], int]) -> None:
    said, count = fault
    told = usual.ask(dialect, stream(ROLE, *said, finish("tool_calls"), DONE), streamed=True).succeeds()
    assert told.finish == "calls"
    assert told.whole_calls == [("write_file", json.loads(given)) for given in (A, B)[:count]]


@EACH
@table(
    {
        "no id": [tool_call(name="write_file", arguments=A)],
        "the same id twice": [tool_call(id="a", name="write_file", arguments=each) for each in (A, B)],
        "an object": [tool_call(id="a", name="write_file", arguments=json.loads(A))],
        "no type": [{"id": "a", "function": {"name": "write_file", "arguments": A}}],
    }
)
def test_u15_odd_whole_calls_are_repaired(usual: Bench, dialect: Dialect, fault: list[dict[str, Any]]) -> None:
    said = {"role": "assistant", "content": None, "tool_calls": fault}
    told = usual.ask(dialect, whole_reply(said, "tool_calls"), streamed=False).succeeds()
    assert told.whole_calls == [("write_file", json.loads(given)) for given in (A, B)[: len(fault)]]


def _cut(data: bytes) -> list[bytes]:
    return [data[at : at + 7] for at in range(0, len(data), 7)]


@pytest.mark.slow
@EACH
@MODES
@table(
    {
        "gzip": ("gzip", gzip.compress, 200),
        "deflate": ("deflate", zlib.compress, 200),
        "deflate without a header": ("deflate", lambda data: zlib.compress(data)[2:-4], 200),
        "a member for each few bytes": ("gzip", lambda data: b"".join(gzip.compress(part) for part in _cut(data)), 200),
        "trailing zeros": ("gzip", lambda data: gzip.compress(data) + bytes(99), 200),
        "br": ("br", gzip.compress, 502),
        "truncated gzip": ("gzip", lambda data: gzip.compress(data)[:-9], 502),
        "invalid gzip": ("gzip", bytes, 502),
        "a bomb": ("gzip", lambda data: gzip.compress(data + b" " * 100_000_000), 502),
    }
)
def test_u16_unrequested_compression(
    usual: Bench, dialect: Dialect, streamed: bool, fault: tuple[str, Callable[[bytes], bytes], int]
) -> None:
    """The client gets no bytes that it cannot decode."""
    encoding, pack, status = fault
    body = pack(b"".join(REPLY) if streamed else COMPLETION)
    kind = {"Content-Type": "text/event-stream"} if streamed else {}
    given = usual.ask(dialect, [answer(body, headers={**kind, "Content-Encoding": encoding})], streamed=streamed)
    if status == 200:
        assert "So." in given.succeeds().text
    elif given.status == 200:
        given.fails(502, event=True)
    else:
        given.fails(502)
    assert "content-encoding" not in given.headers
    assert usual.upstream.seen[0].headers["Accept-Encoding"] == "identity"


@EACH
@MODES
def test_u16_headers_for_the_proxy_are_not_forwarded(usual: Bench, dialect: Dialect, streamed: bool) -> None:
    first = (
        with_headers(stream(*REPLY), scripts.HOP | scripts.OURS)
        if streamed
        else [answer(completion("So."), headers=scripts.HOP | scripts.OURS)]
    )
    given = usual.ask(dialect, first, streamed=streamed)
    given.succeeds()
    assert "secret" not in str(given.headers) and "x-foo" not in given.headers


@EACH
@MODES
@table(
    {"identical": ({"Content-Type": 2, "Content-Length": 2}, True), "two lengths": ({"Content-Length": 1}, False)}
)
def test_u16_repeated_headers(
    usual: Bench, dialect: Dialect, streamed: bool, fault: tuple[dict[str, int], bool]
) -> None:
    again, fits = fault
    body = b"".join(REPLY) if streamed else COMPLETION
    lines = [f"Content-Type: {'text/event-stream' if streamed else 'application/json'}"] * again.get("Content-Type", 1)
    lines += [f"Content-Length: {len(body)}"] * again["Content-Length"] + ([] if fits else ["Content-Length: 5"])
    script = [("HTTP/1.1 200 OK\r\n" + "\r\n".join(lines) + "\r\n\r\n").encode() + body]
    given = usual.ask(dialect, script, streamed=streamed)
    assert given.succeeds() if fits else given.fails(502)


@EACH
@MODES
def test_u16_a_length_next_to_chunks_is_ignored(usual: Bench, dialect: Dialect, streamed: bool) -> None:
    body = b"".join(REPLY) if streamed else COMPLETION
    kind = {"Content-Type": "text/event-stream"} if streamed else JSON
    script = [head(200, {**kind, **CHUNKED, "Content-Length": "7"}), chunked(body), LAST]
    usual.ask(dialect, script, streamed=streamed).succeeds()


SECRET = "Key-0123456789-abcdefghijklmnop"


@EACH
@MODES
@table(
    {
        "an error": [answer({"error": {"message": f"no {SECRET}", "type": SECRET, "code": 401}}, 401)],
        "truncated text": [answer(b"x" * 285 + SECRET.encode(), 401, {"Content-Type": "text/plain"})],
        "in two reads": [
            head(401, {**JSON, "Content-Length": str(len(SECRET) + 28)}),
            *(b'{"error": {"message": "' + SECRET[:15].encode(), 0.05, SECRET[15:].encode() + b'!"}} '),
        ],
        "compressed": [answer(gzip.compress(f'{{"error": "{SECRET}"}}'.encode()), 401, {"Content-Encoding": "gzip"})],
        "a header": [answer({"error": "no"}, 401, {"X-Request-Id": SECRET})],
    }
)
def test_u17_the_server_quotes_the_key(usual: Bench, dialect: Dialect, streamed: bool, fault: Script) -> None:
    usual.play(fault)
    asked = request(dialect, dialect.ask(streamed=streamed, tools=True), headers=f"Authorization: Bearer {SECRET}\r\n")
    with Client(usual.proxy.port, asked) as client, client.answer() as response:
        given = read(dialect, response, streamed=streamed)
    given.fails(401)
    assert usual.upstream.seen[0].headers["Authorization"] == f"Bearer {SECRET}"
    usual.settled()
    for said in (given.data.decode(), str(given.headers), usual.proxy.log.read_text()):
        assert SECRET[:8] not in said and SECRET[-8:] not in said


# The client.


def leaving(reset: bool | None) -> Callable[[Client], float]:
    """Return a way to leave: with an RST, a FIN, or a half-closed connection (None)."""

    def leave(client: Client) -> float:
        if reset is None:
            client.half_close()
            return time.monotonic()
        return client.vanish(reset=reset)

    return leave


LEAVES = pytest.mark.parametrize(
    "leave", [leaving(False), leaving(True), leaving(None)], ids=["close", "RST", "half-close"]
)


@EACH
@LEAVES
@table(scripts.WAITS)
def test_k1_client_leaves(
    usual: Bench, dialect: Dialect, fault: tuple[list[Action], bool], leave: Callable[[Client], float]
) -> None:
    said, streamed = fault
    gate = usual.upstream.gate()
    usual.play([*said, gate])
    with Client(usual.proxy.port, request(dialect, dialect.ask(streamed=streamed, tools=True))) as client:
        gate.wait()
        if len(said) > 1:
            with client.answer() as response:
                while b"So." not in response.readline():
                    pass
                left = leave(client)
        else:
            left = leave(client)
        assert gone(usual.upstream.seen[0], left)
        usual.settled()
    assert len(usual.upstream.seen) == 1


@EACH
@LEAVES
def test_k1_client_leaves_after_heartbeat(benches: Benches, dialect: Dialect, leave: Callable[[Client], float]) -> None:
    bench = benches("--heartbeat", "0.1")
    bench.play([Act.EXPECT_CLOSE])
    with Client(bench.proxy.port, request(dialect, dialect.ask(streamed=True, tools=True))) as client:
        with client.answer() as response:
            assert response.read1(len(dialect.first_beat)) == dialect.first_beat
            # On a busy machine, a heartbeat is sent before the model server has received the request.
            until = time.monotonic() + PATIENCE
            while not bench.upstream.seen and time.monotonic() < until:
                time.sleep(0.01)
            left = leave(client)
        assert gone(bench.upstream.seen[0], left)
        bench.settled()


@EACH
@LEAVES
@table(
    {
        "in the head": b"POST PATH HTTP/1.1\r\nHost: x\r\nContent-Le",
        "before the body": b"POST PATH HTTP/1.1\r\nHost: x\r\nContent-Length: 80\r\n\r\n",
        "in the body": b"POST PATH HTTP/1.1\r\nHost: x\r\nContent-Length: 80\r\n\r\n{",
        "in a chunk": b"POST PATH HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n50\r\n{",
        "after a chunk": b"POST PATH HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
    }
)
def test_k1_client_leaves_while_it_sends_its_request(
    usual: Bench, dialect: Dialect, fault: bytes, leave: Callable[[Client], float]
) -> None:
    """The request is not sent upstream."""
    usual.play([*SAID, Act.EXPECT_CLOSE])
    with Client(usual.proxy.port, fault.replace(b"PATH", dialect.path.encode())) as client:
        time.sleep(0.02)
        leave(client)
        usual.settled()
    assert usual.upstream.seen == [] and usual.upstream.asked == []


@EACH
@MODES
def test_k1_client_leaves_while_queued(usual: Bench, dialect: Dialect, streamed: bool) -> None:
    """The worker accepts the request only after its client has left."""
    worker = usual.proxy.health()["worker"]
    script: Script = [*SAID, Act.EXPECT_CLOSE]
    usual.play(*[script] * 5)
    body = dialect.ask(streamed=streamed, tools=True)
    resets = {f"queued-{next(NUMBERS)}": reset for reset in (False, True, False, True, False)}
    os.kill(worker, signal.SIGSTOP)
    try:
        for id_, reset in resets.items():
            with Client(usual.proxy.port, request(dialect, body, id_)) as client:
                client.vanish(reset=reset)
    finally:
        os.kill(worker, signal.SIGCONT)
    resumed = time.monotonic()
    # On a busy machine, the worker is idle before it has accepted the last of them.
    for id_ in resets:
        usual.proxy.logged(f" id={id_} method=")
    usual.settled()
    usual.upstream.wait_for_all()
    assert all(gone(seen, resumed) for seen in usual.upstream.seen)


@pytest.mark.slow
@EACH
@pytest.mark.parametrize("streamed", [True, pytest.param(False, marks=heavy)], ids=["streamed", "whole"])
def test_k2_the_client_does_not_read(benches: Benches, dialect: Dialect, streamed: bool) -> None:
    """Writing has a time limit, and unread data stays at the model server."""
    bench = benches("STALL_SECONDS=1")
    worker = psutil.Process(bench.proxy.health()["worker"])
    before = worker.memory_info().rss
    flood = [SSE, *[chunked(text("x" * 4000)) * 16] * 600] if streamed else whole_reply("x" * 30_000_000)
    bench.play([*flood, Act.EXPECT_CLOSE])
    with closing(socket.socket()) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", bench.proxy.port))
        client.sendall(request(dialect, dialect.ask(streamed=streamed, tools=True)))
        bench.upstream.wait()
        began, most = time.monotonic(), 0
        while bench.proxy.health()["active_requests"]:
            most = max(most, worker.memory_info().rss)
            assert time.monotonic() < began + PATIENCE
            time.sleep(0.05)
        assert bench.upstream.seen[0].closed.wait(PATIENCE)
    bench.settled()
    # A whole answer is held as bytes, as text, and as parsed objects.
    assert most - before < (40e6 if streamed else 300e6)


@pytest.mark.slow
@EACH
@table(scripts.HALVES)
def test_k3_unfinished_requests_block_no_one(benches: Benches, dialect: Dialect, fault: bytes) -> None:
    """There are as many as threads, and each loses its thread at its time limit."""
    bench = benches("THREADS=16", "RESERVED_THREADS=4", f"STALL_SECONDS={HELD:g}", "BODY_SECONDS=1", "HEAD_SECONDS=1")
    sent = fault.replace(b"PATH", dialect.path.encode())
    body = dialect.ask(streamed=False, tools=False)
    with many(bench.proxy.port, [sent] * 16), Watch(bench.proxy):
        bench.play([WHOLE])
        deadline = time.monotonic() + PATIENCE
        while (given := bench.sent(dialect, body, streamed=False)).status == dialect.status(503):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        given.succeeds()
        assert bench.proxy.idle()
    bench.settled()


def refused_requests(dialect: Dialect) -> Mapping[str, tuple[int, bytes]]:
    ask = dialect.ask(streamed=True, tools=True)
    return {
        "400": (400, request(dialect, b"{")),
        "404": (404, request(dialect, ask).replace(b" HTTP/1.1", b"/nothing/at/all HTTP/1.1", 1)),
        "405": (405, request(dialect, b"").replace(b"POST", b"GET", 1)),
        "413, its body unread": (413, request(dialect, b"x" * 200_000, headers="Content-Length: 90000000\r\n")),
        "413, chunked": (413, request(dialect, b"100000\r\n" + b"x" * 0x100000, headers=TE)),
        "not HTTP": (400, b"nonsense\r\n\r\n"),
    }


@pytest.mark.slow
@EACH
@pytest.mark.parametrize("name", refused_requests(DIALECTS["chat"]))
def test_k3_100_failed_clients_that_stay_connected_block_no_one(benches: Benches, dialect: Dialect, name: str) -> None:
    bench = benches("THREADS=160", "RESERVED_THREADS=32", "--max-body", "65536")
    status, sent = refused_requests(dialect)[name]
    if dialect.path.encode() not in sent:
        dialect = DIALECTS["chat"]  # without a path the dialect is unknown
    with Watch(bench.proxy), many(bench.proxy.port, [sent] * 100) as clients:
        for client in clients:
            with client.answer() as response:
                assert response.status == status
                if response.getheader("Content-Type") == "application/json":
                    assert dialect.error(response.read(), status).words
        time.sleep(0.1)
    bench.settled()


@pytest.mark.slow
@EACH
@pytest.mark.parametrize("body", [0, 90_000_000], ids=["its body read", "its body unread"])
def test_k3_100_refused_clients_that_stay_connected_block_no_one(benches: Benches, dialect: Dialect, body: int) -> None:
    bench = benches("THREADS=64", "RESERVED_THREADS=16")
    asked = request(
        dialect, dialect.ask(streamed=True, tools=True), headers=f"Content-Length: {body}\r\n" if body else ""
    )
    with ExitStack() as stack:
        gate = bench.upstream.gate()
        script: Script = [gate, *SAID]
        bench.play(*[script] * 48)
        served = request(dialect, dialect.ask(streamed=True, tools=True))
        for number in range(48):
            stack.enter_context(Client(bench.proxy.port, served))
            bench.upstream.wait(number + 1)
        with Watch(bench.proxy), many(bench.proxy.port, [asked] * 100) as clients:
            for client in clients:
                with client.answer() as response:
                    given = read(dialect, response, streamed=True)
                assert given.fails(503).words and int(given.headers["retry-after"]) > 0
            time.sleep(0.1)
    bench.settled()


@EACH
@MODES
@table(
    {
        "a length over the limit": (413, b"x" * 70_000, ""),
        "chunks over the limit": (413, b"11170\r\n" + b"x" * 70_000 + b"\r\n0\r\n\r\n", TE),
        "chunks over the limit, without end": (413, b"11170\r\n" + b"x" * 70_000, TE),
        "a bad chunk": (400, b"zz\r\n{}\r\n0\r\n\r\n", TE),
        "invalid JSON": (400, b"{", ""),
        "nothing": (400, b"", ""),
        "compressed": (415, gzip.compress(b"{}"), "Content-Encoding: gzip\r\n"),
    }
)
def test_k4_an_unusable_body(benches: Benches, dialect: Dialect, streamed: bool, fault: tuple[int, bytes, str]) -> None:
    status, body, headers = fault
    bench = benches("--max-body", "65536")
    with Client(bench.proxy.port, request(dialect, body, headers=headers)) as client, client.answer() as response:
        read(dialect, response, streamed=streamed).fails(status)
    bench.settled()
    assert bench.upstream.seen == []


@EACH
@MODES
def test_k4_a_body_is_too_short(usual: Bench, dialect: Dialect, streamed: bool) -> None:
    """The client closes its sending side and still reads."""
    body = json.dumps(dialect.ask(streamed=streamed, tools=True)).encode()
    short = request(dialect, body, headers=f"Content-Length: {len(body) + 5}\r\n")
    with Client(usual.proxy.port, short) as client:
        client.half_close()
        with client.answer() as response:
            read(dialect, response, streamed=streamed).fails(400)
    usual.settled()
    assert usual.upstream.seen == []


@EACH
@MODES
def test_k4_the_client_waits_for_100_continue(usual: Bench, dialect: Dialect, streamed: bool) -> None:
    usual.play(stream(*REPLY) if streamed else [WHOLE])
    whole = request(dialect, dialect.ask(streamed=streamed, tools=True), "expects", headers="Expect: 100-continue\r\n")
    top, _, body = whole.partition(b"\r\n\r\n")
    with closing(socket.create_connection(("127.0.0.1", usual.proxy.port), PATIENCE)) as client:
        client.sendall(top + b"\r\n\r\n")
        go = b""
        while not go.endswith(b"\r\n\r\n"):
            go += client.recv(1)
        assert go.startswith(b"HTTP/1.1 100 ")
        client.sendall(body)
        response = http.client.HTTPResponse(client)
        response.begin()
        with closing(response):
            given = read(dialect, response, streamed=streamed, id_="expects")
    assert given.succeeds().text == "So."
    usual.play()


def spoilt(dialect: Dialect, streamed: bool, value: bytes) -> bytes:
    """Return a request that contains this value."""
    return json.dumps(dialect.ask(streamed=streamed, tools=True, odd="ODD")).encode().replace(b'"ODD"', value)


@EACH
@MODES
@table(
    {
        "depth": b"[" * 100_000 + b"]" * 100_000,
        "depth, and no end": b'{"a":' * 100_000,
        "201 levels": b"[" * 201 + b"]" * 201,
        "NaN": b"NaN",
        "minus infinity": b"-Infinity",
        "an invalid number": b"1e99999",
        "an int of 5,000 digits": b"9" * 5000,
        "invalid UTF-8": b'"\xff"',
    }
)
def test_k5_a_request_that_no_server_could_parse(usual: Bench, dialect: Dialect, streamed: bool, fault: bytes) -> None:
    began = time.monotonic()
    given = usual.sent(dialect, spoilt(dialect, streamed, fault), streamed=streamed)
    given.fails(400)
    assert time.monotonic() - began < PATIENCE and len(given.data) < 2000
    usual.settled(given)
    assert usual.upstream.seen == []


@EACH
@MODES
@table(
    {
        "a duplicate key": b'{"a": 1, "a": 2}',
        "half a surrogate": rb'"\ud83d"',
        "a NUL": rb'"\u0000"',
        "a large int": b"9" * 400,
    }
)
def test_k5_an_unusual_request_that_can_be_parsed(usual: Bench, dialect: Dialect, streamed: bool, fault: bytes) -> None:
    """Whatever the dialect does with the field, the client gets an answer, and valid JSON is sent upstream."""
    usual.play(stream(*REPLY) if streamed else [WHOLE])
    given = usual.sent(dialect, spoilt(dialect, streamed, fault), streamed=streamed)
    if given.status == 200:
        assert given.succeeds().text == "So." and usual.upstream.seen[0].json
    else:
        given.fails(400)
    usual.settled(given)


@EACH
@MODES
@table(scripts.BOMBS)
def test_k5_a_reply_that_is_expensive_to_parse(usual: Bench, dialect: Dialect, streamed: bool, fault: str) -> None:
    """All of it is text, and parsing takes bounded time."""
    parts = [fault[at : at + 20_000] for at in range(0, len(fault), 20_000)]
    events_ = text_reply(*parts)
    began = time.monotonic()
    told = usual.ask(dialect, events_ if streamed else whole_reply(fault), streamed=streamed).succeeds()
    assert time.monotonic() - began < PATIENCE
    assert (told.text, told.calls, told.finish) == (fault, [], "stop")


@heavy
@EACH
@MODES
def test_k5_5_mb_of_opening_tags(usual: Bench, dialect: Dialect, streamed: bool) -> None:
    """The reply is text, and /health answers meanwhile. The benchmarks measure the parsing time."""
    fault = "<tool_call>" * 475_000
    events_ = stream(ROLE, *(text(fault[at : at + 5000]) for at in range(0, len(fault), 5000)), finish(), DONE)
    script = events_ if streamed else whole_reply(fault)
    with Watch(usual.proxy) as watch:
        began = time.monotonic()
        usual.play(script)
        told = usual.sent(dialect, dialect.ask(streamed=streamed, tools=True), streamed=streamed).succeeds()
        # If parsing blocked /health, there would be only one answer before and one after it.
        assert watch.answered >= min(3, (time.monotonic() - began) // 5)
    assert (told.text, told.calls) == (fault, [])


@EACH
@MODES
@table(
    {
        "depth": '{"path": "a.txt", "content": ' + "[" * 50_000,
        "NaN": '{"path": "a.txt", "content": NaN}',
        "a huge int": '{"path": "a.txt", "content": ' + "9" * 5000 + "}",
        "half a surrogate": '{"path": "a.txt", "content": "\\ud83d"}',
        "a duplicate key": '{"path": "a.txt", "content": "hi", "path": "b.txt"}',
        "noise": '{"path": "a.txt", "content": "hi"} ' + "}" * 50_000,
    }
)
def test_k5_a_call_that_is_hard_to_parse(usual: Bench, dialect: Dialect, streamed: bool, fault: str) -> None:
    """The result is a repaired call, text or a typed error. The client can parse every call that it gets."""
    call = {"id": "a", "type": "function", "function": {"name": "write_file", "arguments": fault}}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    script = stream(ROLE, *deltas({"index": 0, **call}), finish("tool_calls"), DONE)
    script = script if streamed else whole_reply(said, "tool_calls")
    began = time.monotonic()
    given = usual.ask(dialect, script, streamed=streamed, asked=2)
    assert time.monotonic() - began < PATIENCE
    if given.status != 200:
        given.fails(502)
    elif (told := given.told).error:
        assert told.failed and never_whole(told.calls)
    else:
        assert len(told.whole_calls) == len(told.calls) and told.finish == ("calls" if told.calls else "stop")


@pytest.mark.slow
@EACH
@table({name: half for name, half in scripts.HALVES.items() if b"\r\n\r\n" in half})
def test_k6_the_body_of_the_request_stalls(benches: Benches, dialect: Dialect, fault: bytes) -> None:
    """The client gets an error, and the request is not sent upstream."""
    bench = benches("THREADS=16", "RESERVED_THREADS=4", "BODY_SECONDS=1")
    with (
        Watch(bench.proxy),
        Client(bench.proxy.port, fault.replace(b"PATH", dialect.path.encode())) as client,
        client.answer() as response,
    ):
        assert "body_timeout" in read(dialect, response, streamed=False).fails(408).words
    bench.settled()
    assert bench.upstream.seen == []


# The host of the proxy.


@pytest.mark.slow
@pytest.mark.parametrize(
    "numbers",
    [
        (signal.SIGHUP,),
        pytest.param((signal.SIGTERM,), marks=heavy),
        pytest.param((signal.SIGHUP, signal.SIGTERM), marks=heavy),
    ],
    ids=["SIGHUP", "SIGTERM", "SIGTERM after SIGHUP"],
)
def test_p1_the_proxy_is_terminated(proxy: Start, numbers: tuple[signal.Signals, ...]) -> None:
    """Streams of all dialects end in the error event, and waiting requests are told to retry."""
    with ExitStack() as stack:
        upstream = stack.enter_context(Upstream())
        bench = Bench(upstream, proxy(upstream.url, "--graceful-timeout", "4"))
        master, waiting = master_of(bench), under_way(bench, stack)
        for number in numbers:
            master.send_signal(number)
            time.sleep(0.3)  # signals sent together may arrive in any order
        for each in waiting:
            given = each.read()
            told = given.fails(503, event=each.streamed)
            assert "about to end" in told.words and never_whole(told.calls)
            assert each.streamed or given.headers["retry-after"]
        assert all(seen.closed.wait(PATIENCE) for seen in upstream.seen)
        if signal.SIGTERM in numbers:
            master.wait(PATIENCE)
        else:
            assert serves(bench)
        asked = len(waiting) + (0 if signal.SIGTERM in numbers else len(every()))
        until(lambda: bench.proxy.log.read_text().count("method=POST") >= asked)
        assert bench.proxy.log.read_text().count("method=POST") == asked


def test_p1_its_worker_is_killed(proxy: Start) -> None:
    """No error can be sent, but no truncated answer looks complete, and the next worker serves."""
    with ExitStack() as stack:
        upstream = stack.enter_context(Upstream())
        bench = Bench(upstream, proxy(upstream.url))
        waiting, worker = under_way(bench, stack), bench.proxy.health()["worker"]
        os.kill(worker, signal.SIGKILL)
        killed = time.monotonic()
        for each in waiting:
            if each.streamed:
                assert not each.read().ended
            else:
                with pytest.raises((ConnectionError, http.client.HTTPException)):
                    each.read()
        assert all(gone(seen, killed) for seen in upstream.seen)
        assert bench.proxy.health()["worker"] != worker and serves(bench)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["full", "closed", "no reader"])
def test_p3_the_log_cannot_be_written(kind: str) -> None:
    with ExitStack() as stack:
        upstream = stack.enter_context(Upstream())
        if kind == "full":
            stderr: Any = stack.enter_context(open("/dev/full", "wb", buffering=0))
        else:
            end, write = os.pipe()
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)  # full before the first request has ended
            stderr = stack.enter_context(open(write, "wb", buffering=0))
            reader = stack.enter_context(open(end, "rb", buffering=0))
        bench, _ = stack.enter_context(started(upstream.url, stderr=stderr))
        bench = Bench(upstream, bench.proxy)
        if kind == "closed":
            reader.close()
        stack.callback(bench.play)
        assert serves(bench) and bench.proxy.idle()
        for dialect, streamed in every():
            bench.play([*SAID, Act.RST] if streamed else [Act.RST])
            assert bench.sent(dialect, dialect.ask(streamed=streamed, tools=True), streamed=streamed).told.failed
        assert serves(bench) and bench.proxy.idle()


@heavy
@EACH
def test_p4_1000_idle_streams(proxy: Start, dialect: Dialect) -> None:
    """They need less than 150 MB. The next stream's first byte is immediate, and all are cleaned up when they leave."""
    asked = request(dialect, dialect.ask(streamed=True, tools=True))
    with descriptors(5000), ExitStack() as stack:
        script: Script = [*SAID, 600.0]
        upstream = stack.enter_context(Upstream(*[script] * 1001))
        upstream.paths["/v1/models"] = [MODELS]
        front = proxy(upstream.url)
        worker = psutil.Process(front.health()["worker"])
        with ExitStack() as streams:
            for _ in range(1000):
                client = streams.enter_context(Client(front.port, asked))
                response = streams.enter_context(client.answer())
                assert response.peek()
            assert front.health()["active_requests"] == 1000
            rss = worker.memory_info().rss
            began = time.monotonic()
            client = streams.enter_context(Client(front.port, asked))
            assert streams.enter_context(client.answer()).peek()
            first = time.monotonic() - began
        left = time.monotonic()
        while front.health()["active_requests"]:
            assert time.monotonic() < left + PATIENCE
        cleaned = time.monotonic() - left
        assert all(gone(seen, left + cleaned) for seen in upstream.seen)
    print(f"1,000 idle streams: {rss / 1e6:.0f} MB; first byte {first * 1000:.1f} ms; all gone in {cleaned:.2f} s")
    assert rss <= 150e6 and first < PATIENCE


@pytest.mark.slow
@EACH
@MODES
def test_p5_all_threads_are_busy(benches: Benches, dialect: Dialect, streamed: bool) -> None:
    """Requests without a free thread are refused immediately, and /health always answers."""
    bench = benches("THREADS=8", "RESERVED_THREADS=2", "--max-streams", "6")
    body = dialect.ask(streamed=streamed, tools=True)
    with ExitStack() as stack:
        gate = bench.upstream.gate()
        rest = [chunked(finish()), chunked(DONE), LAST]
        script: Script = [*SAID, gate, *rest] if streamed else [gate, WHOLE]
        bench.play(*[script] * 6)
        served = [stack.enter_context(Client(bench.proxy.port, request(dialect, body))) for _ in range(6)]
        bench.upstream.wait(6)
        with Watch(bench.proxy):
            for _ in range(5):
                began = time.monotonic()
                given = bench.sent(dialect, body, streamed=streamed)
                assert given.fails(503).words and int(given.headers["retry-after"]) > 0
                assert time.monotonic() - began < PATIENCE
        gate.open()
        for client in served:
            with client.answer() as response:
                assert read(dialect, response, streamed=streamed).succeeds().text.strip() == "So."
    bench.settled()
