"""Whether a reply needs another try, and how two tries are joined into one reply (F63, F72).

The joined reply has one envelope, one usage, and reasoning once. For an unreadable call, the second try forces the tool
(`broken_calls`), so that servers with guided decoding follow its schema. The new call replaces the broken one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from proxy import sse
from proxy.dialects.chat.answer import as_chunk
from proxy.engine.engine import Engine
from proxy.engine.events import (
    Call,
    CallArguments,
    CallClosed,
    CallOpened,
    Chunk,
    Event,
    Finished,
    Reasoning,
    Rest,
    Text,
    Unchanged,
    Usage,
)
from proxy.engine.reading import was_cut
from proxy.errors import UpstreamBroken
from proxy.exchange.plan import Why
from proxy.json import Json, JsonObject, as_object, as_text, dump_json, objects_in, without
from proxy.notations.front import Reader
from proxy.notations.signs import may_begin
from proxy.notations.stream import Piece
from proxy.notations.thoughts import Mark, Thoughts
from proxy.notations.toolset import ToolSet

# Message fields with content other than text, reasoning and calls.
_OTHER_WORDS = ("refusal", "audio", "images")
# Fields in which vLLM and SGLang report the stop sequence that ended the reply. A number is a token id.
_MATCHED = ("stop_reason", "matched_stop")
# The number of characters to read at a time: the start of a long text shows that it is an answer.
_PIECE = 256


class ContentLevel(IntEnum):
    """The level of a reply's content. Only ANSWER counts as an answer."""

    NOTHING = 0
    THOUGHT = 1
    ANSWER = 2


