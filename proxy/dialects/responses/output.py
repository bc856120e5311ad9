"""Internal events to the events of a Responses stream: items with their parts, then the response that holds them all.

Source: OpenAI's API reference, "Streaming events". An item of text or reasoning opens with its first character that is
no blank, so that none is empty. Calls may be open beside each other, each with its own `output_index`; whatever opens
next, an item whose arguments are whole is done, for Codex runs it then. Half a call is never done (C4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from proxy.codec.json_access import as_object, as_text
from proxy.codec.json_text import Json, JsonObject
from proxy.dialects.block_start import BlockStart, TextKind
from proxy.dialects.first_choice import first_choice
from proxy.dialects.responses.errors import failure
from proxy.dialects.responses.open_items import PREFIXES, CallItem, TextItem, part_of
from proxy.dialects.responses.tools import Kind, OfferedTools
from proxy.engine.events import (
    CallArguments,
    CallClosed,
    CallOpened,
    Event,
    Failed,
    Finished,
    Reasoning,
    Text,
    Unchanged,
    Usage,
)
from proxy.engine.reading import GAVE_UP, was_cut
from proxy.errors import ContextFull, NotKept, ProxyError, UpstreamBroken

# So near to its end a context is full: servers keep some tokens back.
_MARGIN = 8


@dataclass(slots=True)
class Progress:
    """The progress by heartbeats before the reply: whether it began, and the number of events. Each try of a
    request goes on from there, also one whose end was kept back while another one failed.
    """

    begun: bool = False
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class ReplyOptions:
    """The parts of a reply that come of its request.

    `id` tells the response and its items from others: letters and digits. `echo` are the fields of the response that
    repeat the request's. `limit` is the client's `max_output_tokens`, `context` the tokens of the model's context,
    each None if it is not known. `now` gives the time in seconds. `keep` stores the complete response before it is
    sent; it may raise NotKept.
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


