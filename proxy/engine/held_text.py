"""The text of a choice that waits until it is decided what it is: prose, or a call that the model wrote.

Positions count characters of the choice's text, from its beginning:

    0 <= sent <= decided <= received

`received` came from the server. Up to `decided` the reader has said what it is. Up to `sent` it has left, or has
become a call. With the text `Let me look.<tool_call>{"na` that came in three chunks:

    Let me look.<tool_call>{"na
    |   chunk 0   |  1   |  2  |
                ^ decided      ^ received          (`<tool_call>` may be a call)

Chunk 0 holds a part of both: its prose waits with it, so that the chunk can leave as the very bytes that came, until
that waits too long (`split`) or the rest became a call (`discard`): then its prose leaves by itself, and the chunk is
not forwarded verbatim any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from proxy.engine.choice_delta import ChoiceDelta
from proxy.engine.events import Chunk, Event, Reasoning, Text, with_rest
from proxy.limits import MAX_HELD
from proxy.transitions import next_state

# Nobody needs more of them than that.
_MAX_BLANKS = 4096


class TextMode(Enum):
    """What the next of the text is. Blanks on both sides of a mark are the template's."""

    # Text, which leaves as it came.
    TEXT = auto()
    # Text behind a mark, of which nothing but blanks has come.
    TEXT_BEGINS = auto()
    # A thought.
    THOUGHT = auto()
    # A thought of which nothing but blanks has come.
    THOUGHT_BEGINS = auto()


class ModeStep(Enum):
    """What is told of the text."""

    # A thought begins.
    BEGIN_THOUGHT = auto()
    # A thought has ended.
    BEGIN_TEXT = auto()
    # The first of it has come that is no blank.
    SAY = auto()
    # The server tells thoughts from the text.
    TELL_APART = auto()


_MARKS = {
    ModeStep.BEGIN_THOUGHT: TextMode.THOUGHT_BEGINS,
    ModeStep.BEGIN_TEXT: TextMode.TEXT_BEGINS,
    ModeStep.TELL_APART: TextMode.TEXT,
}
MODES: dict[TextMode, dict[ModeStep, TextMode]] = {
    TextMode.TEXT: _MARKS,
    TextMode.TEXT_BEGINS: {**_MARKS, ModeStep.SAY: TextMode.TEXT},
    TextMode.THOUGHT: _MARKS,
    TextMode.THOUGHT_BEGINS: {**_MARKS, ModeStep.SAY: TextMode.THOUGHT},
}
# Asked for with every chunk: a global name is found faster than a member of an enum.
PLAIN_TEXT = TextMode.TEXT


@dataclass(slots=True)
class HeldChunk:
    """A chunk in the queue: the place of its text in the choice's, and how far that has left.

    `forward_verbatim`: nothing of it has left in another shape, and it says nothing of other choices or calls: it may
    leave as the bytes that came. `reasoning` is what of it is still to be said. `final` if it says the finish: it waits
    for the end of the reply, since only then the true finish is known, and what else it says leaves with the finish.
    `rest_left`: what else any other chunk says has left.
    """

    chunk: Chunk
    data: str
    start: int
    sent: int
    forward_verbatim: bool
    reasoning: str
    final: bool
    rest_left: bool = False

    @property
    def end(self) -> int:
        """The position behind its text."""
        return self.start + len(self.data)

    @property
    def says_something(self) -> bool:
        """True if it has a text, or reasoning that is still to be said, or the finish."""
        return any((self.final, self.data, self.reasoning))


# A stream whose text cannot begin a call needs no queue of its own, and keeps none.
_NO_QUEUE: deque[HeldChunk] = deque()