class ReplyContent:
    """Determines the content level of a reply from its events.

    Reasoning that a server left in the text (`<think>…</think>`) counts as THOUGHT.
    """

    def __init__(self) -> None:
        # Created for the first text that needs it.
        self._reader: Reader | None = None
        # The level of the text that follows: THOUGHT inside of reasoning.
        self._level = ContentLevel.ANSWER
        # The first choice with events, and whether another choice has events, too.
        self._choice: int | None = None
        self._has_several = False
        self._blanks = 0
        self._finish: Finished | None = None
        self.level = ContentLevel.NOTHING
        # There is an answer, so no further events need to be observed.
        self.answered = False
        # The tag that closes reasoning left open in the text (`</think>`), set at the end of the reply.
        self.open_thought = ""

    def observe(self, events: Iterable[Event]) -> None:
        """Observe the next events of the engine."""
        for event in events:
            if isinstance(event, Unchanged):
                self.observe(event.events)
            else:
                self._observe(event)

    def observe_body(self, body: JsonObject) -> None:
        """Observe the content of a chunk or a whole answer for which the engine has no event."""
        for entry in objects_in(body.get("choices")):
            delta = as_object(entry.get("delta") or entry.get("message"))
            if any(delta.get(name) for name in _OTHER_WORDS):
                self._raise(ContentLevel.ANSWER)

    def why_again(self, tokens: int, broken: Text | None = None, *, in_thought: bool = False) -> Why | None:
        """Return why a reply that has ended needs another try, or None.

        `tokens` is the number of completion tokens, and `broken` the unreadable call at the end of the reply.
        `in_thought`: the reply ended in reasoning that the engine separated from the text. Unclosed reasoning may
        contain the answer, so it is no reason for another try.
        """
        if broken is not None:
            return Why.BROKEN if self.ended_by_itself() else None
        if self._reader is not None:
            self.open_thought = self._reader.closer
            self._read(self._reader.finish())
        if self.answered or not self.ended_by_itself():
            return None
        if self.level is ContentLevel.THOUGHT:
            return None if in_thought or self.open_thought else Why.THOUGHT
        return Why.SWALLOWED if self.used_without_a_word(tokens) else Why.EMPTY

    def used_without_a_word(self, tokens: int) -> bool:
        """Return whether a reply without content used more tokens than its blanks and its end can explain.

        The server's parser may have swallowed a call.
        """
        return self.level is ContentLevel.NOTHING and tokens > self._blanks + 1

    def ended_by_itself(self) -> bool:
        """Return whether the model ended the reply: one choice, finish reason `stop`, no stop sequence."""
        finish = self._finish
        if finish is None or self._has_several or finish.reason != "stop":
            return False
        entries = [] if finish.source is None else objects_in(finish.source.body.get("choices"))
        return not any(isinstance(entry.get(name), str) for entry in entries for name in _MATCHED)

    def _observe(self, event: Event) -> None:
        match event:
            case Usage() | Rest():
                return
            case Finished():
                self._finish = event
            case Reasoning():
                if event.text.strip():
                    self._raise(ContentLevel.THOUGHT)
            case Text():
                self._text(event.text)
            case _:
                self._raise(ContentLevel.ANSWER)
        choice: int = getattr(event, "choice", 0)
        if self._choice is None:
            self._choice = choice
        elif choice != self._choice:
            self._has_several = True

    def _text(self, text: str) -> None:
        if not text.strip():
            self._blanks += len(text)
        for at in range(0, len(text), _PIECE):
            piece = text[at : at + _PIECE]
            if self._reader is None and piece.strip() and not may_begin(piece):
                # Nearly every reply starts with text that cannot begin reasoning, so no reader is needed.
                self._raise(ContentLevel.ANSWER)
            if self.answered:
                return
            if self._reader is None:
                self._reader = Reader(ToolSet(()), thoughts=Thoughts())
            self._read(self._reader.feed(piece))

    def _read(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            if piece.mark is not None:
                self._level = ContentLevel.THOUGHT if piece.mark is Mark.THOUGHT else ContentLevel.ANSWER
            elif piece.text.strip():
                self._raise(self._level)

    def _raise(self, level: ContentLevel) -> None:
        self.level = max(self.level, level)
        self.answered = self.level is ContentLevel.ANSWER


@dataclass(frozen=True, slots=True)
class EarlierTry:
    """The facts of an earlier try that the next one needs.

    `usage` are its token counts. `envelope` (id, time, model) is set if any of its chunks were sent, because the chunks
    of both tries form one reply. `thought`: its reasoning was sent, so the reasoning of the next try is dropped.
    """

    usage: JsonObject = field(default_factory=dict)
    envelope: JsonObject = field(default_factory=dict)
    thought: bool = False

    def joined(self, body: JsonObject) -> JsonObject | None:
        """Return a chunk or answer of the second try as part of the joined reply, or None if it needs no change."""
        changed: JsonObject = {**body, **{key: value for key, value in self.envelope.items() if key in body}}
        if isinstance(body.get("usage"), dict):
            changed["usage"] = summed(self.usage, as_object(body["usage"]))
        if self.envelope and "choices" in body:
            changed["choices"] = [_without_role(entry) for entry in objects_in(body["choices"])]
        return None if changed == body else changed

    def unsaid(self, event: Event) -> tuple[Event, ...]:
        """Return the event of the second try, without reasoning if the client has already received some."""
        if not self.thought:
            return (event,)
        if isinstance(event, Reasoning):
            return () if event.source is None else (Rest(event.choice, event.source),)
        if isinstance(event, Unchanged) and any(isinstance(said, Reasoning) for said in event.events):
            return tuple(said for said in event.events if not isinstance(said, Reasoning))
        return (event,)

    def joined_chunk(self, chunk: Chunk) -> Chunk:
        """Return a chunk of the second try as part of the joined reply."""
        body = self.joined(chunk.body)
        if body is None:
            return chunk
        return Chunk(body, sse.encode(dump_json(body)), chunk.sequence)


def envelope_of(body: JsonObject) -> JsonObject:
    """Return the members that all chunks of a reply share."""
    return {key: body[key] for key in ("id", "created", "model", "system_fingerprint") if key in body}


def _without_role(entry: JsonObject) -> JsonObject:
    """Return an entry of `choices` without the role, which the client already knows."""
    delta = as_object(entry.get("delta"))
    if "role" not in delta:
        return entry
    return {**entry, "delta": without(delta, "role")}


def summed(one: Mapping[str, Json], other: Mapping[str, Json]) -> JsonObject:
    """Return the sums of the token counts of two tries, including nested counts."""
    total: JsonObject = {**one, **other}
    for key in one.keys() & other.keys():
        first, second = one[key], other[key]
        if isinstance(first, dict) and isinstance(second, dict):
            total[key] = summed(first, second)
        elif isinstance(first, int | float) and isinstance(second, int | float):
            total[key] = first + second
        elif second is None:
            total[key] = first
    return total


def guided_call(answer: JsonObject, engine: Engine, tool: str) -> Call:
    """Return the call in the second answer.

    Raises UpstreamBroken if the answer does not contain exactly one call of `tool`, or was cut off (contract C4).
    """
    if any(was_cut(as_text(entry.get("finish_reason")) or None) for entry in objects_in(answer.get("choices"))):
        raise UpstreamBroken("the model server was made to call a tool, and was cut off")
    events = (*engine.feed(as_chunk(answer)), *engine.finish(done=True))
    calls = [event.call for event in events if isinstance(event, CallClosed)]
    if [call.name for call in calls] != [tool] or engine.empty_calls:
        raise UpstreamBroken("the model server was made to call a tool, and did not")
    return calls[0]


def events_instead(broken: Text, call: Call, usage: JsonObject) -> tuple[Event, ...]:
    """Return the events that end a stream with `call` in place of the broken call."""
    choice = broken.choice
    events = (
        CallOpened(choice, 0, call.id, call.name),
        CallArguments(choice, 0, call.arguments),
        CallClosed(choice, 0, call, ()),
        Finished(choice, "tool_calls", None),
    )
    return (*events, Usage(usage)) if usage else events
