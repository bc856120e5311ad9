"""What clients of the dialects that translate have of a model server's reply, beside what a chat client has.

A new dialect joins all tests of failures, deltas and formats by its line in `TRANSLATING`. The bytes go the real way,
through decoder, engine and writer; what comes out is read by each dialect's strict checker.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from proxy.codec.json_text import JsonObject
from proxy.dialects.base import Dialect
from proxy.dialects.messages.blocks import ReplyOptions
from proxy.dialects.messages.writer import MessagesDialect
from proxy.dialects.responses import output
from proxy.dialects.responses.output import echo
from proxy.dialects.responses.writer import ResponsesDialect
from proxy.engine.engine import Engine
from proxy.exchange.reply_stream import StreamReply
from proxy.exchange.whole_answer import answer_as_answer
from tests.support import dialects
from tests.support.dialects import Told

# With this limit an answer that was cut off was cut off by it.
LIMIT = 1

Calls = list[tuple[str, Any]]


@dataclass(frozen=True)
class ClientReply:
    """What a client has of a reply. `calls` are names and arguments as values, or as text if they are no JSON;
    `finish` is chat's word for how the reply ended by itself or was cut, "" for words of other kinds, and None where it
    failed. Of a reply with `thoughts` the text is not compared: they may be a part of it in one dialect.
    """

    text: str
    calls: Calls
    finish: str | None
    thoughts: bool = False


# The words of `Told`, in chat's.
_FINISHES = {"stop": "stop", "calls": "tool_calls", "length": "length"}


def _reply(told: Told) -> ClientReply:
    calls = [(name, value_of(given)) for name, given in told.calls]
    return ClientReply(told.text, calls, None if told.error else _FINISHES.get(told.finish, ""), told.thoughts)


@dataclass(frozen=True)
class Translating:
    """One dialect: the proxy's half, and the client's."""

    dialect: Callable[[], Dialect]
    client: dialects.Dialect

    @property
    def name(self) -> str:
        """The dialect's name."""
        return self.client.name

    def sent(self, parts: Iterable[bytes], engine: Engine) -> bytes:
        """The stream that a client gets for these bytes of a model server's."""
        reply = StreamReply(engine, self.dialect().writer(expand=False), _crashed)
        given = b"".join(map(reply.receive, parts))
        if reply.failure is None:
            given += reply.finish()
        return given + (b"" if reply.failure is None else reply.fail(reply.failure))

    def streamed(self, parts: Iterable[bytes], engine: Engine) -> ClientReply:
        """What a client has of that stream."""
        return _reply(self.client.stream(self.sent(parts, engine)))

    def whole(self, answer: JsonObject, engine: Engine) -> ClientReply:
        """What a client has of a whole answer; raises the error that it ends in."""
        given = answer_as_answer(json.dumps(answer).encode(), answer, engine, self.dialect())
        return _reply(self.client.whole(given))


def response_options(**fields: Any) -> output.ReplyOptions:
    """What a reply says of a small Responses request."""
    given = {"id": "abc", "echo": echo({"model": "m"}), "limit": LIMIT, "created_at": 5, "now": lambda: 6}
    return output.ReplyOptions(**{**given, **fields})


TRANSLATING = (
    Translating(lambda: MessagesDialect(ReplyOptions("m")), dialects.Messages()),
    Translating(lambda: ResponsesDialect(response_options()), dialects.Responses(types=False)),
)


def check_streams(data: bytes, new_engine: Callable[[], Engine], expected: ClientReply) -> None:
    """The client of every dialect has of this stream what a chat client has."""
    for each in TRANSLATING:
        _check_alike(each, each.streamed([data], new_engine()), expected)


def check_answers(answer: JsonObject, new_engine: Callable[[], Engine], expected: ClientReply) -> None:
    """The same for a whole answer."""
    for each in TRANSLATING:
        _check_alike(each, each.whole(answer, new_engine()), expected)


def _check_alike(each: Translating, found: ClientReply, expected: ClientReply) -> None:
    where = f"{each.name}: {found}"
    # What a server calls the end of its own accord: `abort` is a failure where a dialect has no word for it.
    if expected.finish in _ENDS:
        assert _ENDS.get(found.finish) == _ENDS[expected.finish], where
    # Half a call is an error in a stream; else a dialect whose calls are objects has what can be read of it, or text.
    if expected.finish is not None and any(isinstance(value, str) for _, value in expected.calls):
        return
    assert [name for name, _ in found.calls] == [name for name, _ in expected.calls], where
    if found.finish is None:
        return
    assert found.calls == [(name, _without_surrogates(value)) for name, value in expected.calls], where
    if not (found.thoughts or expected.thoughts):
        assert found.text.strip() == _without_surrogates(expected.text).strip(), where


# Without tools a chat server's own finish passes, whether there are calls or not.
_ENDS = {"stop": "by itself", "tool_calls": "by itself", "length": "cut off", None: "failed"}


def _without_surrogates(value: Any) -> Any:
    """These dialects have no lone surrogates."""
    text = json.dumps(value, ensure_ascii=False).encode("utf-16-le", "surrogatepass")
    return json.loads(text.decode("utf-16-le", "replace"))


def value_of(arguments: str) -> Any:
    """The value that arguments are, or they themselves if they are no JSON; none at all are an empty object."""
    try:
        return json.loads(arguments or "{}", parse_int=_whole)
    except ValueError:
        return arguments


def _whole(digits: str) -> int | float:
    """Python reads no integer of more than 4,300 digits."""
    return int(digits) if len(digits) < 4_000 else float(digits)


def _crashed(error: Exception) -> None:
    raise AssertionError("the engine raised") from error
