"""Replies of faulty servers, and the client's result: for streams, whole answers, and whole answers sent as streams.

Bytes pass through the proxy's decoder, engine and writer. `helpers.received` collects a stream in the proxy's own
`ChoiceView`, and asserts what `ChoiceView` tolerates. A whole answer is read field by field, so that a missing id or
name fails here.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from proxy.config.rules import StripFields
from proxy.dialects.chat.answer import ChatOptions, read_whole
from proxy.dialects.chat.writer import ChatWriter
from proxy.engine.engine import Engine
from proxy.engine.events import Chunk
from proxy.errors import ProxyError
from proxy.exchange.reply_stream import StreamReply
from proxy.notations.toolset import ToolSet
from tests.support import translated
from tests.support.answers import answer_as_answer, answer_as_stream
from tests.support.helpers import (
    OFFERED,
    calls,
    chunk,
    delta,
    ends,
    function,
    new_engine,
    offered,
    piece,
    random_cut,
    received,
)

DONE = b"data: [DONE]\n\n"
ROLE = chunk(delta(role="assistant", content=""))
LS = '{"command": "ls"}'
PWD = '{"command": "pwd"}'
# Longer streams are not fed byte by byte.
SHORT = 1200

_TASK = {
    "type": "object",
    "properties": {"content": {"type": "string"}, "done": {"type": "boolean"}, "rank": {"type": "integer"}},
    "required": ["content"],
}
TOOLS: ToolSet = offered(
    *OFFERED,
    function("todowrite", {"todos": {"type": "array", "items": _TASK}}, "todos"),
    function(
        "grep",
        {"pattern": {"type": "string"}, "mode": {"enum": ["content", "count"]}, "context": {"type": "integer"}},
        "pattern",
    ),
)


@dataclass(frozen=True)
class Got:
    """A client's result of a reply, and the proxy's records: ids of repairs, and the number of incomplete calls."""

    text: str
    reasoning: str
    ids: tuple[str, ...]
    names: tuple[str, ...]
    arguments: tuple[str, ...]
    finish: str | None
    error: str
    fixes: tuple[str, ...]
    empty: int

    @property
    def calls(self) -> list[tuple[str, str]]:
        return list(zip(self.names, self.arguments, strict=True))

    @property
    def values(self) -> list[tuple[str, Any]]:
        return [(name, json.loads(arguments)) for name, arguments in self.calls]

    @property
    def reply(self) -> translated.ClientReply:
        """The result in a form that all dialects share."""
        calls = [(name, translated.value_of(arguments)) for name, arguments in self.calls]
        return translated.ClientReply(self.text, calls, None if self.error else self.finish, bool(self.reasoning))

    @property
    def meant(self) -> Got:
        """Return the result for comparison, without the blanks in arguments and the order of repairs.

        Of a failed reply, only the failure is compared.
        """
        if self.error:
            return Got("", "", (), (), (), None, self.error, (), 0)
        return replace(self, arguments=tuple(map(_same_blanks, self.arguments)), fixes=tuple(sorted(self.fixes)))


def wire(chunks: Iterable[Chunk], *, done: bool = True) -> bytes:
    return b"".join(each.raw for each in chunks) + (DONE if done else b"")


def streamed(*chunks: Chunk, done: bool = True, cuts: int = 2, **task: Any) -> Got:
    """Return the client's result of these chunks, and assert that it does not depend on the cuts."""
    return of_bytes(wire([ROLE, *chunks], done=done), cuts=cuts, **task)


def of_bytes(data: bytes, *, cuts: int = 2, **task: Any) -> Got:
    """Return the client's result of a stream's bytes, the same at every cut, and with `cuts` in the other dialects."""
    got = _got(*_sent_alike(data, cuts, **task))
    if cuts:
        translated.check_streams(data, lambda: _engine(**task), got.reply)
    return got


def relayed(data: bytes, *, cuts: int = 2, **task: Any) -> bytes:
    """Return the bytes that a client gets for a stream's bytes, the same at every cut."""
    return _sent_alike(data, cuts, **task)[0]


def bytes_of(*chunks: Chunk, **task: Any) -> bytes:
    """Return the bytes that a client gets for these chunks."""
    return _sent([wire([ROLE, *chunks])], **task)[0]


def is_untouched(*chunks: Chunk, **task: Any) -> bool:
    """Return whether a client reads a stream of these chunks unchanged, without any repair."""
    sent, engine = _sent([wire([ROLE, *chunks])], **task)
    return received(sent) == received(wire([ROLE, *chunks])) and engine.audit == ()


def whole(message: dict[str, Any], finish: str | None = "stop", **task: Any) -> Got:
    """Return the client's result of a whole answer, and assert that it is the same if the proxy sends a stream."""
    body = json.dumps(_answer(message, finish)).encode()
    read = read_whole(body)
    engine, again = _engine(**task), _engine(**task)
    try:
        said = json.loads(answer_as_answer(body, read, engine, ChatWriter(_options())))["choices"][0]
    except ProxyError as error:
        return Got("", "", (), (), (), None, type(error).__name__, _fixes(engine), engine.empty_calls)
    found = said["message"].get("tool_calls") or []
    got = Got(
        said["message"].get("content") or "",
        said["message"].get("reasoning") or said["message"].get("reasoning_content") or "",
        tuple(call["id"] for call in found),
        tuple(call["function"]["name"] for call in found),
        tuple(call["function"]["arguments"] for call in found),
        said["finish_reason"],
        "",
        _fixes(engine),
        engine.empty_calls,
    )
    told = _got(answer_as_stream(read, again, ChatWriter(_options())), again)
    assert replace(told, text=told.text.strip()) == replace(got, text=got.text.strip())
    translated.check_answers(read, lambda: _engine(**task), got.reply)
    return got