class Output:
    """The stream of one reply; its events have no sequence numbers yet."""

    def __init__(self, options: ReplyOptions) -> None:
        self._options = options
        self._begun = False
        self._text: TextItem | None = None
        self._start_of_text = BlockStart()
        self._calls: dict[int, CallItem] = {}
        self._newest: int | None = None
        self._call_ids: set[str] = set()
        self._items: list[JsonObject] = []
        self._finished: Finished | None = None
        self._counts: Mapping[str, Json] = {}
        self._refusal: list[str] = []
        # True once more than heartbeats was said.
        self.spoke = False

    def observe_body(self, body: JsonObject) -> None:
        """Keep the token counts of a chunk, or of a whole answer, and what it refuses."""
        self._keep_counts(as_object(body.get("usage")))
        words = as_text(first_choice(body).get("refusal"))
        if words:
            self._refusal.append(words)

    def _keep_counts(self, counts: Mapping[str, Json]) -> None:
        if any(type(count) is int and count > 0 for count in counts.values()):
            self._counts = counts

    def take(self, event: Event) -> list[JsonObject]:
        """One event of the engine to events of the stream."""
        if isinstance(event, Unchanged):
            return [written for inner in event.events for written in self.take(inner)]
        match event:
            case Text() if event.choice == 0:
                return self._say("text", event.text)
            case Usage():
                self._keep_counts(event.usage)
            case Finished() if event.choice == 0:
                self._finished = event
            case Failed():
                raise event.error
            case Reasoning() if event.choice == 0:
                return self._say("thinking", event.text)
            case CallOpened() | CallArguments() | CallClosed() if event.choice == 0:
                return self._of_call(event)
            case _:
                pass  # further choices cannot be asked for in this dialect
        return []

    def end(self) -> list[JsonObject]:
        """The end of a reply that was finished.

        Raises UpstreamBroken if the server gave the generation up, and if a call is not whole although the model
        stopped by itself; ContextFull if the answer was cut off where the context ends.
        """
        reason = "stop"
        if self._finished is not None:
            reason = self._finished.reason
        if reason in GAVE_UP:
            raise UpstreamBroken(f"the model server gave up the generation (finish reason {reason})")
        cut = was_cut(reason)
        if not cut:
            self._check_whole()
        elif reason != "content_filter" and self._is_full():
            raise ContextFull("the model's context is full: the answer was cut off; make the conversation shorter")
        events = [*self._begin(), *self._end_calls(cut=cut)]
        events += self._end_text("incomplete" if cut else "completed")
        events += self._refused()
        closing = self._closing(reason, cut)
        if self._options.keep is not None:
            response = as_object(closing["response"])
            try:
                self._options.keep(response)
            except NotKept:
                # The store has logged why. A reply that is complete is not lost for it.
                response["store"] = False
        return [*events, closing]

    def fail(self, error: ProxyError) -> list[JsonObject]:
        """The end of a reply that cannot be finished: what is open stays so, for what is done counts for clients."""
        events = self._begin()
        self._give_up()
        last = self._response("failed", output=[*self._items], usage=self._usage_or_none(), error=failure(error))
        return [*events, {"type": "response.failed", "response": last}]

    def heartbeat(self) -> JsonObject:
        """A sign of life, which resets clients' timers: the beginning, or the same again."""
        if not (self._begun or self._options.progress.begun):
            self._begun = True
            return self._lifecycle("response.created")
        return self._lifecycle("response.in_progress")

    def open_text(self, *, reasoning: bool) -> TextItem | None:
        """The item that the next text, or the next reasoning, goes on, if that is all that it does."""
        item = self._text
        if item is None or item.characters.half:
            return None
        kind = "thinking" if reasoning else "text"
        return item if item.kind == kind else None

    def open_function(self, index: int) -> CallItem | None:
        """The call whose next arguments leave at once, as they are; None for one of another kind."""
        call = self._calls.get(index)
        if call is None or call.called.kind is not Kind.FUNCTION:
            return None
        return call if call.escapes.empty else None

    # Text and reasoning.

    def _say(self, kind: TextKind, text: str) -> list[JsonObject]:
        if self._text is not None and self._text.kind == kind:
            if not text:
                return []
            return self._delta(self._text, text)
        text = self._start_of_text.take(kind, text)
        if not text:
            return []
        before = [*self._begin(), *self._end_text("completed"), *self._end_newest()]
        prefix = "rs" if kind == "thinking" else "msg"
        index = self._new_item()
        self._text = opened = TextItem(kind, index, f"{prefix}_{self._options.id}_{index}")
        added = self._added(index, opened.item("in_progress", []))
        part = self._of_item("response.content_part.added", opened, content_index=0, part=part_of(kind, ""))
        return [*before, added, part, *self._delta(opened, text)]

    def _delta(self, item: TextItem, text: str) -> list[JsonObject]:
        text = item.characters.feed(text)
        if not text:
            return []
        item.deltas.append(text)
        return [delta_event(item, text)]

    def _end_text(self, status: str) -> list[JsonObject]:
        """The end of the item of text or reasoning that is open, if one is."""
        item, self._text = self._text, None
        if item is None:
            return []
        rest: list[JsonObject] = []
        half = item.characters.finish()
        if half:
            item.deltas.append(half)
            rest = [delta_event(item, half)]
        text = "".join(item.deltas)
        if item.kind == "thinking":
            done = self._of_item("response.reasoning_text.done", item, content_index=0, text=text)
        else:
            done = self._of_item("response.output_text.done", item, content_index=0, text=text, logprobs=[])
        part = self._of_item("response.content_part.done", item, content_index=0, part=item.part)
        return [*rest, done, part, self._done(item.index, item.item(status, [item.part]))]

    def _refused(self) -> list[JsonObject]:
        """The words by which the model says no, where a server has a field of their own for them."""
        words = "".join(self._refusal)
        if not words:
            return []
        index = self._new_item()
        item = TextItem("text", index, f"msg_{self._options.id}_{index}")
        part: JsonObject = {"type": "refusal", "refusal": words}
        return [
            self._added(index, item.item("in_progress", [])),
            self._of_item("response.content_part.added", item, content_index=0, part={**part, "refusal": ""}),
            self._of_item("response.refusal.delta", item, content_index=0, delta=words),
            self._of_item("response.refusal.done", item, content_index=0, refusal=words),
            self._of_item("response.content_part.done", item, content_index=0, part=part),
            self._done(index, item.item("completed", [part])),
        ]

    # Calls.

    def _of_call(self, event: CallOpened | CallArguments | CallClosed) -> list[JsonObject]:
        if isinstance(event, CallOpened):
            return self._open_call(event)
        call = self._calls.get(event.index)
        if isinstance(event, CallClosed):
            # One that was cut off closes too.
            if call is None or not call.is_whole:
                return []
            return self._end_call(event.index)
        if call is not None:
            return self._arguments(call, call.escapes.feed(event.fragment))
        if not event.fragment.strip():
            return []
        return self._say("text", event.fragment)  # no call is open to which it could belong

    def _open_call(self, event: CallOpened) -> list[JsonObject]:
        if event.index in self._calls:
            return []  # a server that opens it again only repeats itself (F39, F45)
        before = [*self._begin(), *self._end_text("completed"), *self._end_newest()]
        self._start_of_text.forget()
        index = self._new_item()
        called = self._options.tools.called(event.name)
        call_id = event.id
        if not call_id or call_id in self._call_ids:
            call_id = f"call_{self._options.id}_{index}"
        self._call_ids.add(call_id)
        opened = CallItem(index, f"{PREFIXES[called.kind]}_{self._options.id}_{index}", call_id, called)
        self._calls[event.index] = opened
        self._newest = event.index
        nothing: Json = "" if called.kind is not Kind.SEARCH else {}
        return [*before, self._added(index, opened.item("in_progress", nothing))]

    def _arguments(self, call: CallItem, text: str) -> list[JsonObject]:
        """Return the events for the next arguments: only those of a function leave before the call is whole."""
        if not text:
            return []
        call.deltas.append(text)
        return [call_delta_event(call, text)] if call.called.kind is Kind.FUNCTION else []

    def _end_newest(self) -> list[JsonObject]:
        """Another item opens: the call that opened last is done if it is whole, else it may go on."""
        newest, self._newest = self._newest, None
        if newest is None or newest not in self._calls:
            return []
        if not self._calls[newest].is_whole:
            return []
        return self._end_call(newest)

    def _end_call(self, index: int) -> list[JsonObject]:
        call = self._calls.pop(index)
        events = self._arguments(call, call.escapes.finish())
        if call.called.kind is Kind.CUSTOM:
            if call.input:
                events.append(self._of_item("response.custom_tool_call_input.delta", call, delta=call.input))
            events.append(self._of_item("response.custom_tool_call_input.done", call, input=call.input))
        elif call.called.kind is Kind.FUNCTION:
            events.append(self._of_item("response.function_call_arguments.done", call, arguments=call.arguments))
        return [*events, self._done(call.index, call.as_it_is("completed"))]

    def _end_calls(self, *, cut: bool) -> list[JsonObject]:
        """The end of the calls that are open; what may be half of one stays so."""
        events: list[JsonObject] = []
        for index in [*self._calls]:
            call = self._calls[index]
            if call.is_blank and not cut:
                events += self._arguments(call, "{}")
            if call.is_whole or (call.is_plain and not cut):
                events += self._end_call(index)
        return events

    def _check_whole(self) -> None:
        """The model stopped by itself: what is open is whole, or an error (C4)."""
        if not all(call.is_plain or call.is_blank or call.is_whole for call in self._calls.values()):
            raise UpstreamBroken("a tool call cannot be finished: its arguments are no JSON object")

    # The response.

    def _begin(self) -> list[JsonObject]:
        """The beginning of the stream, once."""
        if self.spoke:
            return []
        self.spoke = True
        events = [self._lifecycle("response.in_progress")]
        if not (self._begun or self._options.progress.begun):
            self._begun = True
            events.insert(0, self._lifecycle("response.created"))
        return events

    def _lifecycle(self, kind: str) -> JsonObject:
        return {"type": kind, "response": self._response("in_progress", output=[], usage=None)}

    def _closing(self, reason: str, cut: bool) -> JsonObject:
        self._give_up()
        if not cut:
            response = self._response("completed", output=[*self._items], usage=usage(self._counts))
            return {"type": "response.completed", "response": response | {"completed_at": self._options.now()}}
        why = "content_filter" if reason == "content_filter" else "max_output_tokens"
        response = self._response("incomplete", output=[*self._items], usage=usage(self._counts))
        return {"type": "response.incomplete", "response": response | {"incomplete_details": {"reason": why}}}

    def _give_up(self) -> None:
        """Put into the response what is still open, as far as it came."""
        if self._text is not None:
            self._items[self._text.index] = self._text.item("incomplete", [self._text.part])
        for call in self._calls.values():
            self._items[call.index] = call.as_it_is("incomplete")

    def _usage_or_none(self) -> JsonObject | None:
        if not self._counts:
            return None
        return usage(self._counts)

    def _is_full(self) -> bool:
        """True if the answer was cut off by the end of the context, not by the client's own limit."""
        counts = usage(self._counts)
        total, written = counts["total_tokens"], counts["output_tokens"]
        assert isinstance(total, int) and isinstance(written, int)
        if self._options.context is not None and total:
            return total >= self._options.context - _MARGIN
        if self._options.limit is None:
            return True
        return 0 < written < self._options.limit

    def _response(
        self, status: str, *, output: list[Json], usage: JsonObject | None, error: JsonObject | None = None
    ) -> JsonObject:
        return {**begun_response(self._options, status), "error": error, "output": output, "usage": usage}

    def _new_item(self) -> int:
        """The index of an item that opens; its place among the items is kept."""
        self._items.append({})
        return len(self._items) - 1

    def _added(self, index: int, item: JsonObject) -> JsonObject:
        return {"type": "response.output_item.added", "output_index": index, "item": item}

    def _done(self, index: int, item: JsonObject) -> JsonObject:
        self._items[index] = item
        return {"type": "response.output_item.done", "output_index": index, "item": item}

    def _of_item(self, kind: str, item: TextItem | CallItem, **fields: Json) -> JsonObject:
        return {"type": kind, "item_id": item.id, "output_index": item.index, **fields}


