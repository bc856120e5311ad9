"""Chat Completions, to the client: the stream of chunks, and whole answers.

Source: the OpenAI API reference, "Chat Completions: streaming events". What the engine let pass leaves as it came.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from proxy.codec import sse
from proxy.codec.json_access import as_object, objects_in
from proxy.codec.json_text import Json, JsonObject, dump, dump_json, load_chunk, load_json
from proxy.config.rules import ReasoningField, StripFields
from proxy.engine.events import (
    NO_FIELDS,
    Call,
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
from proxy.engine.lane import Lane
from proxy.errors import ProxyError, UpstreamRefused

DONE = b"[DONE]"
_EMPTY_CALLS = re.compile(rb'"tool_calls"\s*:\s*\[\s*\]')
# Reasoning goes by two names (F73).
_REASONING = ("reasoning", "reasoning_content")
# The name of thoughts that the server left in the text.
APART = "reasoning_content"
_HOLDS_REASONING = re.compile(rb'"reasoning(?:_content)?"\s*:\s*"')


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """The options of one client's replies.

    `usage`: it asked for the usage chunk (F61). `clean`: fields that it does not expect. `heartbeat_chunk`: it needs
    chunks instead of comments as signs of life (F76). `parsed`: the request offers tools. `reasoning`: under which
    name it gets the reasoning (F73). `calls_as_text`: it reads calls in the text alone.
    """

    model: str
    usage: bool
    clean: StripFields
    heartbeat_chunk: bool = False
    parsed: bool = False
    reasoning: ReasoningField = "as_is"
    calls_as_text: bool = False


class ChatWriter:
    """Internal events to chat-completion chunks (dialects.Writer).

    `expand`: what passes is no chunk of a stream, so it is said anew.
    """

    verbatim = True

    __slots__ = ("_due", "_expand", "_has_role", "_last", "_moved", "_opened", "_options", "_reasoning", "_spoke")

    def __init__(self, options: ChatOptions, *, expand: bool = False) -> None:
        self._options = options
        self._expand = expand
        self._last: JsonObject = {}
        self._reasoning = APART
        self._opened: CallOpened | None = None
        # The first chunk of a reply carries the role, whoever wrote it.
        self._spoke = False
        # The role of each choice as long as only the server has said it; the choices whose client knows it; and those
        # whose role left before the chunk that said it. `{"role": "assistant", "content": "<tool"}` is held, and the
        # reasoning that comes then overtakes it.
        self._due: dict[int, str] = {}
        self._has_role: tuple[int, ...] = ()
        self._moved: tuple[int, ...] = ()

    def observe_chunk(self, chunk: Chunk) -> None:
        """Keep the envelope of the newest chunk, and the role of each choice, for the chunks that are written here."""
        self._last = chunk.body
        for choice, delta in _deltas(chunk.body):
            for name in _REASONING:
                if delta.get(name):
                    self._reasoning = name
            role = delta.get("role")
            if isinstance(role, str) and choice not in self._has_role:
                self._due[choice] = role

    def passes(self, around: bytes) -> bool:
        """True if nothing of them is said anew (`_passed`)."""
        options = self._options
        if self._expand or self._due or self._moved:
            return False
        if options.clean:
            return False
        if options.parsed and _EMPTY_CALLS.search(around):
            return False
        return not self._renames_reasoning(around)

    def teller(self, lane: Lane) -> None:
        """Nothing: what cannot leave as it came is not of one shape."""

    def comment(self, raw: bytes) -> bytes:
        """Comments pass."""
        return raw

    def begin(self, choices: int) -> bytes:
        """The role of each choice."""
        return b"".join(self._chunk(choice, {"role": "assistant", "content": ""}) for choice in range(choices))

    def end(self) -> bytes:
        """The end marker of the dialect."""
        return sse.encode(DONE)

    def error(self, error: ProxyError) -> bytes:
        """An error event, which the SDKs raise; no `[DONE]` follows it, which would mean success."""
        return sse.encode(error_body(error))

    def heartbeat(self) -> bytes:
        """A comment, or for clients whose own timer sees only chunks an empty one (F64, F76)."""
        if not self._options.heartbeat_chunk:
            return sse.comment("ping")
        return self._chunk(0, {})

    def write(self, event: Event) -> bytes:
        """One event as chunks. A call opens in one chunk with the first of its arguments, which always follow."""
        match event:
            case Unchanged():
                return self._passed(event)
            case Text():
                return self._chunk(event.choice, {"content": event.text}, source=event.source)
            case Reasoning():
                return self._write_reasoning(event)
            case CallOpened():
                self._opened = event
                return b""
            case CallArguments():
                return self._arguments(event)
            case Finished():
                return self._finish(event)
            case Usage():
                return self._usage(event.usage)
            case Rest():
                return self._chunk(event.choice, {}, source=event.source)
            case CallClosed():
                return b""
            case Failed():
                return self.error(event.error)

    def _passed(self, event: Unchanged) -> bytes:
        options = self._options
        self._spoke = True
        if self._expand:
            return b"".join(self.write(inner) for inner in event.events)
        if not options.usage and _is_usage(event):
            return b""
        raw = event.raw
        if self._due or (self._moved and b'"role"' in raw):
            raw = self._with_roles(raw)
        has_empty_calls = options.parsed and _EMPTY_CALLS.search(raw) is not None
        if has_empty_calls or options.clean or self._renames_reasoning(raw):
            return cleaned_event(raw, options.clean, drop_empty_calls=has_empty_calls, reasoning=options.reasoning)
        return raw

    def _renames_reasoning(self, raw: bytes) -> bool:
        """True if the event may hold reasoning under a name that the client does not read."""
        return self._options.reasoning != "as_is" and _HOLDS_REASONING.search(raw) is not None

    def _with_roles(self, raw: bytes) -> bytes:
        """An event with the role of each choice where the client needs it: in the first chunk, and once."""
        body = _read_event(raw)
        changed = False
        for choice, delta in _deltas(body):
            if "role" not in delta:
                named = self._with_role(choice, delta)
                if len(named) > len(delta):
                    changed = True
                delta.update(named)
            elif choice in self._moved:
                del delta["role"]
                self._moved = tuple(moved for moved in self._moved if moved != choice)
                changed = True
            else:
                self._knows_role(choice)
                self._due.pop(choice, None)
        if not changed:
            return raw
        return sse.encode(dump_json(body))

    def _with_role(self, choice: int, delta: JsonObject) -> JsonObject:
        """A delta that says something, with the role of its choice if that is due."""
        if not delta or choice not in self._due:
            return delta
        self._knows_role(choice)
        self._moved = (*self._moved, choice)
        return {"role": self._due.pop(choice), **delta}

    def _knows_role(self, choice: int) -> None:
        """The client knows the role of this choice."""
        if choice not in self._has_role:
            self._has_role = (*self._has_role, choice)

    def _write_reasoning(self, event: Reasoning) -> bytes:
        names = reasoning_names(self._options.reasoning) or (self._reasoning_key(),)
        delta: JsonObject = {name: event.text for name in names if name not in self._options.clean.message}
        if not delta and event.source is None:
            return b""
        return self._chunk(event.choice, delta, source=event.source)

    def _reasoning_key(self) -> str:
        """The name that the server uses."""
        for entry in entries(self._last):
            delta = as_object(entry.get("delta") or entry.get("message"))
            for name in _REASONING:
                if delta.get(name):
                    self._reasoning = name
        return self._reasoning

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

    def _chunk(
        self, choice: int, delta: JsonObject, finish: str | None = None, source: Chunk | None = None
    ) -> bytes:
        """A chunk of ours, with what else the server's `source` says that it is written for."""
        if delta and not self._spoke:
            self._due.setdefault(choice, "assistant")
        delta = self._with_role(choice, delta)
        if delta:
            self._spoke = True
        top, around, inside = self._rest(source)
        entry: JsonObject = {"index": choice, "delta": {**delta, **inside}, "logprobs": None, "finish_reason": finish}
        body: JsonObject = {**self._envelope(), "choices": [{**entry, **around}], **top}
        if source is not None:
            body = clean_body(body, self._options.clean)
        return sse.encode(dump_json(body))

    def _rest(self, source: Chunk | None) -> tuple[JsonObject, JsonObject, JsonObject]:
        """The other fields of a server's chunk: at its top, in its choice, in its delta."""
        if source is None:
            return {}, {}, {}
        return rest_of(source.body)

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

    def _finish(self, event: Finished) -> bytes:
        """The upstream's own finish chunk with the true reason and an empty delta, else one of ours."""
        source = event.source
        if source is None or self._expand:
            return self._chunk(event.choice, {}, event.reason, source)
        own = [entry for entry in entries(source.body) if choice_number(entry.get("index")) == event.choice]
        if not own:
            return self._chunk(event.choice, {}, event.reason)
        entry = own[-1]  # nothing follows the finish, not even a second one
        _, _, inside = rest_of({"choices": [entry]})
        kept = {key: value for key, value in entry.items() if key != "message"}
        body: JsonObject = {
            **source.body,
            "choices": [{**kept, "delta": inside, "finish_reason": event.reason}],
        }
        return sse.encode(dump_json(clean_body(body, self._options.clean)))

    def _usage(self, usage: Mapping[str, Json]) -> bytes:
        if not self._options.usage:
            return b""
        kept = {key: value for key, value in usage.items() if key not in self._options.clean.usage}
        return sse.encode(dump_json({**self._envelope(), "choices": [], "usage": kept}))


