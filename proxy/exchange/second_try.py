"""What makes a reply worth another try, and one reply out of two (F63, F72).

The client reads one envelope, one usage, and reasoning once. A call that cannot be read is asked for again
(`broken_calls`): every server that guides its decoding does so where a tool is forced. Its call takes the place of the
broken one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from proxy.codec import sse
from proxy.codec.json_access import as_object, as_text, objects_in
from proxy.codec.json_text import Json, JsonObject, dump_json
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
from proxy.notations.front import TextPart, ThoughtReader, holds_no_mark

# What a message may say beside its text, its reasoning and its calls.
_OTHER_WORDS = ("refusal", "audio", "images")
# Where servers say which of the client's stop sequences ended the reply: vLLM, SGLang. A number is a token.
_MATCHED = ("stop_reason", "matched_stop")
# Characters of a text that are read at a time: of a long one the first few tell that it is an answer.
_PIECE = 256


class ContentLevel(IntEnum):
    """The level of a reply's content; blanks and thoughts are no answer."""

    NOTHING = 0
    BLANK = 1
    THOUGHT = 2
    ANSWER = 3


class ReplyContent:
    """Reads the content level of a reply from its events. Reasoning that a server left in the text (`<think>…</think>`)
    is none the less thought.
    """

    __slots__ = ("_blanks", "_choice", "_finish", "_has_several", "_thoughts", "answered", "level", "open_thought")

    def __init__(self) -> None:
        # Made when there is a text to read.
        self._thoughts: ThoughtReader | None = None
        # The choice that has said something, and whether another one has, too.
        self._choice: int | None = None
        self._has_several = False
        self._blanks = 0
        self._finish: Finished | None = None
        self.level = ContentLevel.NOTHING
        # There is an answer: then nothing more has to be listened to.
        self.answered = False
        # What would end the reasoning that the reply's text leaves open, `</think>`; known at its end.
        self.open_thought = ""

    def observe(self, events: Iterable[Event]) -> None:
        """Listen to what the engine says."""
        for event in events:
            if isinstance(event, Unchanged):
                self.observe(event.events)
            else:
                self._observe(event)

    def observe_body(self, body: JsonObject) -> None:
        """Look at a chunk, or a whole answer, for what is no event of the engine's."""
        for entry in objects_in(body.get("choices")):
            delta = as_object(entry.get("delta") or entry.get("message"))
            if any(delta.get(name) for name in _OTHER_WORDS):
                self._raise(ContentLevel.ANSWER)

    def why_again(self, tokens: int, broken: Text | None = None, *, in_thought: bool = False) -> Why | None:
        """Return why the reply, which has ended, is worth another try, or None.

        `tokens` is the number of tokens that the model used, `broken` the unreadable call with which the reply ended,
        and `in_thought` says that it ended in reasoning that the engine separated from the text. Reasoning that is
        never closed may contain the answer, so it is sent once.
        """
        if broken is not None:
            return Why.BROKEN if self.ended_by_itself() else None
        if not self.ended_without_answer():
            return None
        if self.level is ContentLevel.THOUGHT:
            return None if in_thought or self.open_thought else Why.THOUGHT
        return Why.SWALLOWED if self.used_without_a_word(tokens) else Why.EMPTY

    def used_without_a_word(self, tokens: int) -> bool:
        """True if more tokens were used than what was said can have taken: at most one for each blank, and the end's.
        A parser may have swallowed a call.
        """
        return self.level <= ContentLevel.BLANK and tokens > self._blanks + 1

    def ended_without_answer(self) -> bool:
        """True for a reply of one choice that ended by itself, by no stop sequence, and holds no answer."""
        if self._thoughts is not None:
            self.open_thought = self._thoughts.closer
            self._read(self._thoughts.finish())
        return not self.answered and self.ended_by_itself()

    def ended_by_itself(self) -> bool:
        """True for a reply of one choice that ended by itself, by no stop sequence, and calls nothing."""
        if self._finish is None or self._has_several:
            return False
        return self._finish.reason == "stop" and not _was_stopped(self._finish)

    def _observe(self, event: Event) -> None:
        match event:
            case Usage() | Rest():
                return
            case Finished():
                self._finish = event
            case Reasoning():
                self._read((TextPart(event.text, thinking=True),))
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
        self._raise(ContentLevel.BLANK)
        for at in range(0, len(text), _PIECE):
            piece = text[at : at + _PIECE]
            if self._thoughts is None and piece.strip() and holds_no_mark(piece):
                # Nearly every reply begins with words that cannot be a thought: nothing has to be made to read them.
                self._raise(ContentLevel.ANSWER)
            if self.answered:
                return
            if self._thoughts is None:
                self._thoughts = ThoughtReader()
            self._read(self._thoughts.feed(piece))

    def _read(self, pieces: Iterable[TextPart]) -> None:
        for piece in pieces:
            if piece.text.strip():
                self._raise(ContentLevel.THOUGHT if piece.thinking else ContentLevel.ANSWER)

    def _raise(self, level: ContentLevel) -> None:
        self.level = max(self.level, level)
        self.answered = self.level is ContentLevel.ANSWER


