"""Reads responses of model servers: decompression, whole bodies, errors and unchanged responses."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from http import HTTPStatus
from itertools import chain

from proxy.errors import LimitExceeded, ProxyError, UpstreamBroken, UpstreamRefused, refusal
from proxy.json import Json, dump_json, load_upstream
from proxy.limits import MAX_ANSWER
from proxy.secrets import masked
from proxy.upstream.answer_wait import AnswerWait, Timeouts
from proxy.upstream.api import ERROR, PASSED, response_headers
from proxy.upstream.client import ModelServer, UpstreamCall

_MAX_QUOTED = 300
# Content codings that are decoded.
KNOWN = frozenset(("gzip", "x-gzip", "deflate"))
# The size of one decompressed piece. A few bytes may expand to gigabytes.
_PIECE = 256 * 1024
# The number of bytes passed to zlib at a time. It copies all bytes after the end of a stream.
_STEP = 4 * 1024
# The size of a decoded body is limited to MAX_ANSWER or, if larger, this multiple of the received bytes.
_MAX_RATIO = 100
# Window sizes of zlib: with gzip's or zlib's header, and without one.
_HEADED, _RAW = 32 + zlib.MAX_WBITS, -zlib.MAX_WBITS


class Decoder:
    """Incremental decoder for gzip and deflate.

    `over` returns whether the decoded stream has ended. Bytes after the end of the compression are then ignored.
    """

    def __init__(self, over: Callable[[], bool] = lambda: False) -> None:
        self._over = over
        self._undoing: zlib._Decompress | None = None
        self._first = b""
        self._received = self._decoded = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decode the next bytes and yield the result in pieces. Raises UpstreamBroken or LimitExceeded."""
        self._received += len(data)
        if self._undoing is None:
            # Some servers send deflate without its header; the first two bytes show it.
            data = self._first = self._first + data
            if len(data) < 2:
                return
            has_header = data[:2] == b"\x1f\x8b" or (data[0] & 15 == 8 and (data[0] * 256 + data[1]) % 31 == 0)
            self._undoing = zlib.decompressobj(_HEADED if has_header else _RAW)
        for at in range(0, len(data), _STEP):
            yield from self._feed(self._undoing, data[at : at + _STEP])

    def _feed(self, undoing: zlib._Decompress, data: bytes) -> Iterator[bytes]:
        is_full = False
        while data or is_full:
            if undoing.eof:
                # Another stream may follow, or zeros that fill a block (gzip's manual).
                data = data.lstrip(b"\0")
                if not data or self._over():
                    return
                undoing = self._undoing = zlib.decompressobj(_HEADED)
            try:
                piece = undoing.decompress(data, _PIECE)
            except zlib.error:
                raise UpstreamBroken("the model server's compressed answer cannot be read") from None
            self._decoded += len(piece)
            if self._decoded > max(MAX_ANSWER, _MAX_RATIO * self._received):
                raise LimitExceeded("the size of a compressed answer", MAX_ANSWER)
            if piece:
                yield piece
            # After a full piece, zlib may have more output even if it has taken all input.
            is_full = len(piece) == _PIECE and not undoing.eof
            data = undoing.unused_data if undoing.eof else undoing.unconsumed_tail

    def finish(self) -> None:
        """Raise UpstreamBroken if the compressed data is incomplete."""
        if self._received and (self._undoing is None or not self._undoing.eof):
            raise UpstreamBroken("the model server's compressed answer broke off")


def decoded(
    call: UpstreamCall, parts: Iterator[bytes | None], over: Callable[[], bool] = lambda: False
) -> Iterator[bytes | None]:
    """Yield the decompressed parts of a body. Servers may compress although `identity` was requested (RFC 9110, 8.4).

    The first part still arrives with the head. `over` is that of `Decoder`. For an unknown coding, an error response
    has an empty body, and any other response raises UpstreamBroken.
    """
    undoing: Decoder | None = None
    first = True
    for part in parts:
        if part is None:
            yield None
            continue
        coding = call.coding if first else ""
        if coding in KNOWN:
            undoing = Decoder(over)
            yield b""
        elif coding:
            if call.status != 200:
                yield b""
                return
            words = f"the model server compressed its answer ({coding[:40]!r}) although it was asked not to"
            raise UpstreamBroken(words)
        first = False
        if undoing is None:
            yield part
        else:
            yield from undoing.feed(part)
        # Otherwise the part stays in memory while the stream waits.
        del part
    if undoing is not None and call.complete:
        undoing.finish()