class TextCallsWriter(ChatWriter):
    """For a client that reads calls in the text alone."""

    def passes(self, around: bytes) -> bool:
        """No: a call is text once it is whole."""
        return False

    def write(self, event: Event) -> bytes:
        """One event as chunks, a call as text."""
        as_text_events = with_calls_as_text(event)
        if as_text_events == (event,):
            return super().write(event)
        return b"".join(map(self.write, as_text_events))


def new_writer(options: ChatOptions, *, expand: bool = False) -> ChatWriter:
    """The writer of one reply for a client that wants this."""
    if options.calls_as_text:
        return TextCallsWriter(options, expand=expand)
    return ChatWriter(options, expand=expand)


def with_calls_as_text(event: Event) -> tuple[Event, ...]:
    """An event for a client that reads calls in the text alone: each is text once it is whole, and the model stopped.

        <tool_call>
        {"name": "read", "arguments": {"path": "a.py"}}
        </tool_call>
    """
    match event:
        case CallOpened() | CallArguments():
            return ()
        case CallClosed():
            return (Text(event.choice, _call_as_text(event.call)),)
        case Finished(reason="tool_calls"):
            return (replace(event, reason="stop"),)
        case Unchanged() if any(with_calls_as_text(part) != (part,) for part in event.events):
            return tuple(part for inner in event.events for part in with_calls_as_text(inner))
    return (event,)