def whole_is_untouched(message: dict[str, Any], finish: str = "tool_calls", **task: Any) -> bool:
    """Return whether a whole answer is forwarded verbatim, without any repair."""
    body = json.dumps(_answer(message, finish)).encode()
    engine = _engine(**task)
    return answer_as_answer(body, read_whole(body), engine, ChatWriter(_options())) == body and engine.audit == ()


def entry(name: Any, arguments: Any, id_: Any = "a") -> dict[str, Any]:
    """Return a call of a whole answer; fields that are `...` are left out."""
    inside = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not ...}
    return {**({} if id_ is ... else {"id": id_}), "type": "function", "function": inside}


def argued(name: str, arguments: str, *, finish: str = "tool_calls", cuts: int = 2, **task: Any) -> Got:
    """Return the client's result of a call with these arguments, the same in any pieces and in a whole answer.

    A call that ends a stream in an error is text in a whole answer (C4).
    """
    said: list[Got] = []
    for parts in _pieces(arguments, cuts):
        pieces = [calls(piece(0, "", name, "a")), *(calls(piece(0, part)) for part in parts)]
        said.append(streamed(*pieces, ends(finish), cuts=0, **task))
    said.append(streamed(calls(piece(0, arguments, name, "a")), ends(finish), **task))
    first = said[0]
    assert all(each.meant == first.meant for each in said), {each.meant for each in said}
    answer = whole({"content": None, "tool_calls": [entry(name, arguments)]}, finish, **task)
    if first.error:
        assert (answer.text, answer.names, answer.error) == (f"{name}{arguments}", (), "")
    else:
        assert answer.meant == first.meant
    return first


def mended(name: str, arguments: str, **task: Any) -> tuple[Any, set[str]]:
    """Return the values of a call with these arguments, and the repairs. Name, id and finish must be unchanged."""
    got = argued(name, arguments, **task)
    assert (got.text, got.ids, got.finish, got.error) == ("", ("a",), "tool_calls", "")
    ((told, values),) = got.values
    assert told == name
    return values, set(got.fixes)


def kept(name: str, arguments: str, **task: Any) -> bool:
    """Return whether the client gets the arguments verbatim, without any repair."""
    got = argued(name, arguments, **task)
    return (got.calls, got.fixes) == ([(name, arguments)], ())


def stays(name: str, arguments: str, **task: Any) -> bool:
    """Return whether a call with these arguments is forwarded verbatim, streamed and whole, without any repair."""
    opened = calls(piece(0, arguments[:3], name, "a"))
    rest = [calls(piece(0, part)) for part in (arguments[3:9], arguments[9:]) if part]
    return (
        kept(name, arguments, **task)
        and streamed(opened, *rest, ends("tool_calls"), **task).calls == [(name, arguments)]
        and is_untouched(calls(piece(0, arguments, name, "a")), ends("tool_calls"), **task)
        and whole_is_untouched({"content": None, "tool_calls": [entry(name, arguments)]}, **task)
    )


def _same_blanks(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments))
    except ValueError:
        return arguments


def _engine(tools: ToolSet = TOOLS, **task: Any) -> Engine:
    return new_engine(tools, **task)


def _options() -> ChatOptions:
    return ChatOptions(model="m", usage=True, clean=StripFields(), parsed=True)


def _answer(message: dict[str, Any], finish: str | None) -> dict[str, Any]:
    said = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "w", "object": "chat.completion", "created": 7, "model": "m", "choices": [said]}


def _crashed(error: Exception) -> NoReturn:
    raise error


def _sent(cut: list[bytes], **task: Any) -> tuple[bytes, Engine]:
    engine = _engine(**task)
    reply = StreamReply(engine, ChatWriter(_options()), _crashed)
    given = b"".join(reply.receive(part) for part in cut) + reply.finish()
    return given + (reply.fail(reply.failure) if reply.failure else b""), engine


def _sent_alike(data: bytes, cuts: int, **task: Any) -> tuple[bytes, Engine]:
    found = dict(_sent(cut, **task) for cut in _cuts(data, cuts))
    assert len(found) == 1, f"the result depends on the cuts: {[*found]}"
    return next(iter(found.items()))


def _cuts(data: bytes, count: int) -> Iterator[list[bytes]]:
    """Yield the data whole and, unless `count` is 0, by event, at `count` random places, and by byte if it is short."""
    yield [data]
    if not count:
        return
    yield [block + b"\n\n" for block in data.split(b"\n\n") if block]
    rng = random.Random(len(data))
    for _ in range(count):
        yield random_cut(data, rng)
    if len(data) <= SHORT:
        yield [data[at : at + 1] for at in range(len(data))]


def _pieces(text: str, count: int) -> Iterator[list[str]]:
    yield [text[at : at + 1] for at in range(len(text))]
    rng = random.Random(len(text))
    for _ in range(count):
        yield random_cut(text, rng)


def _fixes(engine: Engine) -> tuple[str, ...]:
    return tuple(repair.id for repair in engine.audit)


def _got(sent: bytes, engine: Engine) -> Got:
    seen = received(sent)
    only = seen[0]
    assert [*seen.choices] == [0]
    assert len(set(only.ids)) == len(only.ids)
    error = json.dumps(seen.error["message"]) if seen.error else ""
    assert bool(error) is not seen.done and (bool(error) or only.finish is not None)
    return Got(
        only.text,
        only.reasoning,
        tuple(only.ids),
        tuple(name for name, _ in only.calls),
        tuple(arguments for _, arguments in only.calls),
        only.finish,
        "UpstreamBroken" if error else "",
        _fixes(engine),
        engine.empty_calls,
    )
