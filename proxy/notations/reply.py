"""The state of one reply that is being read, and how its prose, calls and refusals leave."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from enum import Enum, auto

from proxy.limits import MAX_CALLS, MAX_HELD
from proxy.notations.calls import Call
from proxy.notations.copies import Copies
from proxy.notations.judge import Place
from proxy.notations.reader import CallReader
from proxy.notations.signs import any_tag, reply_start, row_name, weak_tag
from proxy.notations.source import NoCall, Rejection, Source
from proxy.notations.stream import Found, Piece, Stream
from proxy.notations.surroundings import JsonStrings
from proxy.notations.thoughts import Thoughts, marks_of
from proxy.tools.toolset import ToolSet

# Refusals that are kept, and how much of a text shows the tool that it names.
MAX_REFUSED, MAX_SHOWN = 200, 400
BLANKS = re.compile(r"\s*")


class Kind(Enum):
    """What may begin where text is held.

    FIRST counts as the first thing of a reply only. LAST is a call that ends unfinished reasoning, BROKEN one that
    ends the reply and cannot be read.
    """

    STRONG = auto()
    WEAK = auto()
    FIRST = auto()
    TOKENS = auto()
    LAST = auto()
    BROKEN = auto()


class Channel(Enum):
    """The field of a reply that a text is from."""

    CONTENT = auto()
    REASONING = auto()


@dataclass(frozen=True, slots=True)
class Refused:
    """Text that looked like a call: its position, the row that was tried, and why it was rejected."""

    start: int
    row: str
    why: str
    rejection: Rejection = Rejection.BROKEN


class Reply:
    """One reply: what the request says of it, what has been read, and what is held.

    `channel` is the field of the text. `json_reply`: the client asked for JSON, so weak evidence does not count.
    `raw_text`: the server leaves end-of-turn tokens in the text. `thoughts`: reasoning is separated from the text.
    `forced` is the tool that the client forced. `off` names the notations that are switched off. `watch_broken`: report
    a call that cannot be read and ends the reply. At most `max_held` characters are held, and `max_calls` calls count.
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
        # Where a call may begin, its kind, the length that was read in vain, and the sum of all these lengths.
        self._held, self._kind, self._tried, self._work = -1, Kind.STRONG, 0, 0
        self._vain_steps = 0
        # Positions in the reply: text follows the tokens before the first, only blanks precede the second, leftovers
        # of a call end at the third, a listing of tools ended at the last (or -1).
        self._text_follows = self._blank = self._left = 0
        self._listed = -1
        self._broken_tool, self._ends_calls = "", False
        # What ends the reasoning that is open, whether the reply began with it, whether it is separated from the text,
        # and whether the prompt opened it.
        self._thought: tuple[str, ...] = ()
        self._thought_first = self._separated = self._prompted = False
        # Ends of marked text in which calls count.
        self._shown: tuple[str, ...] = ()
        self._separate(thoughts)
        self._json = JsonStrings()
        self._went_back = 0
        self._behind_call = self._begun = self._found_any = self._stripped = False
        # The model continues with the client's turn or with the result of its call.
        self._made_up, self._made_up_row = False, "made_up_turn"
        self._no_calls = not tools
        # The reply is over, and the model ended it.
        self._finished = self._stopped = False

    def _separate(self, thoughts: Thoughts | None) -> None:
        """Set which reasoning is separated from the text, and whether the prompt began one."""
        names = self._tools.names
        self._marks = marks_of(thoughts.markers if thoughts else ())
        self._start, self._weak_tag = reply_start(names), weak_tag(names)
        self._any_tag = any_tag(names, self._marks)
        self._unknown = thoughts is not None and thoughts.unknown
        self._begun_by_prompt = thoughts.begun if thoughts else ""
        if self._begun_by_prompt:
            self._thought = self._marks.closers[self._begun_by_prompt]
            self._thought_first = self._separated = self._prompted = True

    def _reader(self, *, final: bool | None = None) -> CallReader:
        """Return a reader of the text that has arrived."""
        stream = self._stream
        return CallReader(Source(stream.text, stream.final if final is None else final), self._tools)

    def _hold(self, at: int, kind: Kind) -> None:
        """Hold the text from a position: a call may begin there."""
        self._held, self._tried, self._kind = at, 0, kind

    def _leave_before(self, at: int) -> None:
        """Release prose up to a sign, but for blanks with which a segment begins: a call drops them."""
        if not self._is_gap(at):
            self._stream.leave(at)

    def _is_gap(self, at: int) -> bool:
        """Return whether a segment begins with nothing but blanks before a position."""
        stream = self._stream
        return stream.fresh and stream.text[stream.out : at].isspace()

    def _place(self, start: int, end: int, weak: bool) -> Place:
        """Return what the judge must know about text[start:end]."""
        stream, first = self._stream, self._kind is Kind.FIRST and not self._found_any
        stream.see(start)
        listed = self._listed - stream.base
        after_listing = listed >= 0 and not stream.text[listed:start].strip()
        return Place(stream.prose, start, end, weak, first, self._stopped, self._json_reply, after_listing)

    def _take(self, calls: list[Call], end: int, *, weak: bool) -> None:
        """Emit calls; one of a tool that is not offered stays text in its place."""
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
        """Note why the text at a position is not a call."""
        row = row_name(self._stream.text, start)
        self.refused.append(Refused(self._stream.base + start, row, str(refusal), refusal.rejection))
        del self.refused[:-MAX_REFUSED]

    def _refused(self, start: int, refusal: NoCall) -> None:
        """Note a refusal, and count it unless it says only that prose has brackets."""
        self._note(start, refusal)
        text, rejection = self._stream.text, refusal.rejection
        if rejection.telling or any(name in text[start : start + MAX_SHOWN] for name in self._tools.names):
            self.refusals[rejection.label] += 1
