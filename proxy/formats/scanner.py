"""The scanner: finds calls in the text of a reply while it is being written.

It knows no format: the grammar says what may begin a call, and the parser of that format says what comes of it. Prose
is let go at once; held is only what can still become a call (contract C2).

    I read the file. <tool_call>{"name": "read", "arguments": {"path": "a.py"}}</tool_call>

leaves as a `TextSpan` up to the blank, as it comes, and as a `CallSpan` once the end tag is there. Each position where
the grammar finds an opener becomes a `Candidate`, of which come calls or a refusal; then the scanner goes on behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from proxy.formats.broken_calls import UNWATCHED, BrokenCalls
from proxy.formats.copied_calls import Copies
from proxy.formats.grammar import BEHIND_TEXT, LEFTOVER, PROMPTED, TEXT, Format, Grammar
from proxy.formats.opener_runs import opener_run
from proxy.formats.openers import beginning, begins_here, looked_for, may_stand, nothing_begins
from proxy.formats.places import PLACES, Place, PlaceStep
from proxy.formats.reasoning import Thoughts
from proxy.formats.refusals import Refusals
from proxy.formats.repeated_text import MUCH, RepeatedText
from proxy.formats.scan_limits import ScanLimits
from proxy.formats.spans import CallSpan, Candidate, Piece, RejectedSpan, TextSpan, begun, parted
from proxy.formats.thought_marks import ThoughtMarks
from proxy.limits import MAX_CALLS, MAX_HELD
from proxy.parsing.buffer import TextBuffer
from proxy.parsing.cursor import NotACall, RawCall, Rejection
from proxy.parsing.markdown import Markdown
from proxy.tools.toolset import ToolSet
from proxy.transitions import next_state

_NOT_BLANK = re.compile(rb"[^ \t\r\n]")
# Asked for with every chunk: a global name is found faster than a member of an enum.
_IN_TEXT, _BEHIND_CALL, _BEHIND_LISTING = Place.TEXT, Place.BEHIND_CALL, Place.BEHIND_LISTING


class Scanner:
    """Text in any cut to pieces; all bytes of the text are in exactly one piece, in order.

    `grammars` are those of the reply by mode, of which `mode` is the first. `copies` knows the tool results since the
    last user message; `max_held` limits the bytes that wait for one call, `max_calls` the calls: what goes over them is
    prose. `off` are the names of formats whose calls are prose. With `thoughts`, what marks them is given as such
    instead of as text. `refused` takes what was no call, if it is given, and `broken` is told of calls that cannot be
    read; `refusals` counts what could have been one by the reason.
    """

    def __init__(
        self,
        tools: ToolSet,
        grammars: Mapping[str, Grammar],
        *,
        mode: str = TEXT,
        copies: Copies | None = None,
        max_held: int = MAX_HELD,
        max_calls: int = MAX_CALLS,
        off: frozenset[str] = frozenset(),
        thoughts: Thoughts | None = None,
        refused: list[RejectedSpan] | None = None,
        broken: BrokenCalls = UNWATCHED,
    ) -> None:
        self._refusals = Refusals(refused)
        self.refusals = self._refusals.counts
        self._tools = tools
        self._grammars = grammars
        self.marks = ThoughtMarks(thoughts)
        self._mode = f"{thoughts.begun}{PROMPTED}" if thoughts and thoughts.begun else mode
        self._grammar = grammars[self._mode]
        self._max_held = max_held
        self._limits = ScanLimits(copies or Copies(), off, max_held=max_held, max_calls=max_calls)
        self._broken = broken
        self._buffer = TextBuffer()
        self._repeated = RepeatedText(self._buffer)
        self._pos = 0
        self._markdown = Markdown()
        self._candidate: Candidate | None = None
        self._place = _IN_TEXT
        self._leftover_at = -1
        # Some text was let go.
        self._has_text = False
        # Where the reply's first thing stands, and how many of the formats for it were tried.
        self._first_at = 0
        self._first_tried = 0
        # Tools were listed somewhere in the reply.
        self._listed = False

    def _move(self, step: PlaceStep) -> None:
        self._place = next_state(PLACES, self._place, step)

    @property
    def held(self) -> bool:
        """True if some text waits."""
        return bool(self._buffer.data)

    @property
    def confident(self) -> bool:
        """True while the text that waits has named an offered tool."""
        return self._candidate is not None and self._candidate.confident

    @property
    def in_string(self) -> bool:
        """True while the text that waits is a call's, up to the middle of a string (`Candidate.in_string`)."""
        return self._candidate is not None and self._candidate.in_string

    def reasoning_is_separate(self) -> None:
        """The server tells thoughts apart by itself: there are none in the text."""
        self._mode, self._grammar = TEXT, self._grammars[TEXT]
        self.marks.reasoning_is_separate()

    def feed(self, text: str | bytes) -> tuple[Piece, ...]:
        """Take the next text, which may be in UTF-8 already; give what is decided."""
        if self._buffer.ended:
            raise ValueError("feed after finish")
        data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        if self.fast_path(data):
            return (TextSpan(self._buffer.base - len(data), self._buffer.base),)
        self._buffer.data += data
        pieces = tuple(self._scan())
        if self.marks.found:
            pieces += tuple(self._go_on())
        if len(self._buffer.data) > self._max_held:
            pieces += self._settle()
        if len(self._buffer.data) > self._max_held:
            pieces += self._let_go()
        return pieces

    @property
    def lane(self) -> re.Pattern[bytes] | None:
        """What matches a text, in a string of JSON, that is prose now; None if something waits, or is to begin."""
        if self._buffer.data or self._candidate:
            return None
        if self._place is _BEHIND_CALL or self._is_first:
            return None
        return self._grammar.plain

    def fast_path(self, data: bytes) -> bool:
        """Take the next text, in UTF-8, if all of it is prose because nothing waits and no call can begin in it."""
        if self.lane is None:
            return False
        if self._grammar.begin.search(data):
            return False
        self._passed(data)
        self._buffer.fast_path(data)
        self._has_text = True
        self._pos = self._buffer.base
        return True

    def release(self) -> tuple[Piece, ...]:
        """Let go of all that waits, as prose: it took too long, or something else has come."""
        return (*self._settle(), *self._let_go())

    def _settle(self) -> tuple[Piece, ...]:
        """Take calls that are whole and wait only because what follows could tell that they are quoted."""
        pieces: list[Piece] = []
        while self._candidate is not None and self._candidate.calls is not None:
            self._candidate.decided = True
            pieces += (*self._scan(), *self._go_on())
        return tuple(pieces)

    def _let_go(self) -> tuple[Piece, ...]:
        """Let go of what waits, as prose."""
        buffer, candidate = self._buffer, self._candidate
        if not buffer.data:
            return ()
        self._repeated.forget()
        if candidate is not None and self._thought_ends_in(candidate, buffer.end):
            return (*self._scan(), *self._go_on(), *self._let_go())
        self._follow(buffer.end)
        self._pos = buffer.end
        if candidate is not None:
            # It is read on to its end: what is inside a string of it is still no call.
            candidate.cursor.abandon(buffer.end, Rejection.RELEASED)
        return (self._prose(buffer.end),)

    def finish(self, *, stopped: bool) -> tuple[Piece, ...]:
        """Say that no more text comes; `stopped` if the model ended by itself."""
        self._buffer.ended = True
        self._buffer.stopped = stopped
        pieces = (*self._scan(), *self._go_on())
        if not self._buffer.data:
            return pieces
        if self._place is _BEHIND_CALL and stopped:
            return (*pieces, self._take((), "blanks", self._buffer.end))
        return (*pieces, self._prose(self._buffer.end))

    @property
    def _is_first(self) -> bool:
        """True while what comes next is the first thing of the reply, or of what follows its reasoning."""
        return self._first_at == self._pos and self._first_tried < len(self._grammar.first)

    def _go_on(self) -> Iterator[Piece]:
        """Go on behind the mark at which the text was left."""
        while self.marks.found:
            mark = self.marks.take()
            if mark.start > self._buffer.base:
                yield self._prose(mark.start)
            self._buffer.drop(mark.end)
            yield mark
            yield from self._scan()

    def _scan(self) -> Iterator[Piece]:
        while candidate := self._candidate or self._find_candidate():
            if candidate.start > self._buffer.base and self._place is not _BEHIND_CALL:
                yield self._prose(candidate.start)
            try:
                calls = self._calls_of(candidate)
            except NotACall as refusal:
                self._refuse(candidate, refusal)
                continue
            if calls is None:
                yield from self._let_go_void(candidate)
                return
            yield from self._found(candidate, calls)
        if self._place is _BEHIND_CALL or self.marks.found:
            return
        if self._pos > self._buffer.base:
            yield self._prose(self._pos)

    def _calls_of(self, candidate: Candidate) -> tuple[RawCall, ...] | None:
        """The calls that a candidate turns out to be, which may be none; None while more text is needed."""
        if candidate.go_on() is None:
            return None
        quoted = candidate.is_quoted(self._max_held, self._grammar)
        if quoted is None:
            return None
        if candidate.cursor.void:
            raise candidate.cursor.rejected()
        if quoted:
            raise NotACall(Rejection.QUOTED)
        calls = candidate.calls or ()
        listed = self._listed if candidate.evidence.weak else self._place is _BEHIND_LISTING
        self._limits.check(candidate, calls, behind_listing=listed)
        return calls

    def _found(self, candidate: Candidate, calls: tuple[RawCall, ...]) -> Iterator[Piece]:
        """Take calls, or nothing but a token that is dropped."""
        evidence = candidate.evidence
        is_first = candidate.start == self._first_at
        if is_first and self._has_text:
            # Blanks before the first call are its own, but not behind text.
            yield self._prose(self._buffer.search(_NOT_BLANK, candidate.start))
        found = self._take(calls, candidate.format, candidate.cursor.pos, evidence.weak)
        yield from parted(found, evidence.kept_text)
        end = candidate.cursor.furthest
        if evidence.cut_off and end > self._pos:
            # What broke off behind calls is let go: what its values show is no call.
            self._pass_to(end)
            yield self._prose(end)
        if is_first and not calls:
            # Nothing but a token was dropped: the reply's first thing is still to come.
            self._move(PlaceStep.LEAVE)
            self._first_at, self._first_tried = self._pos, 0

    def _refuse(self, candidate: Candidate, refusal: NotACall) -> None:
        """Go on behind what was no call: what was let go already is not looked at again."""
        cursor = candidate.cursor
        if candidate.before.found is not None:
            # It was decided by what stands far before it.
            self._repeated.forget()
        self._note(candidate, refusal)
        seen = cursor.pos
        if cursor.back_to >= 0:
            self._limits.went_back += 1
        else:
            seen = max(seen, cursor.furthest)
        is_first = candidate.start == self._first_at
        # An opener is passed at least in part, or it would be found again.
        behind = max(seen, self._buffer.base, candidate.start + bool(candidate.item.opener))
        if self._mode == TEXT:
            self._broken.refuse(candidate, self._buffer, refusal, behind)
        if self._thought_ends_in(candidate, behind):
            return
        self._pos = behind
        self._follow(self._pos)
        self._candidate = None
        self._first_at = self._pos if is_first else -1

    def _note(self, candidate: Candidate, refusal: NotACall) -> None:
        """Remember that tools are listed, count why it was no call, and tell it to who asked for that."""
        if refusal.rejection is Rejection.DEFINITION:
            self._listed = True
            self._move(PlaceStep.LIST)
        elif candidate.item is not LEFTOVER and self._place is not _IN_TEXT:
            self._move(PlaceStep.SAY)
        self._refusals.note(candidate, refusal)

    def _follow(self, end: int) -> None:
        """Follow the Markdown up to a position."""
        seen = self._candidate.seen if self._candidate else self._pos
        text = self._buffer.slice(seen, end)
        if self.marks.fresh:
            self.marks.passed(text)
        self._markdown.feed(text)
        if self._candidate:
            self._candidate.seen = end

    def _let_go_void(self, candidate: Candidate) -> Iterator[Piece]:
        """Let go of what was read of a candidate of which nothing will come: it need not wait for its end."""
        if not candidate.cursor.void:
            return
        if self._mode == TEXT:
            self._broken.see(candidate, self._buffer)
        end = self._buffer.character(candidate.cursor.settled)
        if self._thought_ends_in(candidate, end):
            yield from self._scan()
        elif end > self._buffer.base:
            self._follow(end)
            self._pos = end
            yield self._prose(end)

    def _thought_ends_in(self, candidate: Candidate, end: int) -> bool:
        """Whether the thought ends in a candidate that is none, before a position; then it goes on there."""
        # A candidate reads past what ends a thought, for that may stand in a string of it. It begins with none itself.
        start = max(candidate.start, self._buffer.base)
        at = self.marks.first_closer(self._buffer.slice(start, end))
        if at < 0 or start + at == candidate.start:
            return False
        self._follow(max(candidate.seen, start + at))
        self._pos = start + at
        self._candidate = None
        self._first_at = -1
        self._move(PlaceStep.LEAVE)
        return True

    def _find_candidate(self) -> Candidate | None:
        """Go on to the next place where a call may begin; None if all text was seen or the rest is undecided."""
        buffer = self._buffer
        while self._pos < buffer.end and not self.marks.found:
            if self._limits.takes_no_more:
                self._pos = buffer.end
                self._move(PlaceStep.LEAVE)
                return None
            may_be_first = self._first_at == self._pos and self._is_first
            goes_on = self._try_first() if may_be_first else self._look_on()
            if self._candidate or not goes_on:
                return self._candidate
        return None

    def _look_on(self) -> bool:
        """Go on to the next place where something may begin; False while more text is needed to tell."""
        if self._place is _BEHIND_CALL:
            self._try_leftover()
            if self._candidate:
                return True
        at = self._pass_prose()
        if at == self._buffer.end:
            return False
        may_repeat = self._repeated.goes_on or len(self._buffer.data) > MUCH
        return (may_repeat and self._pass_repeated(at)) or self._pass_openers(at) or not self._opens(at)

    def _try_first(self) -> bool:
        """Try the next of the formats for the reply's first thing; False while more text is needed for that."""
        if self.marks.behind:
            self._pass_blanks()
        here = self._buffer.slice(self._pos, self._pos + 2)
        self._first_tried = self._grammar.next_first(self._first_tried, here, self._tools)
        if self._is_first:
            if self._begins(self._grammar.first[self._first_tried], self._pos) is None:
                return False
            self._first_tried += 1
        return True

    def _pass_blanks(self) -> None:
        """Pass the blanks behind a mark, so that what follows them is tried as the first thing."""
        at = self._buffer.search(_NOT_BLANK, self._pos)
        self._markdown.feed(self._buffer.slice(self._pos, at))
        self._pos = self._first_at = at

    def _try_leftover(self) -> None:
        """Pass the blanks behind a call. What stands there is tried once as a closer that is left over."""
        self._pos = self._buffer.search(_NOT_BLANK, self._pos)
        if self._pos in (self._buffer.end, self._leftover_at):
            return
        self._leftover_at = self._pos
        self._candidate = Candidate(LEFTOVER, self._buffer, self._pos, self._tools, self._markdown)

    def _pass_prose(self) -> int:
        """Pass the prose up to the next byte that may begin something, and give its position, or that of the end."""
        # Code may hold anything; only what can end it is of interest there.
        in_code = self._markdown.in_code
        pattern = self._grammar.in_code if in_code else self._grammar.begin
        at = self._buffer.search(pattern, self._pos)
        self._pass_to(at)
        return at

    def _pass_repeated(self, at: int) -> bool:
        """Pass what repeats the text before it, in which there was no call; whether there was such text."""
        if self._refusals.are_told or not self._repeated.may_go_on(at):
            return False
        if self._place is _BEHIND_CALL or self._broken.waits:
            return False
        self._buffer.look(looked_for(self._buffer, self._grammar, at))
        is_first = self._first_at == at
        around = (self.marks.state, self._broken.state, self._limits.state, self._first_tried)
        state = (self._mode, self._place, is_first, self._has_text, self._listed, around)
        self._pos = self._repeated.pass_on(at, state, self._markdown, self.refusals)
        if is_first:
            self._first_at = self._pos
        return self._pos > at

    def _pass_openers(self, at: int) -> bool:
        """Pass openers of which nothing comes and nothing is told; whether there were such."""
        run = opener_run(self._buffer, self._grammar.runs, self._markdown, at)
        if run is None or self._refusals.are_told or self._place is _BEHIND_CALL or self.marks.closer:
            return False
        self._first_at = run.end if run.refused_there and self._first_at == at else -1
        self._pass_to(run.end)
        return True

    def _opens(self, at: int) -> bool:
        """Whether something begins here: then there is a candidate now, or more text is needed to tell."""
        in_code = self._markdown.in_code
        for item in beginning(self._buffer, self._grammar, at):
            if in_code and not item.in_code:
                continue
            anywhere = item.mode and self.marks.fresh
            if not anywhere and not may_stand(self._buffer, self._markdown, item, at):
                continue
            begins = self._begins(item, at)
            if begins is None or self._candidate:
                return True
            if begins:
                return False
        self._passed(passed := nothing_begins(self._buffer, at))
        self._pos = at + len(passed)
        return False

    def _pass_to(self, end: int) -> None:
        """Pass what begins no call up to a position."""
        if end > self._pos:
            self._passed(self._buffer.slice(self._pos, end))
            self._pos = end

    def _passed(self, text: bytes) -> None:
        """Take what begins no call."""
        if self.marks.fresh:
            self.marks.passed(text)
        self._markdown.feed(text)
        if self._place is not _IN_TEXT:
            self._move(PlaceStep.SAY if text.strip() else PlaceStep.LEAVE)

    def _begins(self, item: Format, at: int) -> bool | None:
        """Whether this begins here, as a candidate or as another mode of the text; None if more text must tell."""
        begins = begins_here(self._buffer, item, at)
        if begins and item.mode == TEXT:
            begins = self.marks.ends_here(item.opener, self._buffer, self._markdown, at)
        if not begins:
            return begins
        if item.mode:
            self._change(item, at, at + len(item.opener))
        else:
            back = self._limits.may_go_back
            self._candidate = begun(item, self._buffer, at, self._tools, self._markdown, may_go_back=back)
            self._broken.begin(at, self._markdown, first=at == self._first_at)
        return True

    def _change(self, item: Format, at: int, end: int) -> None:
        """Go on in another mode behind what begins or ends the model's reasoning; no code goes on over a mark."""
        first = at == self._first_at
        mode = item.mode if first or item.mode == TEXT else f"{item.mode}{BEHIND_TEXT}"
        self._markdown.feed(self._buffer.slice(at, end))
        if item.mode == TEXT:
            end = self.marks.closed(item.opener, at, end)
        else:
            self.marks.opened(item.mode, at, end)
        if self.marks.found:
            self._markdown = Markdown()
            self._repeated.forget()
        self._pos = end
        self._move(PlaceStep.LEAVE)
        # Behind text and reasoning nothing is the reply's first thing.
        again = mode == TEXT and not self._mode.endswith(BEHIND_TEXT)
        self._mode, self._grammar = mode, self._grammars[mode]
        self._first_at, self._first_tried = (end, 0) if again else (-1, 0)

    def _prose(self, end: int) -> TextSpan:
        """Let go of the text up to `end`."""
        if self._place is not _IN_TEXT:
            self._move(PlaceStep.LEAVE)
        self._leftover_at = -1
        self._has_text = True
        start = self._buffer.base
        self._buffer.drop(end)
        return TextSpan(start, end)

    def _take(self, calls: tuple[RawCall, ...], name: str, end: int, weak: bool = False) -> CallSpan:
        self._candidate = None
        if calls:
            self.marks.called()
        self._limits.take(calls)
        start = self._buffer.base
        self._buffer.drop(end)
        self._pos = end
        self._markdown = Markdown()
        self._repeated.forget()
        self._move(PlaceStep.TAKE)
        return CallSpan(start, end, calls, name, weak)