def read_body(
    parts: Iterable[bytes | None],
    limit: int = MAX_ANSWER,
    *,
    strict: bool = True,
    beat: Callable[[], bytes] = lambda: b"",
) -> Generator[bytes, None, bytes]:
    """Return all parts joined. Yield `beat()` for each part that is None.

    Raises UpstreamBroken if the body exceeds the limit or breaks off. Without `strict`, returns the bytes received so
    far instead.
    """
    received: list[bytes] = []
    size = 0
    try:
        for part in parts:
            if part is None:
                yield beat()
                continue
            received.append(part)
            size += len(part)
            if size > limit:
                raise UpstreamBroken(f"the model server's answer is longer than {limit} bytes")
    except UpstreamBroken:
        if strict or not received:
            raise
    return b"".join(received)[:limit]


def whole_body(call: UpstreamCall, wait: AnswerWait) -> bytes:
    """Wait for the whole body of a response, and return it decompressed. Raises the errors of `read_body`."""
    reading = read_body(decoded(call, wait.receive(call)))
    while True:
        try:
            next(reading)
        except StopIteration as done:
            body: bytes = done.value
            return body


def fetch(
    server: ModelServer, path: str, headers: Mapping[str, str], seconds: float, body: bytes | None = None
) -> tuple[int, bytes]:
    """Send a GET or, with a body, a POST, and return the status and the whole body of the response.

    Raises a ProxyError if the response is not complete after about `seconds`, or is larger than MAX_ANSWER.
    """
    wait = AnswerWait(None, Timeouts(seconds, total=seconds))
    with server.open("GET" if body is None else "POST", path, headers, body, seconds) as call:
        whole = whole_body(call, wait)
        return call.status, whole


def pass_through(call: UpstreamCall, wait: AnswerWait) -> tuple[dict[str, str], Iterator[bytes]]:
    """Wait for the head of a response to forward, and return its headers and the parts of its body.

    Raises a ProxyError if no head arrives. If the response breaks off later, the iterator raises it. The caller closes
    the call.
    """
    parts = wait.receive(call)
    first = next(parts, b"")
    if not 200 <= call.status <= 599:
        raise UpstreamBroken(f"the model server answered with status {call.status}")
    headers = dict(response_headers(call, PASSED))
    if call.length is not None:
        headers["Content-Length"] = str(call.length)
    return headers, filter(None, chain((first,), parts))


# Errors.


def error_of_response(call: UpstreamCall, body: bytes, secrets: tuple[str, ...] = ()) -> ProxyError:
    """Return the error of a response other than 200: its own status and message, in the OpenAI shape.

    The `secrets` are masked before the message is truncated, which could leave part of a key.
    """
    status = call.status
    if 300 <= status < 400:
        return UpstreamBroken(f"the model server answered with a redirect ({status}), which is not followed")
    if not 400 <= status <= 599:
        return UpstreamBroken(f"the model server answered with status {status}")
    error = error_of(status, masked(body, secrets))
    error.headers = response_headers(call, ERROR)
    return error


def error_of(status: int, body: bytes) -> UpstreamRefused:
    """Return the error of a response with this status, in the OpenAI shape."""
    try:
        parsed, is_strict = load_upstream(body)
        if not is_strict:
            body = dump_json(parsed)
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, dict):
        error = parsed.get("error")
        if isinstance(error, dict):
            return refusal(error, status=status, body=body)
        if isinstance(parsed.get("message"), str):
            return refusal(parsed, status=status)  # older vLLM sends the error without an `error` object
        text = _words(error or parsed.get("detail"))
        if text:
            return refusal(text[:_MAX_QUOTED], status=status)
    return refusal(_described(status, body), status=status)


def _words(error: Json) -> str:
    """Return the text of an error that is not an object: vLLM's 401 has a string, FastAPI's 422 a list.

    Only the place and the message of the list's items are used, because they also contain the client's input.
    """
    if not isinstance(error, list):
        return error if isinstance(error, str) else ""
    lines = []
    for item in error:
        if isinstance(item, dict) and isinstance(item.get("msg"), str):
            place = item.get("loc")
            lines.append(f"{'.'.join(map(str, place))}: {item['msg']}" if isinstance(place, list) else str(item["msg"]))
    return "; ".join(lines)


def _described(status: int, body: bytes) -> str:
    """Return a message for an error that is not JSON: plain text, or the HTML page of another proxy."""
    try:
        phrase = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        phrase = str(status)
    text = body.decode("utf-8", "replace").strip()
    if not text or text.startswith("<"):
        return f"the model server, or something before it, answered {phrase}" + (" with an HTML page" if text else "")
    return f"the model server answered {phrase}: {text[:_MAX_QUOTED]}"
