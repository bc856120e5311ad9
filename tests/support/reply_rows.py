"""Rows of recorded replies: the engine's events with their bodies, and the client's result.

{"in": [{"body": {...}}, {"text": "Hi"}, {"call": [0, "c1", "run"]}, {"arguments": [0, "{}"]}, {"finish": "stop"}]}
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from proxy import errors, sse
from proxy.dialects.base import Writer
from proxy.dialects.messages import writer as messages
from proxy.dialects.messages.writer import MessagesWriter
from proxy.dialects.responses import writer as responses
from proxy.dialects.responses.tools import Called, Kind, OfferedTools
from proxy.dialects.responses.writer import ResponsesWriter
from proxy.engine.events import (
    Call,
    CallArguments,
    CallClosed,
    CallOpened,
    Chunk,
    ContentEvent,
    Event,
    Failed,
    Finished,
    Reasoning,
    Rest,
    Text,
    Unchanged,
    Usage,
)
from proxy.errors import ProxyError

Row = dict[str, Any]


def writer_of(row: Row) -> Writer:
    """Return the writer for a row's client."""
    given = dict(row.get("options", {}))
    if row["dialect"] == "messages":
        given["stops"] = frozenset(given.get("stops", ()))
        return MessagesWriter(messages.ReplyOptions(**{"model": "m", "id": "abc", **given}))
    tools = {name: Called(Kind(kind), own, space) for name, (kind, own, space) in given.pop("tools", {}).items()}
    given["tools"] = OfferedTools(by_name=tools)
    return ResponsesWriter(responses.ReplyOptions(**{"id": "abc", "echo": {"model": "m"}, "now": lambda: 6, **given}))


def event_of(said: Row) -> Event:
    """Return the engine event that a row describes."""
    choice = said.get("choice", 0)
    match said:
        case {"text": text}:
            return Text(choice, text)
        case {"reasoning": text}:
            return Reasoning(choice, text)
        case {"call": [index, id_, name]}:
            return CallOpened(choice, index, id_, name)
        case {"arguments": [index, fragment]}:
            return CallArguments(choice, index, fragment)
        case {"closed": [index, *call]}:
            return CallClosed(choice, index, Call(*call), ())
        case {"finish": reason}:
            body: Any = {"choices": [said["entry"]]} if "entry" in said else None
            return Finished(choice, reason, None if body is None else Chunk(body, b""))
        case {"usage": counts}:
            return Usage(counts)
        case {"rest": body}:
            return Rest(choice, Chunk(body, b""))
        case {"unchanged": inner}:
            return Unchanged(b"", tuple(_content(map(event_of, inner))))
        case {"failed": [kind, words]}:
            return Failed(getattr(errors, kind)(words))
    raise AssertionError(said)


def _content(events: Iterable[Event]) -> Iterable[ContentEvent]:
    for event in events:
        assert isinstance(event, ContentEvent)
        yield event


def streamed(row: Row) -> list[Any]:
    """Return the events of the client's stream. A raised error is the last one."""
    writer, sent = writer_of(row), b""
    try:
        for said in row["in"]:
            sent += _written(writer, said)
    except ProxyError as error:
        return [*parsed(sent), {"raises": type(error).__name__}]
    return parsed(sent)


def _written(writer: Writer, said: Row) -> bytes:
    match said:
        case {"body": body}:
            writer.observe_chunk(Chunk(body, b""))
            return b""
        case {"end": _}:
            return writer.end()
        case {"heartbeat": _}:
            return writer.heartbeat()
        case {"error": [kind, words]}:
            return writer.error(getattr(errors, kind)(words))
    return writer.write(event_of(said))


def whole(row: Row) -> Any:
    """Return the client's whole answer for the same events."""
    events = [event_of(said) for said in row["in"] if not {"body", "end"} & said.keys()]
    bodies = [said["body"] for said in row["in"] if "body" in said]
    try:
        return json.loads(writer_of(row).complete_answer(b"", bodies[-1] if bodies else {}, events))
    except ProxyError as error:
        return {"raises": type(error).__name__}


def parsed(data: bytes) -> list[Any]:
    """Return the data of a stream's events, parsed."""
    decoder = sse.Decoder(len(data) + 2)
    return [json.loads(event.data) for event in (*decoder.feed(data), *decoder.finish()) if event.data is not None]
