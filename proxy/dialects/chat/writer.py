"""Chat Completions for the client: chunks, and fields of chunks and answers. Unchanged events are sent verbatim.

Source: the OpenAI API reference, "Chat Completions: streaming events".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from proxy import sse
from proxy.dialects.base import REASONING_FIELDS, Writer
from proxy.dialects.chat.answer import APART, ChatOptions, clean_body, entries, reasoning_names, rebuild
from proxy.engine.events import (
    NO_FIELDS,
    CallArguments,
    CallClosed,
    CallOpened,
    Chunk,
    Event,
    Failed,
    Finished,
    Reasoning,
    Rest,
    Text,
    Unchanged,
    Usage,
    choice_number,
    rest_of,
)
from proxy.errors import ProxyError, UpstreamRefused
from proxy.json import JsonObject, as_object, dump, dump_json, load_json, object_in

DONE = b"[DONE]"
_EMPTY_CALLS = re.compile(rb'"tool_calls"\s*:\s*\[\s*\]')
_HOLDS_REASONING = re.compile(rb'"reasoning(?:_content)?"\s*:\s*"')


class ChatWriter(Writer):
    """Encodes internal events as chat-completion chunks."""

    verbatim = True

    def __init__(self, options: ChatOptions) -> None:
        self._options = options
        self._last: JsonObject = {}
        self._reasoning = APART
        self._opened: CallOpened | None = None
        # The first chunk of a reply carries the role, whether the proxy or the server encoded it.
        self._spoke = False
        # The role of each choice until it is sent, then "". `_moved`: choices whose role was sent before the chunk that
        # contained it: `{"role": "assistant", "content": "<tool"}` is held, and reasoning overtakes it.
        self._roles: dict[int, str] = {}
        self._moved: frozenset[int] = frozenset()

    def observe_chunk(self, chunk: Chunk) -> None:
        """Keep the envelope of the newest chunk, the role of each choice and the name of the reasoning field."""
        self._last = chunk.body
        for entry in entries(chunk.body):
            choice, delta = choice_number(entry.get("index")), as_object(entry.get("delta") or entry.get("message"))
            for name in REASONING_FIELDS:
                if delta.get(name):
                    self._reasoning = name
            role = delta.get("role")
            if role and isinstance(role, str) and "delta" in entry:
                self._roles.setdefault(choice, role)

    def passes(self, around: bytes) -> bool:
        """Return whether events with these bytes around their text are sent verbatim."""
        changes = self._options.calls_as_text or any(self._roles.values()) or self._moved
        return not changes and self._is_clean(around)

    def comment(self, raw: bytes) -> bytes:
        """Forward comments unchanged."""
        return raw

    def begin(self, choices: int) -> bytes:
        """Return the chunks with the role of each choice."""
        return b"".join(self._chunk(choice, {"role": "assistant", "content": ""}) for choice in range(choices))

    def end(self) -> bytes:
        """Return the end marker."""
        return sse.encode(DONE)

    def complete_answer(self, body: bytes, answer: JsonObject, events: Iterable[Event]) -> bytes:
        """Return the answer made from the events: the bytes of `body` if nothing differs."""
        given = tuple(events)
        # Without tools the engine may forward the answer unchanged. Otherwise its events hold the whole content.
        parsed = self._options.parsed or not any(isinstance(event, Unchanged) for event in given)
        if self._options.calls_as_text:
            given = tuple(part for event in given for part in with_calls_as_text(event))
        return rebuild(body, answer, given, replace(self._options, parsed=parsed))

    def error(self, error: ProxyError) -> bytes:
        """Return an error event, which the SDKs raise. No `[DONE]` follows, because it would mean success."""
        return sse.encode(error_body(error))

    def heartbeat(self) -> bytes:
        """Return a comment, or an empty chunk for clients whose timer counts only chunks (F64, F76)."""
        return self._chunk(0, {}) if self._options.heartbeat_chunk else b": ping\n\n"

    def write(self, event: Event) -> bytes:
        """Encode one event as chunks, with calls as text for a client that reads them only there."""
        if self._options.calls_as_text:
            return b"".join(map(self._written, with_calls_as_text(event)))
        return self._written(event)

    def _written(self, event: Event) -> bytes:
        """Encode one event. The first chunk of a call also has its first arguments, which always follow immediately."""
        match event:
            case Unchanged():
                return self._passed(event)
            case Text():
                return self._chunk(event.choice, {"content": event.text}, source=event.source)
            case Reasoning():
                names = reasoning_names(self._options.reasoning) or (self._reasoning,)
                delta: JsonObject = {name: event.text for name in names if name not in self._options.clean.message}
                return self._chunk(event.choice, delta, source=event.source) if delta or event.source else b""
            case CallOpened():
                self._opened = event
                return b""
            case CallArguments():
                return self._arguments(event)
            case Finished():
                return self._chunk(event.choice, {}, event.reason, event.source)
            case Usage():
                if not self._options.usage:
                    return b""
                kept = {key: value for key, value in event.usage.items() if key not in self._options.clean.usage}
                return sse.encode(dump_json({**self._envelope(), "choices": [], "usage": kept}))
            case Rest():
                return self._chunk(event.choice, {}, source=event.source)
            case CallClosed():
                return b""
            case Failed():
                return self.error(event.error)

    def _passed(self, event: Unchanged) -> bytes:
        options = self._options
        self._spoke = True
        if not event.raw:  # it did not arrive as a chunk
            return b"".join(map(self._written, event.events))
        if not options.usage and event.events and all(isinstance(inner, Usage) for inner in event.events):
            return b""  # a chunk with only the token counts
        raw = event.raw
        if any(self._roles.values()) or (self._moved and b'"role"' in raw):
            raw = self._with_roles(raw)
        if self._is_clean(raw):
            return raw
        body = _read_event(raw)
        cleaned = clean_body(body, options)
        return raw if cleaned == body else sse.encode(dump_json(cleaned))

    def _is_clean(self, raw: bytes) -> bool:
        """Return whether an event has no field to remove, no empty list of calls, and no reasoning to rename."""
        options = self._options
        has_empty_calls = options.parsed and _EMPTY_CALLS.search(raw)
        renames = options.reasoning != "as_is" and _HOLDS_REASONING.search(raw)
        return not (options.clean or has_empty_calls or renames)

    def _with_roles(self, raw: bytes) -> bytes:
        """Add the role of each choice to an event where the client needs it: once, in the choice's first chunk."""
        body = _read_event(raw)
        changed = False
        for entry in entries(body):
            choice, delta = choice_number(entry.get("index")), entry.get("delta")
            if not isinstance(delta, dict):
                continue
            if "role" not in delta:
                named = self._with_role(choice, delta)
                changed = changed or len(named) > len(delta)
                delta.update(named)
            elif choice in self._moved:
                del delta["role"]
                self._moved -= {choice}
                changed = True
            else:
                self._roles[choice] = ""
        return sse.encode(dump_json(body)) if changed else raw

    def _with_role(self, choice: int, delta: JsonObject) -> JsonObject:
        """Return a delta with content, and with the role of its choice if it was not sent yet."""
        role = self._roles.get(choice)
        if not delta or not role:
            return delta
        self._roles[choice] = ""
        self._moved |= {choice}
        return {"role": role, **delta}

    def _envelope(self) -> JsonObject:
        last = self._last
        envelope: JsonObject = {
            "id": last.get("id", "chatcmpl-proxy"),
            "object": "chat.completion.chunk",
            "created": last.get("created", 0),
            "model": last.get("model", self._options.model),
        }
        if "system_fingerprint" in last and "system_fingerprint" not in self._options.clean.top:
            envelope["system_fingerprint"] = last["system_fingerprint"]
        return envelope

    def _chunk(self, choice: int, delta: JsonObject, finish: str | None = None, source: Chunk | None = None) -> bytes:
        """Build a chunk with the other fields of the server's chunk that it replaces (`source`)."""
        if delta and not self._spoke:
            self._roles.setdefault(choice, "assistant")
        delta = self._with_role(choice, delta)
        if delta:
            self._spoke = True
        top, around, inside = ({}, {}, {}) if source is None else rest_of(source.body)
        entry: JsonObject = {"index": choice, "delta": {**delta, **inside}, "logprobs": None, "finish_reason": finish}
        body: JsonObject = {**self._envelope(), "choices": [{**entry, **around}], **top}
        if source is not None:
            body = clean_body(body, self._options)
        return sse.encode(dump_json(body))

    def _arguments(self, event: CallArguments) -> bytes:
        opened, self._opened = self._opened, None
        call: JsonObject = {"index": event.index}
        function: JsonObject = {}
        if opened is not None:
            call |= {"id": opened.id, "type": "function"}
            function["name"] = opened.name
        function["arguments"] = event.fragment
        fields = event.fields or NO_FIELDS
        entry: JsonObject = {**call, "function": {**function, **fields.function}, **fields.entry}
        return self._chunk(event.choice, {"tool_calls": [entry]}, source=event.source)


