"""Comparison of a reply in the translating dialects with the same reply for a chat client.

A line in `TRANSLATING` adds a dialect to all tests of failures, deltas and formats. The bytes pass through decoder,
engine and writer, and each dialect's strict checker reads the result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from proxy.dialects.base import Writer
from proxy.dialects.messages.writer import MessagesWriter, ReplyOptions
from proxy.dialects.responses import writer as responses
from proxy.dialects.responses.writer import ResponsesWriter, echo
from proxy.engine.engine import Engine
from proxy.exchange.reply_stream import StreamReply
from proxy.json import JsonObject
from tests.support import dialects
from tests.support.answers import answer_as_answer
from tests.support.dialects import Told

# A token limit so low that it is the cause of every truncated answer.
LIMIT = 1

Calls = list[tuple[str, Any]]


@dataclass(frozen=True)
class ClientReply:
    """A client's result of a reply.

    `calls` are names and arguments, parsed or as text if they are not JSON. `finish` is chat's finish reason, "" for
    other reasons, and None for a failure. If there are `thoughts`, the text is not compared, because one dialect may
    include reasoning in it.
    """

    text: str
    calls: Calls
    finish: str | None
    thoughts: bool = False


# Finish reasons of `Told` -> chat's.
_FINISHES = {"stop": "stop", "calls": "tool_calls", "length": "length"}


def _reply(told: Told) -> ClientReply:
    calls = [(name, value_of(given)) for name, given in told.calls]
    return ClientReply(told.text, calls, None if told.error else _FINISHES.get(told.finish, ""), told.thoughts)


@dataclass(frozen=True)
class Translating:
    """One dialect: its writer in the proxy, and its reader."""

    writer: Callable[[], Writer]
    client: dialects.Dialect

    @property
    def name(self) -> str:
        return self.client.name

    def sent(self, parts: Iterable[bytes], engine: Engine) -> bytes:
        """Return the client's stream for these bytes of a model server."""
        reply = StreamReply(engine, self.writer(), _crashed)
        given = b"".join(map(reply.receive, parts))
        if reply.failure is None:
            given += reply.finish()
        return given + (b"" if reply.failure is None else reply.fail(reply.failure))

    def streamed(self, parts: Iterable[bytes], engine: Engine) -> ClientReply:
        """Return the client's result of that stream."""
        return _reply(self.client.stream(self.sent(parts, engine)))

    def whole(self, answer: JsonObject, engine: Engine) -> ClientReply:
        """Return the client's result of a whole answer. Raises the answer's error."""
        given = answer_as_answer(json.dumps(answer).encode(), answer, engine, self.writer())
        return _reply(self.client.whole(given))


def response_options(**fields: Any) -> responses.ReplyOptions:
    """Return the reply options of a small Responses request."""
    given = {"id": "abc", "echo": echo({"model": "m"}), "limit": LIMIT, "created_at": 5, "now": lambda: 6}
    return responses.ReplyOptions(**{**given, **fields})


TRANSLATING = (
    Translating(lambda: MessagesWriter(ReplyOptions("m")), dialects.Messages()),
    Translating(lambda: ResponsesWriter(response_options()), dialects.Responses(types=False)),
)


def check_streams(data: bytes, new_engine: Callable[[], Engine], expected: ClientReply) -> None:
    """Check that clients of every dialect get the chat client's result of this stream."""
    for each in TRANSLATING:
        _check_alike(each, each.streamed([data], new_engine()), expected)


def check_answers(answer: JsonObject, new_engine: Callable[[], Engine], expected: ClientReply) -> None:
    """Check that clients of every dialect get the chat client's result of this whole answer."""
    for each in TRANSLATING:
        _check_alike(each, each.whole(answer, new_engine()), expected)


def _check_alike(each: Translating, found: ClientReply, expected: ClientReply) -> None:
    where = f"{each.name}: {found}"
    # Other finish reasons are not compared: `abort`, for example, is a failure in dialects without such a reason.
    if expected.finish in _ENDS:
        assert _ENDS.get(found.finish) == _ENDS[expected.finish], where
    # A partial call is an error in a stream. In a whole answer, it is text, or the readable part of its arguments.
    if expected.finish is not None and any(isinstance(value, str) for _, value in expected.calls):
        return
    assert [name for name, _ in found.calls] == [name for name, _ in expected.calls], where
    if found.finish is None:
        return
    assert found.calls == [(name, _without_surrogates(value)) for name, value in expected.calls], where
    if not (found.thoughts or expected.thoughts):
        assert found.text.strip() == _without_surrogates(expected.text).strip(), where


# Without tools, a chat server's finish reason is forwarded, with or without calls.
_ENDS = {"stop": "complete", "tool_calls": "complete", "length": "cut off", None: "failed"}


def _without_surrogates(value: Any) -> Any:
    """Replace lone surrogates, which these dialects cannot express."""
    text = json.dumps(value, ensure_ascii=False).encode("utf-16-le", "surrogatepass")
    return json.loads(text.decode("utf-16-le", "replace"))


def value_of(arguments: str) -> Any:
    """Return the arguments parsed, or unchanged if they are not JSON. Empty arguments are an empty object."""
    try:
        return json.loads(arguments or "{}", parse_int=_whole)
    except ValueError:
        return arguments


def _whole(digits: str) -> int | float:
    """Parse an integer, or a float if Python rejects that many digits."""
    return int(digits) if len(digits) < 4_000 else float(digits)


def _crashed(error: Exception) -> None:
    raise AssertionError("the engine raised") from error
