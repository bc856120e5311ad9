"""The content of a reply so far: an answer, thoughts alone, or nothing; and how it ended."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from proxy.codec.json_access import as_object, objects_in
from proxy.codec.json_text import JsonObject
from proxy.engine.events import Event, Finished, Reasoning, Rest, Text, Unchanged, Usage
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
                self._say(event.text, thinking=True)
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
            if self.answered:
                return
            self._piece(text[at : at + _PIECE])

    def _piece(self, text: str) -> None:
        """Nearly every reply begins with words that cannot be a thought: nothing has to be made to read them."""
        if self._thoughts is None and text.strip() and holds_no_mark(text):
            self._raise(ContentLevel.ANSWER)
            return
        if self._thoughts is None:
            self._thoughts = ThoughtReader()
        self._read(self._thoughts.feed(text))

    def _read(self, pieces: Iterable[TextPart]) -> None:
        for piece in pieces:
            self._say(piece.text, thinking=piece.thinking)

    def _say(self, text: str, *, thinking: bool) -> None:
        if not text.strip():
            return
        if thinking:
            self._raise(ContentLevel.THOUGHT)
        else:
            self._raise(ContentLevel.ANSWER)

    def _raise(self, level: ContentLevel) -> None:
        self.level = max(self.level, level)
        self.answered = self.level is ContentLevel.ANSWER


def _was_stopped(finish: Finished) -> bool:
    """True if the server says that one of the client's stop sequences ended the reply."""
    if finish.source is None:
        return False
    entries = objects_in(finish.source.body.get("choices"))
    return any(isinstance(entry.get(name), str) for entry in entries for name in _MATCHED)
