"""The events of a Messages stream: blocks in order, one open at a time (F53, F93).

A block of text or reasoning opens with its first character that is not blank, so none is empty. A call keeps its block
open until its arguments are complete; what comes meanwhile waits behind it.

Source: the Anthropic API reference, "Streaming messages".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from proxy.codec.json_access import as_text, is_object_text, objects_in
from proxy.codec.json_text import Json, JsonObject
from proxy.dialects.messages.ids import FIELDS, Signature, client_id
from proxy.dialects.reply_parts import CharacterJoiner, Content, Reply, SurrogateFilter, TextKind, token_counts
from proxy.engine.events import CallArguments, CallClosed, CallOpened, Reasoning, Text, choice_number
from proxy.engine.reading import was_cut
from proxy.errors import LimitExceeded, UpstreamBroken

# Calls that may wait behind one that is not complete. The engine limits them too, but only where it repairs.
_MAX_WAITING = 1024
# A large call is parsed again when it has grown by this factor, so the work is linear (C7).
_GROWTH = 1.5
_SMALL = 4096
# The fields in which vLLM and SGLang say which stop sequence ended the reply.
_MATCHED = ("stop_reason", "matched_stop")


@dataclass(frozen=True, slots=True)
class ReplyOptions:
    """What a reply takes from its request.

    `model`: the client's name for the model. `stops`: its stop sequences. `id`: for a message to which the server gives
    none. `prefill`: the client's start of the answer, if the server repeats it. `leave_open`: an error does not end the
    open block (`Blocks.fail`).
    """

    model: str
    stops: frozenset[str] = frozenset()
    id: str = "0"
    prefill: str = ""
    leave_open: bool = False


@dataclass(slots=True)
class _OpenCall:
    """The call whose block is open, and whether its arguments were last found to be complete."""

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
        """Whether the arguments are an object, as far as is known."""
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
        self._open: TextKind | None = None
        self._next = 0
        self._characters = CharacterJoiner()
        self._signature = Signature()
        # The field in which the server says its reasoning.
        self._field = ""
        self._call: _OpenCall | None = None
        self._behind: deque[Content] = deque()
        self._waiting = 0
        self._has_calls = False
        self._ids: set[str] = set()
        self._id = ""

    def observe_body(self, body: JsonObject) -> JsonObject:
        """Keep the token counts and the refusal, the id of the first body, and the field of its reasoning."""
        choice = super().observe_body(body)
        self._field = next((name for name in FIELDS if name and as_text(choice.get(name))), self._field)
        if not self._id:
            self._id = _letters(as_text(body.get("id")).removeprefix("chatcmpl-"))
        return choice

    def end(self) -> list[JsonObject]:
        """Return the end of a finished reply.

        Raises UpstreamBroken if a call is incomplete although the model stopped by itself: half a call must not look
        complete (C4).
        """
        reason = self.finish_reason()
        by_itself = not was_cut(reason)
        if by_itself and not all(map(is_object_text, filter(str.strip, self._unfinished()))):
            raise UpstreamBroken("a tool call cannot be finished: its arguments are no JSON object")
        events: list[JsonObject] = []
        while self._call is not None:
            if by_itself and not self._call.size:
                events.append(self.arguments_delta("{}"))
            events += self._end_call()
        events += [*self._text("text", "".join(self._refusal)), *self._stopped(), *self._started()]
        matched = None if self._finished is None or self._finished.source is None else self._matched_stop()
        if reason == "content_filter" or (by_itself and self._refusal):
            stop = "refusal"
        elif not by_itself:
            stop = "max_tokens"
        else:
            stop = "tool_use" if self._has_calls else "end_turn" if matched is None else "stop_sequence"
        delta: JsonObject = {"stop_reason": stop, "stop_sequence": matched if stop == "stop_sequence" else None}
        last: JsonObject = {"type": "message_delta", "delta": delta, "usage": usage(self._counts)}
        return [*events, last, {"type": "message_stop"}]

    def _matched_stop(self) -> str | None:
        """Return the client's stop sequence that ended the reply, where the server reports it."""
        assert self._finished is not None and self._finished.source is not None
        for entry in objects_in(self._finished.source.body.get("choices")):
            if choice_number(entry.get("index")) == 0:
                for matched in map(entry.get, _MATCHED):
                    if isinstance(matched, str) and matched in self._options.stops:
                        return matched
        return None

    def fail(self) -> list[JsonObject]:
        """Return the events before the error that ends the stream: the end of the open block.

        Claude Code keeps every block that ends: half a call goes into its history, and after half a text it gives up.
        While the block is open it discards the message and retries.
        """
        return [] if self._options.leave_open else self._stopped()

    # Content.

    def write(self, event: Content) -> list[JsonObject]:
        """Return the events for what the model says. Other content waits behind an incomplete call."""
        call = self._call
        if call is None:
            return self._write_between_calls(event)
        if isinstance(event, CallArguments | CallOpened | CallClosed) and event.index == call.index:
            if isinstance(event, CallClosed):
                return self._end_call()
            # A server that opens a call again only repeats itself (F39, F45).
            return [] if isinstance(event, CallOpened) else self._arguments(call, call.escapes.feed(event.fragment))
        if call.is_complete:
            return [*self._end_call(), *self.write(event)]
        self._waiting += isinstance(event, CallOpened)
        if self._waiting > _MAX_WAITING:
            raise LimitExceeded("max_calls", _MAX_WAITING)
        self._behind.append(event)
        return []

    def _write_between_calls(self, event: Content) -> list[JsonObject]:
        match event:
            case Text():
                return self._text("text", event.text)
            case Reasoning():
                return self._text("thinking", event.text)
            case CallArguments() if event.fragment.strip():
                return self._text("text", event.fragment)  # no call is open to which it could belong
            case CallOpened():
                before = [*self._stopped(), *self._started()]
                self.forget_blanks()
                self._has_calls = True
                self._call = _OpenCall(event.index)
                id_ = event.id
                if not id_ or id_ in self._ids:  # an unrepaired reply may have no id, or the same one twice
                    id_ = f"{self._name}_{self._next}"
                self._ids.add(event.id)
                block: JsonObject = {"type": "tool_use", "id": client_id(id_), "name": event.name, "input": {}}
                return [*before, self._start(block)]
        return []

    def _arguments(self, call: _OpenCall, text: str) -> list[JsonObject]:
        # The SDKs parse the arguments with each delta, and raise while they are blank: a server may say `" "` first.
        if not text or (not call.size and text.isspace()):
            return []
        call.add(text)
        return [self.arguments_delta(text)]

    def _end_call(self) -> list[JsonObject]:
        """Return the end of the open call's block, and what waited behind it."""
        events = [] if self._call is None else self._arguments(self._call, self._call.escapes.finish())
        self._call = None
        events.append(self._stop_block())
        waiting, self._behind, self._waiting = self._behind, deque(), 0
        for event in waiting:
            events += self.write(event)
        return events

    def _unfinished(self) -> list[str]:
        """Return the arguments of the open call and of those behind it."""
        texts = {} if self._call is None else {self._call.index: [*self._call.parts]}
        for event in self._behind:
            if isinstance(event, CallOpened):
                texts.setdefault(event.index, [])
            elif isinstance(event, CallArguments) and event.index in texts:
                texts[event.index].append(event.fragment)
        return ["".join(parts) for parts in texts.values()]

    def _text(self, kind: TextKind, text: str) -> list[JsonObject]:
        if self._open == kind:
            return self._text_delta(kind, self._characters.feed(text))
        text = self.first_text(kind, text)
        if not text:
            return []
        before = [*self._stopped(), *self._started()]
        self._open = kind
        block: JsonObject = {"type": "text", "text": ""}
        if kind == "thinking":
            self._signature = Signature()
            block = {"type": "thinking", "thinking": "", "signature": ""}
        return [*before, self._start(block), *self._text_delta(kind, self._characters.feed(text))]

    def _text_delta(self, kind: TextKind, text: str) -> list[JsonObject]:
        if kind == "thinking":
            self._signature.add(text)
        return [self.delta_of(kind, text)] if text else []

    # What a lane asks (writer.py).

    def continues(self, kind: TextKind) -> bool:
        """Return whether the next text of this kind continues the open block, and does nothing else."""
        return self._call is None and self._open == kind and not self._characters.half

    def continues_call(self, index: int) -> bool:
        """Return whether the next arguments of this call are sent immediately and unchanged."""
        call = self._call
        return call is not None and call.index == index and call.escapes.empty and call.size > 0

    def keep(self, event: Content) -> None:
        """Keep what a lane has sent: arguments must be complete at the end, and reasoning is signed."""
        if isinstance(event, CallArguments) and self._call is not None:
            self._call.add(event.fragment)
        elif isinstance(event, Reasoning):
            self._signature.add(event.text)

    def arguments_delta(self, text: str) -> JsonObject:
        """Return the event that continues the open call."""
        return self._delta({"type": "input_json_delta", "partial_json": text})

    def delta_of(self, kind: TextKind, text: str) -> JsonObject:
        """Return the event that continues the open block."""
        return self._delta({"type": f"{kind}_delta", kind: text})

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
        """Return the end of the open block, if there is one; reasoning is signed."""
        kind, self._open = self._open, None
        if kind is None:
            return [] if self._call is None else [self._stop_block()]
        rest = self._text_delta(kind, self._characters.finish())
        if kind == "thinking":
            rest.append(self._delta({"type": "signature_delta", "signature": self._signature.sign(self._field)}))
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
    """Return the letters of a server's id that an id of this dialect may have."""
    return "".join(letter for letter in text if letter.isascii() and letter.isalnum())[:64]


def usage(counts: Mapping[str, Json]) -> JsonObject:
    """Return the server's token counts in the words of this API; cached tokens are not counted twice (F62)."""
    prompt, cached, written, thought = token_counts(counts)
    usage: JsonObject = {
        "input_tokens": max(0, prompt - cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": written,
    }
    return {**usage, "output_tokens_details": {"thinking_tokens": thought}} if thought else usage
