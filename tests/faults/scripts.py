"""The faults of the matrix: scripts of the model server, and bytes of the client."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.faults.bench import SHOWN, Faulty
from tests.support.scripted import (
    DONE,
    ROLE,
    SSE,
    USAGE,
    Act,
    Action,
    Script,
    answer,
    arguments,
    chunked,
    completion,
    delta,
    event,
    finish,
    head,
    opened,
    text,
)

HERMES = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a.txt", "content": "hi"}}\n</tool_call>'
INPUT = {"path": "a.txt", "content": "hi"}
SAID = (SSE, chunked(ROLE), chunked(text("So. ")))
HALF = (chunked(opened(0, "call_1", "write_file")), chunked(arguments(0, '{"path": "a.txt", "content": "h')))
# Points in a stream: the data sent so far, and whether tools are offered.
MOMENTS: Mapping[str, tuple[Faulty, bool]] = {
    "in text": ([*SAID, SHOWN], True),
    "in forwarded text": ([*SAID, SHOWN], False),
    "in a call": ([*SAID, *HALF, SHOWN], True),
    "in a forwarded call": ([*SAID, *HALF, SHOWN], False),
    "in a call held as text": ([*SAID, chunked(text(HERMES[:60])), SHOWN], True),
}
COMPLETION = json.dumps(completion(f"So. {HERMES}")).encode()
JSON = {"Content-Type": "application/json"}
WHOLE = answer(completion("So."))
TE = "Transfer-Encoding: chunked\r\n"
CHUNKED = {"Transfer-Encoding": "chunked"}
OVERFLOW = "This model's maximum context length is 8192 tokens. However, your request has 9000 input tokens."


def unchunked(data: bytes) -> bytes:
    """Return the content of a chunk, or nothing for a head."""
    return data.partition(b"\r\n")[2].removesuffix(b"\r\n")


REFUSALS: Mapping[str, tuple[object, int]] = {
    "context": ({"error": {"message": OVERFLOW, "type": "BadRequestError", "param": None, "code": 400}}, 400),
    "a string": ({"error": "Unauthorized"}, 401),
    "a word": ({"detail": "Forbidden"}, 403),
    "no such model": ({"error": {"message": "There is no model x", "type": "NotFoundError", "code": 404}}, 404),
    "a list": ({"detail": [{"loc": ["body", "n"], "msg": "must be 1", "input": "secret"}]}, 422),
}
HTML = {"Content-Type": "text/html"}
LONG = b"x" * 10_000_000
REPLY = (ROLE, text("So."), finish(), USAGE, DONE)
NO_SUCCESS: Mapping[str, tuple[Script, int]] = {
    "a page": ([answer(b"<html>welcome</html>", headers=HTML)], 502),
    "nothing": ([answer(b"")], 502),
    "no body": ([head(204)], 502),
    "no completion": ([answer({"object": "odd"})], 502),
    "a list": ([answer([1])], 502),
    "no choices": ([answer({"choices": []})], 502),
    "no message": ([answer({"choices": [{"index": 0, "finish_reason": "stop"}]})], 502),
    "an error": ([answer({"error": {"message": "too long", "type": "BadRequestError", "code": 400}})], 400),
    "an error as a string": ([answer({"error": "died"})], 502),
}
BREAKS: Mapping[str, list[Action]] = {
    "RST": [0.02, Act.RST],
    "FIN": [],
    "a cut chunk": [b"30\r\ndata: {"],
    "a chunk without its line end": [b"3\r\n: a"],
    "a bad size": [b"zz\r\n", Act.EXPECT_CLOSE],
    "a size without end": [b"0" * 100_000, Act.EXPECT_CLOSE],
    "a chunk with a bad line end": [b"3\r\n: aXX", Act.EXPECT_CLOSE],
    "a negative size": [b"-5\r\n", Act.EXPECT_CLOSE],
    "a cut end": [b"0\r\n"],
}


def failing(status: int) -> bytes:
    """Return the error event of a server whose engine died."""
    return event({"error": {"message": "engine died", "type": "InternalServerError", "param": None, "code": status}})


WORDS = "Hé 🙂 "


def raw(said: str) -> bytes:
    """Return a chunk of text in UTF-8, as most servers write it."""
    return text("TEXT").replace(b"TEXT", json.dumps(said, ensure_ascii=False)[1:-1].encode())


UTF8 = ROLE + raw(WORDS) + raw("llo") + finish() + DONE
CRLF = UTF8.replace(b"\n", b"\r\n")
FORMS: Mapping[str, list[bytes]] = {
    "byte by byte": [UTF8[at : at + 1] for at in range(len(UTF8))],
    "a BOM": [b"\xef\xbb\xbf" + UTF8],
    "a BOM, cut": [b"\xef", b"\xbb\xbf" + UTF8],
    "CR": [UTF8.replace(b"\n", b"\r")],
    "CRLF": [CRLF],
    "CRLF, cut": CRLF.replace(b"\r\n", b"\r|\n").split(b"|"),
    "several lines": [UTF8.replace(b'"choices"', b'\ndata: "choices"')],
    "comments": [UTF8.replace(b"data: ", b": a\n\n: b\ndata: ")],
    "other fields": [UTF8.replace(b"data: ", b"id: 7\nretry: 5\nodd: 1\nodd\ndata: ")],
    "no blank": [UTF8.replace(b"data: ", b"data:")],
    "no end": [UTF8.removesuffix(b"\n\n")],
    "no last line end": [UTF8.removesuffix(b"\n")],
    "empty events": [UTF8.replace(b"data: ", b"data:\n\ndata: ")],
}
ODD: Mapping[str, bytes] = {
    "a number": b"data: 7\n\n",
    "null": b"data: null\n\n",
    "a list": b"data: []\n\n",
    "another event": event({"object": "ping"}),
    "a named event": b"event: odd\ndata: {}\n\n",
    "NaN": b'data: {"choices": NaN}\n\n',
    "no choices": event({"choices": None}),
    "progress": b'data: {"choices": [], "prompt_progress": {"total": NaN}}\n\n',
}


def tool_call(**said: Any) -> dict[str, Any]:
    """Return a call delta with these fields."""
    function = {key: said.pop(key) for key in ("name", "arguments") if key in said}
    return {"type": "function", "function": function, **said}


def deltas(*calls: dict[str, Any]) -> list[bytes]:
    return [delta({"tool_calls": [call]}) for call in calls]


A, B = '{"path": "a.txt", "content": "hi"}', '{"path": "b.txt", "content": "ho"}'
CALLED: Mapping[str, tuple[list[bytes], int]] = {
    "one index for both": (
        deltas(
            tool_call(index=0, id="a", name="write_file", arguments=A),
            tool_call(index=0, id="b", name="write_file", arguments=B),
        ),
        2,
    ),
    "an index with a gap": (
        deltas(
            tool_call(index=0, id="a", name="write_file", arguments=A),
            tool_call(index=7, id="b", name="write_file", arguments=B),
        ),
        2,
    ),
    "an index from 1": (deltas(tool_call(index=1, id="a", name="write_file", arguments=A)), 1),
    "an index as a string": (deltas(tool_call(index="0", id="a", name="write_file", arguments=A)), 1),
    "no index": (deltas(tool_call(id="a", name="write_file", arguments=A)), 1),
    "a late name": (
        deltas(
            tool_call(index=0, id="a", arguments=A[:9]),
            tool_call(index=0, arguments=A[9:]),
            tool_call(index=0, name="write_file"),
        ),
        1,
    ),
    "no id": (deltas(tool_call(index=0, name="write_file", arguments=A)), 1),
    "one id for both": (
        deltas(
            tool_call(index=0, id="a", name="write_file", arguments=A),
            tool_call(index=1, id="a", name="write_file", arguments=B),
        ),
        2,
    ),
    "arguments character by character": (
        deltas(
            tool_call(index=0, id="a", name="write_file", arguments=""),
            *(tool_call(index=0, arguments=letter) for letter in A),
        ),
        1,
    ),
}
HOP = {"Connection": "x-foo, close", "X-Foo": "secret", "Keep-Alive": "timeout=5", "Set-Cookie": "a=secret"}
OURS = dict.fromkeys(("X-Powered-By", "Server", "Via", "Upgrade", "X-Accel-Redirect"), "secret")


def with_headers(script: list[Action], headers: Mapping[str, str]) -> list[Action]:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
    assert isinstance(script[0], bytes)
    return [script[0].removesuffix(b"\r\n") + lines + b"\r\n", *script[1:]]


# Data that the model server has sent when the client leaves, and whether the client requested a stream.
WAITS: Mapping[str, tuple[list[Action], bool]] = {
    "before the head": ([], True),
    "before the first text": ([SSE + chunked(ROLE)], True),
    "mid-text": ([*SAID], True),
    "mid-call": ([*SAID, *HALF], True),
    "mid-call, held as text": ([*SAID, chunked(text(HERMES[:60]))], True),
    "after the last event": ([*SAID, chunked(finish()), chunked(DONE)], True),
    "before a whole answer's head": ([], False),
    "in a whole answer": ([head(200, {"Content-Length": "500"}) + b'{"id"'], False),
}
HALVES: Mapping[str, bytes] = {
    "nothing": b"",
    "a byte": b"P",
    "half a head": b"POST PATH HTTP/1.1\r\nHost: x\r\n",
    "no body": b"POST PATH HTTP/1.1\r\nHost: x\r\nContent-Length: 80\r\n\r\n",
    "half a body": b"POST PATH HTTP/1.1\r\nHost: x\r\nContent-Length: 80\r\n\r\n{",
    "half a chunk": b"POST PATH HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n50\r\n{",
    "half the trailers": b"POST PATH HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nA: b",
    "Expect: 100-continue": b"POST PATH HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 80\r\n\r\n",
    "zeros before the length": b"POST PATH HTTP/1.1\r\nHost: x\r\nContent-Length: 00000000000000080\r\n\r\n{",
    "another protocol": b"POST PATH HTTP/1.1\r\nHost: x\r\nUpgrade: x\r\nContent-Length: 80\r\n\r\n{",
}
BOMBS: Mapping[str, str] = {
    "openers": "<tool_call>" * 9_000,
    "openers of all kinds": "<function=a>[TOOL_CALLS]<invoke name=<|python_tag|>" * 2_000,
    "tags": "<a>" * 34_000,
    "braces": "{" * 200_000,
    "brackets": "[" * 20_000,
    "quotes": '{"name": "write_file", "arguments": {"path": "' + '\\"' * 100_000,
    "blanks in a call": "<tool_call>" + " " * 200_000,
    "a name without end": '{"name": "' + "write_file" * 20_000,
}
