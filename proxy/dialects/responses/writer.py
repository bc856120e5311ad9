"""Responses for the client, streamed and whole: items with their parts, then the response with all items.

An item of text or reasoning opens with its first non-blank character, so no item is empty. Several calls may be open,
each with its own `output_index`. When another item opens, the newest call is finished if its arguments are complete,
because Codex runs it then. An incomplete call is never marked as done (C4).

Source: OpenAI's API reference, "Streaming events", "Create a model response": `output`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from proxy.dialects.reply_parts import OpenCall, TextKind, TranslatedWriter, encode, object_in_text, token_counts
from proxy.dialects.responses.errors import failure
from proxy.dialects.responses.tools import INPUT, Called, Kind, OfferedTools
from proxy.engine.events import CallOpened, Event
from proxy.errors import ContextFull, ProxyError, Unavailable
from proxy.json import Json, JsonObject, as_object, dump_strict, read_json

# Servers reserve some tokens: a context counts as full this close to its end.
_MARGIN = 8
_PREFIXES = {Kind.FUNCTION: "fc", Kind.CUSTOM: "ctc", Kind.SEARCH: "tsc"}
# Response fields that repeat the request's, with their defaults. Strict clients require all of them (Open Responses).
_ECHOED: JsonObject = {
    "model": "",
    "instructions": None,
    "tools": [],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "temperature": 1.0,
    "top_p": 1.0,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "prompt_cache_key": None,
    "safety_identifier": None,
    "user": None,
}
# Response fields that never depend on the request.
_FIXED: JsonObject = {
    "previous_response_id": None,
    "store": False,
    "background": False,
    "truncation": "disabled",
    "service_tier": "default",
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
}


@dataclass(slots=True)
class Progress:
    """The number of heartbeats before the reply.

    All attempts of a request continue the count, also while the end of a failed attempt is held.
    """

    sequence: int = 0


@dataclass(frozen=True, slots=True)
class ReplyOptions:
    """Options that a reply takes from its request.

    `id`: letters and digits for the ids of the response and its items. `echo`: the fields that repeat the request's.
    `limit`: the client's `max_output_tokens`. `context`: the size of the model's context in tokens, None if unknown.
    `now` returns the time in seconds. `keep` stores the complete response before it is sent; it may raise
    Unavailable.
    """

    id: str
    echo: JsonObject
    tools: OfferedTools = field(default_factory=OfferedTools)
    limit: int | None = None
    context: int | None = None
    created_at: int = 0
    now: Callable[[], int] = lambda: 0
    keep: Callable[[JsonObject], None] | None = None
    progress: Progress = field(default_factory=Progress)


# The words for a text in event names.
_WORDS = {"text": "output_text", "thinking": "reasoning_text", "refusal": "refusal"}


@dataclass(slots=True)
class TextItem:
    """The open item of text or reasoning, or of a refusal in a field of its own."""

    kind: TextKind | Literal["refusal"]
    index: int
    id: str
    deltas: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self.deltas)

    @property
    def part(self) -> JsonObject:
        """The item's only part, with the text so far."""
        if self.kind == "text":
            return {"type": "output_text", "text": self.text, "annotations": [], "logprobs": []}
        return {"type": _WORDS[self.kind], "refusal" if self.kind == "refusal" else "text": self.text}

    def event(self, name: str, field: str, text: str) -> JsonObject:
        """Return an event with text in this field: `delta` or `done`."""
        more: JsonObject = {"logprobs": []} if self.kind == "text" else {}
        return _of_item(f"response.{_WORDS[self.kind]}.{name}", self, content_index=0, **{field: text}, **more)

    def item(self, status: str) -> JsonObject:
        """Return the item with its text so far; without a part at its start."""
        content: list[Json] = [] if status == "in_progress" else [self.part]
        if self.kind == "thinking":
            item: JsonObject = {"id": self.id, "type": "reasoning", "summary": [], "content": content}
            return {**item, "encrypted_content": None, "status": status}
        return {"id": self.id, "type": "message", "status": status, "role": "assistant", "content": content}


