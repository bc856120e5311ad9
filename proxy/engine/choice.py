"""One choice of a reply: its text, its reasoning, its calls and its finish.

What a chunk says is taken immediately: text goes to the reader, pieces of calls to `Calls`, reasoning is forwarded. If
what leaves is exactly what the chunk says, its own bytes leave (contract C1). Else what leaves is written anew, and
what the chunk says beside its texts and calls leaves with the next event. Held text that is prose leaves in the chunks
in which it came, as far as all of a chunk is prose.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import Enum, auto

from proxy.audit_record import Repair
from proxy.engine.calls import Calls
from proxy.engine.events import (
    CallArguments,
    Chunk,
    ContentEvent,
    Event,
    Failed,
    Finished,
    Reasoning,
    Rest,
    Text,
    says_more,
)
from proxy.engine.lane import ANY_TEXT
from proxy.engine.reading import USUAL_ENDS, CallDelta, ChoiceDelta, was_cut
from proxy.limits import MAX_HELD
from proxy.notations.front import Reader
from proxy.notations.stream import Piece
from proxy.notations.thoughts import Mark

# No client needs more blanks around reasoning.
_MAX_BLANKS = 4096
# Why text is dropped (F18).
DROPPED = {
    "end_of_turn": "the model's own end-of-turn token is no text",
    "leftover": "a closer or a token directly after a call is no text",
    "lone_opener": "a wrapper without a call is no text",
    "cut_call": "a further call that was cut off is no text",
    "made_up_turn": "what the model makes up behind its call, a result or the client's turn, is no answer",
    "leaked_token": "a token at the very beginning of a reply is no text",
}
_EMPTY_LIST = Repair("empty_calls", "[]", "", "a list of no calls says nothing")
_UNOPENED = Repair("unopened_thought", "", "", "the text before the end of a thought has been one")
_UNCLOSED = Repair("unclosed_thought", "", "", "a reply that ends in a thought is its own answer")


class Mode(Enum):
    """What the next text is.

    A mark that ends or begins reasoning leads to TEXT_BEGINS or THOUGHT_BEGINS, the first character that is not a blank
    from there to TEXT or THOUGHT: blanks around the marks are the template's. If the server separates reasoning, all
    text is TEXT.
    """

    TEXT = auto()
    TEXT_BEGINS = auto()
    THOUGHT = auto()
    THOUGHT_BEGINS = auto()


class Choice:
    """The state of one choice.

    `reader` reads the text, and `reasoning_reader` the reasoning for a call at its very end (F70), until text or a call
    comes. `parsed`: tools are offered, else calls pass unchanged. `ordered`: the client has text and reasoning in one
    order, so reasoning ends held text. `thinks`: the text begins in reasoning that the prompt opened. `broken_call` is
    the call that cannot be read, if the reply ended with it and has no other.
    """

    def __init__(
        self,
        number: int,
        reader: Reader,
        reasoning_reader: Reader | None,
        calls: Calls,
        *,
        parsed: bool = True,
        ordered: bool = False,
        thinks: bool = False,
    ) -> None:
        self.number, self.reader, self.reasoning_reader, self.calls = number, reader, reasoning_reader, calls
        self._parsed, self._ordered = parsed, ordered
        self.audit = calls.audit
        self.finish: str | None = None
        self.broken_call: Text | None = None
        # The chunk with the finish waits for the end of the reply, and so does what it says beside that, if it says
        # nothing of other choices.
        self._final: Chunk | None = None
        self._last: ChoiceDelta | None = None
        # Text that waits, in parts, each with its chunk if that may still leave unchanged; what has left of the first.
        self._waiting: deque[tuple[str, Chunk | None]] = deque()
        self._gone = self._size = 0
        # Chunks whose other fields have not left.
        self._unsaid: list[Chunk] = []
        # Content after a call that may only repeat it (F28), the arguments that it may repeat, and how far it does.
        self._echo: list[tuple[str, Chunk | None]] = []
        self._repeated: tuple[str, ...] = ()
        self._repeated_to = 0
        self._echo_over = False
        # Reasoning that was separated from the text, the blanks after it, and the room for more.
        self.mode = Mode.THOUGHT_BEGINS if thinks else Mode.TEXT
        self._thoughts: list[str] = []
        self._blanks = ""
        self._room = MAX_HELD
        # The server has sent reasoning of its own.
        self._has_reasoning = False

    @property
    def held(self) -> bool:
        """True while text waits."""
        return self.reader.held or bool(self._echo)

    @property
    def size(self) -> int:
        """The number of characters that may be read again."""
        return self._size + self.calls.size

    @property
    def thoughts(self) -> str:
        """The reasoning that was separated from the text; empty while it may still be the answer."""
        return "" if self.reader.prompted else "".join(self._thoughts)

    # Chunks.

    def take(self, chunk: Chunk, said: ChoiceDelta, *, alone: bool) -> list[Event]:
        """Take what a chunk says of this choice; `alone` if it says nothing of others."""
        is_text = alone and said.text != "" and not (said.reasoning or said.calls or said.finish)
        if is_text and self.flow(said.text, reasoning=False):
            return [chunk.unchanged((Text(self.number, said.text),))]
        events: list[Event] = []
        if said.text or said.reasoning or said.calls or said.finish:
            events += self._take_final()
        if said.finish:
            if self._final is not None:
                self._unsaid.append(self._final)
            self.finish, self._final, self._last = said.finish, chunk, said
            return self._with_rest(events if alone else [*events, *self._take_final()])
        new = self._take(said, chunk if is_text else None)
        if not is_text:
            came = self._as_it_came(said) if alone else None
            if came is not None and new == came:
                return [*self._with_rest(events), *self._say_rest(), chunk.unchanged(tuple(came))]
            self._unsaid.append(chunk)
        return self._with_rest([*events, *new])

    def _as_it_came(self, said: ChoiceDelta) -> list[ContentEvent] | None:
        """Return the events by which a chunk leaves unchanged; None if it cannot."""
        events = said.content(self.number)
        for delta in said.calls:
            if self._parsed and not delta.plain:
                return None
            events += delta.events(self.number)
        return events

    def _take(self, said: ChoiceDelta, chunk: Chunk | None) -> list[Event]:
        """Take what a chunk says; `chunk` if that is nothing but text."""
        events: list[Event] = []
        text = said.text
        if self.calls and (text or said.reasoning) and not said.calls:
            events += self.calls.settle_finished()
        if said.reasoning:
            self._watch_reasoning(said.reasoning)
            if self._ordered:
                events += self._end_text()
            events.append(Reasoning(self.number, said.reasoning))
        if said.empty_calls and _EMPTY_LIST not in self.audit:
            self.audit.append(_EMPTY_LIST)  # vLLM says it in each chunk
        if said.calls or text.strip():
            self.reasoning_reader = None
        if text and _repeats_its_calls(said):
            self._note_echo(text)
        elif text and self.calls and not self._echo_over:
            events += self._after_calls(text, chunk)
        elif text:
            events += self._feed([(text, chunk)])
        if said.calls:
            self._echo_over = False
            events += self._end_text()
            if self._parsed:
                return [*events, *self.calls.feed(said.calls)]
            events += (event for delta in said.calls for event in delta.events(self.number))
        return events

    def _take_final(self) -> list[Event]:
        """Take what the chunk with the finish says beside the finish."""
        said, self._last = self._last, None
        return [] if said is None else self._take(said, None)

    def _watch_reasoning(self, reasoning: str) -> None:
        if not self._has_reasoning:
            self._has_reasoning = True
            if self.reader.fresh:
                self.reader.reasoning_is_separate()
                self.mode = Mode.TEXT
        if self.reasoning_reader is not None:
            self.reasoning_reader.feed(reasoning)

    # Chunks that differ by a text alone.

    def _may_flow(self, reasoning: bool) -> bool:
        """Return whether a text may leave unchanged, if nothing begins in it: nothing waits that it would overtake."""
        if self.finish is not None or self._unsaid:
            return False
        if reasoning:
            return self._has_reasoning and not (self._ordered and (self._waiting or self._echo))
        return not self._waiting and not self.calls and self.mode is Mode.TEXT

    def flow(self, text: str, *, reasoning: bool) -> bool:
        """Take the next text if it leaves unchanged; return whether it does."""
        if not self._may_flow(reasoning):
            return False
        if reasoning:
            self._watch_reasoning(text)
            return True
        if not self.reader.passes(text):
            return False
        if not text.isspace():
            self.reasoning_reader = None
        return True

    def lane(self, *, reasoning: bool) -> re.Pattern[bytes] | None:
        """Return what matches a text that `flow` would take, in a string of JSON; None if it takes none now."""
        if not self._may_flow(reasoning):
            return None
        return ANY_TEXT if reasoning else self.reader.lane

    def call_flows(self, delta: CallDelta) -> bool:
        """Return whether pieces like this one, that continue a string without ending it, leave unchanged."""
        return not (self.finish is not None or self._waiting or self._echo or self._unsaid) and self.calls.flows(delta)

    @property
    def room(self) -> int:
        """The number of characters of text that may only wait with a call that is held."""
        beside = self.calls or self.finish is not None or self.reasoning_reader is not None or self._unsaid
        return 0 if beside or self.mode is not Mode.TEXT else self.reader.room

    def hold(self, chunks: Iterable[tuple[str, Chunk]]) -> list[Event]:
        """Take texts that may wait, each with its chunk; return what leaves."""
        return self._with_rest(self._feed(chunks))

    # Text.

    def _feed(self, parts: Iterable[tuple[str, Chunk | None]]) -> list[Event]:
        """Take text, each part with the chunk that says nothing else; return what leaves."""
        new = [*parts]
        self._waiting += new
        text = "".join(text for text, _ in new)
        self._size += len(text)
        return self._pieces(self.reader.feed(text) if text else ())

    def _pieces(self, pieces: Iterable[Piece]) -> list[Event]:
        """Return what leaves because the reader has decided what these parts of the text are."""
        events: list[Event] = []
        prose = 0
        for piece in pieces:
            if piece.is_prose and not (piece.broken and not self.calls and not self.calls.count):
                prose += len(piece.text)
                continue
            events += self._leave(prose)
            prose = 0
            for _ in self._parts(len(piece.text), keep=False):
                pass
            if piece.broken:
                events.append(Text(self.number, piece.text, broken=piece.broken))
            elif piece.mark is Mark.STRAY:
                # All before it left as text, which goes on.
                self.audit.append(_UNOPENED)
            elif piece.mark is not None:
                self.mode = Mode.THOUGHT_BEGINS if piece.mark is Mark.THOUGHT else Mode.TEXT_BEGINS
                self._blanks = ""
            elif not piece.calls and piece.row in DROPPED:
                self.audit.append(Repair(piece.row, "", "", DROPPED[piece.row]))
            else:
                events += self.calls.found(piece, "as text")
        return [*events, *self._leave(prose)]

    def _leave(self, size: int) -> list[Event]:
        """Release this much of the text that waits."""
        events: list[Event] = []
        for text, chunk in self._parts(size, keep=self.mode is Mode.TEXT):
            events += self._say(text) if chunk is None else [chunk.unchanged((Text(self.number, text),))]
        return events

    def _parts(self, size: int, *, keep: bool) -> Iterator[tuple[str, Chunk | None]]:
        """Take this much of the text that waits, part by part; `keep`: with the chunk of each that is taken whole."""
        self._size -= size
        while size:
            text, chunk = self._waiting[0]
            part = text[self._gone : self._gone + size]
            size -= len(part)
            if chunk is not None and not (keep and len(part) == len(text)):
                self._unsaid.append(chunk)
                chunk = None
            self._gone += len(part)
            if self._gone == len(text):
                self._waiting.popleft()
                self._gone = 0
            else:
                self._waiting[0] = text, None
            yield part, chunk

    def _say(self, text: str) -> list[Event]:
        """Return the event that says this text; blanks around marks of reasoning are left out.

        `"\\nSo I look.\\n"` in reasoning -> `Reasoning("So I look.")`; `"\\n\\nDone."` after it -> `Text("Done.")`
        """
        if self.mode is Mode.TEXT:
            return [Text(self.number, text)]
        text, self._blanks = self._blanks + text, ""
        if self.mode is not Mode.THOUGHT:
            text = text.lstrip()
        if not text:
            return []
        if self.mode is Mode.TEXT_BEGINS:
            self.mode = Mode.TEXT
            return [Text(self.number, text)]
        self.mode = Mode.THOUGHT
        piece = text.rstrip("\r\n")
        self._blanks = text[len(piece) :][:_MAX_BLANKS]
        if self._room > 0:
            self._thoughts.append(piece)
            self._room -= len(text)
        return [Reasoning(self.number, piece)] if piece else []

    def _end_text(self) -> list[Event]:
        """Release the text that waits, because something else has come."""
        if not (self._waiting or self._echo):
            return []
        return [*self._end_echo(), *self._pieces(self.reader.release())]

    # Content that only repeats a call (F28).

    def _note_echo(self, text: str) -> None:
        self.audit.append(Repair("echo", text, "", "the content only repeats a call"))

    def _after_calls(self, text: str, chunk: Chunk | None) -> list[Event]:
        """Take a text after a call; it waits while it may repeat the arguments of a call.

        {"content": "\\n{\\"command\\": \\"ls\\"}"} after a call with these arguments
        """
        part = text if self._repeated else text.lstrip()
        self._echo.append((text, chunk))
        if not part:
            return []
        known, at = self._repeated or self.calls.finished_texts(), self._repeated_to
        bare = part.rstrip()
        # Blanks after the arguments are not a part of them.
        self._repeated = tuple(
            each for each in known if each.startswith(part, at) or each[at : at + len(bare) + 1] == bare
        )
        self._repeated_to = at + len(part)
        if self._repeated:
            return []
        self._echo_over = True
        return self._release_echo()

    def _end_echo(self) -> list[Event]:
        """Decide whether the text after a call repeats it: something else came."""
        text = "".join(text for text, _ in self._echo)
        if text.strip() and text.strip() in self.calls.finished_texts():
            self._note_echo(text)
            self._unsaid += [chunk for _, chunk in self._echo if chunk is not None]
            self._echo = []
        return self._release_echo()

    def _release_echo(self) -> list[Event]:
        """Take the text that does not repeat a call."""
        parts, self._echo = self._echo, []
        self._repeated, self._repeated_to = (), 0
        return self._feed(parts)

    # The end.

    def release(self) -> list[Event]:
        """Release the text that waits; only a finish still does."""
        events = [*self._take_final(), *self._release_echo()]
        return self._with_rest([*events, *self._pieces(self.reader.release())])

    def end(self) -> list[Event]:
        """Return the rest of the choice, and its true finish (contract C4); a `Failed` is the last event."""
        stopped = not was_cut(self.finish)
        last = self._last
        events = [*self._take_final(), *self._end_echo(), *self._pieces(self.reader.finish(stopped=stopped))]
        events += self.calls.settle_all(stopped=stopped)
        if events and isinstance(events[-1], Failed):
            return events
        if stopped and not self.calls.count:
            events += self._end_reasoning()
            broken = [event for event in events if isinstance(event, Text) and event.broken]
            if len(broken) == 1 and not self.calls.count:
                [self.broken_call] = broken
        finished = self._finished()
        final, content = self._final, [] if last is None else last.content(self.number)
        if final is None or last is None or last.calls or self.finish != finished.reason:
            return [*self._with_rest(events), *self._say_rest(), finished]
        before = len(events) - len(content)
        if events[before:] != content:
            return [*self._with_rest(events), *self._say_rest(), finished]
        return [*self._with_rest(events[:before]), *self._say_rest(), final.unchanged((*content, finished))]

    def _end_reasoning(self) -> list[Event]:
        """Return the call at the very end of the reasoning (F70), or the answer that seemed to be reasoning.

        {"delta": {"reasoning": "I list them.\\n<tool_call>{\\"name\\": \\"ls\\", \\"arguments\\": {}}</tool_call>"}}
        {"delta": {}, "finish_reason": "stop"}
        """
        events: list[Event] = []
        for piece in self.reasoning_reader.finish(stopped=True) if self.reasoning_reader is not None else ():
            if piece.calls:
                events += self.calls.found(piece, "in its reasoning")
        thought = "".join(self._thoughts)
        if self.reader.prompted and thought and self._room > 0 and not self.calls.count:
            self.audit.append(_UNCLOSED)
            events.append(Text(self.number, thought))
        return events

    def _finished(self) -> Finished:
        """Return the finish with the reason that is true of what left."""
        reason = self.finish or "stop"
        if self._parsed and not was_cut(self.finish):
            reason = "tool_calls" if self.calls.count else "stop"
        if reason != self.finish and not (reason == "tool_calls" and self.calls.in_text):
            self.audit.append(Repair("finish", str(self.finish), reason, "the finish says what left the proxy"))
        if was_cut(reason) and reason not in USUAL_ENDS:
            # Dialects may have no word for it: vLLM's `repetition` is `max_tokens` to a Messages client.
            self.audit.append(Repair("cut", reason, reason, "the model did not stop by itself: nothing is completed"))
        return Finished(self.number, reason, self._final)

    # What chunks say beside their texts and calls (contract C1).

    def _with_rest(self, events: list[Event]) -> list[Event]:
        """Return the events, the first of which say what else the chunks say that did not leave unchanged."""
        rest = self._say_rest() if events else []
        if not rest:
            return events
        last = rest[-1]
        for at, event in enumerate(events):
            if isinstance(event, Text | Reasoning | CallArguments):
                return [*rest[:-1], *events[:at], replace(event, source=last.source), *events[at + 1 :]]
        return [*rest, *events]

    def _say_rest(self) -> list[Rest]:
        unsaid, self._unsaid = self._unsaid, []
        return [Rest(self.number, chunk) for chunk in unsaid if says_more(chunk)]


def _repeats_its_calls(said: ChoiceDelta) -> bool:
    """Return whether the text of a chunk only repeats its own fragments of arguments.

    {"content": "{}", "tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}
    """
    fragments = [call.fragment for call in said.calls]
    return bool(said.text.strip()) and said.text.strip() in ("".join(fragments).strip(), *map(str.strip, fragments))
