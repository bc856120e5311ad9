"""One choice of a reply: its text, its structured calls, and the chunks that wait until it is decided what they are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from proxy.engine.call_assembler import CallAssembler
from proxy.engine.call_chunks import CallChunks, DeltaOutcome
from proxy.engine.call_delta import CallDelta
from proxy.engine.choice_delta import ChoiceDelta, was_cut
from proxy.engine.choice_records import EMPTY_LIST, UNCLOSED, UNOPENED, note_once, of_echo, of_finish
from proxy.engine.echo_filter import EchoFilter, repeats_its_calls
from proxy.engine.events import (
    CallArguments,
    CallClosed,
    Chunk,
    Event,
    Failed,
    Finished,
    Reasoning,
    Text,
    Unchanged,
    with_rest,
)
from proxy.engine.held_text import PLAIN_TEXT, HeldText
from proxy.engine.lane import ANY_TEXT
from proxy.engine.pending_call import CallLimits
from proxy.engine.text_calls import TextCalls
from proxy.notations.front import Reader
from proxy.notations.stream import Piece
from proxy.notations.thoughts import Mark


@dataclass(slots=True, kw_only=True)
class Choice(TextCalls):
    """The state of one choice. `broken_call` is the call that cannot be read, if the reply ended with that and has no
    other.

    `reader` reads the text, and `reasoning_reader` the reasoning, which flows on, for a call at its very end (F70).
    `at_once`: it is a whole answer's. `ordered`: reasoning
    waits behind text that does, for a client that has both in one order. `thinks`: the text begins in a thought that
    the prompt opened.
    """

    reader: Reader
    reasoning_reader: Reader | None
    limits: CallLimits
    at_once: bool = False
    ordered: bool = False
    thinks: bool = False
    finish: str | None = None
    broken_call: Text | None = None
    _echo: EchoFilter[tuple[Chunk, ChoiceDelta, bool]] = field(default_factory=EchoFilter)
    _held: HeldText = field(init=False)
    _chunks: CallChunks = field(init=False)

    def __post_init__(self) -> None:
        self._held = HeldText(self.number, thinking=self.thinks)
        self._chunks = CallChunks(self.number)

    def feed(self, chunk: Chunk, delta: ChoiceDelta, *, alone: bool) -> tuple[Event, ...]:
        """Take what a chunk says of this choice; `alone` if it says nothing of others."""
        if delta.finish:
            self.finish = delta.finish
        self._watch_reasoning(delta)
        if delta.empty_calls:
            note_once(self.audit, EMPTY_LIST)
        if delta.calls:
            return self._feed_calls(chunk, delta, alone)
        if delta.has_content:
            return (*self._end_calls(), *self._feed_content(chunk, delta, alone))
        if alone and not delta.finish:
            return self._feed_aside(chunk, delta)
        return self._feed_content(chunk, delta, alone)

    def _feed_aside(self, chunk: Chunk, delta: ChoiceDelta) -> tuple[Event, ...]:
        """Take what says nothing of text, calls or end; it does not overtake the pieces of a call that wait. Asked for
        `logprobs`, vLLM tells so of the tokens that its parser reads.

        {"delta": {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "read"}}]}}
        {"delta": {}, "logprobs": {"content": [{"token": "arguments"}]}}
        """
        if self._chunks.idle:
            return self._feed_content(chunk, delta, True)
        return self._chunks.take(chunk, (), DeltaOutcome.NEAR, ())

    def feed_late(self, delta: CallDelta) -> tuple[Event, ...]:
        """Take a piece of a call that came by another way than a chunk's choices."""
        ended, calls = self._gather_beside((delta,))
        return (*self._end_text(), *ended, *calls)

    def fast_path(self, text: str, *, reasoning: bool) -> bool:
        """Take the next text if it can leave as it came because nothing waits and no call begins in it.

        Reasoning always can, but for a client that has it in one order with the text.
        """
        held = self._held
        if reasoning:
            if self.ordered and self.waits:
                return False
            if self.reasoning_reader is not None:
                self.reasoning_reader.feed(text)
            return True
        if held.mode is not PLAIN_TEXT:
            return False
        if not text.isspace():
            self.reasoning_reader = None
        if held.queue or self._assembler is not None or self.finish is not None:
            return False
        if not self.reader.passes(text):
            return False
        # Nothing waits and nothing will: what is received is decided, and has left.
        held.received = held.decided = held.received + len(text)
        return True

    def lane(self, *, reasoning: bool) -> re.Pattern[bytes] | None:
        """The pattern of a text that the fast path would take, whatever came before it; None if it takes none now."""
        held = self._held
        if reasoning:
            if self.ordered and self.waits:
                return None
            return ANY_TEXT
        # What leaves as a thought does not leave as it came.
        if held.queue or held.mode is not PLAIN_TEXT:
            return None
        if self._assembler is not None or self.finish is not None:
            return None
        return self.reader.lane

    def has_call_lane(self, delta: CallDelta) -> bool:
        """True if pieces like this one, whose fragments go on a string without ending it, leave as they come."""
        if self._assembler is None or self.finish is not None:
            return False
        if self._held.queue or not self._chunks.idle:
            return False
        return self._assembler.goes_on_live(delta)

    def catch_up(self, delta: CallDelta) -> bool:
        """Take a piece of a call that has left; False if it would not have left as it came."""
        assembler = self._calls_of()
        events = assembler.feed((delta,))
        fragments = "".join(event.fragment for event in events if isinstance(event, CallArguments))
        return assembler.outcome is DeltaOutcome.LEFT and fragments == delta.fragment and not assembler.ended

    @property
    def held_chunk(self) -> Chunk | None:
        """The last chunk of those that wait, if what follows may wait without a look at it (`hold`); else None."""
        if not self.reader.room or self.finish is not None:
            return None
        if self._assembler is not None or self.reasoning_reader is not None:
            return None
        held = self._held
        if held.mode is not PLAIN_TEXT or held.prose_waits or not held.queue:
            return None
        last = held.queue[-1]
        return last.chunk if last.forward_verbatim else None

    @property
    def room(self) -> int:
        """How many characters may wait before they are looked at."""
        return self.reader.room

    def hold(self, chunks: Sequence[tuple[Chunk, str]]) -> tuple[Event, ...]:
        """Take chunks that say nothing but these texts, which may wait; return what leaves."""
        for chunk, text in chunks:
            self._held.hold(chunk, text)
        return self._take_pieces(self.reader.feed("".join(text for _, text in chunks)))

    @property
    def held(self) -> bool:
        """True while text waits that may become a call, or that may only repeat one."""
        return self.reader.held or self._echo.waits

    @property
    def size(self) -> int:
        """The characters of text and of arguments that may be read once more at the end of what they are a part of."""
        calls = self._assembler.calls if self._assembler is not None else ()
        return self._held.received - self._held.decided + sum(call.size for call in calls)

    @property
    def waits(self) -> bool:
        """True while a chunk with content, or with the finish, has not left."""
        if self._held.queue:
            return True
        return self._echo.waits

    def release(self) -> tuple[Event, ...]:
        """Let go of the text that waits."""
        return (*self._chunks.give_up(), *self._release_text())

    def flush_prose(self) -> tuple[Event, ...]:
        """Emit the decided part of the first chunk that waits, giving up that it leaves verbatim (contract C2)."""
        if not self._held.waits:
            return ()
        return tuple(self._held.split())

    def end(self) -> tuple[Event, ...]:
        """The rest of the choice, and its true finish (contract C4); a `Failed` is the last of it."""
        stopped = not was_cut(self.finish)
        events = [*self._end_echo(), *self._take_pieces(self.reader.finish(stopped=stopped))]
        events += self._close_calls(stopped)
        match events:
            case [*_, Failed()]:
                return tuple(events)
        if stopped:
            events += self._calls_in_reasoning()
            events += self._answer_in_thought()
            self._note_broken(events)
        return (*events, *self._finish())

    def _note_broken(self, events: Iterable[Event]) -> None:
        """Keep the call that cannot be read, if it is all that the reply calls."""
        broken = [event for event in events if isinstance(event, Text) and event.broken]
        if len(broken) == 1 and not self.calls:
            [self.broken_call] = broken

    @property
    def thoughts(self) -> str:
        """The thoughts that were told from the text so far; "" while they may still be the answer."""
        if self.reader.prompted:
            return ""
        return "".join(self._held.thoughts)

    @property
    def refused(self) -> Counter[str]:
        """The numbers of texts that began like a call and were none, by the reason."""
        structured = Counter[str]() if self._assembler is None else self._assembler.refused
        return self.reader.refusals + structured

    # Text and reasoning.

    def _watch_reasoning(self, delta: ChoiceDelta) -> None:
        """Look for a call in the reasoning, as long as there is nothing else: what was only thought is not meant."""
        if delta.reasoning and self.reader.fresh:
            # The server separates reasoning, and nothing but blanks has come before it.
            self.reader.reasoning_is_separate()
            self._held.reasoning_is_separate()
        if delta.calls or delta.text.strip():
            self.reasoning_reader = None
        elif self.reasoning_reader is not None and delta.reasoning:
            self.reasoning_reader.feed(delta.reasoning)

    def _feed_content(self, chunk: Chunk, delta: ChoiceDelta, alone: bool) -> tuple[Event, ...]:
        if self._assembler is None:
            return self._feed_text(chunk, delta, alone)
        events: tuple[Event, ...] = ()
        if self.ordered and delta.reasoning:
            events = self._end_echo()
        content = self._echo.take((chunk, delta, alone), delta.text, self._assembler.arguments)
        return events + self._feed_as_content(content)

    def _feed_text(self, chunk: Chunk, delta: ChoiceDelta, alone: bool) -> tuple[Event, ...]:
        if alone and self._is_only_reasoning(delta):
            return (chunk.unchanged((Reasoning(self.number, delta.reasoning),)),)
        held = self._held.receive(chunk, delta, forward_verbatim=alone)
        pieces = self.reader.feed(held.data) if held.data else []
        if self._held.may_pass_by(held) and len(pieces) == 1 and pieces[0].is_prose and pieces[0].text == held.data:
            # Nearly every chunk of every reply: prose, and nothing waits before it.
            return tuple(self._held.pass_by(held))
        self._held.append(held)
        return self._take_pieces(pieces)

    def _is_only_reasoning(self, delta: ChoiceDelta) -> bool:
        """True if a chunk says nothing but reasoning that need not wait behind text."""
        if not delta.reasoning:
            return False
        if delta.text or delta.finish:
            return False
        if not self.ordered:
            return True
        return not self._held.queue

    def _take_pieces(self, pieces: Iterable[Piece]) -> tuple[Event, ...]:
        """Return what leaves because the reader has decided what these parts of the text are."""
        events: list[Event] = []
        for piece in pieces:
            end = self._held.decided + len(piece.text)
            if piece.broken and not self.calls and self._assembler is None:
                events += [*self._held.discard(end), Text(self.number, piece.text, broken=piece.broken)]
            elif piece.mark is not None:
                events += self._mark(piece.mark, end)
            elif piece.calls is None:
                events += self._held.leave(end)
            else:
                events += self._held.discard(end)
                events += self._write_calls(piece, "as text")
        events += self._held.leave(self._held.decided)
        # What has begun a wrapper is likely a call: the prose before it need not wait for it.
        # No chunk of reasoning leaves as it came.
        leaves_apart = self._held.mode is not PLAIN_TEXT
        if self._held.waits and (self.reader.confident or leaves_apart):
            events += self._held.split()
        return tuple(events)

    def _mark(self, mark: Mark, end: int) -> list[Event]:
        """Take a mark around reasoning: it is no text, and tells what the text after it is."""
        events = self._held.discard(end)
        if mark is Mark.STRAY:
            # It was all said as text, which goes on: the line ends between the two keep them apart.
            self.audit.append(UNOPENED)
        else:
            self._held.switch_mode(thinking=mark is Mark.THOUGHT)
        return events

    def _answer_in_thought(self) -> list[Event]:
        """The text of a reply that is nothing but a thought which only the prompt could have opened: it was none."""
        if self.calls or not self.reader.prompted:
            return []
        events = self._held.split()
        thought = self._held.unopened
        if thought:
            self.audit.append(UNCLOSED)
            events.append(Text(self.number, thought))
        return events

    def _release_text(self) -> tuple[Event, ...]:
        return (*self._let_go(), *self._feed_as_content(self._echo.give_up()))

    def _end_text(self) -> tuple[Event, ...]:
        """Give the events of the text that waits, because something else than text came: what might have become a call,
        and what might have repeated one, is text.
        """
        if not self.waits and not self.reader.held:
            return ()
        return (*self._let_go(), *self._end_echo())

    def _let_go(self) -> list[Event]:
        """Return the events of the text that the reader holds."""
        return [*self._take_pieces(self.reader.release())]

    # Content that only repeats a call (F28).

    def _feed_as_content(self, chunks: Iterable[tuple[Chunk, ChoiceDelta, bool]]) -> tuple[Event, ...]:
        """What could have been an echo is content."""
        return tuple(event for chunk in chunks for event in self._feed_text(*chunk))

    def _end_echo(self) -> tuple[Event, ...]:
        """Decide what waits as an echo: something else came."""
        repeated = self._echo.repeated
        waiting = self._echo.give_up()
        if repeated:
            self.audit.append(of_echo(repeated))
            # Their texts are none; what else they say is said.
            waiting = [(chunk, replace(delta, text=""), False) for chunk, delta, _ in waiting]
        return self._feed_as_content(waiting)

    def _without_echo(self, delta: ChoiceDelta, alone: bool) -> tuple[ChoiceDelta, bool]:
        """The chunk without a text that only repeats its own fragment of arguments (F28), and True if it may leave as
        it came.
        """
        self._echo.next_call()
        if not delta.text or not repeats_its_calls(delta):
            return delta, alone
        self.audit.append(of_echo(delta.text))
        return replace(delta, text=""), False

    # Structured calls.

    def _feed_calls(self, chunk: Chunk, delta: ChoiceDelta, alone: bool) -> tuple[Event, ...]:
        before = self._end_text()
        delta, alone = self._without_echo(delta, alone)
        if delta.has_only_calls:
            if alone:
                return (*before, *self._only_calls(chunk, delta.calls))
            ended, calls = self._gather_beside(delta.calls, chunk)
            return (*before, *ended, *calls)
        text = [*self._feed_text(chunk, delta, False), *self._release_text()]
        text += self._held.split()
        text += self._held.release_reasoning()
        ended, calls = self._gather_beside(delta.calls)
        return (*before, *ended, *text, *calls)

    def _only_calls(self, chunk: Chunk, deltas: tuple[CallDelta, ...]) -> tuple[Event, ...]:
        """A chunk of call deltas and nothing else may leave as it came."""
        assembler = self._calls_of()
        events = assembler.feed(deltas)
        ended = self._ended(assembler)
        return (*ended, *self._chunks.take(chunk, assembler.assigned, assembler.outcome, events))

    def _gather_beside(
        self, deltas: tuple[CallDelta, ...], source: Chunk | None = None
    ) -> tuple[tuple[Event, ...], tuple[Event, ...]]:
        """What deltas let go of earlier chunks, and of themselves, in a chunk that cannot leave as it came. `source` is
        that chunk if what else it says is to leave with them.
        """
        assembler = self._calls_of()
        events = assembler.feed(deltas)
        if source is not None:
            events = with_rest(self.number, events, source)
        return self._ended(assembler), self._chunks.beside(assembler.assigned, events)

    def _end_calls(self) -> tuple[Event, ...]:
        """What waits for the end of the calls, which something else has ended."""
        if self._assembler is None:
            return ()
        self._assembler.end_calls()
        return self._ended(self._assembler)

    def _ended(self, assembler: CallAssembler) -> tuple[Event, ...]:
        """What the last deltas let go of the calls before them."""
        if not assembler.ended:
            return ()
        return self._chunks.end(assembler.ended, unchanged=assembler.unchanged)

    def _close_calls(self, stopped: bool) -> tuple[Event, ...]:
        """The rest of the structured calls: no more of them comes."""
        if self._assembler is None:
            return ()
        closing = self._assembler.finish(stopped=stopped)
        for event in closing:
            if isinstance(event, CallClosed):
                self.audit += event.fixes
                self._count_empty(event.call)
        self.audit += self._assembler.audit
        return self._chunks.end(closing, unchanged=self._assembler.unchanged, final=True)

    def _calls_of(self) -> CallAssembler:
        """What gathers the calls of this choice."""
        if self._assembler is None:
            self._assembler = CallAssembler(
                self.number,
                self.repairer,
                self.take_index,
                self.new_id,
                used=self.used,
                written=self._text_calls,
                unsaid=self._chunks.unsaid,
                at_once=self.at_once,
                limits=self.limits,
            )
        return self._assembler

    # Calls that the model wrote as text.

    def _calls_in_reasoning(self) -> list[Event]:
        """The call at the very end of the reasoning, if the reply has nothing else (F70).

        {"delta": {"reasoning": "I list them.\\n<tool_call>{\\"name\\": \\"ls\\", \\"arguments\\": {}}</tool_call>"}}
        {"delta": {}, "finish_reason": "stop"}
        """
        if self.reasoning_reader is None or self.calls:
            return []
        events: list[Event] = []
        for piece in self.reasoning_reader.finish(stopped=True):
            if piece.calls:
                events += self._held.release_reasoning()
                events += self._write_calls(piece, "in its reasoning")
        return events

    # The finish.

    def _finish(self) -> list[Event]:
        """The rest of what waits and the finish, in the server's own chunk if that can leave as it came."""
        reason = self._true_finish()
        self.audit += of_finish(self.finish, reason)
        events, final = self._held.finish(keep_final=reason == self.finish)
        finished = Finished(self.number, reason, final)
        match events:
            case [*others, Unchanged() as last]:
                return [*others, replace(last, events=(*last.events, finished))]
        return [*events, finished]

    def _true_finish(self) -> str:
        """The finish reason that is true of what left."""
        if self.finish is not None and was_cut(self.finish):
            return self.finish
        return "tool_calls" if self.calls else "stop"
