"""The events of a Messages stream: blocks in order, one open at a time (F53, F93).

A block of text or reasoning opens with its first non-blank character, so no block is empty. A call's block stays open
until its arguments are complete; later content waits.

Source: the Anthropic API reference, "Streaming messages".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from proxy.dialects.messages.ids import FIELDS, client_id, signature
from proxy.dialects.reply_parts import Content, Reply, SurrogateFilter, TextKind, token_counts
from proxy.engine.events import CallArguments, CallClosed, CallOpened, Event, choice_number
from proxy.errors import LimitExceeded
from proxy.json import Json, JsonObject, as_text, is_object_text, objects_in

# Maximum number of calls that wait for an incomplete one. The engine has a limit too, but only if it repairs.
_MAX_WAITING = 1024
# A large call is parsed again when it has grown by this factor, so that the total work is linear (C7).
_GROWTH = 1.5
_SMALL = 4096
# The fields in which vLLM and SGLang report the stop sequence that ended the reply.
_MATCHED = ("stop_reason", "matched_stop")


@dataclass(frozen=True, slots=True)
class ReplyOptions:
    """Options that a reply takes from its request.

    `model`: the client's name for the model. `stops`: its stop sequences. `id`: for messages without an id from the
    server. `prefill`: the client's start of the answer, if the server repeats it. `leave_open`: do not end the open
    block on an error (`Blocks.fail`).
    """

    model: str
    stops: frozenset[str] = frozenset()
    id: str = "0"
    prefill: str = ""
    leave_open: bool = False


@dataclass(slots=True)
class _OpenCall:
    """The call whose block is open, and whether its arguments were complete when last parsed."""

    index: int
    parts: list[str] = field(default_factory=list)
    size: int = 0
    judged: bool | None = None
    again: float = 0.0
    escapes: SurrogateFilter = field(default_factory=SurrogateFilter)

    def add(self, fragment: str) -> None:
        self.parts.append(fragment)
        self.size += len(fragment)
        self.judged = None

    @property
    def is_complete(self) -> bool:
        """Whether the arguments are known to be a complete object."""
        if self.judged is None and self.size >= self.again:
            self.judged = is_object_text("".join(self.parts))
            if not self.judged and self.size > _SMALL:
                self.again = self.size * _GROWTH
        return bool(self.judged)


class Blocks(Reply):
    """The events of one reply."""

    def __init__(self, options: ReplyOptions) -> None:
        super().__init__()
        self._options = options
        self._has_started = False
        self._next = 0
        # The server's reasoning field.
        self._field = ""
        self._call: _OpenCall | None = None
        self._behind: deque[Content] = deque()
        self._waiting = 0
        self._has_calls = False
        self._id = ""

    def observe_body(self, body: JsonObject) -> JsonObject:
        """Keep the token counts, the refusal, the id of the first body, and the name of the reasoning field."""
        choice = super().observe_body(body)
        self._field = next((name for name in FIELDS if as_text(choice.get(name))), self._field)
        if not self._id:
            self._id = _letters(as_text(body.get("id")).removeprefix("chatcmpl-"))
        return choice

    def end(self) -> list[JsonObject]:
        """Return the end of a finished reply. Raises UpstreamBroken if a call is incomplete."""
        reason, cut = self.finish_reason(self._unfinished())
        events: list[JsonObject] = []
        while self._call is not None:
            if not cut and not self._call.size:
                events.append(self._arguments_delta("{}"))
            events += self._end_call()
        events += [*self._say("text", "".join(self._refusal)), *self._stopped(), *self._started()]
        matched = None if self._finished is None or self._finished.source is None else self._matched_stop()
        if reason == "content_filter" or (self._refusal and not cut):
            stop = "refusal"
        elif cut:
            stop = "max_tokens"
        else:
            stop = "tool_use" if self._has_calls else "end_turn" if matched is None else "stop_sequence"
        delta: JsonObject = {"stop_reason": stop, "stop_sequence": matched if stop == "stop_sequence" else None}
        last: JsonObject = {"type": "message_delta", "delta": delta, "usage": usage(self._counts)}
        return [*events, last, {"type": "message_stop"}]

    def _matched_stop(self) -> str | None:
        """Return the client's stop sequence that ended the reply, if the server reports it."""
        assert self._finished is not None and self._finished.source is not None
        for entry in objects_in(self._finished.source.body.get("choices")):
            if choice_number(entry.get("index")) == 0:
                for matched in map(entry.get, _MATCHED):
                    if isinstance(matched, str) and matched in self._options.stops:
                        return matched
        return None

    def fail(self) -> list[JsonObject]:
        """Return the events before the error that ends the stream: the end of the open block.

        Claude Code keeps every block that has ended: half a call stays in its history, and after half a text it gives
        up. If the block is still open, it discards the message and retries.
        """
        return [] if self._options.leave_open else self._stopped()

    # Content.

    def write(self, event: Content) -> list[JsonObject]:
        """Return the events for content. Content other than the open call's arguments waits for that call to be
        complete.
        """
        call = self._call
        if call is None:
            return super().write(event)
        if isinstance(event, CallArguments | CallOpened | CallClosed) and event.index == call.index:
            if isinstance(event, CallClosed):
                return self._end_call()
            # A server that opens a call again only repeats it (F39, F45).
            return [] if isinstance(event, CallOpened) else self._arguments(call, call.escapes.feed(event.fragment))
        if call.is_complete:
            return [*self._end_call(), *self.write(event)]
        self._waiting += isinstance(event, CallOpened)
        if self._waiting > _MAX_WAITING:
            raise LimitExceeded("max_calls", _MAX_WAITING)
        self._behind.append(event)
        return []

    def open_call(self, event: CallOpened) -> list[JsonObject]:
        """Return the start of a call's block."""
        before = [*self._stopped(), *self._started()]
        self.forget_blanks()
        self._has_calls = True
        self._call = _OpenCall(event.index)
        id_ = client_id(self.own_id(event.id, f"{self._name}_{self._next}"))
        block: JsonObject = {"type": "tool_use", "id": id_, "name": event.name, "input": {}}
        return [*before, self._start(block)]

    def _arguments(self, call: _OpenCall, text: str) -> list[JsonObject]:
        # The SDKs parse the arguments after each delta and raise on blanks; servers may send `" "` first.
        if not text or (not call.size and text.isspace()):
            return []
        call.add(text)
        return [self._arguments_delta(text)]

    def _end_call(self) -> list[JsonObject]:
        """Return the end of the open call's block, and the events of the content that waited for it."""
        events = [] if self._call is None else self._arguments(self._call, self._call.escapes.finish())
        self._call = None
        events.append(self._stop_block())
        waiting, self._behind, self._waiting = self._behind, deque(), 0
        for event in waiting:
            events += self.write(event)
        return events

    def _unfinished(self) -> list[str]:
        """Return the arguments of the open call and of the waiting calls."""
        texts = {} if self._call is None else {self._call.index: [*self._call.parts]}
        for event in self._behind:
            if isinstance(event, CallOpened):
                texts.setdefault(event.index, [])
            elif isinstance(event, CallArguments) and event.index in texts:
                texts[event.index].append(event.fragment)
        return ["".join(parts) for parts in texts.values()]

    def begin_text(self, kind: TextKind) -> list[JsonObject]:
        """Return the start of a block of text or reasoning."""
        before = [*self._stopped(), *self._started()]
        self._open = kind
        more: JsonObject = {"signature": ""} if kind == "thinking" else {}
        return [*before, self._start({"type": kind, kind: "", **more})]

    def text_delta(self, text: str) -> JsonObject:
        """Return the event that continues the open block."""
        return self._delta({"type": f"{self._open}_delta", str(self._open): text})

    def call_delta(self, index: int, text: str) -> JsonObject | None:
        """Return the event for the open call's next arguments, unless they are its first or follow held text."""
        call = self._call
        is_live = call is not None and call.index == index and call.escapes.empty and call.size > 0
        return self._arguments_delta(text) if is_live else None

    def keep(self, event: Event) -> None:
        """Keep the arguments that a lane has sent: they must be complete at the end."""
        if isinstance(event, CallArguments) and self._call is not None:
            self._call.add(event.fragment)

    def _arguments_delta(self, text: str) -> JsonObject:
        return self._delta({"type": "input_json_delta", "partial_json": text})

    # Blocks.

    @property
    def _name(self) -> str:
        return self._id or _letters(self._options.id)

    def _start(self, block: JsonObject) -> JsonObject:
        self._next += 1
        return {"type": "content_block_start", "index": self._next - 1, "content_block": block}

    def _delta(self, delta: JsonObject) -> JsonObject:
        return {"type": "content_block_delta", "index": self._next - 1, "delta": delta}

    def _stop_block(self) -> JsonObject:
        return {"type": "content_block_stop", "index": self._next - 1}

    def _stopped(self) -> list[JsonObject]:
        """Return the end of the open block, if there is one; a reasoning block is signed."""
        if self._open is None:
            return [] if self._call is None else [self._stop_block()]
        rest = self.deltas(self._characters.finish())
        if self._open == "thinking":
            rest.append(self._delta({"type": "signature_delta", "signature": signature(self._field)}))
        self._open = None
        return [*rest, self._stop_block()]

    def _started(self) -> list[JsonObject]:
        """Return the start of the message, once."""
        if self._has_started:
            return []
        self._has_started = True
        message: JsonObject = {
            "id": f"msg_{self._name}",
            "type": "message",
            "role": "assistant",
            "model": self._options.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage(self._counts),
        }
        return [{"type": "message_start", "message": message}]


def _letters(text: str) -> str:
    """Return the characters of a server's id that this dialect's ids may have."""
    return "".join(letter for letter in text if letter.isascii() and letter.isalnum())[:64]


def usage(counts: Mapping[str, Json]) -> JsonObject:
    """Return the server's token counts in this API's fields; cached tokens are not counted twice (F62)."""
    prompt, cached, written, thought = token_counts(counts)
    usage: JsonObject = {
        "input_tokens": max(0, prompt - cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": written,
    }
    return {**usage, "output_tokens_details": {"thinking_tokens": thought}} if thought else usage
