"""Find tool calls in a model's text without running the proxy.

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
{'path': 'a'}
>>> stream.finish()
[]
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from proxy.dialects.chat.request import call_ids, copy_sources, made_calls
from proxy.engine.engine import Engine
from proxy.engine.events import CallClosed, Chunk, Event, Failed, Finished, Text, Unchanged
from proxy.engine.task import Task
from proxy.json import Json, JsonObject, as_object, load_json
from proxy.notations.toolset import ToolSet, read_tools
from proxy.repair.record import Repair

Objects: TypeAlias = Sequence[Mapping[str, Any]]


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
        """Take more text and return the results so far in order: text that is not a call, and complete calls."""
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
