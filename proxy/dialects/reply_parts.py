"""Code shared by Messages and Responses replies: text starts, lanes, token counts, refusals, split characters.

A character may arrive as two surrogates in two events:

    {"delta": {"content": "\\ud83d"}}
    {"delta": {"content": "\\ude00"}}

JSON allows a lone surrogate, but strict readers reject it (RFC 8259, 8.2). For clients that read strictly, a half
without its other half is written as U+FFFD.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, TypeAlias

from proxy.dialects.base import LaneEncoder, Writer
from proxy.engine.arguments import Arguments, Policy
from proxy.engine.events import (
    CallArguments,
    CallClosed,
    CallOpened,
    Chunk,
    Event,
    Failed,
    Finished,
    Reasoning,
    Text,
    Unchanged,
    Usage,
    choice_number,
)
from proxy.engine.lane import Lane
from proxy.engine.reading import GAVE_UP, was_cut
from proxy.errors import UpstreamBroken
from proxy.json import Json, JsonObject, as_object, as_text, dump_strict, is_object_text, load_json, objects_in

TextKind: TypeAlias = Literal["text", "thinking"]
# The model's output, in order.
Content: TypeAlias = Text | Reasoning | CallOpened | CallArguments | CallClosed
_MAX_BLANKS = 4096
# Marks the place of the text in an event.
_MARK = "@"
_HEX = "[0-9a-fA-F]"
_HIGH, _LOW = rf"\\u[dD][89abAB]{_HEX}{{2}}", rf"\\u[dD][c-fC-F]{_HEX}{{2}}"
# An escape, or an end of the text that may become an escape or the first half of a pair.
_ESCAPE = re.compile(
    rf"(?P<end>(?:{_HIGH})?(?:\\(?:u{_HEX}{{0,3}})?)?(?<=.)\Z)|{_HIGH}{_LOW}|(?P<lone>{_HIGH}|{_LOW})|\\.", re.DOTALL
)


class TranslatedWriter(Writer):
    """Base of the Messages and Responses writers, which encode every event. Only the first choice counts: these APIs
    have no others.
    """

    def __init__(self) -> None:
        self._blanks = ""
        self._is_after_thinking = False
        self._finished: Finished | None = None
        self._counts: Mapping[str, Json] = {}
        self._refusal: list[str] = []
        self._open: TextKind | None = None
        self._characters = CharacterJoiner()
        self._call_ids: set[str] = set()
        self._calls: dict[int, OpenCall] = {}

    @abstractmethod
    def begin_text(self, kind: TextKind) -> list[JsonObject]:
        """Return the start of a block of text or reasoning, after the end of the open one."""

    @abstractmethod
    def text_delta(self, text: str) -> JsonObject:
        """Return the event that continues the open block of text or reasoning."""

    @abstractmethod
    def arguments_delta(self, call: OpenCall, text: str) -> JsonObject | None:
        """Return the event that continues a call's arguments; None if they are sent once the call is complete."""

    @abstractmethod
    def open_call(self, event: CallOpened) -> list[JsonObject]:
        """Return the start of a call, after the end of the open block."""

    @abstractmethod
    def close_call(self, number: int) -> list[JsonObject]:
        """Return the end of a call that the engine closes. It may be truncated."""

    @abstractmethod
    def last_events(self) -> list[JsonObject]:
        """Return the end of a finished reply. Raises a ProxyError if the reply is not a success."""

    # The writer of a stream.

    def observe_chunk(self, chunk: Chunk) -> None:
        """Keep the newest token counts and the other facts that the reply needs from a chunk."""
        self.observe_body(chunk.body)

    def write(self, event: Event) -> bytes:
        """Encode one engine event as events of the stream."""
        return self.encode(self.take(event))

    def end(self) -> bytes:
        """Return the end of a finished reply. Raises a ProxyError if the reply is not a success."""
        return self.encode(self.last_events())

    def encode(self, events: Iterable[JsonObject]) -> bytes:
        """Return the bytes of the dialect's events."""
        return b"".join(map(encode, events))

    def encode_deltas(self, before: bytes, texts: Sequence[bytes], after: bytes) -> bytes:
        """Encode events that differ only in their text."""
        return before + (after + before).join(texts) + after

    def lane_encoder(self, lane: Lane) -> LaneEncoder | None:
        """Return the encoder of a lane's texts while they continue the open block or call."""
        event, delta = lane.template.event, None
        if event.choice != 0:
            return None
        if isinstance(event, CallArguments):
            call = self._calls.get(event.index)
            if call and call.deltas and call.escapes.empty:
                delta = self.arguments_delta(call, _MARK)
        elif self._open == ("thinking" if isinstance(event, Reasoning) else "text") and not self._characters.half:
            delta = self.text_delta(_MARK)
        if delta is None:
            return None
        before, _, after = encode(delta).partition(_MARK.encode())

        def encoded(texts: Sequence[bytes]) -> bytes | None:
            if isinstance(event, CallArguments) and any(rb"\\u" in text for text in texts):
                return None  # an escape in arguments may be half a character
            return self.encode_deltas(before, texts, after)

        return encoded

    def whole(self, answer: JsonObject, events: Iterable[Event]) -> list[JsonObject]:
        """Return all events for a whole answer. Raises the error of a `Failed` event."""
        self.observe_body(answer)
        return [*chain.from_iterable(map(self.take, events)), *self.last_events()]

    # Content.

    def take(self, event: Event) -> list[JsonObject]:
        """Return the dialect's events for an engine event."""
        match event:
            case Unchanged():
                return [written for inner in event.events for written in self.take(inner)]
            case Usage():
                self._keep_counts(event.usage)
            case Failed():
                raise event.error
            case Finished() if event.choice == 0:
                self._finished = event
            case Text() | Reasoning() | CallOpened() | CallArguments() | CallClosed() if event.choice == 0:
                return self.content(event)
        return []

    def content(self, event: Content) -> list[JsonObject]:
        """Return the dialect's events for content."""
        match event:
            case Text():
                return self.say("text", event.text)
            case Reasoning():
                return self.say("thinking", event.text)
            case CallArguments() if call := self._calls.get(event.index):
                return self.continue_call(call, call.escapes.feed(event.fragment))
            case CallArguments() if event.fragment.strip():
                return self.say("text", event.fragment)  # no open call to which it could belong
            case CallOpened() if event.index not in self._calls:  # otherwise it is only repeated (F39, F45)
                self._blanks, self._is_after_thinking = "", False
                return self.open_call(event)
            case CallClosed() if event.index in self._calls:
                return self.close_call(event.index)
        return []

    def observe_body(self, body: JsonObject) -> JsonObject:
        """Keep the token counts and the refusal of a chunk or a whole answer. Return its first delta or message.

        Choices of a chunk are numbered, in any order; those of a whole answer are counted by position.
        """
        self._keep_counts(as_object(body.get("usage")))
        for place, entry in enumerate(objects_in(body.get("choices"))):
            if (choice_number(entry.get("index")) if "delta" in entry else place) == 0:
                choice = as_object(entry.get("delta")) or as_object(entry.get("message"))
                if words := as_text(choice.get("refusal")):
                    self._refusal.append(words)
                return choice
        return {}

    def _keep_counts(self, counts: Mapping[str, Json]) -> None:
        if counts and any(token_counts(counts)):
            self._counts = counts

    def finish_reason(self, arguments: Iterable[str]) -> tuple[str, bool]:
        """Return the finish reason, and whether the reply was cut. `arguments` are those of the open calls.

        Raises UpstreamBroken if the server gave up, or if a call is incomplete although the model stopped normally:
        half a call must not look complete (C4).
        """
        reason = "stop" if self._finished is None else self._finished.reason
        if reason in GAVE_UP:
            raise UpstreamBroken(f"the model server gave up the generation (finish reason {reason})")
        cut = was_cut(reason)
        if not cut and not all(map(is_object_text, filter(str.strip, arguments))):
            raise UpstreamBroken("a tool call cannot be finished: its arguments are no JSON object")
        return reason, cut

    def own_id(self, id_: str, other: str) -> str:
        """Return the id of a call, or `other` if it is missing or already used, as in unrepaired replies."""
        if not id_ or id_ in self._call_ids:
            id_ = other
        self._call_ids.add(id_)
        return id_

    def continue_call(self, call: OpenCall, text: str) -> list[JsonObject]:
        """Return the event for a call's next arguments, if it is sent now."""
        if not text:
            return []
        call.deltas.append(text)
        delta = self.arguments_delta(call, text)
        return [] if delta is None else [delta]

    def say(self, kind: TextKind, text: str) -> list[JsonObject]:
        """Return the events for text or reasoning.

        A block opens with its first text that is not blank, because no block may be empty. Blanks before text are kept
        until then. Blanks around reasoning are removed: `<think> a</think> Hello` is `a`, then `Hello`.
        """
        if self._open == kind:
            return self.deltas(self._characters.feed(text))
        text, self._blanks = self._blanks + text, ""
        self._is_after_thinking |= kind == "thinking"
        if self._is_after_thinking:
            text = text.lstrip()
        if not text.strip():
            self._blanks = text[:_MAX_BLANKS]
            return []
        self._is_after_thinking = kind == "thinking"
        return [*self.begin_text(kind), *self.deltas(self._characters.feed(text))]

    def deltas(self, text: str) -> list[JsonObject]:
        """Return the event that continues the open block; none for empty text."""
        if not text:
            return []
        self.keep_text(text)
        return [self.text_delta(text)]

    def keep_text(self, text: str) -> None:
        """Keep the text that was sent for the open block, if the end of the block repeats it."""

    def keep(self, event: Event) -> None:
        """Keep an event whose text the lane encoder has sent for the open block or call."""
        if isinstance(event, CallArguments):
            self._calls[event.index].deltas.append(event.fragment)
        elif isinstance(event, Text | Reasoning):
            self.keep_text(event.text)


