"""Find tool calls in a model's text without running the proxy, and report what was found and why.

`from proxy import find_calls, CallStream` needs no server, no configuration and no I/O. `rules.yaml` is not read.

>>> tools = [{"type": "function", "function": {"name": "read", "parameters": {
...     "type": "object", "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
...     "required": ["path"]}}}]
>>> reply = find_calls('I look.\\n<tool_call>{"name": "Read", "arguments": {"path": "a", "limit": "5"}}', tools)
>>> reply.text, reply.finish_reason
('I look.\\n', 'tool_calls')
>>> reply.calls[0].name, reply.calls[0].arguments
('read', '{"path": "a", "limit": 5}')
>>> stream = CallStream(tools)
>>> for piece in ("I look.\\n", '<tool_call>{"name": "read", ', '"arguments": {"path": "a"}}', "</tool_call>"):
...     for event in stream.feed(piece):
...         print(event if isinstance(event, str) else event.values)
I look.
<BLANKLINE>
>>> [call.values for call in stream.finish()]
[{'path': 'a'}]
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from proxy.dialects.chat.request import call_ids, copy_sources, made_calls
from proxy.engine.engine import Engine
from proxy.engine.events import CallClosed, Chunk, Event, Failed, Finished, Text, Unchanged
from proxy.engine.task import Task
from proxy.json import Json, JsonObject, as_object, dump, load_json
from proxy.notations.front import Reader
from proxy.notations.source import Rejection
from proxy.notations.toolset import ToolSet, read_tools
from proxy.repair.policy import Policy
from proxy.repair.record import Repair
from proxy.repair.repairer import Repairer

Objects: TypeAlias = Sequence[Mapping[str, Any]]

_SHOWN = 60
# Reasons for rejecting structured calls. Those for text are in `Rejection`.
_STRUCTURED = {
    "no_name": "a structured call without a name, and nothing else identifies its tool; it was sent as text",
    "unreadable_arguments": "a structured call whose arguments are not an object; it was sent as text",
    "half_call": "a structured call that had been sent in part and could not be completed",
}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of an offered tool. `arguments` is the text of one JSON object, and `repairs` are the changes made to it.

    `id` is the model's own id if its notation has one, else a random id.
    """

    name: str
    arguments: str
    repairs: tuple[Repair, ...] = ()
    id: str = field(default="", compare=False)

    @property
    def values(self) -> dict[str, Any]:
        """The arguments as a dictionary."""
        return as_object(load_json(self.arguments))


@dataclass(frozen=True, slots=True)
class Reply:
    """A parsed reply: its calls, the remaining text, and the correct finish reason.

    `repairs` are all changes. `rejected` counts texts that looked like a call but were not, by reason.
    """

    calls: tuple[ToolCall, ...]
    text: str
    finish_reason: str
    repairs: tuple[Repair, ...]
    rejected: Mapping[str, int]


class CallStream:
    """Incremental reader for one reply.

    `tools` are the request's tools in the form of any API. `messages` is the conversation in the form of Chat
    Completions; calls that the model only copies from it are not found. `json_reply`: the client asked for JSON with
    `response_format`. `special_tokens`: the server leaves special tokens in the text.
    """

    def __init__(
        self, tools: Objects, messages: Objects = (), *, json_reply: bool = False, special_tokens: bool = False
    ) -> None:
        offered = offered_tools(tools)
        history: list[Json] = [dict(message) for message in messages]
        self._engine = Engine(
            Task(
                tools=offered if offered else None,
                seed=os.urandom(16),
                raw_text=special_tokens,
                json_reply=json_reply,
                sources=copy_sources(history),
                made=made_calls(history),
                ids=call_ids(history),
            )
        )
        self.finish_reason = ""

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """The repairs so far."""
        return self._engine.audit

    @property
    def rejected(self) -> Mapping[str, int]:
        """The number of texts so far that looked like a call but were not, by reason."""
        return self._engine.refusals

    def feed(self, text: str) -> list[str | ToolCall]:
        """Take more text and return the results so far in order: text that is not a call, and complete calls.

        A call is complete when the next one begins or the reply ends: other text may be part of its last value.
        """
        return self._taken(self._engine.feed(_chunk({"content": text}, None)))

    def finish(self, finish_reason: str = "stop") -> list[str | ToolCall]:
        """Take the end of the reply and return the rest. The attribute `finish_reason` is then the correct reason.

        An incomplete call is completed only after a natural end, not after `length`, `content_filter` or an unknown
        reason.
        """
        events = self._engine.feed(_chunk({}, finish_reason))
        return self._taken((*events, *self._engine.finish(done=True)))

    def _taken(self, events: Iterable[Event]) -> list[str | ToolCall]:
        taken: list[str | ToolCall] = []
        for outer in events:
            for event in outer.events if isinstance(outer, Unchanged) else (outer,):
                if isinstance(event, Text):
                    taken.append(event.text)
                elif isinstance(event, CallClosed):
                    call = event.call
                    taken.append(ToolCall(call.name, call.arguments, event.fixes, call.id))
                elif isinstance(event, Finished):
                    self.finish_reason = event.reason
                elif isinstance(event, Failed):
                    raise event.error
        return taken


