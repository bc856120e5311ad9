"""One choice of a reply: its text, its reasoning, its calls and its finish.

Text goes to the reader, call deltas go to `Calls`, and reasoning is forwarded. If the resulting events are exactly the
content of the chunk, its own bytes are forwarded (contract C1). Otherwise the events are written again, and the chunk's
other fields are sent with the next event. Held text that turns out to be prose is forwarded in its original chunks
where a whole chunk is prose.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import Enum, auto

from proxy.engine.calls import Calls
from proxy.engine.events import (
    CallArguments,
    Chunk,
    Event,
    Failed,
    Finished,
    Reasoning,
    Rest,
    Text,
    says_more,
)
from proxy.engine.lane import ANY_TEXT, IN_STRING
from proxy.engine.reading import USUAL_ENDS, CallDelta, ChoiceDelta, was_cut
from proxy.engine.task import Task
from proxy.limits import MAX_HELD
from proxy.notations.front import Reader
from proxy.notations.stream import Piece
from proxy.notations.thoughts import Mark
from proxy.repair.record import Repair

# The maximum number of blanks kept after reasoning.
_MAX_BLANKS = 4096
# The maximum number of characters of reasoning that may be held because they arrived within a call.
_MAX_REASONING = 64 * 1024
# Reasons for dropping text (F18).
DROPPED = {
    "end_of_turn": "the model's end-of-turn token is not text",
    "leftover": "a closing tag or token directly after a call is not text",
    "lone_opener": "a wrapper without a call is not text",
    "cut_call": "a further call that was cut off is not text",
    "made_up_turn": "a tool result or user turn that the model invents after its call is not an answer",
    "leaked_token": "a token at the very beginning of a reply is not text",
}
_EMPTY_LIST = Repair("empty_calls", "[]", "", "a list of no calls says nothing")
_UNOPENED = Repair("unopened_thought", "", "", "the text before an end tag of reasoning was reasoning")
_UNCLOSED = Repair("unclosed_thought", "", "", "a reply that ends in unclosed reasoning is the answer")


class Mode(Enum):
    """The kind of the next text.

    A mark that ends or starts reasoning leads to TEXT_BEGINS or THOUGHT_BEGINS. The next character that is not a blank
    leads to TEXT or THOUGHT: blanks around the marks come from the chat template and are dropped. If the server
    separates reasoning, the mode is always TEXT.
    """

    TEXT = auto()
    TEXT_BEGINS = auto()
    THOUGHT = auto()
    THOUGHT_BEGINS = auto()


class Choice:
    """The state of one choice.

    `reader` reads the text. `reasoning_reader` looks for a call at the end of the reasoning (F70), until text or a call
    arrives. Without tools, calls pass unchanged. `broken_call` is the unreadable call at the end of a reply without
    other calls.
    """

    def __init__(
        self,
        number: int,
        task: Task,
        reader: Reader,
        reasoning_reader: Reader | None,
        calls: Calls,
    ) -> None:
        self.number, self.reader, self.reasoning_reader, self.calls = number, reader, reasoning_reader, calls
        self._parsed, self._ordered = task.tools is not None, task.ordered
        self.audit = calls.audit
        self.finish: str | None = None
        self.broken_call: Text | None = None
        # The chunk with the finish reason waits for the end of the reply. Its other content (`_last`) waits, too, if
        # the chunk has no other choices.
        self._final: Chunk | None = None
        self._last: ChoiceDelta | None = None
        # Held text in parts, each with its chunk if that may still be forwarded unchanged. Reasoning that arrived
        # within a call is held in its place. `_gone` counts the sent characters of the first part.
        self._waiting: deque[tuple[str, Chunk | Reasoning | None]] = deque()
        self._gone = self._size = self._reasoning_size = 0
        # Chunks whose other fields have not been sent.
        self._unsaid: list[Chunk] = []
        # Text after a call that may repeat its arguments (F28), the arguments it may repeat, and the repeated length.
        self._echo: list[tuple[str, Chunk | None]] = []
        self._repeated: tuple[str, ...] = ()
        self._repeated_to = 0
        self._echo_over = False
        # Reasoning separated from the text, the blanks after it, and the number of characters that may still be kept.
        # The prompt may have opened it.
        self.mode = Mode.THOUGHT_BEGINS if task.thoughts is not None and task.thoughts.begun else Mode.TEXT
        self._thoughts: list[str] = []
        self._blanks = ""
        self._room = MAX_HELD
        # The server has sent reasoning of its own.
        self._has_reasoning = False

    @property
    def held(self) -> bool:
        """True while text is held."""
        return self.reader.held or bool(self._echo)

    @property
    def size(self) -> int:
        """The number of held characters, text and arguments, that the next step may have to read again."""
        return self._size + self.calls.size

    @property
    def thoughts(self) -> str:
        """The reasoning separated from the text, or "" while it may still be the answer."""
        return "" if self.reader.prompted else "".join(self._thoughts)

    # Chunks.

    def take(self, chunk: Chunk, said: ChoiceDelta, *, alone: bool) -> list[Event]:
        """Take the delta of this choice in a chunk. `alone`: the chunk has no other choices."""
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
            came = said.events(self.number)
            plain = not self._parsed or all(delta.plain for delta in said.calls)
            if alone and plain and new == came:
                return [*self._with_rest(events), *self._say_rest(), chunk.unchanged(tuple(came))]
            self._unsaid.append(chunk)
        return self._with_rest([*events, *new])

    def _take(self, said: ChoiceDelta, chunk: Chunk | None) -> list[Event]:
        """Take a delta. `chunk` is its chunk if it contains only text, else None."""
        events: list[Event] = []
        text = said.text
        if self.calls and (text or said.reasoning) and not said.calls:
            events += self.calls.settle_finished()
        if said.reasoning:
            self._watch_reasoning(said.reasoning)
            reasoning = Reasoning(self.number, said.reasoning)
            self._reasoning_size += len(said.reasoning)
            if self._ordered and self._waiting and self.reader.confident and self._reasoning_size <= _MAX_REASONING:
                self._waiting.append(("", reasoning))
            else:
                events += [*(self._end_text() if self._ordered else ()), reasoning]
                self._reasoning_size = 0
        if said.empty_calls and _EMPTY_LIST not in self.audit:
            self.audit.append(_EMPTY_LIST)  # vLLM sends one in each chunk
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
        """Take the other content of the chunk with the finish reason."""
        said, self._last = self._last, None
        return [] if said is None else self._take(said, None)

    def _watch_reasoning(self, reasoning: str) -> None:
        if not self._has_reasoning:
            self._has_reasoning = True
            if self.reader.fresh:
                self.reader.separate(None)  # the server does it
                self.mode = Mode.TEXT
        if self.reasoning_reader is not None:
            self.reasoning_reader.feed(reasoning)

    # Chunks that differ only in their text.

    def _may_flow(self, reasoning: bool) -> bool:
        """Return whether a text without marks can be forwarded unchanged: it would not overtake anything held."""
        if self.finish is not None or self._unsaid:
            return False
        if reasoning:
            return self._has_reasoning and not (self._ordered and (self._waiting or self._echo))
        return not self._waiting and not self.calls and self.mode is Mode.TEXT

    def flow(self, text: str, *, reasoning: bool) -> bool:
        """Take the next text if it can be forwarded unchanged; return whether it can."""
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

    def lane(self, like: Text | Reasoning | CallArguments) -> re.Pattern[bytes] | None:
        """Return the pattern of texts, as written in JSON, that may pass in events like this one; None if none may now.

        A fragment of arguments may pass if it continues a string.
        """
        if isinstance(like, CallArguments):
            if self.finish is not None or self._waiting or self._echo or self._unsaid:
                return None
            return IN_STRING if self.calls.flows(CallDelta(like.index, fragment=like.fragment)) else None
        reasoning = isinstance(like, Reasoning)
        if not self._may_flow(reasoning):
            return None
        return ANY_TEXT if reasoning else self.reader.lane

    @property
    def room(self) -> int:
        """The number of characters that a held call may still take without being read again."""
        beside = self.calls or self.finish is not None or self.reasoning_reader is not None or self._unsaid
        return 0 if beside or self.mode is not Mode.TEXT else self.reader.room

    @property
    def newest_held(self) -> tuple[str, Chunk] | None:
        """The newest held text with its chunk, or None if that may not be forwarded unchanged."""
        text, chunk = self._waiting[-1] if self._waiting else ("", None)
        return (text, chunk) if isinstance(chunk, Chunk) else None

    def hold(self, chunks: Iterable[tuple[str, Chunk]]) -> list[Event]:
        """Take texts of a held call, each with its chunk, and return the released events."""
        return self._with_rest(self._feed(chunks))

    # Text.

    def _feed(self, parts: Iterable[tuple[str, Chunk | None]]) -> list[Event]:
        """Take text in parts, each with its chunk if that contains only this text; return the released events."""
        new = [*parts]
        self._waiting += new
        text = "".join(text for text, _ in new)
        self._size += len(text)
        return self._pieces(self.reader.feed(text) if text else ())

    def _pieces(self, pieces: Iterable[Piece]) -> list[Event]:
        """Return the events of pieces that the reader has classified."""
        events: list[Event] = []
        prose = 0
        for piece in pieces:
            if piece.is_prose and not (piece.broken and not self.calls and not self.calls.count):
                prose += len(piece.text)
                continue
            events += self._leave(prose)
            prose = 0
            parts = self._parts(len(piece.text), keep=False)
            events += [chunk for _, chunk in parts if isinstance(chunk, Reasoning)]
            if piece.broken:
                events.append(Text(self.number, piece.text, broken=piece.broken))
            elif piece.mark is Mark.STRAY:
                # The text before it was sent as text, and text continues.
                self.audit.append(_UNOPENED)
            elif piece.mark is not None:
                self.mode = Mode.THOUGHT_BEGINS if piece.mark is Mark.THOUGHT else Mode.TEXT_BEGINS
                self._blanks = ""
            elif not piece.calls and piece.row in DROPPED:
                self.audit.append(Repair(piece.row, "", "", DROPPED[piece.row]))
            else:
                for call in piece.calls or ():
                    events += self.calls.found(call, piece, "as text")
        return [*events, *self._leave(prose)]

    def _leave(self, size: int) -> list[Event]:
        """Release this number of characters of held text, and the reasoning after them."""
        events: list[Event] = []
        for text, chunk in self._parts(size, keep=self.mode is Mode.TEXT):
            if isinstance(chunk, Reasoning):
                events.append(chunk)
            else:
                events += self._say(text) if chunk is None else [chunk.unchanged((Text(self.number, text),))]
        while self._waiting and isinstance(behind := self._waiting[0][1], Reasoning):
            self._waiting.popleft()
            events.append(behind)
        return events

    def _parts(self, size: int, *, keep: bool) -> Iterator[tuple[str, Chunk | Reasoning | None]]:
        """Remove this number of characters of held text in parts, with the reasoning within them.

        `keep`: yield the chunk of each part that is removed whole, so that it can be forwarded unchanged.
        """
        self._size -= size
        while size:
            text, chunk = self._waiting[0]
            if isinstance(chunk, Reasoning):
                yield self._waiting.popleft()
                continue
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
        """Return the event for this text, without blanks around reasoning marks.

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
        """Release held text because other content follows."""
        if not (self._waiting or self._echo):
            return []
        return [*self._end_echo(), *self._pieces(self.reader.release())]

    # Content that only repeats a call (F28).

    def _note_echo(self, text: str) -> None:
        self.audit.append(Repair("echo", text, "", "the content only repeats a call"))

    def _after_calls(self, text: str, chunk: Chunk | None) -> list[Event]:
        """Take text after a call, and hold it while it may repeat the arguments of a call.

        {"content": "\\n{\\"command\\": \\"ls\\"}"} after a call with these arguments
        """
        part = text if self._repeated else text.lstrip()
        self._echo.append((text, chunk))
        if not part:
            return []
        known, at = self._repeated or self.calls.finished_texts(), self._repeated_to
        bare = part.rstrip()
        # Ignore blanks after the arguments.
        self._repeated = tuple(
            each for each in known if each.startswith(part, at) or each[at : at + len(bare) + 1] == bare
        )
        self._repeated_to = at + len(part)
        if self._repeated:
            return []
        self._echo_over = True
        return self._release_echo()

    def _end_echo(self) -> list[Event]:
        """Drop the text after a call if it repeats the call, else release it."""
        text = "".join(text for text, _ in self._echo)
        if text.strip() and text.strip() in self.calls.finished_texts():
            self._note_echo(text)
            self._unsaid += [chunk for _, chunk in self._echo if chunk is not None]
            self._echo = []
        return self._release_echo()

    def _release_echo(self) -> list[Event]:
        """Treat the text after a call as ordinary text."""
        parts, self._echo = self._echo, []
        self._repeated, self._repeated_to = (), 0
        return self._feed(parts)

    # The end.

    def release(self) -> list[Event]:
        """Release held text. Only the finish reason stays held."""
        events = [*self._take_final(), *self._release_echo()]
        return self._with_rest([*events, *self._pieces(self.reader.release())])

    def end(self) -> list[Event]:
        """Return the rest of the choice and the correct finish reason (contract C4). On failure, `Failed` is last."""
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
        before = len(events) - len(content)
        is_same = self.finish == finished.reason and not finished.reason.isdigit() and events[before:] == content
        if final is None or last is None or last.calls or not is_same:
            return [*self._with_rest(events), *self._say_rest(), finished]
        return [*self._with_rest(events[:before]), *self._say_rest(), final.unchanged((*content, finished))]

    def _end_reasoning(self) -> list[Event]:
        """Return the call at the end of the reasoning (F70), or the answer that was mistaken for reasoning.

        {"delta": {"reasoning": "I list them.\\n<tool_call>{\\"name\\": \\"ls\\", \\"arguments\\": {}}</tool_call>"}}
        {"delta": {}, "finish_reason": "stop"}
        """
        events: list[Event] = []
        for piece in self.reasoning_reader.finish(stopped=True) if self.reasoning_reader is not None else ():
            for call in piece.calls or ():
                events += self.calls.found(call, piece, "in its reasoning")
        thought = "".join(self._thoughts)
        if self.reader.prompted and thought and self._room > 0 and not self.calls.count:
            self.audit.append(_UNCLOSED)
            events.append(Text(self.number, thought))
        return events

    def _finished(self) -> Finished:
        """Return the finish with the reason that matches the calls that were sent."""
        reason = self.finish or "stop"
        if self._parsed and not was_cut(self.finish):
            reason = "tool_calls" if self.calls.count else "stop"
        if reason != self.finish and not (reason == "tool_calls" and self.calls.in_text):
            self.audit.append(Repair("finish", str(self.finish), reason, "the finish reason matches the sent calls"))
        if was_cut(reason) and reason not in USUAL_ENDS:
            # Dialects may lack this reason: a Messages client gets `max_tokens` for vLLM's `repetition`.
            self.audit.append(Repair("cut", reason, reason, "the reply was cut off: nothing is completed"))
        return Finished(self.number, reason, self._final)

    # Other fields of chunks (contract C1).

    def _with_rest(self, events: list[Event]) -> list[Event]:
        """Add the unsent fields of earlier chunks to the events, if there are any events."""
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
    """Return whether the text of a chunk only repeats the argument fragments in the same chunk.

    {"content": "{}", "tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}
    """
    fragments = [call.fragment for call in said.calls]
    return bool(said.text.strip()) and said.text.strip() in ("".join(fragments).strip(), *map(str.strip, fragments))
