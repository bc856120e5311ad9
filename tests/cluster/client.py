"""Clients: a request in a dialect, its whole answer, and a client's result of it."""

from __future__ import annotations

import asyncio
import io
import json
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from http.client import HTTPException, HTTPResponse

from tests.faults import bench
from tests.support import dialects
from tests.support.dialects import Dialect, Responses

# Clients' timeout, twice as long as the longest answer.
LIMIT = 40.0
# Retries of the official SDKs after 429 or 5xx.
SDK_RETRIES = 2
_SERVED = re.compile(r"([AB]/p[123])((?: w\d+)*)")


class Kind(Enum):
    """The kind of a request's outcome."""

    OK = "ok"
    EVENT = "error event"
    STATUS = "error status"
    BROKEN = "cut"
    FALSE = "FALSE SUCCESS"
    HUNG = "HUNG"


@dataclass(frozen=True)
class Wanted:
    """A request: its id, conversation, dialect and form, and the length of the answer."""

    id: str
    conversation: str
    dialect: str = "chat"
    stream: bool = True
    chunks: int = 3
    pause: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """A client's result; `served` is the model server and proxy, if the answer says so."""

    kind: Kind
    served: str = ""
    status: int = 0
    why: str = ""
    retry_after: str = ""


@dataclass
class Asked:
    """A request with the outcome of its last try, and of earlier ones with the time of their end."""

    wanted: Wanted
    outcome: Outcome
    tries: list[tuple[float, Outcome]] = field(default_factory=list)


# Checking the SDK's types would take too long.
DIALECTS: Mapping[str, Dialect] = {**dialects.DIALECTS, "responses": Responses(types=False)}
# Clients treat a stream with one of these as a success, even if it is cut afterwards.
_FINISHED = re.compile(rb'"(?:finish|stop)_reason": ?"|"type": ?"response\.output_item\.done"')


class _Bytes:
    """Received bytes, as the socket that `HTTPResponse` reads."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def judge(data: bytes, wanted: Wanted) -> Outcome:
    """Return the outcome of a request that received `data` until the connection ended.

    An answer with a part of the text is a false success if it ends properly without an error, or has a finish reason:
    SDKs accept both.
    """
    response = HTTPResponse(_Bytes(data))  # type: ignore[arg-type]
    if b"\r\n\r\n" not in data:
        return Outcome(Kind.BROKEN, why=f"half a head: {data[:200]!r}")
    try:
        response.begin()
    except (HTTPException, ValueError) as error:
        return Outcome(Kind.BROKEN, why=f"no head: {error!r}")
    answer = bench.read(DIALECTS[wanted.dialect], response, streamed=wanted.stream)
    return _judge_error(wanted, answer) if answer.status != 200 else _judge_answer(wanted, answer)


def _judge_error(wanted: Wanted, answer: bench.Answer) -> Outcome:
    """Judge an error. HAProxy's own error has one body for all dialects."""
    try:
        told = json.loads(answer.data)
        known = bool(told["error"]["message"])
        if wanted.dialect == "messages":
            known = known and told["type"] == "error" and bool(told["error"]["type"])
    except (ValueError, KeyError, TypeError):
        known = False
    kind = Kind.STATUS if known and answer.ended else Kind.FALSE
    again = answer.headers.get("retry-after", "")
    return Outcome(kind, "", answer.status, answer.data[:200].decode(errors="replace"), again)


def _judge_answer(wanted: Wanted, answer: bench.Answer) -> Outcome:
    body = answer.data
    complete = body[: body.rfind(b"\n\n") + 2] if wanted.stream else body
    try:
        told = answer.dialect.stream(complete) if wanted.stream else answer.dialect.whole(complete)
    except (AssertionError, ValueError, KeyError, TypeError, IndexError) as error:
        cut = not answer.ended and not (wanted.stream and _FINISHED.search(complete))
        return Outcome(Kind.BROKEN if cut else Kind.FALSE, "", 200, f"{error!r} in {body[-200:]!r}")
    served, whole = _served(told.text, wanted.chunks)
    if told.failed:
        return Outcome(Kind.EVENT if wanted.stream else Kind.FALSE, served, 200, told.words)
    return Outcome(Kind.OK if whole and told.finish and answer.ended else Kind.FALSE, served, 200, told.text[:200])


def _served(text: str, chunks: int) -> tuple[str, bool]:
    """Return the servers that answered, and whether the text is complete."""
    found = _SERVED.match(text)
    whole = bool(found) and text.split()[1:] == [f"w{number}" for number in range(chunks)]
    return (found[1] if found else ""), whole


def request(wanted: Wanted) -> bytes:
    """Return the bytes of a request, with the session in Claude Code's header.

    All turns of a conversation begin with the same messages.
    """
    dialect = DIALECTS[wanted.dialect]
    asked = f"request={wanted.id} chunks={wanted.chunks} pause={wanted.pause}"
    said = (("user", f"This is {wanted.conversation}."), ("assistant", "Yes."), ("user", asked))
    turns = [{"role": role, "content": words} for role, words in said]
    field_ = "input" if wanted.dialect == "responses" else "messages"
    body = dialect.ask(streamed=wanted.stream, tools=False, **{field_: turns})
    session = f"X-Claude-Code-Session-Id: {wanted.conversation}\r\nConnection: close\r\n"
    return bench.request(dialect, body, wanted.id, headers=session)


async def ask(port: int, wanted: Wanted) -> Outcome:
    """Make one try within the time limit."""
    got = bytearray()
    try:
        await asyncio.wait_for(_receive(port, request(wanted), got), LIMIT)
    except TimeoutError:
        return Outcome(Kind.HUNG, why=f"after {len(got)} bytes")
    except ConnectionRefusedError:
        return Outcome(Kind.BROKEN, why="refused")
    return judge(bytes(got), wanted)


async def _receive(port: int, data: bytes, got: bytearray) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        writer.write(data)
        while more := await reader.read(65536):
            got += more
    except ConnectionResetError:
        pass  # the data received so far counts
    finally:
        writer.close()


async def ask_as_sdks_do(port: int, wanted: Wanted) -> Asked:
    """Make up to three tries like the official SDKs: after 429 and 5xx, as Retry-After says."""
    asked = Asked(wanted, await ask(port, wanted))
    while asked.outcome.kind is Kind.STATUS and asked.outcome.status in (429, *range(500, 600)):
        asked.tries.append((time.monotonic(), asked.outcome))
        if len(asked.tries) > SDK_RETRIES:
            break
        await asyncio.sleep(float(asked.outcome.retry_after or 0.5))
        asked.outcome = await ask(port, wanted)
    return asked


async def get(port: int, path: str, method: str = "GET", headers: str = "") -> tuple[int, dict[str, str], bytes]:
    """Return status, headers (names in lower case) and body of a path; `headers` are sent verbatim."""
    got = bytearray()
    top = f"{method} {path} HTTP/1.1\r\nHost: models.test\r\nContent-Length: 0\r\nConnection: close\r\n{headers}\r\n"
    await asyncio.wait_for(_receive(port, top.encode(), got), LIMIT)
    response = HTTPResponse(_Bytes(bytes(got)), method=method)  # type: ignore[arg-type]
    response.begin()
    return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