def find_calls(
    text: str,
    tools: Objects,
    messages: Objects = (),
    *,
    finish_reason: str = "stop",
    json_reply: bool = False,
    special_tokens: bool = False,
) -> Reply:
    """Read a whole reply. The parameters are those of CallStream and its `finish`."""
    stream = CallStream(tools, messages, json_reply=json_reply, special_tokens=special_tokens)
    found = [*stream.feed(text), *stream.finish(finish_reason)]
    calls = tuple(each for each in found if isinstance(each, ToolCall))
    rest = "".join(each for each in found if isinstance(each, str))
    return Reply(calls, rest, stream.finish_reason, stream.repairs, stream.rejected)


def offered_tools(tools: Iterable[Mapping[str, Any]]) -> ToolSet:
    """Read tools in the form of any API: Chat Completions, Messages or Responses."""
    functions: list[Json] = []
    for tool in tools:
        function = tool.get("function")
        if not isinstance(function, dict):
            function = {"name": tool.get("name"), "parameters": tool.get("input_schema", tool.get("parameters"))}
        functions.append({"type": "function", "function": function})
    return read_tools(functions)


def _chunk(delta: JsonObject, finish_reason: str | None) -> Chunk:
    return Chunk({"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}, b"")


def reasons() -> dict[str, str]:
    """Return the sentence for each rejection label."""
    return {rejection.label: rejection.sentence for rejection in Rejection} | _STRUCTURED


@dataclass(frozen=True, slots=True)
class FoundCall:
    """A call in a text: its tool's name, the name and the arguments that were read, and where.

    `name`, `arguments` and `repairs` are those of the repaired call. `name` is None if it cannot be executed.
    """

    tool: str
    written: str
    read: JsonObject
    evidence: str
    format: str
    place: str
    name: str | None
    arguments: JsonObject | None
    repairs: tuple[Repair, ...]


@dataclass(frozen=True, slots=True)
class TextReport:
    """The calls in a text, the places that looked like a call and were rejected, and the remaining content."""

    calls: tuple[FoundCall, ...]
    refused: tuple[str, ...]
    content: str


def read_text(text: str, tools: ToolSet, policy: Policy, *, stopped: bool) -> TextReport:
    """Read a text and repair its calls like those of a reply."""
    reader, repairer = Reader(tools, off=policy.disabled_formats), Repairer(tools, policy)
    calls: list[FoundCall] = []
    start, content = 0, ""
    for piece in (*reader.feed(text), *reader.finish(stopped=stopped)):
        for call in piece.calls or ():
            evidence = "weak" if call.weak else "strong"
            read = call.name, call.written, call.arguments, evidence, piece.row, _line(text, start)
            repaired = repairer.repair(call.name, dump(call.arguments), stopped=True)
            made = (repaired.name, repaired.values, repaired.fixes) if repaired else (None, None, ())
            calls.append(FoundCall(*read, *made))
        content += piece.text if piece.is_prose else ""
        start += len(piece.text)
    refused = []
    for place in sorted(reader.refused, key=lambda each: each.start):
        shown = text[place.start : place.start + _SHOWN].split("\n", maxsplit=1)[0]
        refused.append(f"refused at {_line(text, place.start)}: {shown!r}, read by {place.row}: {place.why}")
    return TextReport(tuple(calls), tuple(refused), content)


def explained(report: TextReport) -> Iterator[str]:
    """Yield the lines of the report: for each call, its notation, the repaired call and its repairs."""
    for number, call in enumerate(report.calls, 1):
        written = "" if call.written == call.tool else f", written {call.written!r}"
        yield f"call {number}: {call.tool}{written} ({call.evidence} evidence, {call.format}, {call.place})"
        yield f"  {dump(call.read)}"
        if call.name is None:
            yield "  cannot be repaired: it is sent as text"
        yield from (f"  repair {repair.id}: {repair.why}" for repair in call.repairs)
        if call.repairs:
            yield f"  the client gets {call.name} {dump(call.arguments)}"
    if not report.calls:
        yield "no call"
    yield from report.refused
    yield "content:" if report.content else "no content"
    if report.content:
        yield report.content


def _line(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1}"
