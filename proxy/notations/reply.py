"""State of one reply, and the release of its prose, calls and refusals."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from enum import Enum, auto

from proxy.limits import MAX_CALLS, MAX_HELD
from proxy.notations.calls import Call
from proxy.notations.copies import Copies
from proxy.notations.judge import Place
from proxy.notations.rows import RowReader
from proxy.notations.signs import any_tag, reply_start, row_name, weak_tag
from proxy.notations.source import NoCall, Rejection, Source
from proxy.notations.stream import Found, Piece, Stream
from proxy.notations.surroundings import JsonStrings
from proxy.notations.thoughts import Thoughts, marks_of
from proxy.notations.toolset import ToolSet

# Maximum number of refusals to keep, and of characters to search for a tool's name.
MAX_REFUSED, MAX_SHOWN = 200, 400
BLANKS = re.compile(r"\s*")


class Kind(Enum):
    """Kind of call that the held text may contain.

    FIRST counts only at the start of a reply. TOKENS are end-of-turn tokens. LAST is a call at the end of unclosed
    reasoning. BROKEN is an unreadable call at the end of the reply.
    """

    STRONG = auto()
    WEAK = auto()
    FIRST = auto()
    TOKENS = auto()
    LAST = auto()
    BROKEN = auto()


class Channel(Enum):
    """Field of the reply that contains the text."""

    CONTENT = auto()
    REASONING = auto()


@dataclass(frozen=True, slots=True)
class Refused:
    """Text that looked like a call: its position, the notation tried, and why it was rejected."""

    start: int
    row: str
    why: str
    rejection: Rejection = Rejection.BROKEN


class Reply:
    """One reply: settings from its request, what has been read, and what is held.

    `channel` is the field of the text. `json_reply`: the client asked for JSON, so weak evidence does not count.
    `raw_text`: the server leaves end-of-turn tokens in the text. `thoughts`: separate reasoning from the text. `forced`
    is the tool that the client forced. `off` names disabled notations. `watch_broken`: report an unreadable call at the
    end of the reply. At most `max_held` characters are held, and at most `max_calls` calls count.
    """

    def __init__(
        self,
        tools: ToolSet,
        copies: Copies | None = None,
        *,
        channel: Channel = Channel.CONTENT,
        json_reply: bool = False,
        raw_text: bool = False,
        thoughts: Thoughts | None = None,
        forced: str = "",
        off: frozenset[str] = frozenset(),
        watch_broken: bool = False,
        max_held: int = MAX_HELD,
        max_calls: int = MAX_CALLS,
    ) -> None:
        self.refused: list[Refused] = []
        self.refusals: Counter[str] = Counter()
        self._tools, self._copies = tools, copies or Copies(tools)
        self._channel, self._json_reply, self._raw_text = channel, json_reply, raw_text
        self._forced, self._off, self._watch_broken = forced, off, watch_broken
        self._max_held, self._calls_left, self._copied = max_held, max_calls, 0
        self._stream = Stream()
        # Start and kind of the held text, the length last read without success, and the sum of all lengths read.
        self._held, self._kind, self._tried, self._work = -1, Kind.STRONG, 0, 0
        self._vain_steps = 0
        # Positions in the reply: text follows end-of-turn tokens before `_text_follows`, only whitespace precedes
        # `_blank`, leftovers of a call end at `_left`, and a listing of tools ended at `_listed` (or -1).
        self._text_follows = self._blank = self._left = 0
        self._listed = -1
        self._broken_tool, self._ends_calls = "", False
        # Closers of the open reasoning, whether the reply began with it, whether it is separated from the text, and
        # whether the prompt opened it.
        self._thought: tuple[str, ...] = ()
        self._thought_first = self._separated = self._prompted = False
        # Closers of the open marked text in which calls count.
        self._shown: tuple[str, ...] = ()
        self._separate(thoughts)
        self._json = JsonStrings()
        self._went_back = 0
        self._behind_call = self._begun = self._found_any = self._stripped = False
        # The model invents the client's turn or the result of its call.
        self._made_up, self._made_up_row = False, "made_up_turn"
        self._no_calls = not tools
        # The reply is over, and the model ended it.
        self._finished = self._stopped = False

    def _separate(self, thoughts: Thoughts | None) -> None:
        """Set which reasoning is separated from the text, and whether the prompt opened it."""
        names = self._tools.names
        self._marks = marks_of(thoughts.markers if thoughts else ())
        self._start, self._weak_tag = reply_start(names), weak_tag(names)
        self._any_tag = any_tag(names, self._marks)
        self._unknown = thoughts is not None and thoughts.unknown
        self._begun_by_prompt = thoughts.begun if thoughts else ""
        if self._begun_by_prompt:
            self._thought = self._marks.closers[self._begun_by_prompt]
            self._thought_first = self._separated = self._prompted = True

    def _reader(self, *, final: bool | None = None) -> RowReader:
        """Return a reader of the text that has arrived."""
        stream = self._stream
        return RowReader(Source(stream.text, stream.final if final is None else final), self._tools)

    def _hold(self, at: int, kind: Kind) -> None:
        """Hold the text from a position: a call may begin there."""
        self._held, self._tried, self._kind = at, 0, kind

    def _leave_before(self, at: int) -> None:
        """Release prose up to a sign, except whitespace at the start of a segment: a call drops it."""
        if not self._is_gap(at):
            self._stream.leave(at)

    def _is_gap(self, at: int) -> bool:
        """Return whether only whitespace precedes a position in its segment."""
        stream = self._stream
        return stream.fresh and stream.text[stream.out : at].isspace()

    def _place(self, start: int, end: int, weak: bool) -> Place:
        """Return the place of text[start:end] for the judge."""
        stream, first = self._stream, self._kind is Kind.FIRST and not self._found_any
        stream.see(start)
        listed = self._listed - stream.base
        after_listing = listed >= 0 and not stream.text[listed:start].strip()
        return Place(stream.prose, start, end, weak, first, self._stopped, self._json_reply, after_listing)

    def _take(self, calls: list[Call], end: int, *, weak: bool) -> None:
        """Emit calls. A call to a tool that is not offered stays text."""
        stream = self._stream
        row = row_name(stream.text, self._held if self._held >= 0 else stream.out)
        taken: list[Found] = []
        for call in calls:
            if call.tool is not None:
                taken.append(Found(call.name, call.written, call.arguments, call.id, weak, call.odd))
                continue
            if taken:
                self._emit(taken, max(call.start, stream.out), row)
                taken = []
            stream.leave(call.end)
        self._emit(taken, end, row)

    def _emit(self, calls: list[Found], end: int, row: str) -> None:
        self._calls_left -= len(calls)
        self._stream.emit(Piece(self._stream.text[self._stream.out : end], tuple(calls), row), end)

    def _note(self, start: int, refusal: NoCall) -> None:
        """Record why the text at a position is not a call."""
        row = row_name(self._stream.text, start)
        self.refused.append(Refused(self._stream.base + start, row, str(refusal), refusal.rejection))
        del self.refused[:-MAX_REFUSED]

    def _refused(self, start: int, refusal: NoCall) -> None:
        """Record a refusal, and count it unless the text is just prose with brackets."""
        self._note(start, refusal)
        text, rejection = self._stream.text, refusal.rejection
        if rejection.telling or any(name in text[start : start + MAX_SHOWN] for name in self._tools.names):
            self.refusals[rejection.label] += 1