def encode(event: JsonObject) -> bytes:
    """Encode an event with its name: the SDKs ignore events without one."""
    return b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), dump_strict(event))


def object_in_text(text: str) -> JsonObject | None:
    """Return the object in a JSON text, or None for any other text."""
    try:
        value = load_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def token_counts(counts: Mapping[str, Json]) -> tuple[int, int, int, int]:
    """Return the server's token counts: prompt, cached, completion, reasoning; 0 for missing ones."""
    found = (
        counts.get("prompt_tokens"),
        as_object(counts.get("prompt_tokens_details")).get("cached_tokens"),
        counts.get("completion_tokens"),
        as_object(counts.get("completion_tokens_details")).get("reasoning_tokens"),
    )
    prompt, cached, written, thought = (max(0, count) if type(count) is int else 0 for count in found)
    return prompt, cached, written, thought


class CharacterJoiner:
    """Joins split characters: a first half is held until the second arrives."""

    __slots__ = ("half",)

    def __init__(self) -> None:
        self.half = ""

    def feed(self, text: str) -> str:
        """Return the text with the held half, but without a first half at its end."""
        if self.half or text[-1:] >= "\ud800":
            text = (self.half + text).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
            self.half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return text.removesuffix(self.half) if self.half else text

    def finish(self) -> str:
        """Return the held half; no second half follows."""
        half, self.half = self.half, ""
        return half