@dataclass(slots=True, kw_only=True)
class CallItem(OpenCall):
    """The open item of a call."""

    id: str
    call_id: str
    called: Called

    @property
    def is_plain(self) -> bool:
        """Whether it is a custom tool's plain input instead of JSON: only the end of the reply shows that it is
        complete.
        """
        return self.called.kind is Kind.CUSTOM and not self.arguments.lstrip().startswith("{")

    def item(self, status: str) -> JsonObject:
        """Return the item with its arguments or input so far."""
        kind = self.called.kind
        item: JsonObject = {"id": self.id, "type": f"{kind.value}_call", "status": status, "call_id": self.call_id}
        if kind is Kind.SEARCH:
            written = {} if status == "in_progress" else object_in_text(self.arguments)
            return {**item, "execution": "client", "arguments": self.arguments if written is None else written}
        item["name"] = self.called.name
        if self.called.namespace:
            item["namespace"] = self.called.namespace
        if kind is Kind.CUSTOM:
            return {**item, "type": "custom_tool_call", "input": self.input}
        return {**item, "arguments": self.arguments}

    @property
    def input(self) -> str:
        """The input of a custom tool; "" while its arguments are incomplete."""
        return plain_input(self.arguments) if self.is_whole or self.is_plain else ""


class ResponsesWriter(TranslatedWriter):
    """Encodes internal events as the bytes of a Responses stream."""

    _calls: dict[int, CallItem]  # type: ignore[assignment]  # this writer adds only CallItems

    def __init__(self, options: ReplyOptions) -> None:
        super().__init__()
        self._options = options
        self._text: TextItem | None = None
        self._newest: int | None = None
        self._items: list[JsonObject] = []
        # Whether more than heartbeats was sent.
        self._has_spoken = False
        self._progress = options.progress
        self._sequence = 0

    def last_events(self) -> list[JsonObject]:
        """Return the end of a finished reply.

        Raises UpstreamBroken if a call is incomplete although the model stopped normally, and ContextFull if the answer
        was cut at the end of the context.
        """
        reason, cut = self.finish_reason([call.arguments for call in self._calls.values() if not call.is_plain])
        if reason == "length" and self._is_full():
            raise ContextFull("the model's context is full: the answer was cut off; make the conversation shorter")
        events = self._begin()
        for number, call in [*self._calls.items()]:  # an incomplete call stays open
            if not cut and not call.arguments.strip():
                events += self.continue_call(call, "{}")
            events += self._end_call(number) if call.is_plain and not cut else self.close_call(number)
        events += self._end_text("incomplete" if cut else "completed")
        if words := "".join(self._refusal):
            events += [*self._open_item("refusal"), *self.deltas(words), *self._end_text("completed")]
        response = self._response("incomplete" if cut else "completed", usage(self._counts))
        if cut:
            why = "content_filter" if reason == "content_filter" else "max_output_tokens"
            response["incomplete_details"] = {"reason": why}
        else:
            response["completed_at"] = self._options.now()
        if self._options.keep is not None:
            try:
                self._options.keep(response)
            except Unavailable:  # the store has logged the reason, and a complete reply must not fail because of it
                response["store"] = False
        return [*events, {"type": f"response.{response['status']}", "response": response}]

    def error(self, error: ProxyError) -> bytes:
        """Return `response.failed`. No `error` event follows, because Codex ignores it.

        Open items stay open, because clients count the finished ones.
        """
        events = self._begin()
        response = self._response("failed", usage(self._counts) if self._counts else None)
        response["error"] = failure(error)
        return self.encode([*events, {"type": "response.failed", "response": response}])

    def complete_answer(self, body: bytes, answer: JsonObject, events: Iterable[Event]) -> bytes:
        """Return a whole answer as a response."""
        return dump_strict(self.whole(answer, events)[-1]["response"])

    def heartbeat(self) -> bytes:
        """Return `response.created`, then `response.in_progress` repeatedly: comments do not reset clients' timers."""
        if self._has_spoken:
            return self.encode([self._lifecycle("response.in_progress")])
        self._sequence = self._progress.sequence
        data = self.encode([self._lifecycle("response.in_progress" if self._sequence else "response.created")])
        self._progress.sequence = self._sequence
        return data

    def encode(self, events: Iterable[JsonObject]) -> bytes:
        """Encode events with their names and consecutive numbers."""
        written: list[bytes] = []
        for event in events:
            event["sequence_number"] = self._sequence  # each event belongs to this stream and is sent once
            self._sequence += 1
            written.append(encode(event))
        return b"".join(written)

    def encode_deltas(self, before: bytes, texts: Sequence[bytes], after: bytes) -> bytes:
        """Encode events that differ only in text and number."""
        first, after = self._sequence, after.removesuffix(b"}\n\n") + b',"sequence_number":'
        self._sequence += len(texts)
        return b"".join([b"%b%b%b%d}\n\n" % (before, text, after, at) for at, text in enumerate(texts, first)])

    # Text and reasoning.

    def begin_text(self, kind: TextKind) -> list[JsonObject]:
        """Return the start of an item of text or reasoning."""
        before = self._make_room()
        self._open = kind
        return [*before, *self._open_item(kind)]

    def _open_item(self, kind: TextKind | Literal["refusal"]) -> list[JsonObject]:
        index = self._new_item()
        prefix = "rs" if kind == "thinking" else "msg"
        opened = self._text = TextItem(kind, index, f"{prefix}_{self._options.id}_{index}")
        added = self._added(index, opened.item("in_progress"))
        return [added, _of_item("response.content_part.added", opened, content_index=0, part=opened.part)]

    def text_delta(self, text: str) -> JsonObject:
        """Return the event that continues the open item."""
        assert self._text is not None
        return self._text.event("delta", "delta", text)

    def keep_text(self, text: str) -> None:
        """Keep the text of the open item for its end."""
        assert self._text is not None
        self._text.deltas.append(text)

    def _end_text(self, status: str) -> list[JsonObject]:
        """Return the end of the open item of text or reasoning, if there is one."""
        item = self._text
        if item is None:
            return []
        rest = self.deltas(self._characters.finish())
        self._text = self._open = None
        done = item.event("done", "refusal" if item.kind == "refusal" else "text", item.text)
        part_done = _of_item("response.content_part.done", item, content_index=0, part=item.part)
        return [*rest, done, part_done, self._done(item.index, item.item(status))]

    # Calls.

    def open_call(self, event: CallOpened) -> list[JsonObject]:
        """Return the start of a call's item."""
        before, index, own = self._make_room(), self._new_item(), self._options.id
        called = self._options.tools.called(event.name)
        call_id = self.own_id(event.id, f"call_{own}_{index}")
        opened = CallItem(index=index, id=f"{_PREFIXES[called.kind]}_{own}_{index}", call_id=call_id, called=called)
        self._calls[event.index] = opened
        self._newest = event.index
        return [*before, self._added(index, opened.item("in_progress"))]

    def arguments_delta(self, call: OpenCall, text: str) -> JsonObject | None:
        """Return the event that continues a function's arguments; other kinds are sent once they are complete."""
        assert isinstance(call, CallItem)
        is_live = call.called.kind is Kind.FUNCTION
        return _of_item("response.function_call_arguments.delta", call, delta=text) if is_live else None

    def close_call(self, number: int) -> list[JsonObject]:
        """Return the end of a call if its arguments are complete."""
        return self._end_call(number) if self._calls[number].is_whole else []

    def _end_call(self, number: int) -> list[JsonObject]:
        call = self._calls.pop(number)
        events = self.continue_call(call, call.escapes.finish())
        if call.called.kind is Kind.CUSTOM:
            if text := call.input:
                events.append(_of_item("response.custom_tool_call_input.delta", call, delta=text))
            events.append(_of_item("response.custom_tool_call_input.done", call, input=text))
        elif call.called.kind is Kind.FUNCTION:
            events.append(_of_item("response.function_call_arguments.done", call, arguments=call.arguments))
        return [*events, self._done(call.index, call.item("completed"))]

    # The response.

    def _make_room(self) -> list[JsonObject]:
        """Return the events before another item: the start of the stream, and the end of the text and a whole call."""
        events = [*self._begin(), *self._end_text("completed")]
        if self._newest in self._calls:
            events += self.close_call(self._newest)
        self._newest = None
        return events

    def _begin(self) -> list[JsonObject]:
        """Return the start of the stream, once. Its numbers continue those of the heartbeats of all attempts."""
        if self._has_spoken:
            return []
        self._has_spoken, self._sequence = True, self._progress.sequence
        created = [] if self._sequence else [self._lifecycle("response.created")]
        return [*created, self._lifecycle("response.in_progress")]

    def _lifecycle(self, kind: str) -> JsonObject:
        return {"type": kind, "response": self._response("in_progress", None)}

    def _response(self, status: str, usage: JsonObject | None) -> JsonObject:
        """Return the response. After its end, it holds all items; open ones are incomplete."""
        if status != "in_progress":
            open_items: list[TextItem | CallItem] = [*filter(None, [self._text]), *self._calls.values()]
            for item in open_items:
                self._items[item.index] = item.item("incomplete")
        return {
            "id": f"resp_{self._options.id}",
            "object": "response",
            "created_at": self._options.created_at,
            "completed_at": None,
            "status": status,
            "error": None,
            "incomplete_details": None,
            **self._options.echo,
            "output": [] if status == "in_progress" else [*self._items],
            "usage": usage,
        }

    def _is_full(self) -> bool:
        """Return whether the context, and not the client's own limit, ended the answer."""
        prompt, _, written, _ = token_counts(self._counts)
        if self._options.context is not None and prompt + written:
            return prompt + written >= self._options.context - _MARGIN
        return self._options.limit is None or 0 < written < self._options.limit

    def _new_item(self) -> int:
        """Return the index of a new item, and reserve its place."""
        self._items.append({})
        return len(self._items) - 1

    def _added(self, index: int, item: JsonObject) -> JsonObject:
        return {"type": "response.output_item.added", "output_index": index, "item": item}

    def _done(self, index: int, item: JsonObject) -> JsonObject:
        self._items[index] = item
        return {"type": "response.output_item.done", "output_index": index, "item": item}


