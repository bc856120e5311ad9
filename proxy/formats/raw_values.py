"""Where a raw value ends: text between tags, which may show the tags of its own family.

An end tag ends the value only if the whole chain of end tags behind it is the call's own
(`formats/end_tag_chains.py`), or if the next
value begins behind it. Tags that were opened inside the value are closed by the chains that match them: examples of
whole calls are text. Where the value's end tag is missing, it ends before the opening tag of one of the tool's other
keys. If nothing qualifies up to the end of the reply, the last end tags that could be the call's own are.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from proxy.codec.json_text import Json
from proxy.formats.end_tag_chains import (
    FOREIGN,
    Behind,
    Chain,
    Level,
    Lines,
    Mark,
    Markup,
    inside_a_line,
    read_chain,
    spelled_as_opened,
)
from proxy.formats.nested_tags import OpenTags, Quotations, Quoted
from proxy.parsing.cursor import MAX_BLANKS, Cursor, Parsing, Truncated
from proxy.tools.schema_types import allowed_types
from proxy.tools.toolset import Tool

# How often in one call a value may end before another one that begins in it.
MAX_SPLITS = 16
_LINE_ENDS = (b"\n", b"\r\n")
_TRAILING = re.compile(r"\r?\n[ \t]*\Z")
_TWO_WAYS = "its values can be read in two ways"


@dataclass(frozen=True, slots=True)
class RawText:
    """The text of a value as it was written; `unended` if its end tag is missing, or may be."""

    text: str
    unended: bool = False


@dataclass(frozen=True, slots=True)
class _End:
    """Where a value ends and where to read on; `chain` is where the chain that ends its call begins. `behind` is where
    the chain ends if it closes the call and a wrapper as they were opened.
    """

    end: int
    resume: int
    chain: int
    unended: bool = False
    behind: int = -1


@dataclass(frozen=True, slots=True)
class _Opened:
    """Another key's opening tag in the value; `after` is the end tag directly before it, if one stands there.

    `doubtful`: what that one ends is a tag of another key in the middle of a line.
    """

    start: int
    after: tuple[int, int] | None
    doubtful: bool = False


@dataclass(slots=True)
class _Scan:
    """What was seen of a value so far.

    `open` are the tags opened where the template writes them, `shown` those in the middle of a line, which count only
    up to its end, `suspects` the keys of other values among these. `first` is the first opening tag of another key that
    could end the value. Of the last tag, `seen` is the end, `placed` whether it stood where the template writes it, and
    `begun` whether it began a value on this line. `ended` is the last end tag, `ended_own` whether it is like the
    value's own, `ended_other` whether it ended one of another key; `stray`: one ended nothing, the value neither.
    `last` is the last end that could be the value's, `next_call` the first one without an end tag of the value behind
    whose closers another call begins; `passed`: another call began behind closers that ended what the value opened.
    """

    start: int
    markup: Markup
    others: frozenset[str]
    own_line: bool
    seen: int
    quotations: Quotations
    suspects: set[str] = field(default_factory=set)
    open: OpenTags = field(default_factory=OpenTags)
    shown: OpenTags = field(default_factory=OpenTags)
    first: _Opened | None = None
    ended: tuple[int, int] | None = None
    last: _End | None = None
    next_call: _End | None = None
    passed: bool = False
    stray: bool = False
    ended_own: bool = False
    ended_other: bool = False
    placed: bool = True
    begun: bool = False


class RawValues:
    """Reads the raw values of one call of a tool.

    `call_lined`: its opening tag stands on a line of its own inside its wrapper; None if that says nothing.
    """

    def __init__(self, cursor: Cursor, tool: Tool, call_lined: bool | None = None) -> None:
        self._cursor = cursor
        self._tool = tool
        self._call_lined = call_lined
        self._lined: bool | None = None
        # The chain that ends the call, once that is known, and how many values ended before another one.
        self._decided = -1
        self._splits = 0
        # Whether the end tag of the last value is missing, or may be.
        self._doubted = False
        # Other keys whose opening tags stand inside a value, in the middle of a line.
        self._suspects: set[str] = set()

    def begins(self, start: int) -> None:
        """Say where the opening tag of a value stands: the first one tells how all are written."""
        if self._lined is None:
            # With nothing before it, it is not known.
            self._lined = self._cursor.begins_line(start) if start else None

    def read(
        self, markup: Markup, key: str, given: Collection[str], *, padded: bool = False
    ) -> Parsing[RawText]:
        """Read the value of a key and its end tag, if it has one. `padded`: a line end behind its opening tag, and then
        one before its end tag, belong to the markup.
        """
        cursor = self._cursor
        others = frozenset(self._tool.properties.keys() - {key} - set(given))
        own_line = padded and bool((yield from cursor.peek(_LINE_ENDS)))
        scan = _Scan(cursor.pos, markup, others, own_line, cursor.pos, Quotations(cursor.pos))
        end = None
        while end is None:
            try:
                end = yield from self._next(scan)
            except Truncated:
                end = self._last_end(scan)
                if end is None:
                    raise
        self._splits += scan.first is not None and end.end <= scan.first.start
        cursor.reject_if(self._splits > MAX_SPLITS, "too many end tags are missing")
        cursor.go_back(end.resume)
        self._decided = end.chain
        text = self._text(scan, end)
        # With two line ends the tag alone may be missing, or its line of a value that ends with a line end.
        twice = end.unended and own_line and self._lined is not False
        twice = twice and len(text) > 2 and bool(_TRAILING.search(text))
        cursor.reject_if(twice and self.is_text(key), _TWO_WAYS)
        if self.is_text(key) and not end.unended:
            again = yield from cursor.ahead(cursor.maybe(_ends_again(cursor, markup)))
            cursor.reject_if(bool(again), _TWO_WAYS)
        self._suspects |= scan.suspects
        return RawText(text, end.unended or bool(scan.suspects))

    def check(self, key: str, value: Json, read: RawText) -> None:
        """See to it that a value is what its key wants, if the end tag of it or of the one before is missing."""
        wrong = isinstance(value, str) and not self.is_text(key)
        self._cursor.reject_if(wrong and (self._doubted or read.unended), "an end tag is missing, and no value fits")
        self._doubted = read.unended

    def finish(self, given: Collection[str]) -> None:
        """Say that the call has no more values.

        If a required key never came, but its opening tag stands in the middle of a line of a value, that one's end tag
        may be what is missing.
        """
        lost = self._suspects & self._tool.required - set(given)
        self._cursor.reject_if(bool(lost), "a value may lack its end tag")

    def is_text(self, key: str) -> bool:
        """Whether the value of a key may be a text."""
        return "string" in allowed_types(self._tool.properties.get(key), self._tool.schema)

    def _next(self, scan: _Scan) -> Parsing[_End | None]:
        """Read the next tag of the family; give where the value ends if that is known now."""
        cursor = self._cursor
        start, literal = yield from cursor.find(*scan.markup.literals)
        cursor.pos = start
        mark = yield from cursor.maybe(scan.markup.read(cursor))
        if mark is None:
            cursor.pos = start + len(literal)
            return None
        same_line = not cursor.breaks_line(scan.seen, start)
        if not same_line and not scan.markup.anywhere:
            scan.suspects |= scan.shown.clear()
        if not mark.closing:
            yield from self._open(scan, mark, start)
            scan.seen = cursor.pos
            return None
        first_end = cursor.pos
        cursor.pos = start
        chain = yield from cursor.ahead(read_chain(cursor, scan.markup))
        before = scan.last
        scan.begun = scan.begun and same_line
        end, whole = self._judge(scan, chain)
        scan.begun = False
        cursor.pos = chain.end if whole else first_end
        scan.seen = cursor.pos
        if mark.level is Level.VALUE and scan.last is before:
            scan.ended = (start, first_end)
            scan.ended_own = scan.markup.may_end(mark)
        return end

    def _open(self, scan: _Scan, mark: Mark, start: int) -> Parsing[None]:
        """Take an opening tag inside the value."""
        cursor = self._cursor
        # A value that begins on a line of its own behind its opening tag, wherever that stands, is one like this.
        alike = scan.own_line and mark.level is Level.VALUE and bool((yield from cursor.peek(_LINE_ENDS)))
        placed = self._is_placed(scan, mark, start)
        scan.placed = scan.placed if scan.seen == start else placed or (alike and not self._lined)
        scan.begun = mark.level is Level.VALUE
        seen_alone = not scan.open and (not scan.shown if scan.markup.anywhere else scan.placed)
        own = mark.key in scan.others
        quoted = (yield from scan.quotations.around(cursor, start)) if own else Quoted.NO
        own = own and quoted is not Quoted.YES
        if own and quoted is Quoted.NO and scan.first is None and seen_alone:
            ended = self._ended_before(scan, start)
            doubtful = (scan.ended_other and ended is not None) or mark.key in scan.markup.inner
            scan.first = _Opened(start, ended if scan.ended_own else None, doubtful)
        mark = mark if own else replace(mark, key="")
        (scan.open if scan.placed else scan.shown).push(mark)

    def _is_placed(self, scan: _Scan, mark: Mark, start: int) -> bool:
        """Whether an opening tag stands where the template writes one like it."""
        lined = scan.own_line or self._lined
        if mark.level is not Level.VALUE:
            lined = lined or bool(self._call_lined)
        return self._cursor.void or not lined or self._cursor.begins_line(start)

    def _ended_before(self, scan: _Scan, position: int) -> tuple[int, int] | None:
        """The value's own end tag, if nothing but blanks stands between it and a position."""
        if scan.ended is None or position - scan.ended[1] > MAX_BLANKS:
            return None
        return scan.ended if not self._cursor.text(scan.ended[1], position).strip() else None

    def _judge(self, scan: _Scan, chain: Chain) -> tuple[_End | None, bool]:
        """Where the value ends if this chain says so, and whether all of the chain is done with."""
        cursor = self._cursor
        if cursor.void:
            return self._judge_void(scan, chain), True
        lines = Lines(self._lined, self._call_lined)
        decided = chain.start == self._decided
        first = chain.marks[0][0]
        # An end tag on the line of the last opening tag is that one's.
        misplaced = scan.own_line and first.level is Level.VALUE and not scan.begun
        misplaced = misplaced and not cursor.begins_line(chain.start)
        values_only = chain.marks[-1][0].level is Level.VALUE
        shown = scan.begun and not scan.placed and values_only
        scan.placed = decided or not (shown or misplaced or inside_a_line(cursor, chain, lines))
        if not scan.placed:
            return None, self._in_a_line(scan, chain)
        named = scan.open.named + scan.shown.named
        scan.ended_other = False
        at = self._unmatched(scan, chain)
        if at is None and scan.first is not None and self._ends_reply(chain):
            return self._end(scan, chain, len(chain.marks)), True
        if at is None:
            scan.passed = scan.passed or self._passes_a_call(chain)
            cursor.reject_if(decided, _TWO_WAYS)
            return None, True
        end = self._end(scan, chain, at)
        if self._cursor.void:
            return self._void_end(chain, end), True
        mark = chain.marks[at][0]
        if mark.level is Level.VALUE and chain.behind is Behind.ANOTHER_VALUE:
            return end, True
        if mark.level is not Level.VALUE and scan.first is None and named:
            scan.passed = scan.passed or self._passes_a_call(chain)
            return None, True
        if mark.level is not Level.VALUE and scan.first is None and scan.passed:
            cursor.reject_if(why=_TWO_WAYS)
            return self._void_end(chain, end), True
        if mark.level is not Level.VALUE and scan.next_call is not None:
            return self._before_next_call(scan) or self._void_end(chain, end), True
        if end.unended and chain.behind is Behind.NEXT_CALL:
            scan.next_call = end
        # What ends only wrappers, or no value, is the call's end if nothing better comes.
        plain = self._ends_a_value(scan, chain) and not (chain.called and mark.level is Level.WRAPPER)
        plain = plain and not self._may_begin(scan, chain)
        if decided or (plain and chain.closes_all and spelled_as_opened(cursor, chain, lines)):
            return end, True
        scan.stray = scan.stray or mark.level is Level.VALUE
        # In front of prose, what ends something that the value opened is the end of an example.
        if at == 0 or chain.behind is not Behind.OTHER:
            self._keep(scan, chain, end)
        return None, True

    @staticmethod
    def _passes_a_call(chain: Chain) -> bool:
        """Whether another call begins behind the end tag of one."""
        return chain.behind is Behind.NEXT_CALL and chain.count(Level.CALL) > 0

    def _ends_a_value(self, scan: _Scan, chain: Chain) -> bool:
        """Whether an end tag like the value's own is in a chain."""
        return any(mark.level is Level.VALUE and scan.markup.may_end(mark) for mark, _, _ in chain.marks)

    def _may_begin(self, scan: _Scan, chain: Chain) -> bool:
        """Whether a value may begin with this chain: a template writes two line ends around an empty one."""
        if not scan.own_line or chain.start - scan.start > MAX_BLANKS:
            return False
        before = self._cursor.text(scan.start, chain.start)
        return before.count("\n") == 1 and not before.strip()

    def _before_next_call(self, scan: _Scan) -> _End | None:
        """Where the value ends if its end tag is missing and another call begins behind its call's own.

        A value that shows an end tag of its call, and the beginning of another one, has an end tag of its own.
        """
        known = scan.next_call is not None and not scan.stray and not scan.suspects
        self._cursor.reject_if(not known or not self._cursor.may_reread(), _TWO_WAYS)
        return None if self._cursor.void else scan.next_call

    def _judge_void(self, scan: _Scan, chain: Chain) -> _End | None:
        """The same for what is no call: what was read of it may be gone, so that it is only looked at what follows."""
        at = self._unmatched(scan, chain)
        return None if at is None else self._void_end(chain, self._end(scan, chain, at))

    @staticmethod
    def _void_end(chain: Chain, end: _End) -> _End | None:
        """Where a value of what is no call ends: a call that begins behind its end tag alone may be shown in it."""
        values_only = chain.marks[-1][0].level is Level.VALUE
        shown = (Behind.OTHER, Behind.QUOTE, *((Behind.NEXT_CALL,) if values_only else ()))
        follows = chain.behind not in shown or (len(chain.marks) > 1 and not values_only)
        return end if follows else None

    def _ends_reply(self, chain: Chain) -> bool:
        """Whether no tag but the values' is due, and the reply ends, or its turn (Beam)."""
        due = chain.called or self._cursor.enclosures
        return not due and chain.behind in (Behind.TURN_END, Behind.REPLY_END)

    def _in_a_line(self, scan: _Scan, chain: Chain) -> bool:
        """Take a chain in the middle of a line, where the template writes none; whether all of it is done with."""
        opened = [scan.shown.close(mark) for mark, _, _ in chain.marks]
        scan.ended_other = opened[0] is not None and bool(opened[0].key)
        if scan.open or opened[0] is not None:
            return False
        before = scan.last
        self._keep(scan, chain, self._end(scan, chain, 0))
        return scan.last is not before

    def _keep(self, scan: _Scan, chain: Chain, end: _End) -> None:
        """Keep the end that a chain makes, if it could be the call's own.

        Where an end tag closed nothing and prose followed, prose may stand where another value was to begin: then the
        end tag of the last value is not taken for missing.
        """
        if end.unended and (scan.stray or scan.suspects):
            return
        if chain.may_close and (chain.count(Level.VALUE) or chain.count(Level.CALL) or not chain.called):
            lines = Lines(self._lined, self._call_lined)
            firm = chain.count(Level.WRAPPER) > 0 and spelled_as_opened(self._cursor, chain, lines)
            scan.last = replace(end, behind=chain.end if firm else -1)

    def _unmatched(self, scan: _Scan, chain: Chain) -> int | None:
        """The first tag of a chain that closes nothing inside the value, by its place in the chain."""
        orphans = chain.called and not self._cursor.enclosures
        for number, (mark, _, _) in enumerate(chain.marks):
            if mark.kind == FOREIGN or (orphans and mark.level is Level.WRAPPER):
                continue
            opened = scan.shown.close(mark) or scan.open.close(mark)
            if opened is not None:
                scan.ended_other = bool(opened.key)
            elif scan.markup.may_end(mark):
                return number
        return None

    def _end(self, scan: _Scan, chain: Chain, at: int) -> _End:
        """Where the value ends if the chain is the call's own from this tag of it on."""
        call_ends = chain.start if chain.behind is not Behind.ANOTHER_VALUE else self._decided
        mark, start, end = chain.marks[min(at, len(chain.marks) - 1)]
        if mark.level is Level.VALUE and at < len(chain.marks):
            return _End(start, end, call_ends)
        self._cursor.reject_if(scan.first is not None and scan.first.doubtful, _TWO_WAYS)
        if self._cursor.void:
            return _End(chain.start, chain.start, call_ends, unended=True)
        if scan.first is not None and scan.first.after is not None:
            return _End(*scan.first.after, call_ends)
        if scan.first is not None:
            return _End(scan.first.start, scan.first.start, call_ends, unended=True)
        values = [place for place in chain.marks[:at] if place[0].level is Level.VALUE]
        inner = [place for place in values if scan.markup.may_end(place[0])]
        if inner:
            return _End(inner[-1][1], inner[-1][2], call_ends)
        if values:
            return _End(start, start, call_ends, unended=True)
        ended = self._ended_before(scan, chain.start) if scan.ended_own else None
        return _End(*ended, call_ends) if ended else _End(chain.start, chain.start, call_ends, unended=True)

    def _last_end(self, scan: _Scan) -> _End | None:
        """Where the value ends if nothing qualified up to the end of the reply.

        Of a reply that was cut off (contract C4) only prose behind whole closers on the same line is let by.
        """
        cursor = self._cursor
        if scan.last is None or cursor.void:
            return None
        if not cursor.stopped and (scan.last.unended or scan.last.behind != scan.seen):
            return None
        return scan.last if cursor.may_reread() else None

    def _text(self, scan: _Scan, end: _End) -> str:
        """The text of the value, without the line end of the markup before a missing end tag."""
        text = self._cursor.text(scan.start, end.end)
        if not end.unended or self._lined is False:
            return text
        return _TRAILING.sub("", text)


def _ends_again(cursor: Cursor, markup: Markup) -> Parsing[bool]:
    """Whether another end tag of the value stands here: then the one before may be the end of its text."""
    yield from cursor.blanks()
    mark = yield from markup.read(cursor)
    return mark is not None and mark.closing and mark.level is Level.VALUE and markup.may_end(mark)
