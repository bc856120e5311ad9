"""One choice of a reply: its text, its structured calls, and the chunks that wait until it is decided what they are."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from .calls import CallGatherer, CallLimits
from .events import (
    Call,
    CallArguments,
    CallClosed,
    CallOpened,
    Chunk,
    Event,
    Failed,
    Finished,
    Json,
    JsonObject,
    Passed,
    Reasoning,
    Repair,
    Text,
)
from .formats.scanner import Found, Piece, Prose, Scanner
from .tools import Tools

# Finish reasons that say that the model did not stop by itself; they always stay (contract C4). The later ones are
# vLLM's and other servers' words for a generation that they gave up.
CUT = frozenset(("length", "content_filter", "abort", "aborted", "cancelled", "error", "timeout"))


# What is dropped as no text, by the format that found it (F18).
_DROPPED = {
    "end_of_turn": ("end_of_turn", "", "", "the model's own end-of-turn token is no text"),
    "leftover": ("leftover", "", "", "a closer or a token directly behind a call is no text"),
    "start": ("leaked_token", "", "", "a token at the very beginning of a reply is no text"),
}


@dataclass(frozen=True, slots=True)
class Said:
    """What one entry of a chunk's `choices` says."""

    text: str
    reasoning: str
    deltas: tuple[Json, ...]
    finish: str | None
    empty_calls: bool = False

    def plain(self, choice: int) -> list[Text | Reasoning]:
        """The events of its reasoning and its text, as they are if nothing else is in it."""
        reasoning = [Reasoning(choice, self.reasoning)] if self.reasoning else []
        return [*reasoning, *([Text(choice, self.text)] if self.text else [])]


def read_entry(entry: JsonObject) -> Said:
    """Read an entry of `choices`; what has the wrong type counts as not said (F64)."""
    delta = entry.get("delta")
    delta = delta if isinstance(delta, dict) else {}
    text = delta.get("content")
    reasoning = delta.get("reasoning") or delta.get("reasoning_content")
    deltas = delta.get("tool_calls")
    finish = entry.get("finish_reason")
    return Said(
        text if isinstance(text, str) else "",
        reasoning if isinstance(reasoning, str) else "",
        tuple(deltas) if isinstance(deltas, list) else (),
        finish if isinstance(finish, str) else None,
        deltas == [],
    )


@dataclass(slots=True)
class _Held:
    """A chunk in the queue: the place of its text in the choice's text, and how far that has left.

    `whole` says that it may leave as it came; a `final` one, which says the finish, waits for the end.
    """

    chunk: Chunk
    said: Said
    data: bytes
    start: int
    sent: int
    whole: bool

    @property
    def end(self) -> int:
        return self.start + len(self.data)

    @property
    def final(self) -> bool:
        return self.said.finish is not None


@dataclass(slots=True)
class _Position:
    """Bytes of the choice's text: received from the server, and decided to be prose or a call."""

    received: int = 0
    decided: int = 0