def _of_item(kind: str, item: TextItem | CallItem, **fields: Json) -> JsonObject:
    return {"type": kind, "item_id": item.id, "output_index": item.index, **fields}


def echo(body: JsonObject) -> JsonObject:
    """Return the fields of a response that repeat those of its request."""
    text: JsonObject = {"format": {"type": "text"}}
    return {
        **_ECHOED,
        **{name: body[name] for name in _ECHOED if body.get(name) is not None},
        **_FIXED,
        "text": text | {key: value for key, value in as_object(body.get("text")).items() if value is not None},
        "reasoning": {"effort": as_object(body.get("reasoning")).get("effort"), "summary": None},
    }


def usage(counts: Mapping[str, Json]) -> JsonObject:
    """Return the server's token counts in this API's fields. All are present: Codex retries if a detail is missing."""
    prompt, cached, written, thought = token_counts(counts)
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": prompt + written,
    }


def plain_input(arguments: str) -> str:
    """Return a custom tool's input from the arguments of its function; the arguments themselves if they have no input.

    A patch in a fence or in another object is unwrapped: `{"input": "*** Begin Patch\\n…"}`.
    """
    value = _parsed(arguments)
    text: Json = value
    if isinstance(value, dict):
        text = next(iter(value.values())) if len(value) == 1 else value.get(INPUT, None if value else "")
    if not isinstance(text, str):
        return arguments
    inner = _parsed(text) if text.lstrip().startswith("{") else None
    patch: Json = text
    if isinstance(inner, dict) and len(inner) == 1:
        patch = inner.get(INPUT, inner.get("patch"))
    if not isinstance(patch, str):
        return text
    lines = patch.strip().split("\n")
    if len(lines) >= 3 and lines[0].startswith("```") and lines[-1].strip() == "```":
        patch = "\n".join(lines[1:-1])
    return patch if patch.lstrip().startswith("*** Begin Patch") else text


def _parsed(text: str) -> Json:
    """Return the value of a JSON text with numbers of any size; None for other text."""
    try:
        return read_json(text, dict)
    except ValueError:
        return None