def with_calls_as_text(event: Event) -> tuple[Event, ...]:
    """Return an event with complete calls as text; the finish reason becomes `stop`.

        <tool_call>
        {"name": "read", "arguments": {"path": "a.py"}}
        </tool_call>
    """
    match event:
        case CallOpened() | CallArguments():
            return ()
        case CallClosed():
            name, arguments = dump(event.call.name), event.call.arguments
            text = f'\n<tool_call>\n{{"name": {name}, "arguments": {arguments}'
            try:
                load_json(arguments)
            except ValueError:
                return (Text(event.choice, text),)  # it was cut off, and must not look complete (contract C4)
            return (Text(event.choice, f"{text}}}\n</tool_call>"),)
        case Finished(reason="tool_calls"):
            return (replace(event, reason="stop"),)
        case Unchanged() if any(with_calls_as_text(part) != (part,) for part in event.events):
            return tuple(part for inner in event.events for part in with_calls_as_text(inner))
    return (event,)


def error_body(error: ProxyError) -> bytes:
    """Return the OpenAI error object; an upstream error body is unchanged."""
    if isinstance(error, UpstreamRefused) and error.body is not None:
        return error.body
    fields = {"message": error.message, "type": error.kind, "param": None, "code": error.status}
    return dump_json({"error": fields})


def _read_event(raw: bytes) -> JsonObject:
    """Return the chunk of an event; empty if it has none."""
    decoder = sse.Decoder(len(raw) + 2)
    events = decoder.feed(raw) or decoder.finish()
    return object_in(events[0].data or b"") if events else {}
