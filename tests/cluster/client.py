"""The clients: a request in a dialect, its answer to the last byte, and what a client would make of it."""

from __future__ import annotations

import asyncio
import io
import json
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from http.client import HTTPException, HTTPResponse
from typing import Any

# No client waits for longer than this; the longest answer takes half of it.
LIMIT = 40.0
# How often the official SDKs send a request again that was answered 429 or 5xx.
SDK_RETRIES = 2
_SERVED = re.compile(r"([AB]/p[123])((?: w\d+)*)")


class Kind(Enum):
    """What became of a request."""

    OK = "ok"
    EVENT = "error event"
    STATUS = "error status"
    BROKEN = "broke off"
    FALSE = "FALSE SUCCESS"
    HUNG = "HUNG"


@dataclass(frozen=True)
class Wanted:
    """A request: who it is, in which dialect and way it is asked, and how much the model is to say."""

    id: str
    conversation: str
    dialect: str = "chat"
    stream: bool = True
    chunks: int = 3
    pause: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """What a client makes of what it got; `served` is the model server and proxy, if the answer says so."""

    kind: Kind
    served: str = ""
    status: int = 0
    why: str = ""
    retry_after: str = ""


@dataclass
class Asked:
    """A request with all its tries: the last one's outcome, and those before, each with the moment of its end."""

    wanted: Wanted
    outcome: Outcome
    tries: list[tuple[float, Outcome]] = field(default_factory=list)


@dataclass
class _Said:
    """What a stream has said so far."""

    text: str = ""
    finish: str | None = None
    done: bool = False
    error: bool = False


@dataclass(frozen=True)
class Dialect:
    """Where a dialect is asked, its body, how its streams and its whole answers are read, how an error looks."""

    path: str
    body: Callable[[Wanted], dict[str, Any]]
    hear: Callable[[_Said, dict[str, Any]], None]
    whole: Callable[[dict[str, Any]], _Said]
    is_error: Callable[[dict[str, Any]], bool]


def _chat_body(wanted: Wanted) -> dict[str, Any]:
    """The conversation's beginning is the same in each of its turns."""
    content = f"request={wanted.id} chunks={wanted.chunks} pause={wanted.pause}"
    said = (("user", f"This is {wanted.conversation}."), ("assistant", "Yes."), ("user", content))
    messages = [{"role": role, "content": words} for role, words in said]
    return {"model": "tiny", "messages": messages, "stream": wanted.stream}


def _hear_chat(said: _Said, event: dict[str, Any]) -> None:
    said.error |= "error" in event
    for choice in event.get("choices", ()):
        said.text += choice["delta"].get("content") or ""
        said.finish = choice.get("finish_reason") or said.finish


def _whole_chat(body: dict[str, Any]) -> _Said:
    choice = body["choices"][0]
    return _Said(choice["message"]["content"], choice["finish_reason"], True, "error" in body)


def _messages_body(wanted: Wanted) -> dict[str, Any]:
    return {**_chat_body(wanted), "max_tokens": 1000}


def _hear_messages(said: _Said, event: dict[str, Any]) -> None:
    match event["type"]:
        case "content_block_delta":
            said.text += event["delta"].get("text", "")
        case "message_delta":
            said.finish = event["delta"]["stop_reason"] or said.finish
        case "message_stop":
            said.done = True
        case "error":
            said.error = True


def _whole_message(body: dict[str, Any]) -> _Said:
    return _Said("".join(block.get("text", "") for block in body["content"]), body["stop_reason"], True)


def _responses_body(wanted: Wanted) -> dict[str, Any]:
    asked = _chat_body(wanted)
    return {"model": asked["model"], "input": asked["messages"], "stream": asked["stream"]}


def _hear_response(said: _Said, event: dict[str, Any]) -> None:
    """An item that is done counts for a client before its response does."""
    match event["type"]:
        case "response.output_text.delta":
            said.text += event["delta"]
        case "response.output_item.done":
            said.finish = event["item"]["status"]
        case "response.completed" | "response.incomplete":
            said.done = True
        case "response.failed" | "error":
            said.error = True


def _whole_response(body: dict[str, Any]) -> _Said:
    parts = [part for item in body["output"] if item["type"] == "message" for part in item["content"]]
    text = "".join(part["text"] for part in parts)
    return _Said(text, body["status"], True, body["status"] != "completed")


def _is_openai_error(body: dict[str, Any]) -> bool:
    return bool(body["error"]["message"])


def _is_messages_error(body: dict[str, Any]) -> bool:
    return body["type"] == "error" and bool(body["error"]["type"] and body["error"]["message"])


# A new dialect joins by one line here.
DIALECTS: Mapping[str, Dialect] = {
    "chat": Dialect("/v1/chat/completions", _chat_body, _hear_chat, _whole_chat, _is_openai_error),
    "messages": Dialect("/v1/messages", _messages_body, _hear_messages, _whole_message, _is_messages_error),
    "responses": Dialect("/v1/responses", _responses_body, _hear_response, _whole_response, _is_openai_error),
}


