"""One choice of a reply: its text, its structured calls, and the chunks that wait until it is decided what they are."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from proxy.audit_record import Repair
from proxy.codec.json_text import canonical
from proxy.engine.call_assembler import CallAssembler
from proxy.engine.call_chunks import CallChunks
from proxy.engine.call_delta import CallDelta
from proxy.engine.choice_delta import ChoiceDelta, was_cut
from proxy.engine.echo_filter import EchoFilter
from proxy.engine.events import (
    Call,
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
)
from proxy.engine.pending_call import CallLimits
from proxy.formats.scanner import Scanner
from proxy.formats.spans import CallSpan, Piece, TextSpan
from proxy.parsing.cursor import RawCall
from proxy.repair.repairer import Repairer

# What is dropped as no text, by the format that found it (F18).
_DROPPED = {
    "end_of_turn": ("end_of_turn", "the model's own end-of-turn token is no text"),
    "leftover": ("leftover", "a closer or a token directly behind a call is no text"),
    "start": ("leaked_token", "a token at the very beginning of a reply is no text"),
}

# The words of the API reference for a reply that was cut; every client knows them.
_USUAL_CUTS = frozenset(("length", "content_filter"))


@dataclass(slots=True)
class _Held:
    """A chunk in the queue: the place of its text in the choice's text, and how far that has left.

    `whole` says that it may leave as it came; a `final` one, which says the finish, waits for the end. `reasoning` is
    what of it is still to be said.
    """

    chunk: Chunk
    said: ChoiceDelta
    data: bytes
    start: int
    sent: int
    whole: bool
    reasoning: str

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
    the conversation's calls. `ordered`: reasoning waits behind text that does, for a client that has both in one order.
    """

    number: int
    scanner: Scanner
    thoughts: Scanner | None
    repairer: Repairer
    new_id: Callable[[int, str, str], str]
    limits: CallLimits
    used: set[str]
    one_call: bool = False
    whole: bool = False
    ordered: bool = False
    calls: int = 0
    empty_calls: int = 0
    finish: str | None = None
    audit: list[Repair] = field(default_factory=list)
    _gatherer: CallAssembler | None = None
    _written_calls: list[tuple[str, str]] = field(default_factory=list)
    _echo: EchoFilter[tuple[Chunk, ChoiceDelta, bool]] = field(default_factory=EchoFilter)
    _queue: deque[_Held] = field(default_factory=deque)
    _chunks: CallChunks = field(init=False)

    def __post_init__(self) -> None:
        self._chunks = CallChunks(self.number)
    _text: _Position = field(default_factory=_Position)

    def feed(self, chunk: Chunk, said: ChoiceDelta, *, alone: bool) -> tuple[Event, ...]:
        """Take what a chunk says of this choice; `alone` if it says nothing of others."""
        self.finish = said.finish or self.finish
        if said.deltas or said.text.strip():
            self.thoughts = None  # what was only thought is not meant
        elif self.thoughts is not None and said.reasoning:
            self.thoughts.feed(said.reasoning)
        if said.empty_calls and not any(repair.id == "empty_calls" for repair in self.audit):
            self.audit.append(Repair("empty_calls", "[]", "", "a list of no calls says nothing"))
        if not said.deltas:
            ended = self._end_calls() if said.text or said.reasoning else ()
            return (*ended, *self._feed_content(chunk, said, alone))
        before = (*self._pieces(self.scanner.release()), *self._end_echo())
        came, said = said, self._without_echo(said)
        if alone and said is came and not (said.text or said.reasoning or said.finish):
            return (*before, *self._only_calls(chunk, said.deltas))
        text = (*self._feed_text(chunk, said, False), *self._release_text(), *self._split(), *self._thoughts_first())
        ended, calls = self._gather_beside(said.deltas)
        return (*before, *ended, *text, *calls)

    def feed_late(self, delta: CallDelta) -> tuple[Event, ...]:
        """Take a piece of a call that came by another way than a chunk's choices."""
        ended, calls = self._gather_beside((delta,))
        return (*self._pieces(self.scanner.release()), *self._end_echo(), *ended, *calls)

    def fast_path(self, data: bytes, *, reasoning: bool) -> bool:
        """Take the next text, in UTF-8, if it can leave as it came because nothing waits and no call begins in it.

        Reasoning always can.
        """
        if reasoning:
            if self.ordered and (self._queue or self._echo.waits):
                return False
            if self.thoughts is not None and not self.thoughts.fast_path(data):
                self.thoughts.feed(data.decode("utf-8", "replace"))
            return True
        if data.strip():
            self.thoughts = None
        if self._queue or self.finish is not None or self._gatherer is not None or not self.scanner.fast_path(data):
            return False
        self._text.received = self._text.decided = self._text.received + len(data)
        return True

    @property
    def held(self) -> bool:
        """True while text waits that may become a call, or that may only repeat one."""
        return self.scanner.held or self._echo.waits

    def release(self) -> tuple[Event, ...]:
        """Let go of the text that waits."""
        return (*self._chunks.give_up(), *self._release_text())

    def _release_text(self) -> tuple[Event, ...]:
        return (*self._pieces(self.scanner.release()), *self._give_up(self._echo.give_up()))

    def flush_prose(self) -> tuple[Event, ...]:
        """Let the prose go that waits only because the rest of its chunk is undecided (contract C2)."""
        return tuple(self._split()) if self._queue and not self._queue[0].final else ()

    def end(self) -> tuple[Event, ...]:
        """The rest of the choice, and its true finish (contract C4)."""
        stopped = not was_cut(self.finish)
        events = [*self._end_echo(), *self._pieces(self.scanner.finish(stopped=stopped))]
        if self._gatherer is not None:
            closing = self._gatherer.finish(stopped=stopped)
            for event in closing:
                if isinstance(event, CallClosed):
                    self.audit += event.fixes
                    self._count_empty(event.call)
            self.audit += self._gatherer.audit
            closing = self._chunks.end(closing, unchanged=self._gatherer.unchanged, final=True)
            events += closing
            if closing and isinstance(closing[-1], Failed):
                return tuple(events)
        if stopped and self.thoughts is not None and not self.calls:
            for piece in self.thoughts.finish(stopped=True):
                if isinstance(piece, CallSpan):
                    events += [*self._thoughts_first(), *self._found(piece, "in its reasoning")]
        return (*events, *self._finished())

    @property
    def refused(self) -> Counter[str]:
        """What began like a call and was none, by the reason."""
        return self.scanner.refusals + (self._gatherer.refused if self._gatherer else Counter())

    def _feed_content(self, chunk: Chunk, said: ChoiceDelta, alone: bool) -> tuple[Event, ...]:
        if self._gatherer is None:
            return self._feed_text(chunk, said, alone)
        thought = self._end_echo() if self.ordered and said.reasoning and self._echo.waits else ()
        return thought + self._give_up(self._echo.take((chunk, said, alone), said.text, self._gatherer.arguments))

    def _give_up(self, chunks: Iterable[tuple[Chunk, ChoiceDelta, bool]]) -> tuple[Event, ...]:
        """What could have been an echo is content."""
        return tuple(event for chunk in chunks for event in self._feed_text(*chunk))

    def _end_echo(self) -> tuple[Event, ...]:
        repeated = self._echo.repeated
        waiting = self._echo.give_up()
        if not repeated:
            return self._give_up(waiting)
        self._note_echo(repeated)
        return ()

    def _without_echo(self, said: ChoiceDelta) -> ChoiceDelta:
        """The chunk without a text that only repeats its own fragment of arguments (F28)."""
        self._echo.next_call()
        fragments = [delta.fragment for delta in said.deltas]
        text = said.text.strip()
        if not text or text not in ("".join(fragments).strip(), *map(str.strip, fragments)):
            return said
        self._note_echo(said.text)
        return replace(said, text="")

    def _note_echo(self, text: str) -> None:
        self.audit.append(Repair("echo", text, "", "the content only repeats a call"))

    def _count_empty(self, call: Call) -> None:
        """Count a call without arguments whose tool requires some (F25)."""
        tool = self.repairer.tools.resolve(call.name)
        self.empty_calls += bool(tool and tool.required and call.arguments.strip() in ("{}", ""))

    def _feed_text(self, chunk: Chunk, said: ChoiceDelta, whole: bool) -> tuple[Event, ...]:
        if said.reasoning and not said.text and whole and not said.finish and not (self.ordered and self._queue):
            return (Unchanged(chunk.raw, (Reasoning(self.number, said.reasoning),)),)
        data = said.text.encode("utf-8", "surrogatepass")
        held = _Held(chunk, said, data, self._text.received, self._text.received, whole, said.reasoning)
        self._text.received = held.end
        pieces = self.scanner.feed(said.text) if data else ()
        if not self._queue and not held.final and pieces == (TextSpan(held.start, held.end),):
            # Nearly every chunk of every reply: prose, and nothing waits before it.
            self._text.decided = held.end
            return tuple(self._let_go(held, held.end))
        self._queue.append(held)
        return self._pieces(pieces)

    def _pieces(self, pieces: Iterable[Piece]) -> tuple[Event, ...]:
        events: list[Event] = []
        for piece in pieces:
            if isinstance(piece, TextSpan):
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
        said += self._thought(held)
        text = held.data[held.sent - held.start : end - held.start]
        if text:
            said.append(Text(self.number, text.decode("utf-8", "surrogatepass")))
        held.sent = end
        if held.whole:
            return [Unchanged(held.chunk.raw, tuple(said))]
        return list(said)

    def _thought(self, held: _Held) -> list[Reasoning]:
        """The reasoning of a chunk, once: before its text, and before the calls to which it led."""
        thought, held.reasoning = held.reasoning, ""
        return [Reasoning(self.number, thought)] if thought else []

    def _thoughts_first(self) -> list[Event]:
        """The reasoning that waits with its chunk for the end."""
        events: list[Event] = []
        for held in self._queue:
            if held.reasoning:
                events += self._thought(held)
                held.whole = False
        return events

    def _discard(self, end: int) -> list[Event]:
        """Forget the text up to `end`: it became calls."""
        events: list[Event] = []
        for held in self._queue:
            if held.start > end or (held.start == end and held.data):
                break
            events += self._thought(held)
            held.whole = False
            held.sent = max(held.sent, min(end, held.end))
        while self._queue and not self._queue[0].final and self._queue[0].sent == self._queue[0].end:
            self._queue.popleft()
        return events

    def _found(self, found: CallSpan, where: str = "as text") -> list[Event]:
        """Open, fill and close the calls that were found in the text."""
        events: list[Event] = []
        if found.format in _DROPPED and not found.calls:
            fix, why = _DROPPED[found.format]
            self.audit.append(Repair(fix, "", "", why))
        for raw in found.calls:
            events += self._written(raw, f"the model wrote the call {where} ({found.format})")
        return events

    def _written(self, raw: RawCall, why: str) -> list[Event]:
        """Open, fill and close a call that the model wrote."""
        found = self.repairer.repair(raw.tool.name, raw.arguments, stopped=True)
        name, arguments = (found.name, found.arguments) if found else (raw.tool.name, raw.arguments)
        if self._gatherer is not None and self._gatherer.has(name, arguments):
            self._note_echo(arguments)
            return []
        index = self.take_index()
        if index is None:
            self.audit.append(Repair("one_call", name, "", "the client wants one call at a time", name))
            return []
        # Kimi knows its calls by the ids that it gives them (F8).
        call_id = raw.id if raw.id and raw.id not in self.used else self.new_id(index, name, raw.id)
        self.used.add(call_id)
        self._written_calls.append((name, canonical(arguments)))
        call = Call(call_id, name, arguments)
        fixes = (Repair("text_call", raw.written_name, name, why, name), *(found.fixes if found else ()))
        self.audit += fixes
        self._count_empty(call)
        return [
            CallOpened(self.number, index, call.id, call.name),
            CallArguments(self.number, index, call.arguments),
            CallClosed(self.number, index, call, fixes),
        ]

    def take_index(self) -> int | None:
        """The index of the next call; None if the client wants no further one (F52)."""
        if self.one_call and self.calls:
            return None
        self.calls += 1
        return self.calls - 1

    def _only_calls(self, chunk: Chunk, deltas: tuple[CallDelta, ...]) -> tuple[Event, ...]:
        """A chunk of call deltas and nothing else may leave as it came."""
        gatherer = self._calls_of()
        events = gatherer.feed(deltas)
        return (*self._ended(gatherer), *self._chunks.take(chunk, gatherer.said, gatherer.pieces, events))

    def _gather_beside(self, deltas: tuple[CallDelta, ...]) -> tuple[tuple[Event, ...], tuple[Event, ...]]:
        """What deltas let go of earlier chunks, and of themselves, in a chunk that says other things too."""
        gatherer = self._calls_of()
        events = gatherer.feed(deltas)
        return self._ended(gatherer), self._chunks.beside(gatherer.said, events)

    def _end_calls(self) -> tuple[Event, ...]:
        """What waits for the end of the calls, which something else has ended."""
        if self._gatherer is None:
            return ()
        self._gatherer.end_calls()
        return self._ended(self._gatherer)

    def _ended(self, gatherer: CallAssembler) -> tuple[Event, ...]:
        """What the last deltas let go of the calls before them."""
        return self._chunks.end(gatherer.ended, unchanged=gatherer.unchanged) if gatherer.ended else ()

    def _calls_of(self) -> CallAssembler:
        """What gathers the calls of this choice."""
        if self._gatherer is None:
            self._gatherer = CallAssembler(
                self.number,
                self.repairer,
                self.take_index,
                self.new_id,
                used=self.used,
                written=self._written_calls,
                at_once=self.whole,
                limits=self.limits,
            )
        return self._gatherer

    def _true_finish(self) -> str:
        """The finish reason that is true of what left."""
        if self.finish is not None and was_cut(self.finish):
            return self.finish
        return "tool_calls" if self.calls else "stop"

    def _finished(self) -> list[Event]:
        """The finish, in the server's own chunk if that can leave as it came."""
        reason = self._true_finish()
        if reason != self.finish:
            why = "the finish says what left the proxy"
            self.audit.append(Repair("finish", str(self.finish), reason, why))
        elif was_cut(reason) and reason not in _USUAL_CUTS:
            # Dialects may have no word for it: vLLM's `repetition` is `max_tokens` to a Messages client.
            self.audit.append(Repair("cut", reason, reason, "the model did not stop by itself: nothing is completed"))
        events: list[Event] = []
        final = next((held for held in reversed(self._queue) if held.final), None)
        # Nothing follows the finish: what came behind it goes before it, and then it is written anew.
        last = [held for held in self._queue if held.data or held.reasoning or held is final][-1:] == [final]
        for held in self._queue:
            held.whole = last and held.whole and held is final and held.sent == held.start and reason == self.finish
            events += self._let_go(held, held.end)
        finished = Finished(self.number, reason, final.chunk if final else None)
        if events and final and final.whole and isinstance(events[-1], Unchanged):
            return [*events[:-1], Unchanged(final.chunk.raw, (*events[-1].events, finished))]
        return [*events, finished]
