"""Internal events to the events of a Messages stream: blocks in order, one open at a time (F53, F93).

Source: the Anthropic API reference, "Streaming messages". A block of text or of thinking opens with its first character
that is no blank, so that none is empty. A call whose arguments are not whole yet keeps its block open, and what comes
meanwhile waits behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from proxy.codec.json_access import as_object, as_text, is_object_text, objects_in
from proxy.codec.json_text import Json, JsonObject
from proxy.dialects.block_start import BlockStart, TextKind
from proxy.dialects.first_choice import first_choice
from proxy.dialects.messages.ids import FIELDS, Signature, client_id
from proxy.dialects.surrogates import CharacterJoiner, SurrogateFilter
from proxy.engine.choice_delta import GAVE_UP, was_cut
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
    choice_number,
)
from proxy.errors import LimitExceeded, UpstreamBroken

# Calls that may wait behind one that is not whole; the engine limits them too, but not where it repairs nothing.
_MAX_WAITING = 1024
# A call is looked at again when there is so much more of it.
_GROWTH = 1.5
_SMALL = 4096
# Where servers say which stop sequence ended the reply: vLLM, SGLang.
_MATCHED = ("stop_reason", "matched_stop")

# What the model says, in the order in which it says it.
_ContentEvent: TypeAlias = Text | Reasoning | CallOpened | CallArguments | CallClosed


@dataclass(frozen=True, slots=True)
class ReplyOptions:
    """The parts of a reply that come of its request: the name of the model that the client asked for, the stop
    sequences, an id for a message to which the server gives none, and the beginning that the client gave to the answer,
    if the server repeats that. `leave_open`: an error is not to end the open block (`Blocks.fail`).
    """

    model: str
    stops: frozenset[str] = frozenset()
    id: str = "0"
    prefill: str = ""
    leave_open: bool = False


@dataclass(slots=True)
class _OpenCall:
    """The call whose block is open: its arguments so far, and whether they were found to be whole, or not, as such."""

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
    def is_blank(self) -> bool:
        """True if it has no arguments so far."""
        return not self.size

    @property
    def is_complete(self) -> bool:
        """True if the arguments are a whole object, as far as it is known: they are not read anew each time."""
        if self.judged is None and self.size >= self.again:
            self.judged = is_object_text("".join(self.parts))
            if not self.judged and self.size > _SMALL:
                self.again = self.size * _GROWTH
        return bool(self.judged)


class Blocks:
    """The stream of one reply."""

    def __init__(self, options: ReplyOptions) -> None:
        self._options = options
        self._begun = False
        self._open: TextKind | None = None
        self._next = 0
        self._start_of_text = BlockStart()
        self._characters = CharacterJoiner()
        self._signature = Signature()
        # The field in which the server says its thoughts.
        self._field = ""
        self._call: _OpenCall | None = None
        self._behind: deque[Event] = deque()
        self._waits = 0
        self._calls = 0
        self._ids: set[str] = set()
        self._finished: Finished | None = None
        self._counts: Mapping[str, Json] = {}
        self._refusal: list[str] = []
        self._name = ""

    def observe_body(self, body: JsonObject) -> None:
        """Keep the token counts of a chunk, or of a whole answer, what it refuses, and the id of the first one."""
        self._keep_counts(as_object(body.get("usage")))
        choice = first_choice(body)
        words = as_text(choice.get("refusal"))
        if words:
            self._refusal.append(words)
        self._field = _reasoning_field(choice) or self._field
        if not self._name:
            self._name = _letters(as_text(body.get("id")).removeprefix("chatcmpl-"))

    def _keep_counts(self, counts: Mapping[str, Json]) -> None:
        """Keep the newest token counts that say anything."""
        if any(usage(counts).values()):
            self._counts = counts

    def take(self, event: Event) -> list[JsonObject]:
        """One event of the engine to events of the stream."""
        match event:
            case Unchanged():
                return [written for inner in event.events for written in self.take(inner)]
            case Usage():
                self._keep_counts(event.usage)
            case Finished() if event.choice == 0:
                self._finished = event
            case Failed():
                raise event.error
            case Text() | Reasoning() | CallOpened() | CallArguments() | CallClosed() if event.choice == 0:
                return self._write_content(event)
            case _:
                pass  # further choices cannot be asked for in this dialect
        return []

    def end(self) -> list[JsonObject]:
        """The end of a reply that was finished.

        Raises UpstreamBroken if the server gave the generation up, and if a call is no object although the model
        stopped by itself: where nothing is repaired it may be none, and half a call must not look whole (C4).
        """
        reason = "stop"
        if self._finished is not None:
            reason = self._finished.reason
        if reason in GAVE_UP:
            raise UpstreamBroken(f"the model server gave up the generation (finish reason {reason})")
        stopped_by_itself = not was_cut(reason)
        if stopped_by_itself and not all(map(is_object_text, filter(str.strip, self._waiting()))):
            raise UpstreamBroken("a tool call cannot be finished: its arguments are no JSON object")
        events: list[JsonObject] = []
        while self._call is not None:
            if stopped_by_itself and self._call.is_blank:
                events.append(self.arguments_delta("{}"))
            events += self._end_call()
        events += [*self._text("text", "".join(self._refusal)), *self._stopped(), *self._started()]
        stop, sequence = self._stop(reason)
        delta: JsonObject = {"stop_reason": stop, "stop_sequence": sequence}
        last: JsonObject = {"type": "message_delta", "delta": delta, "usage": usage(self._counts)}
        return [*events, last, {"type": "message_stop"}]

    def fail(self) -> list[JsonObject]:
        """The events before the error that ends the stream: the end of the block.

        Claude Code takes each block that ends for good, whatever follows: half a call goes into its history, and after
        half a text it gives up. While the block is open it throws the message away, and asks again by itself.
        """
        return [] if self._options.leave_open else self._stopped()

    def _write_content(self, event: _ContentEvent) -> list[JsonObject]:
        """The model's content as events, in the order of the blocks: behind a call that is not whole, other things
        wait.
        """
        call = self._call
        if call is None:
            return self._write_between_calls(event)
        if isinstance(event, CallArguments | CallOpened | CallClosed) and event.index == call.index:
            return self._of_call(call, event)
        if call.is_complete:
            return [*self._end_call(), *self._write_content(event)]
        self._waits += isinstance(event, CallOpened)
        if self._waits > _MAX_WAITING:
            raise LimitExceeded("max_calls", _MAX_WAITING)
        self._behind.append(event)
        return []

    def _write_between_calls(self, event: _ContentEvent) -> list[JsonObject]:
        match event:
            case Text():
                return self._text("text", event.text)
            case Reasoning():
                return self._text("thinking", event.text)
            case CallOpened():
                return self._opened(event)
            case CallArguments() if event.fragment.strip():
                return self._text("text", event.fragment)  # no call is open to which it could belong
            case _:
                return []

    def _of_call(self, call: _OpenCall, event: CallArguments | CallOpened | CallClosed) -> list[JsonObject]:
        """The events of the open call. A server that opens it again only repeats itself (F39, F45)."""
        if isinstance(event, CallClosed):
            return self._end_call()
        if isinstance(event, CallOpened) or not event.fragment:
            return []
        return self._arguments(call, call.escapes.feed(event.fragment))

    def _arguments(self, call: _OpenCall, text: str) -> list[JsonObject]:
        if not text:
            return []
        # The SDKs read with each delta what there is of the arguments, and raise where that is blank: a server may say
        # `" "`, and then `{"path": "a"}`.
        if call.is_blank and text.isspace():
            return []
        call.add(text)
        return [self.arguments_delta(text)]

    def _opened(self, event: CallOpened) -> list[JsonObject]:
        before = [*self._stopped(), *self._started()]
        self._start_of_text.forget()
        self._calls += 1
        self._call = _OpenCall(event.index)
        id_ = event.id
        if not id_ or id_ in self._ids:  # where nothing is repaired a server may give no id, or the same one again
            id_ = f"{self._id}_{self._next}"
        id_ = client_id(id_)
        self._ids.add(event.id)
        return [*before, self._start({"type": "tool_use", "id": id_, "name": event.name, "input": {}})]

    def _end_call(self) -> list[JsonObject]:
        """The open call is whole, or will not be: its block ends, and what waited behind it follows."""
        events: list[JsonObject] = []
        if self._call is not None:
            events = self._arguments(self._call, self._call.escapes.finish())
        self._call = None
        events.append(self._stop_block())
        waiting, self._behind, self._waits = self._behind, deque(), 0
        while waiting:
            event = waiting.popleft()
            assert isinstance(event, Text | Reasoning | CallOpened | CallArguments | CallClosed)
            events += self._write_content(event)
        return events

    def _waiting(self) -> list[str]:
        """The arguments of the open call and of those behind it."""
        texts: dict[int, list[str]] = {}
        if self._call is not None:
            texts[self._call.index] = [*self._call.parts]
        for event in self._behind:
            if isinstance(event, CallOpened):
                texts.setdefault(event.index, [])
            elif isinstance(event, CallArguments) and event.index in texts:
                texts[event.index].append(event.fragment)
        return ["".join(parts) for parts in texts.values()]

    def _text(self, kind: TextKind, text: str) -> list[JsonObject]:
        if self._open == kind:
            return self._text_deltas(kind, self._characters.feed(text))
        text = self._start_of_text.take(kind, text)
        if not text:
            return []
        before = [*self._stopped(), *self._started()]
        self._open = kind
        if kind == "text":
            start = self._start({"type": "text", "text": ""})
        else:
            self._signature = Signature()
            start = self._start({"type": "thinking", "thinking": "", "signature": ""})
        return [*before, start, *self._text_deltas(kind, self._characters.feed(text))]

    def goes_on(self, kind: TextKind) -> bool:
        """Return whether the next text of this kind continues the open block, and nothing else."""
        return self._call is None and self._open == kind and not self._characters.half

    def call_goes_on(self, index: int) -> bool:
        """True if the next arguments of this call leave at once, as they are."""
        call = self._call
        if call is None or call.index != index:
            return False
        return call.escapes.empty and not call.is_blank

    def keep_arguments(self, text: str) -> None:
        """The next arguments of the open call, which have left."""
        assert self._call is not None
        self._call.add(text)

    def arguments_delta(self, text: str) -> JsonObject:
        """The event by which arguments go on the open call."""
        return self._delta({"type": "input_json_delta", "partial_json": text})

    def delta_of(self, kind: TextKind, text: str) -> JsonObject:
        """The event by which a text goes on the open block."""
        if kind == "text":
            return self._delta({"type": "text_delta", "text": text})
        return self._delta({"type": "thinking_delta", "thinking": text})

    def sign(self, text: str) -> None:
        """The next text of a thought."""
        self._signature.add(text)

    def _text_deltas(self, kind: TextKind, text: str) -> list[JsonObject]:
        if not text:
            return []
        if kind == "thinking":
            self.sign(text)
        return [self.delta_of(kind, text)]

    @property
    def _id(self) -> str:
        return self._name or _letters(self._options.id)

    def _start(self, block: JsonObject) -> JsonObject:
        self._next += 1
        return {"type": "content_block_start", "index": self._next - 1, "content_block": block}

    def _delta(self, delta: JsonObject) -> JsonObject:
        return {"type": "content_block_delta", "index": self._next - 1, "delta": delta}

    def _stop_block(self) -> JsonObject:
        return {"type": "content_block_stop", "index": self._next - 1}

    def _stopped(self) -> list[JsonObject]:
        """The end of the block that is open, if one is; thinking is signed."""
        was_open, self._open = self._open, None
        if was_open is None and self._call is None:
            return []
        if was_open is None:
            return [self._stop_block()]
        rest = self._text_deltas(was_open, self._characters.finish())
        if was_open == "text":
            return [*rest, self._stop_block()]
        signature = self._signature.sign(self._field)
        return [*rest, self._delta({"type": "signature_delta", "signature": signature}), self._stop_block()]

    def _started(self) -> list[JsonObject]:
        """The start of the message, once."""
        if self._begun:
            return []
        self._begun = True
        message: JsonObject = {
            "id": f"msg_{self._id}",
            "type": "message",
            "role": "assistant",
            "model": self._options.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage(self._counts),
        }
        return [{"type": "message_start", "message": message}]

    def _stop(self, reason: str) -> tuple[str, str | None]:
        if reason == "content_filter":
            return "refusal", None
        if was_cut(reason):
            # `length`, Mistral's `model_length`, vLLM's `repetition`: the model did not stop by itself.
            return "max_tokens", None
        if self._refusal:
            return "refusal", None
        if self._calls:
            return "tool_use", None
        matched = self._matched()
        if matched is None:
            return "end_turn", None
        return "stop_sequence", matched

    def _matched(self) -> str | None:
        """The client's stop sequence that ended the reply, where the server says which."""
        if self._finished is None or self._finished.source is None:
            return None
        for entry in objects_in(self._finished.source.body.get("choices")):
            if choice_number(entry.get("index")) == 0:
                for name in _MATCHED:
                    matched = entry.get(name)
                    if isinstance(matched, str) and matched in self._options.stops:
                        return matched
        return None


def _reasoning_field(delta: JsonObject) -> str:
    """The field in which a delta, or a message, says a thought, "" if it says none."""
    return next((name for name in FIELDS if name and as_text(delta.get(name))), "")


def _letters(text: str) -> str:
    """The letters of a server's id that may stand in one of this dialect."""
    return "".join(letter for letter in text if letter.isascii() and letter.isalnum())[:64]


def usage(counts: Mapping[str, Json]) -> JsonObject:
    """The server's token counts in the words of the Messages API; cached tokens are not counted twice (F62).

    Where the server says nothing they are zero.
    """
    cached = _count(as_object(counts.get("prompt_tokens_details")), "cached_tokens")
    usage: JsonObject = {
        "input_tokens": max(0, _count(counts, "prompt_tokens") - cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": _count(counts, "completion_tokens"),
    }
    thought = _count(as_object(counts.get("completion_tokens_details")), "reasoning_tokens")
    if thought:
        usage["output_tokens_details"] = {"thinking_tokens": thought}
    return usage


def _count(counts: Mapping[str, Json], name: str) -> int:
    count = counts.get(name)
    if type(count) is not int:
        return 0
    return max(0, count)