class _Bytes:
    """Bytes that were received, as the socket that `HTTPResponse` reads."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        """All of them."""
        return io.BytesIO(self._data)


def judge(data: bytes, wanted: Wanted) -> Outcome:
    """What became of a request whose answer was `data`, until the connection ended.

    What ends properly, says no error and is not all that the model said, looks like a success and is none; so does a
    finish behind a text that is not whole. SDKs take both for an answer.
    """
    dialect = DIALECTS[wanted.dialect]
    response = HTTPResponse(_Bytes(data))  # type: ignore[arg-type]
    if b"\r\n\r\n" not in data:
        return Outcome(Kind.BROKEN, why=f"half a head: {data[:200]!r}")
    try:
        response.begin()
    except (HTTPException, ValueError) as error:
        return Outcome(Kind.BROKEN, why=f"no head: {error!r}")
    ended = True
    try:
        body = response.read()
    except HTTPException as error:
        ended, body = False, getattr(error, "partial", b"")
        if response.chunked:
            body = _unchunked(data)
    if response.status != 200:
        return _judge_error(dialect, response, body, ended)
    return _judge_stream(dialect, body, ended, wanted) if wanted.stream else _judge_whole(dialect, body, ended, wanted)


def _unchunked(data: bytes) -> bytes:
    """What came of a chunked body that has no end."""
    reader, parts = io.BytesIO(data.partition(b"\r\n\r\n")[2]), []
    while size := reader.readline().strip():
        parts.append(reader.read(int(size, 16)))
        reader.readline()
    return b"".join(parts)


def _judge_error(dialect: Dialect, response: HTTPResponse, body: bytes, ended: bool) -> Outcome:
    again = response.getheader("Retry-After", "")
    try:
        known = dialect.is_error(json.loads(body))
    except (ValueError, KeyError, TypeError):
        known = False
    if not known or not ended:
        return Outcome(Kind.FALSE, "", response.status, f"no error of the dialect: {body[:200]!r}", again)
    return Outcome(Kind.STATUS, "", response.status, body.decode()[:200], again)


def _judge_stream(dialect: Dialect, body: bytes, ended: bool, wanted: Wanted) -> Outcome:
    said = _Said()
    for event in _events(body):
        if event == "[DONE]":
            said.done = True
        else:
            dialect.hear(said, json.loads(event))
    served, whole = _served(said.text, wanted.chunks)
    if said.done and said.finish and whole and not said.error:
        return Outcome(Kind.OK, served, 200)
    if said.done or said.finish or (ended and not said.error):
        return Outcome(Kind.FALSE, served, 200, f"done={said.done} finish={said.finish} text={said.text!r}")
    return Outcome(Kind.EVENT if said.error else Kind.BROKEN, served, 200)


def _judge_whole(dialect: Dialect, body: bytes, ended: bool, wanted: Wanted) -> Outcome:
    if not ended:
        return Outcome(Kind.BROKEN, status=200, why="a whole answer was cut")
    try:
        said = dialect.whole(json.loads(body))
    except (ValueError, KeyError, TypeError, IndexError):
        return Outcome(Kind.FALSE, status=200, why=f"status 200, and no answer: {body[:200]!r}")
    served, whole = _served(said.text, wanted.chunks)
    return Outcome(Kind.OK if whole and said.finish and not said.error else Kind.FALSE, served, 200, said.text[:200])


def _events(body: bytes) -> Iterator[str]:
    """The data of each event that came whole; heartbeats have none."""
    for block in body.split(b"\n\n")[:-1]:
        yield from (line[6:].decode() for line in block.split(b"\n") if line.startswith(b"data: "))


def _served(text: str, chunks: int) -> tuple[str, bool]:
    """Who spoke, and whether that is all that there was to say."""
    found = _SERVED.match(text)
    whole = bool(found) and text.split()[1:] == [f"w{number}" for number in range(chunks)]
    return (found[1] if found else ""), whole


def request(wanted: Wanted) -> bytes:
    """The bytes of a request; its session is in the header that Claude Code sends."""
    dialect = DIALECTS[wanted.dialect]
    body = json.dumps(dialect.body(wanted)).encode()
    lines = (
        f"POST {dialect.path} HTTP/1.1",
        "Host: models.test",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"X-Request-Id: {wanted.id}",
        f"X-Claude-Code-Session-Id: {wanted.conversation}",
        "Connection: close",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def ask(port: int, wanted: Wanted) -> Outcome:
    """One try; it ends within the limit, whatever happens."""
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
        pass  # what came before it counts
    finally:
        writer.close()


async def ask_as_sdks_do(port: int, wanted: Wanted) -> Asked:
    """Up to three tries, as the official SDKs make them: again after 429 and 5xx, after what Retry-After says."""
    asked = Asked(wanted, await ask(port, wanted))
    while asked.outcome.kind is Kind.STATUS and asked.outcome.status in (429, *range(500, 600)):
        asked.tries.append((time.monotonic(), asked.outcome))
        if len(asked.tries) > SDK_RETRIES:
            break
        await asyncio.sleep(float(asked.outcome.retry_after or 0.5))
        asked.outcome = await ask(port, wanted)
    return asked


async def get(port: int, path: str, method: str = "GET", headers: str = "") -> tuple[int, dict[str, str], bytes]:
    """Status, headers (names in lower case) and body of a path; `headers` are sent as they are."""
    got = bytearray()
    top = f"{method} {path} HTTP/1.1\r\nHost: models.test\r\nContent-Length: 0\r\nConnection: close\r\n{headers}\r\n"
    await asyncio.wait_for(_receive(port, top.encode(), got), LIMIT)
    response = HTTPResponse(_Bytes(bytes(got)), method=method)  # type: ignore[arg-type]
    response.begin()
    return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