def begun_response(options: ReplyOptions, status: str) -> JsonObject:
    """A response with nothing in it so far."""
    return {
        "id": f"resp_{options.id}",
        "object": "response",
        "created_at": options.created_at,
        "completed_at": None,
        "status": status,
        "error": None,
        "incomplete_details": None,
        **options.echo,
        "output": [],
        "usage": None,
    }


def delta_event(item: TextItem, text: str) -> JsonObject:
    """The event that goes on an item of text or of reasoning."""
    kind = "response.reasoning_text.delta" if item.kind == "thinking" else "response.output_text.delta"
    event: JsonObject = {"type": kind, "item_id": item.id, "output_index": item.index, "content_index": 0}
    event["delta"] = text
    if item.kind == "text":
        event["logprobs"] = []
    return event


def call_delta_event(call: CallItem, text: str) -> JsonObject:
    """The event that goes on the arguments of a function's call."""
    kind = "response.function_call_arguments.delta"
    return {"type": kind, "item_id": call.id, "output_index": call.index, "delta": text}


def usage(counts: Mapping[str, Json]) -> JsonObject:
    """The server's token counts in the words of this API, always whole: Codex asks again where a detail is missing."""
    prompt = _count(counts, "prompt_tokens")
    written = _count(counts, "completion_tokens")
    cached = _count(as_object(counts.get("prompt_tokens_details")), "cached_tokens")
    thought = _count(as_object(counts.get("completion_tokens_details")), "reasoning_tokens")
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": prompt + written,
    }


def _count(counts: Mapping[str, Json], name: str) -> int:
    count = counts.get(name)
    if type(count) is not int:
        return 0
    return max(0, count)
