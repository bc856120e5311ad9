"""The tags that a raw value shows, as far as it was read: what they open, close and name.

    <parameter=old>
    call(<parameter=x>1</parameter>)
    <parameter=new>

The first tag inside stands in the middle of a line, where this template writes none: it counts up to the end of the
line. The second one may be the next value's, if the end tag of this one is missing.
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.formats.end_tag_chains import FOREIGN, Chain, EndTag, Level, Lines, Mark, Markup
from proxy.formats.nested_tags import OpenTags, Quotations, Quoted
from proxy.formats.seen_tag_states import (
    BEGUN,
    INNER_VALUES,
    LAST_TAGS,
    PLACED,
    InnerStep,
    InnerValues,
    LastTag,
    TagStep,
)
from proxy.parsing.cursor import MAX_BLANKS, Cursor, Parsing
from proxy.tools.key_spelling import respelled
from proxy.transitions import next_state

LINE_ENDS = (b"\n", b"\r\n")


@dataclass(frozen=True, slots=True)
class OtherKey:
    """Another key's opening tag in the value; `after` is the value's end tag directly before it, if one stands there.

    `doubtful`: what stands before it ends a value of another key in the middle of a line, or it is a key of an object
    inside the value.
    """

    start: int
    after: EndTag | None
    doubtful: bool = False


class SeenTags:
    """The tags seen in a value that begins at the cursor's position.

    `others` are the keys that the call may still have, `own_line` says that the value begins on a line of its own
    behind its opening tag, and `lines` how the call is written.

    `end` is where the last tag ends (its state: formats/seen_tag_states.py).
    """

    def __init__(
        self, cursor: Cursor, markup: Markup, others: frozenset[str], lines: Lines, *, own_line: bool
    ) -> None:
        self._cursor = cursor
        self._markup = markup
        self._others = others
        self._lines = lines
        self._own_line = own_line
        # What the keys of opening tags were found to mean.
        self._spellings: dict[str, str] = {}
        self._quotations = Quotations(cursor.pos)
        self.end = cursor.pos
        self._last = LastTag.PLACED
        self._inner = InnerValues.NONE
        # The first opening tag of another key that could end the value.
        self.first: OtherKey | None = None
        # Keys of other values whose opening tags stand in the middle of a line.
        self.suspects: set[str] = set()
        # Keys, the value's own among them, whose opening tags stand in nothing that the value shows.
        self.keys: set[str] = set()
        # Whether the opening tag of another key stands in quotation marks: `say "<parameter=new>"`.
        self.quotes_key = False
        # Tags opened where the template writes them, and those in the middle of a line, which count up to its end.
        self.open = OpenTags()
        self.in_line = OpenTags()
        # The last end tag of a value that was text, and whether one ended a value of another key.
        self.last_end: EndTag | None = None
        self.ended_other = False

    @property
    def placed(self) -> bool:
        """Whether the last tag stood where the template writes one like it."""
        return self._last in PLACED

    @property
    def begun(self) -> bool:
        """Whether the last tag began a value on this line."""
        return self._last in BEGUN

    @property
    def begins_value(self) -> bool:
        """Whether a value begins in it, wherever that stands."""
        return self._inner is not InnerValues.NONE

    @property
    def shows_value(self) -> bool:
        """Whether the value of a key that cannot follow begins in it where the template writes one."""
        return self._inner is InnerValues.UNDECLARED

    def end_value(self) -> None:
        """The line of the last tag is over, or what it began is: it begins no value on this line."""
        self._last = next_state(LAST_TAGS, self._last, TagStep.END_VALUE)

    def take_chain(self, *, placed: bool) -> None:
        """A chain of end tags is the last that was read; `placed` says whether the template writes one there."""
        self._last = next_state(LAST_TAGS, self._last, TagStep.TAKE_PLACED if placed else TagStep.TAKE_IN_LINE)

    def _take_opening(self, mark: Mark, *, placed: bool) -> None:
        """The same for an opening tag."""
        if mark.level is not Level.VALUE:
            step = TagStep.TAKE_PLACED if placed else TagStep.TAKE_IN_LINE
        else:
            step = TagStep.BEGIN_PLACED if placed else TagStep.BEGIN_IN_LINE
            self._inner = next_state(INNER_VALUES, self._inner, InnerStep.BEGIN)
        self._last = next_state(LAST_TAGS, self._last, step)

    @property
    def names_keys(self) -> bool:
        """Whether a tag is open that names another key."""
        return self.open.named + self.in_line.named > 0

    def end_line(self) -> None:
        """Forget what was opened in the middle of a line that is over.

        `<parameter=old>x <parameter=new> y⏎` shows a tag, or lacks the end tag before it: `new` is a suspect.
        """
        if not self._markup.anywhere:
            self.suspects |= self.in_line.clear()

    def read_opening(self, mark: Mark, start: int) -> Parsing[None]:
        """Take an opening tag inside the value, which was just read."""
        placed = self.placed
        if self.end != start:
            placed = yield from self._stands_as_written(mark, start)
        mark = mark.with_key(self._meant(mark.key))
        self._take_opening(mark, placed=placed)
        alone = self._is_alone()
        if alone and self._begins_undeclared(mark):
            self._inner = next_state(INNER_VALUES, self._inner, InnerStep.BEGIN_UNDECLARED)
        # The keys that count are the value's own and those that may follow; any other may as well be quoted.
        quoted = Quoted.YES
        if mark.key == self._markup.key or mark.key in self._others:
            quoted = yield from self._quotations.around(self._cursor, start)
        if alone:
            self._note_key(mark, start, quoted)
        if mark.key and (quoted is Quoted.YES or mark.key not in self._others):
            # It cannot end the value, so that its key says nothing.
            mark = mark.with_key("")
        opened = self.open if self.placed else self.in_line
        opened.push(mark)
        self.end = self._cursor.pos

    def _meant(self, key: str) -> str:
        """The other key that a tag's key is another spelling of, if it is; else the key itself."""
        if key == self._markup.key:
            return key
        known = self._spellings.get(key)
        if known is None:
            known = respelled(key, self._others) or key
            self._spellings[key] = known
        return known

    def _begins_undeclared(self, mark: Mark) -> bool:
        """Whether an opening tag that was read last begins a value, in front of the one that may be next, of a key that
        cannot follow: `<parameter=old>⏎a⏎<parameter=KEY>⏎b⏎</parameter>`.
        """
        if self._last is not LastTag.VALUE_PLACED:
            return False
        if self.first is not None:
            return False
        return mark.key not in self._others and mark.key != self._markup.key

    def _note_key(self, mark: Mark, start: int, quoted: Quoted) -> None:
        """Note the key of an opening tag that stands in nothing that the value shows."""
        if quoted is Quoted.YES:
            self.quotes_key |= mark.key in self._others
            return
        self.keys.add(mark.key)
        if quoted is Quoted.NO and mark.key in self._others:
            self._note_other_key(mark, start)

    def _begins_alike(self) -> Parsing[bool]:
        """Whether a value begins on a line of its own behind this opening tag, as this one does.

        Where the lines of the opening tags say nothing, such a tag is one like this value's, wherever it stands.
        """
        if (yield from self._cursor.peek(LINE_ENDS)) is None:
            return False
        return not self._lines.values

    def _stands_as_written(self, mark: Mark, start: int) -> Parsing[bool]:
        """Whether an opening tag stands where the template writes one like it."""
        of_a_value = mark.level is Level.VALUE
        if of_a_value and self._own_line and (yield from self._begins_alike()):
            return True
        if self._cursor.void:
            return True
        wanted = [self._own_line, self._lines.values]
        if not of_a_value:
            wanted.append(self._lines.call)
        return self._cursor.begins_line(start) if any(wanted) else True

    def _is_alone(self) -> bool:
        """Whether an opening tag that was read last stands in nothing that the value shows."""
        if self.open:
            return False
        return not self.in_line if self._markup.anywhere else self.placed

    def _note_other_key(self, mark: Mark, start: int) -> None:
        """Note the opening tag of another key: without an end tag of its own, the value ends there.

        `<parameter=path>⏎a.py⏎<parameter=old>⏎…`
        """
        if self.first is not None:
            return
        doubtful = mark.key in self._markup.inner
        if self.end_tag_before(start) is not None:
            doubtful |= self.ended_other
        self.first = OtherKey(start, self.own_end_before(start), doubtful)

    def own_end_before(self, position: int) -> EndTag | None:
        """The last end tag, if it is like the value's own, and nothing but blanks stands between it and a position."""
        found = self.end_tag_before(position)
        if found is None:
            return None
        return found if self.is_own(found) else None

    def end_tag_before(self, position: int) -> EndTag | None:
        """The last end tag of a value, if nothing but blanks stands between it and a position."""
        found = self.last_end
        if found is None:
            return None
        if position - found.end > MAX_BLANKS:
            return None
        return None if self._cursor.text(found.end, position).strip() else found

    def is_own(self, found: EndTag) -> bool:
        """Whether an end tag is like the value's own."""
        return self._markup.may_end(found.mark)

    def close_in_line(self, chain: Chain) -> bool:
        """Close what end tags in the middle of a line do; whether the first one closed a tag on this line."""
        opened = [self.in_line.close(each.mark) for each in chain.tags]
        first = opened[0]
        if first is None:
            self.ended_other = False
            return False
        self.ended_other = bool(first.key)
        return True

    def begin_chain(self) -> None:
        """No end tag of the next chain has ended a value of another key yet."""
        self.ended_other = False

    def first_unmatched(self, chain: Chain) -> int | None:
        """The first tag of a chain that closes nothing inside the value, by its place in the chain."""
        # End tags of wrappers that were never opened: `</function></tool_call>` without `<tool_call>`.
        orphans = Level.WRAPPER if chain.called else None
        if self._cursor.context.enclosures:
            orphans = None
        for number, each in enumerate(chain.tags):
            if each.mark.kind == FOREIGN:
                continue
            if each.level is orphans:
                continue
            opened = self.in_line.close(each.mark) or self.open.close(each.mark)
            if opened is not None:
                self.ended_other = bool(opened.key)
            elif self.is_own(each):
                return number
        return None