@dataclass(slots=True)
class Choice:
    """The state of one choice; `calls` counts those that were opened, `audit` their repairs.

    `thoughts` reads the reasoning, which goes on as it comes, for a call at its very end (F70). `used` are the ids of
    the conversation's calls.
    """

    number: int
    scanner: Scanner
    thoughts: Scanner | None
    tools: Tools
    new_id: Callable[[int], str]
    limits: CallLimits
    used: set[str]
    calls: int = 0
    finish: str | None = None
    audit: list[Repair] = field(default_factory=list)
    _gatherer: CallGatherer | None = None
    _queue: deque[_Held] = field(default_factory=deque)
    _text: _Position = field(default_factory=_Position)

    def feed(self, chunk: Chunk, said: Said, *, alone: bool) -> tuple[Event, ...]:
        """Take what a chunk says of this choice; `alone` if it says nothing of others."""
        self.finish = said.finish or self.finish
        if said.deltas or said.text.strip():
            self.thoughts = None  # what was only thought is not meant
        elif self.thoughts is not None and said.reasoning:
            self.thoughts.feed(said.reasoning)
        if said.empty_calls:
            self.audit.append(Repair("empty_calls", "[]", "", "a list of no calls says nothing"))
        if not said.deltas:
            return self._feed_text(chunk, said, alone)
        before = self.release()
        if alone and not (said.text or said.reasoning or said.finish):
            return (*before, *self._only_calls(chunk, said.deltas))
        text = (*self._feed_text(chunk, said, False), *self.release(), *self._split())
        return (*before, *text, *self._gather(said.deltas))

    def glide(self, data: bytes, *, reasoning: bool) -> bool:
        """Take the next text, in UTF-8, if it can leave as it came because nothing waits and no call begins in it.

        Reasoning always can.
        """
        if reasoning:
            if self.thoughts is not None and not self.thoughts.glide(data):
                self.thoughts.feed(data.decode("utf-8", "replace"))
            return True
        if data.strip():
            self.thoughts = None
        if self._queue or self.finish is not None or not self.scanner.glide(data):
            return False
        self._text.received = self._text.decided = self._text.received + len(data)
        return True

    def release(self) -> tuple[Event, ...]:
        """Let go of the text that waits."""
        return self._pieces(self.scanner.release())

    def hurry(self) -> tuple[Event, ...]:
        """Let the prose go that waits only because the rest of its chunk is undecided (contract C2)."""
        return tuple(self._split()) if self._queue and not self._queue[0].final else ()

    def end(self) -> tuple[Event, ...]:
        """The rest of the choice, and its true finish (contract C4)."""
        stopped = self.finish not in CUT
        events = [*self._pieces(self.scanner.finish(stopped=stopped))]
        if self._gatherer is not None:
            closing = self._gatherer.finish(stopped=stopped)
            for event in closing:
                if isinstance(event, CallClosed):
                    self.audit += event.fixes
            events += closing
            if closing and isinstance(closing[-1], Failed):
                return tuple(events)
        if stopped and self.thoughts is not None and not self.calls:
            for piece in self.thoughts.finish(stopped=True):
                events += self._found(piece, "in its reasoning") if isinstance(piece, Found) else []
        return (*events, *self._finished())

    def _feed_text(self, chunk: Chunk, said: Said, whole: bool) -> tuple[Event, ...]:
        if said.reasoning and not said.text and whole and not said.finish:
            return (Passed(chunk.raw, (Reasoning(self.number, said.reasoning),)),)
        data = said.text.encode("utf-8", "surrogatepass")
        held = _Held(chunk, said, data, self._text.received, self._text.received, whole)
        self._text.received = held.end
        pieces = self.scanner.feed(said.text) if data else ()
        if not self._queue and not held.final and pieces == (Prose(held.start, held.end),):
            # Nearly every chunk of every reply: prose, and nothing waits before it.
            self._text.decided = held.end
            return tuple(self._let_go(held, held.end))
        self._queue.append(held)
        return self._pieces(pieces)

    def _pieces(self, pieces: Iterable[Piece]) -> tuple[Event, ...]:
        events: list[Event] = []
        for piece in pieces:
            if isinstance(piece, Prose):
                self._text.decided = piece.end
                events += self._leave()
            else:
                events += self._leave()
                events += self._split()
                self._text.decided = piece.end
                events += self._discard(piece.end)
                events += self._found(piece)
        events += self._leave()
        # What has named an offered tool is likely a call: the prose before it need not wait for it.
        if self.scanner.confident and self._queue and not self._queue[0].final:
            events += self._split()
        return tuple(events)

    def _leave(self) -> list[Event]:
        """Let the chunks go whose text is decided. One of which only a part is waits, to leave as it came."""
        events: list[Event] = []
        while self._queue and not self._queue[0].final and self._queue[0].end <= self._text.decided:
            held = self._queue.popleft()
            events += self._let_go(held, held.end)
        return events

    def _split(self) -> list[Event]:
        """Let the decided part of the first chunk go without the rest."""
        if not self._queue or self._queue[0].sent >= self._text.decided:
            return []
        held = self._queue[0]
        held.whole = False
        return self._let_go(held, min(held.end, self._text.decided))

    def _let_go(self, held: _Held, end: int) -> list[Event]:
        said: list[Text | Reasoning] = []
        if held.said.reasoning and held.sent == held.start:
            said.append(Reasoning(self.number, held.said.reasoning))
        text = held.data[held.sent - held.start : end - held.start]
        if text:
            said.append(Text(self.number, text.decode("utf-8", "surrogatepass")))
        held.sent = end
        if held.whole:
            return [Passed(held.chunk.raw, tuple(said))]
        return list(said)

    def _discard(self, end: int) -> list[Event]:
        """Forget the text up to `end`: it became calls."""
        events: list[Event] = []
        for held in self._queue:
            if held.start >= end and held.data:
                break
            if held.said.reasoning and held.sent == held.start:
                events.append(Reasoning(self.number, held.said.reasoning))
            held.whole = False
            held.sent = max(held.sent, min(end, held.end))
        while self._queue and not self._queue[0].final and self._queue[0].sent == self._queue[0].end:
            self._queue.popleft()
        return events

    def _found(self, found: Found, where: str = "as text") -> list[Event]:
        """Open, fill and close the calls that were found in the text."""
        events: list[Event] = []
        dropped = _DROPPED.get(found.format)
        if dropped and not found.calls:
            self.audit.append(Repair(*dropped))
        for raw in found.calls:
            index = self.take_index()
            # Kimi knows its calls by the ids that it gives them (F8).
            call_id = raw.id if raw.id and raw.id not in self.used else self.new_id(index)
            self.used.add(call_id)
            call = Call(call_id, raw.tool.name, raw.arguments)
            why = f"the model wrote the call {where} ({found.format})"
            fixes = (Repair("text_call", raw.written_name, raw.tool.name, why),)
            events += (
                CallOpened(self.number, index, call.id, call.name),
                CallArguments(self.number, index, call.arguments),
                CallClosed(self.number, index, call, fixes),
            )
            self.audit += fixes
        return events

    def take_index(self) -> int:
        """The index of the next call."""
        self.calls += 1
        return self.calls - 1

    def _only_calls(self, chunk: Chunk, deltas: tuple[Json, ...]) -> tuple[Event, ...]:
        """A chunk of call deltas and nothing else may leave as it came."""
        events = self._gather(deltas)
        if self._gatherer is None or not self._gatherer.clean:
            return events
        return (Passed(chunk.raw, tuple(event for event in events if isinstance(event, CallOpened | CallArguments))),)

    def _gather(self, deltas: tuple[Json, ...]) -> tuple[Event, ...]:
        if self._gatherer is None:
            self._gatherer = CallGatherer(
                self.number, self.tools, self.take_index, self.new_id, limits=self.limits
            )
        return self._gatherer.feed(deltas)

    def _finished(self) -> list[Event]:
        """The finish, in the server's own chunk if that can leave as it came."""
        reason = self.finish if self.finish in CUT else "tool_calls" if self.calls else "stop"
        assert reason is not None
        if reason != self.finish:
            why = "the finish says what left the proxy"
            self.audit.append(Repair("finish", str(self.finish), reason, why))
        events: list[Event] = []
        final = next((held for held in reversed(self._queue) if held.final), None)
        # Nothing follows the finish: what came behind it goes before it, and then it is written anew.
        last = [held for held in self._queue if held.data or held.said.reasoning or held is final][-1:] == [final]
        for held in self._queue:
            held.whole = last and held.whole and held is final and held.sent == held.start and reason == self.finish
            events += self._let_go(held, held.end)
        finished = Finished(self.number, reason, final.chunk if final else None)
        if events and final and final.whole and isinstance(events[-1], Passed):
            return [*events[:-1], Passed(final.chunk.raw, (*events[-1].events, finished))]
        return [*events, finished]