def _call_as_text(call: Call) -> str:
    text = f'\n<tool_call>\n{{"name": {dump(call.name)}, "arguments": {call.arguments}'
    try:
        load_json(call.arguments)
    except ValueError:
        return text  # it was cut off, and must not look whole (contract C4)
    return f"{text}}}\n</tool_call>"


def error_body(error: ProxyError) -> bytes:
    """The OpenAI error object; an upstream's own body stays as it came."""
    if isinstance(error, UpstreamRefused) and error.body is not None:
        return error.body
    fields = {"message": error.message, "type": error.kind, "param": None, "code": error.status}
    return dump_json({"error": fields})


def reasoning_names(reasoning: ReasoningField) -> tuple[str, ...]:
    """The names under which the client gets the reasoning; none if it gets what the server wrote."""
    if reasoning == "as_is":
        return ()
    if reasoning == "both":
        return _REASONING
    return (reasoning,)


def clean_body(
    body: JsonObject, clean: StripFields, *, drop_empty_calls: bool = False, reasoning: ReasoningField = "as_is"
) -> JsonObject:
    """A chunk or an answer without the fields that the client does not expect and without empty call lists (F64), its
    reasoning under the name that the client reads (F73).
    """
    result = {key: value for key, value in body.items() if key not in clean.top}
    usage = result.get("usage")
    if isinstance(usage, dict):
        result["usage"] = {key: value for key, value in usage.items() if key not in clean.usage}
    if isinstance(result.get("choices"), list):
        names = reasoning_names(reasoning)
        result["choices"] = [_clean_entry(entry, clean, drop_empty_calls, names) for entry in entries(body)]
    return result


def cleaned_event(
    raw: bytes, clean: StripFields, *, drop_empty_calls: bool, reasoning: ReasoningField = "as_is"
) -> bytes:
    """An event cleaned; as it came if nothing had to go."""
    body = _read_event(raw)
    if not body:
        return raw
    cleaned = clean_body(body, clean, drop_empty_calls=drop_empty_calls or bool(clean), reasoning=reasoning)
    if cleaned == body:
        return raw
    return sse.encode(dump_json(cleaned))


def _is_usage(event: Unchanged) -> bool:
    """True for a chunk that says nothing but the token counts."""
    return bool(event.events) and all(isinstance(inner, Usage) for inner in event.events)


def _read_event(raw: bytes) -> JsonObject:
    """The chunk that an event carries; empty if it is none."""
    decoder = sse.Decoder(len(raw) + 2)
    events = decoder.feed(raw) or decoder.finish()
    if not events:
        return {}
    try:
        return as_object(load_chunk(events[0].data or b"null")[0])
    except ValueError:
        return {}


def _deltas(body: JsonObject) -> Iterator[tuple[int, JsonObject]]:
    """The deltas of a chunk, each with the number of its choice."""
    for entry in entries(body):
        delta = entry.get("delta")
        if isinstance(delta, dict):
            yield choice_number(entry.get("index")), delta


def _clean_entry(entry: JsonObject, clean: StripFields, drop_empty_calls: bool, names: tuple[str, ...]) -> JsonObject:
    result = {key: value for key, value in entry.items() if key not in clean.choice}
    for name in ("delta", "message"):
        content = result.get(name)
        if isinstance(content, dict):
            if names:
                content = _renamed(content, names)
            kept = {key: value for key, value in content.items() if key not in clean.message}
            if drop_empty_calls and kept.get("tool_calls") == []:
                del kept["tool_calls"]
            result[name] = kept
    return result


def _renamed(content: JsonObject, names: tuple[str, ...]) -> JsonObject:
    """The same with its reasoning, if it holds any, under these names, in the place where it stood."""
    thoughts = (content.get(name) for name in _REASONING)
    texts = [text for text in thoughts if isinstance(text, str) and text]
    if not texts:
        return content
    result: JsonObject = {}
    for key, value in content.items():
        if key in _REASONING:
            result |= {name: texts[0] for name in names if name not in result}
        else:
            result[key] = value
    return result


def entries(body: JsonObject) -> list[JsonObject]:
    """The objects in the `choices` of a chunk or an answer."""
    return objects_in(body.get("choices"))