class SurrogateFilter:
    """Replaces lone surrogates in the escapes of JSON text. The result does not depend on how the text is split.

    Only an incomplete escape or the first half of a pair is held, escaped (`\\ud83d`) or not.
    """

    def __init__(self) -> None:
        self._pending = ""
        self._characters = CharacterJoiner()

    @property
    def empty(self) -> bool:
        """Whether nothing is held."""
        return not self._pending and not self._characters.half

    def feed(self, text: str) -> str:
        """Return the text that is complete with this piece."""
        text = self._characters.feed(text)
        if not self._pending and "\\u" not in text and not text.endswith("\\"):
            return text
        text, self._pending = self._pending + text, ""
        return _ESCAPE.sub(self._decided, text)

    def _decided(self, match: re.Match[str]) -> str:
        if match["end"]:
            self._pending = match["end"]
            return ""
        return "\\ufffd" if match["lone"] else match[0]

    def finish(self) -> str:
        """Return the held text; nothing follows."""
        rest, self._pending = self._pending, ""
        return re.sub(_HIGH, r"\\ufffd", rest) + self._characters.finish()


@dataclass(slots=True, kw_only=True)
class OpenCall:
    """A call that has begun. `index` is the number of its block or item."""

    index: int
    deltas: list[str] = field(default_factory=list)
    escapes: SurrogateFilter = field(default_factory=SurrogateFilter)
    # `has_ended` searches the first `read` deltas for the end of the object. `ended`: whether they are one.
    search: Arguments = field(default_factory=Arguments)
    read: int = 0
    ended: bool | None = None

    def has_ended(self) -> bool:
        """Return whether the arguments were an object when their last bracket closed.

        Each delta is read once, and the arguments are parsed once, so that the total work is linear (C7).
        """
        if not self.search.begun:
            self.search.begin(Policy(hold=True))
        if self.ended is None:
            self.search.feed("".join(self.deltas[self.read :]))
            self.read = len(self.deltas)
            if self.search.over:
                self.ended = self.is_whole
        return self.ended is True

    @property
    def arguments(self) -> str:
        """The arguments so far."""
        return "".join(self.deltas)

    @property
    def is_whole(self) -> bool:
        """Whether the arguments are an object."""
        return is_object_text(self.arguments)