class HeldText:
    """The chunks of one choice that wait, in order; what leaves of them is given as events.

    `queue`, `received` and `decided` are read and counted on by the fast path, where nothing waits; `mode` is what the
    next text is, and read there too. `thinking`: the text begins in a thought that the prompt opened.
    """

    __slots__ = (
        *("decided", "mode", "queue", "received", "thoughts", "_blanks", "_choice"),
        *("_thoughts_left", "_unopened", "_unopened_left"),
    )

    def __init__(self, choice: int, *, thinking: bool = False) -> None:
        self._choice = choice
        self.queue = _NO_QUEUE
        self.received = 0
        self.decided = 0
        self.mode = TextMode.THOUGHT_BEGINS if thinking else PLAIN_TEXT
        # The line ends behind a thought so far: they leave with what comes of it behind them.
        self._blanks = ""
        # The thought that the prompt opened: if nothing ends it, it was the answer.
        self._unopened: list[str] = []
        self._unopened_left = MAX_HELD if thinking else 0
        # All thoughts that were told from the text, up to a bound.
        self.thoughts: list[str] = []
        self._thoughts_left = MAX_HELD

    @property
    def unopened(self) -> str:
        """The thought so far that the prompt opened; "" if it is too long to be said once more."""
        if self._unopened_left <= 0:
            return ""
        return "".join(self._unopened)

    def _move(self, step: ModeStep) -> None:
        self.mode = next_state(MODES, self.mode, step)

    def switch_mode(self, *, thinking: bool) -> None:
        """Take what follows for a thought, or for text again: all before it has left."""
        self._move(ModeStep.BEGIN_THOUGHT if thinking else ModeStep.BEGIN_TEXT)
        self._blanks = ""
        self._unopened_left = 0

    def reasoning_is_separate(self) -> None:
        """The server tells thoughts from the text, of which nothing but blanks has come: it is text."""
        self._move(ModeStep.TELL_APART)
        self._unopened_left = 0

    @property
    def sent(self) -> int:
        """The position up to which all has left or became a call."""
        if not self.queue:
            return self.decided
        return self.queue[0].sent

    @property
    def prose_waits(self) -> bool:
        """True if some of the text that is prose waits, to leave in the very event that it came in."""
        return self.sent < self.decided

    @property
    def waits(self) -> bool:
        """True if a chunk waits for a decision: one that says the finish waits for the end anyway."""
        if not self.queue:
            return False
        return not self.queue[0].final

    def text(self, start: int, end: int) -> str:
        """The waiting text between two positions; read from the end, where little is asked for again and again."""
        parts: deque[str] = deque()
        for held in reversed(self.queue):
            if held.end <= start:
                break
            parts.appendleft(held.data[max(0, start - held.start) : max(0, end - held.start)])
        return "".join(parts)

    def receive(self, chunk: Chunk, delta: ChoiceDelta, *, forward_verbatim: bool) -> HeldChunk:
        """Count the text of the next chunk. It is not in the queue yet: it may pass at once."""
        data, start = delta.text, self.received
        self.received += len(data)
        return HeldChunk(chunk, data, start, start, forward_verbatim, delta.reasoning, delta.finish is not None)

    def hold(self, chunk: Chunk, data: str) -> None:
        """Let a chunk wait behind others that says nothing but this text."""
        start = self.received
        self.received += len(data)
        self.queue.append(HeldChunk(chunk, data, start, start, True, "", final=False, rest_left=True))

    def append(self, held: HeldChunk) -> None:
        """Let a received chunk wait."""
        if self.queue is _NO_QUEUE:
            self.queue = deque()
        self.queue.append(held)

    def may_pass_by(self, held: HeldChunk) -> bool:
        """True if a received chunk has nothing to wait for, if its text is prose."""
        if self.queue:
            return False
        return not held.final

    def pass_by(self, held: HeldChunk) -> list[Event]:
        """Let a received chunk leave that is prose and has nothing to wait for."""
        self.decided = held.end
        return self._let_go(held, held.end)

    def leave(self, decided: int) -> list[Event]:
        """The text is prose up to `decided`: let the chunks go of which all is. One of which only a part is waits, to
        leave as it came.
        """
        self.decided = decided
        events: list[Event] = []
        while self.waits and self.queue[0].end <= decided:
            held = self.queue.popleft()
            events += self._let_go(held, held.end)
        if not self.queue:
            self.queue = _NO_QUEUE
        return events

    def split(self) -> list[Event]:
        """Let the decided part of the first chunk go without the rest."""
        if not self.queue or self.queue[0].sent >= self.decided:
            return []
        held = self.queue[0]
        held.forward_verbatim = False
        return self._let_go(held, min(held.end, self.decided))

    def discard(self, end: int) -> list[Event]:
        """Forget the text up to `end`, which became a call; the prose before it leaves, and the reasoning."""
        events = [*self.leave(self.decided), *self.split()]
        self.decided = end
        for held in self.queue:
            if held.start > end:
                break
            # The first chunk behind the call. One without a text, at the same place, led to it: its reasoning leaves.
            if held.start == end and held.data:
                break
            if held.reasoning:
                events += self._release_reasoning_of(held)
            held.forward_verbatim = False
            held.sent = max(held.sent, min(end, held.end))
        while self.waits and self.queue[0].sent == self.queue[0].end:
            held = self.queue.popleft()
            events += self._let_go(held, held.end)
        if not self.queue:
            self.queue = _NO_QUEUE
        return events

    def release_reasoning(self) -> list[Event]:
        """The reasoning of the chunks that wait: it led to what leaves before them."""
        events: list[Event] = []
        for held in self.queue:
            if held.reasoning:
                events += self._release_reasoning_of(held)
                held.forward_verbatim = False
        return events

    def finish(self, *, keep_final: bool) -> tuple[list[Event], Chunk | None]:
        """All that waits, and the chunk that says the finish. `keep_final` if what it says is true.

        If that chunk can leave as it came it is the last event, as an `Unchanged`, and the only one.
        """
        final = next((held for held in reversed(self.queue) if held.final), None)
        # Nothing follows the finish: what came behind it goes before it, and then it is written anew.
        # {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        # {"choices": [{"index": 0, "delta": {"content": " Done."}, "finish_reason": null}]}
        if final is not self._last():
            keep_final = False
        waiting = [*self.queue]
        if final is not None and keep_final:
            # What comes behind it says no text, but may say usage:
            # {"choices": [{"index": 0, "delta": {}}], "usage": {"prompt_tokens": 9, "completion_tokens": 4}}
            waiting.remove(final)
            waiting.append(final)
        events: list[Event] = []
        for held in waiting:
            is_unsent = held.sent == held.start
            if not all((held is final, keep_final, is_unsent)):
                held.forward_verbatim = False
            held.final = held is final
            events += self._let_go(held, held.end)
        return events, None if final is None else final.chunk

    def _last(self) -> HeldChunk | None:
        """The last chunk that says something."""
        return next((held for held in reversed(self.queue) if held.says_something), None)

    def _let_go(self, held: HeldChunk, end: int) -> list[Event]:
        """Give the events of a chunk's text between what has left of it and a position, and its reasoning before them.

        They are one `Unchanged` with the bytes that came, if all of the chunk may leave so.
        """
        events: list[Text | Reasoning] = [self._take_reasoning(held)] if held.reasoning else []
        piece = held.data[held.sent - held.start : end - held.start]
        verbatim = held.forward_verbatim
        if piece:
            if self.mode is PLAIN_TEXT:
                events.append(Text(self._choice, piece))
            else:
                verbatim = False
                events += self._apart(piece)
        held.sent = end
        if verbatim:
            return [held.chunk.unchanged(tuple(events))]
        return self._with_rest(held, events)

    def _apart(self, text: str) -> Iterable[Text | Reasoning]:
        """The event that says this text, in a reply that has thoughts in its text; none if it is all blanks that are
        left out. Left out are those before a thought and before what follows it, and the line ends behind a thought.

        `"\nSo I look.\n"` in a thought -> `Reasoning("So I look.")`; `"\n\nDone."` behind it -> `Text("Done.")`
        """
        text = self._blanks + text
        self._blanks = ""
        if self.mode is not TextMode.THOUGHT:
            text = text.lstrip()
        if not text:
            return ()
        if self.mode is not TextMode.THOUGHT:
            self._move(ModeStep.SAY)
        if self.mode is PLAIN_TEXT:
            return (Text(self._choice, text),)
        piece = text.rstrip("\r\n")
        self._blanks = text[len(piece) :][:_MAX_BLANKS]
        if self._unopened_left > 0:
            self._unopened.append(piece)
            self._unopened_left -= len(text)
        if piece and self._thoughts_left > 0:
            self.thoughts.append(piece)
            self._thoughts_left -= len(piece)
        return (Reasoning(self._choice, piece),) if piece else ()

    def _with_rest(self, held: HeldChunk, events: Sequence[Event]) -> list[Event]:
        """Events of a chunk that does not leave as it came: the first of them carry what else it says, once."""
        if held.final or held.rest_left:
            return [*events]
        held.rest_left = True
        return [*with_rest(self._choice, events, held.chunk)]

    def _release_reasoning_of(self, held: HeldChunk) -> list[Event]:
        """The reasoning of a chunk that has some, and whose text leaves later, or becomes a call."""
        return self._with_rest(held, [self._take_reasoning(held)])

    def _take_reasoning(self, held: HeldChunk) -> Reasoning:
        """The reasoning of a chunk that has some, once: before its text, and before the calls to which it led."""
        reasoning, held.reasoning = held.reasoning, ""
        return Reasoning(self._choice, reasoning)