def _was_stopped(finish: Finished) -> bool:
    """True if the server says that one of the client's stop sequences ended the reply."""
    if finish.source is None:
        return False
    entries = objects_in(finish.source.body.get("choices"))
    return any(isinstance(entry.get(name), str) for entry in entries for name in _MATCHED)


@dataclass(frozen=True, slots=True)
class EarlierTry:
    """The facts of the first reply for the second one: its token counts, and, if something of it has left, the
    `envelope` of its chunks (id, time, model), for both are one reply. `thought`: its reasoning has been sent, so that
    of the second one is not, as it may be the same.
    """

    usage: JsonObject = field(default_factory=dict)
    envelope: JsonObject = field(default_factory=dict)
    thought: bool = False

    @property
    def tokens(self) -> int:
        """The tokens that the model used, as far as the server says it."""
        used = self.usage.get("completion_tokens")
        return used if isinstance(used, int) else 0

    def joined(self, body: JsonObject) -> JsonObject | None:
        """A chunk, or the whole, of the second reply as one of the one reply; None where it stays as it is."""
        changed: JsonObject = {**body, **{key: value for key, value in self.envelope.items() if key in body}}
        if isinstance(body.get("usage"), dict):
            changed["usage"] = summed(self.usage, as_object(body["usage"]))
        if self.envelope and "choices" in body:
            changed["choices"] = [_without_role(entry) for entry in objects_in(body["choices"])]
        return None if changed == body else changed

    def unsaid(self, event: Event) -> tuple[Event, ...]:
        """Return the event of the second reply, without reasoning if the client has received some already."""
        if not self.thought:
            return (event,)
        if isinstance(event, Reasoning):
            return () if event.source is None else (Rest(event.choice, event.source),)
        if isinstance(event, Unchanged) and any(isinstance(said, Reasoning) for said in event.events):
            return tuple(said for said in event.events if not isinstance(said, Reasoning))
        return (event,)

    def joined_chunk(self, chunk: Chunk) -> Chunk:
        """A chunk of the second reply as one of the one reply."""
        body = self.joined(chunk.body)
        if body is None:
            return chunk
        return Chunk(body, sse.encode(dump_json(body)), chunk.sequence)


def envelope_of(body: JsonObject) -> JsonObject:
    """The members that all chunks of a reply have alike."""
    return {key: body[key] for key in ("id", "created", "model", "system_fingerprint") if key in body}


def _without_role(entry: JsonObject) -> JsonObject:
    """An entry of a chunk whose role the client knows already."""
    delta = as_object(entry.get("delta"))
    if "role" not in delta:
        return entry
    return {**entry, "delta": {key: value for key, value in delta.items() if key != "role"}}


def summed(one: Mapping[str, Json], other: Mapping[str, Json]) -> JsonObject:
    """Token counts of two tries: the sum of each number, also of those inside."""
    total: JsonObject = {**one, **other}
    for key in one.keys() & other.keys():
        total[key] = _sum(one[key], other[key])
    return total


def _sum(one: Json, other: Json) -> Json:
    if isinstance(one, dict) and isinstance(other, dict):
        return summed(one, other)
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one + other
    return other if other is not None else one


def guided_call(answer: JsonObject, engine: Engine, tool: str) -> Call:
    """The call of the second answer, of which the engine takes one; UpstreamBroken if it has another one, or none, or
    was cut off: half a call is not what the model meant (contract C4).
    """
    if any(was_cut(as_text(entry.get("finish_reason")) or None) for entry in objects_in(answer.get("choices"))):
        raise UpstreamBroken("the model server was made to call a tool, and was cut off")
    events = (*engine.feed(as_chunk(answer)), *engine.finish(done=True))
    calls = [event.call for event in events if isinstance(event, CallClosed)]
    if [call.name for call in calls] != [tool] or engine.empty_calls:
        raise UpstreamBroken("the model server was made to call a tool, and did not")
    return calls[0]


def events_instead(broken: Text, call: Call, usage: JsonObject) -> tuple[Event, ...]:
    """The end of a stream with the call in the place of the broken one."""
    choice = broken.choice
    events = (
        CallOpened(choice, 0, call.id, call.name),
        CallArguments(choice, 0, call.arguments),
        CallClosed(choice, 0, call, ()),
        Finished(choice, "tool_calls", None),
    )
    return (*events, Usage(usage)) if usage else events


def answer_instead(answer: JsonObject, broken: Text, call: Call, usage: JsonObject) -> JsonObject:
    """A whole answer with the call in the place of the broken one."""
    [entry, *_] = objects_in(answer.get("choices"))
    message = as_object(entry.get("message"))
    content = message.get("content")
    if isinstance(content, str) and broken.text in content:
        content = content[: content.rindex(broken.text)].rstrip() or None
    called: JsonObject = {"id": call.id, "type": "function"}
    called["function"] = {"name": call.name, "arguments": call.arguments}
    message = {**message, "content": content, "tool_calls": [called]}
    message.pop("function_call", None)
    changed: JsonObject = {**answer, "choices": [{**entry, "message": message, "finish_reason": "tool_calls"}]}
    if usage:
        changed["usage"] = usage
    return changed
