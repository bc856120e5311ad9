"""Where one raw value ends: which of the end tags behind its opening tag is its own.

The tags of the call's family are read one after the other, and each chain of end tags is judged where it stands. Of

    <parameter=new>
    Close it with </parameter> as usual.
    </parameter>
    </function>
    </tool_call>

the first `</parameter>` stands in the middle of a line, where this template writes none, so that it is text; the
second one begins a chain that closes all that is open.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TypeAlias

from proxy.formats.end_tag_chains import (
    Behind,
    Chain,
    EndTag,
    Level,
    Lines,
    Markup,
    inside_a_line,
    read_chain,
    spelled_as_opened,
)
from proxy.formats.raw_value_tags import SeenTags
from proxy.parsing.cursor import MAX_BLANKS, Cursor, Parsing, Truncated

TWO_WAYS = "its values can be read in two ways"
# What may stand behind a chain that a value shows.
_BEHIND_SHOWN = (Behind.OTHER, Behind.QUOTE)


@dataclass(frozen=True, slots=True)
class ValueEnd:
    """Where a value ends and where to read on; byte offsets of the reply.

    `chain` is where the chain that ends the value's call begins. `unended` if the value's end tag is missing, or may
    be. `behind` is where the chain ends if it closes the call and a wrapper as they were opened, else -1.
    """

    end: int
    resume: int
    chain: int
    unended: bool = False
    behind: int = -1


class Shown(Enum):
    """What of a chain a value shows, if the chain does not end it: reading goes on behind that."""

    CHAIN = auto()
    # The next tag of it begins a chain that is judged for itself.
    FIRST_TAG = auto()


Judgement: TypeAlias = ValueEnd | Shown


class ValueEnds:
    """Finds where one value ends, from the cursor's position behind its opening tag on.

    `others` are the keys that the call may still have, `own_line` says that the value begins on a line of its own
    behind its opening tag, `lines` how the call is written, and `call_end` is where the chain begins that ends the
    call, if an earlier value told (else -1).
    """

    def __init__(
        self, cursor: Cursor, markup: Markup, others: frozenset[str], lines: Lines, *, own_line: bool, call_end: int
    ) -> None:
        self._cursor = cursor
        self._markup = markup
        self._lines = lines
        self._own_line = own_line
        self._call_end = call_end
        self._start = cursor.pos
        self.seen = SeenTags(cursor, markup, others, lines, own_line=own_line)
        # The last end that could be the value's, and the first one without an end tag of the value behind whose
        # closers another call begins.
        self._last: ValueEnd | None = None
        self._next_call: ValueEnd | None = None
        # An end tag ended nothing, the value neither.
        self._stray = False
        # Another call began behind closers that ended what the value opened.
        self._passed_call = False

    def find(self) -> Parsing[ValueEnd]:
        """Read on to the end of the value, and behind it; Truncated if the reply ends and no end tag could be its."""
        while True:
            try:
                end = yield from self._next_tag()
            except Truncated:
                end = self._last_possible()
                if end is None:
                    raise
            if end is not None:
                return end

    def _next_tag(self) -> Parsing[ValueEnd | None]:
        """Read the next tag of the family; give where the value ends if that is known now."""
        cursor = self._cursor
        start, literal = yield from cursor.find(*self._markup.literals)
        cursor.pos = start
        mark = yield from cursor.maybe(self._markup.read(cursor))
        if mark is None:
            cursor.pos = start + len(literal)
            return None
        line_ended = cursor.breaks_line(self.seen.end, start)
        if line_ended:
            self.seen.end_line()
        if not mark.closing:
            yield from self.seen.read_opening(mark, start)
            return None
        if line_ended:
            self.seen.end_value()
        return (yield from self._read_end_tags(EndTag(mark, start, cursor.pos)))

    def _read_end_tags(self, first: EndTag) -> Parsing[ValueEnd | None]:
        """Judge the chain that begins with this end tag, and go on behind what of it is text."""
        cursor = self._cursor
        cursor.pos = first.start
        chain = yield from cursor.ahead(read_chain(cursor, self._markup))
        known = self._last
        judged = self._judge(chain)
        self.seen.end_value()
        cursor.pos = first.end if judged is Shown.FIRST_TAG else chain.end
        self.seen.end = cursor.pos
        if first.level is Level.VALUE and self._last is known:
            self.seen.last_end = first
        return judged if isinstance(judged, ValueEnd) else None

    def _judge(self, chain: Chain) -> Judgement:
        """What a chain of end tags is: the end of the value and what it closes, or a text that the value shows, and how
        much of it.
        """
        if self._cursor.void:
            return self._judge_void(chain)
        placed = self._is_placed(chain)
        self.seen.take_chain(placed=placed)
        if not placed:
            return self._judge_in_a_line(chain)
        return self._judge_placed(chain)

    def _judge_placed(self, chain: Chain) -> Judgement:
        """Judge a chain that stands where the template writes one, or that is known to end the call."""
        shows_keys = self.seen.names_keys
        self.seen.begin_chain()
        at = self.seen.first_unmatched(chain)
        if at is None:
            return self._judge_matched(chain)
        end = self._end_from(chain, at)
        if self._cursor.void:
            return self._void_end(chain, end)
        if chain.tags[at].level is Level.VALUE:
            return self._judge_value_end(chain, at, end)
        return self._judge_call_end(chain, at, end, shows_keys=shows_keys)

    def _is_placed(self, chain: Chain) -> bool:
        """Whether a chain stands where the template writes one."""
        if chain.start == self._call_end:
            return True
        if self._is_shown_beside(chain):
            return False
        if self._is_misplaced(chain):
            return False
        return not inside_a_line(self._cursor, chain, self._lines)

    def _is_shown_beside(self, chain: Chain) -> bool:
        """Whether the end tags of values belong to an opening tag in the middle of the same line, which is text.

        `Write <parameter=KEY>VALUE</parameter> for each key.`
        """
        if not self.seen.begun:
            return False
        if self.seen.placed:
            return False
        return chain.values_only

    def _is_misplaced(self, chain: Chain) -> bool:
        """Whether an end tag that stands on a line of its own, as the value does, should do so and does not.

        `x = 1  # up to </parameter> it goes on⏎` in a value that began on its own line.
        """
        if not self._own_line:
            return False
        if self.seen.begun:
            return False
        if chain.tags[0].level is not Level.VALUE:
            return False
        return not self._lines.own_line(self._cursor, chain.start)

    def _judge_in_a_line(self, chain: Chain) -> Shown:
        """Take a chain in the middle of a line, where the template writes none."""
        if self.seen.close_in_line(chain):
            return Shown.FIRST_TAG
        if self.seen.open:
            return Shown.FIRST_TAG
        known = self._last
        self._keep(chain, self._end_from(chain, 0))
        return Shown.FIRST_TAG if self._last is known else Shown.CHAIN

    def _judge_matched(self, chain: Chain) -> Judgement:
        """Judge a chain that closes nothing but what the value opened."""
        if self.seen.first is not None and self._ends_reply(chain):
            return self._end_from(chain, len(chain.tags))
        self._note_passed_call(chain)
        self._cursor.reject_if(chain.start == self._call_end, TWO_WAYS)
        return Shown.CHAIN

    def _judge_value_end(self, chain: Chain, at: int, end: ValueEnd) -> Judgement:
        """Judge a chain of which the tag number `at` is an end tag of a value that closes nothing in this one."""
        if chain.behind is Behind.ANOTHER_VALUE:
            return end
        if self._is_certain(chain, at):
            return end
        self._stray = True
        return self._show(chain, at, end)

    def _judge_call_end(self, chain: Chain, at: int, end: ValueEnd, *, shows_keys: bool) -> Judgement:
        """Judge a chain of which the tag number `at` closes the call or a wrapper: an end tag of the value is missing.

        `shows_keys`: tags of other keys were open in the value before this chain. Then it closes an example's call.
        """
        if self.seen.first is None:
            if shows_keys:
                self._note_passed_call(chain)
                return Shown.CHAIN
            if self._passed_call:
                self._cursor.reject_if(why=TWO_WAYS)
                return self._void_end(chain, end)
        if self._next_call is not None:
            return self._judge_before_next_call(chain, self._next_call, end)
        if end.unended and chain.behind is Behind.NEXT_CALL:
            self._next_call = end
        if self._is_certain(chain, at):
            return end
        return self._show(chain, at, end)

    def _is_certain(self, chain: Chain, at: int) -> bool:
        """Whether a chain is the end of the call beyond doubt: it has an end tag like the value's, closes all that is
        open, and is spelled as the opening tags were. What ends only wrappers, or no value, is it if nothing better
        comes.
        """
        if chain.start == self._call_end:
            return True
        if not self._ends_a_value(chain):
            return False
        if self._may_begin(chain):
            return False
        if chain.called and chain.tags[at].level is Level.WRAPPER:
            return False
        if not chain.closes_all:
            return False
        # Its own closers may still come.
        if chain.foreign and chain.behind is Behind.LINE_END:
            return False
        return spelled_as_opened(self._cursor, chain, self._lines)

    def _show(self, chain: Chain, at: int, end: ValueEnd) -> Shown:
        """Go on behind a chain; it is kept if it could be the end all the same.

        In front of prose, what ends something that the value opened is the end of an example.
        """
        if at == 0 or chain.behind is not Behind.OTHER:
            self._keep(chain, end)
        return Shown.CHAIN

    def _note_passed_call(self, chain: Chain) -> None:
        """Note that another call begins behind the end tag of one that the value shows."""
        if chain.behind is Behind.NEXT_CALL and chain.count(Level.CALL):
            self._passed_call = True

    def _ends_a_value(self, chain: Chain) -> bool:
        """Whether an end tag like the value's own is in a chain."""
        return any(self.seen.is_own(each) for each in chain.tags if each.level is Level.VALUE)

    def _may_begin(self, chain: Chain) -> bool:
        """Whether a value may begin with this chain: a template writes two line ends around an empty one.

        `<parameter=new>⏎⏎</parameter>` is the empty text; with one line end the end tag may be the text's first line.
        """
        if not self._own_line:
            return False
        if chain.start - self._start > MAX_BLANKS:
            return False
        before = self._cursor.text(self._start, chain.start)
        if before.strip():
            return False
        return before.count("\n") == 1

    def _judge_before_next_call(self, chain: Chain, before: ValueEnd, end: ValueEnd) -> Judgement:
        """Judge a chain behind a call whose value had no end tag and behind which another one began.

        A value that shows an end tag of its call, and the beginning of another one, has an end tag of its own; else it
        ended there: `<parameter=new>⏎a⏎</function>⏎<function=now>⏎</function>`.
        """
        self._cursor.reject_if(self._is_doubtful or not self._cursor.may_reread(), TWO_WAYS)
        return self._void_end(chain, end) if self._cursor.void else before

    @property
    def _is_doubtful(self) -> bool:
        """Whether the value's end tag may have stood there already."""
        if self._stray:
            return True
        return bool(self.seen.suspects)

    def _judge_void(self, chain: Chain) -> Judgement:
        """The same for what is no call: what was read of it may be gone, so that it is only looked at what follows."""
        at = self.seen.first_unmatched(chain)
        return Shown.CHAIN if at is None else self._void_end(chain, self._end_from(chain, at))

    def _void_end(self, chain: Chain, end: ValueEnd) -> Judgement:
        """Where a value of what is no call ends: a call that begins behind its end tag alone may be shown in it, and
        where two readings made it none, so may all that follows.
        """
        if self._cursor.evidence.why == TWO_WAYS:
            return Shown.CHAIN
        if chain.values_only:
            shown = chain.behind in (*_BEHIND_SHOWN, Behind.NEXT_CALL)
        else:
            shown = len(chain.tags) == 1 and chain.behind in _BEHIND_SHOWN
        return Shown.CHAIN if shown else end

    def _ends_reply(self, chain: Chain) -> bool:
        """Whether no tag but the values' is due, and the reply ends, or its turn.

        Beam writes neither an end tag of the call nor a wrapper: `<rfl:parameter …>…</rfl:parameter><|im_end|>`.
        """
        if chain.called:
            return False
        if self._cursor.context.enclosures:
            return False
        return chain.behind in (Behind.TURN_END, Behind.REPLY_END)

    def _keep(self, chain: Chain, end: ValueEnd) -> None:
        """Keep the end that a chain makes, if it could be the call's own.

        Where an end tag closed nothing and prose followed, prose may stand where another value was to begin: then the
        end tag of the last value is not taken for missing.
        """
        if end.unended and self._is_doubtful:
            return
        if not chain.may_close:
            return
        if chain.called and chain.wrappers_only:
            return
        if chain.count(Level.WRAPPER) and spelled_as_opened(self._cursor, chain, self._lines):
            end = replace(end, behind=chain.end)
        self._last = end

    def _end_from(self, chain: Chain, at: int) -> ValueEnd:
        """Where the value ends if the chain is the call's own from the tag number `at` on; the number of all tags if
        none of it is.
        """
        call_end = self._call_end if chain.behind is Behind.ANOTHER_VALUE else chain.start
        if at < len(chain.tags) and chain.tags[at].level is Level.VALUE:
            return _at_end_tag(chain.tags[at], call_end)
        first = self.seen.first
        if first is not None:
            self._cursor.reject_if(first.doubtful, TWO_WAYS)
        if self._cursor.void:
            return _without_end_tag(chain.start, call_end)
        if first is None:
            return self._end_at_call_end(chain, at, call_end)
        if first.after is not None:
            return _at_end_tag(first.after, call_end)
        return _without_end_tag(first.start, call_end)

    def _end_at_call_end(self, chain: Chain, at: int, call_end: int) -> ValueEnd:
        """Where the value ends if the tag number `at` is the first one that closes its call or a wrapper.

        The end tag directly before it is the value's, if it is like it, although it would close what the value shows:
        `<parameter=old>see <parameter=x></parameter></function>`.
        """
        values = [each for each in chain.tags[:at] if each.level is Level.VALUE]
        own = [each for each in values if self.seen.is_own(each)]
        if own:
            return _at_end_tag(own[-1], call_end)
        if values:
            return _without_end_tag(chain.tags[at].start, call_end)
        before = self.seen.own_end_before(chain.start)
        if before is not None:
            return _at_end_tag(before, call_end)
        return _without_end_tag(chain.start, call_end)

    def _last_possible(self) -> ValueEnd | None:
        """Where the value ends if nothing qualified up to the end of the reply.

        Of a reply that was cut off (contract C4) only prose behind whole closers on the same line is let by.
        """
        found = self._last
        if found is None:
            return None
        if self._cursor.void:
            return None
        if not self._cursor.stopped and not self._is_all(found):
            return None
        return found if self._cursor.may_reread() else None

    def _is_all(self, end: ValueEnd) -> bool:
        """Whether an end has an end tag, and no other tag came behind its closers."""
        if end.unended:
            return False
        return end.behind == self.seen.end


def _at_end_tag(found: EndTag, call_end: int) -> ValueEnd:
    return ValueEnd(found.start, found.end, call_end)


def _without_end_tag(position: int, call_end: int) -> ValueEnd:
    return ValueEnd(position, position, call_end, unended=True)
