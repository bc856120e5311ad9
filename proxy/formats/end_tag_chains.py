"""The end tags that stand behind each other where a raw value may end, and whether they end it.

    </parameter>
    </function>
    </tool_call>

is such a chain, and so is `</parameter></function>`, or `</arg_value></tool_call>` of GLM. A value may show one itself.
It is the call's own if it closes all that is open, is spelled as the opening tags were (on lines of their own or not),
and is followed by what can follow a call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from proxy.formats.markers import MARKER_CLOSERS, MARKER_OPENERS, WRAPPER_KINDS
from proxy.formats.terminators import CALL_KINDS, TURN_ENDS, VALUE_KINDS, blanks, closes, turn_ends
from proxy.formats.xml_tags import NO_TAG, tag, tag_ahead
from proxy.parsing.cursor import Cursor, Literals, NotACall, Parsing
from proxy.transitions import QuickEnum

# End tags of one chain that are looked at.
MAX_CHAIN = 8
_MAX_SPACES = 64
_NOT_SPACE = re.compile(rb"[^ \t]")
_OBJECTS = (b'{"',)
_QUOTES = (b'"', b"'", b"`", b"\\")
_CLOSERS = Literals(MARKER_CLOSERS)
FENCE = b"`"
BLANKS = (b" ", b"\t")
# End tags of these kinds close a call, or all of its values.
_IN_CALL = CALL_KINDS | {"Parameters"}
_OPENING_KINDS = CALL_KINDS | WRAPPER_KINDS
# An end tag of a kind that is not the call's own.
FOREIGN = "foreign"


class Level(QuickEnum):
    """What a tag belongs to, from the inside out."""

    VALUE = auto()
    CALL = auto()
    WRAPPER = auto()


@dataclass(frozen=True, slots=True)
class Mark:
    """A tag of the call's own family: an opening or a closing one.

    `kind` is alike in an opening tag and in its end tag; `key` is the one that a value's opening tag names.
    """

    level: Level
    closing: bool
    kind: str = ""
    key: str = ""

    def with_key(self, key: str) -> Mark:
        """The same with this key; itself if it has that."""
        return self if key == self.key else Mark(self.level, self.closing, self.kind, key)


@dataclass(frozen=True, slots=True)
class Markup:
    """How a family writes its values.

    `literals` are the beginnings of its tags, `read` reads the one that stands here, and `another` tells whether the
    next value begins here. `called`: the call has an end tag of its own inside its wrapper. `anywhere`: opening tags
    need not stand at the start of a line. `own` is the kind of the value's own end tag, where that names the key;
    `inner` are the keys that may also be of the value's own object. `key` is the key of the value that is read.
    """

    literals: tuple[bytes, ...]
    read: Callable[[Cursor], Parsing[Mark | None]]
    another: Callable[[Cursor], Parsing[bool]]
    called: bool = True
    anywhere: bool = False
    own: str | None = None
    inner: frozenset[str] = frozenset()
    key: str = ""

    def may_end(self, mark: Mark) -> bool:
        """Whether an end tag that closes nothing inside the value can end it, or what is around it."""
        if mark.level is not Level.VALUE:
            return True
        if self.own is None:
            return True
        return mark.kind == self.own


@dataclass(frozen=True, slots=True)
class EndTag:
    """An end tag, and where it begins and ends."""

    mark: Mark
    start: int
    end: int

    @property
    def level(self) -> Level:
        """What it belongs to."""
        return self.mark.level


class Behind(Enum):
    """What stands behind a chain."""

    # `</parameter>⏎<parameter=new>`
    ANOTHER_VALUE = auto()
    # `</function>⏎<function=now>`, or what begins a wrapper
    NEXT_CALL = auto()
    # a line end behind all closers; what stands on the next line is not awaited
    LINE_END = auto()
    # `<|im_end|>`
    TURN_END = auto()
    REPLY_END = auto()
    # a quotation mark or a backslash: the chain is shown, `"…</tool_call>\n"`
    QUOTE = auto()
    OTHER = auto()


_REPLY_OVER = (Behind.TURN_END, Behind.REPLY_END)
_OVER_UNCLOSED = (Behind.NEXT_CALL, *_REPLY_OVER)
_OVER = (Behind.LINE_END, *_OVER_UNCLOSED)


@dataclass(frozen=True, slots=True)
class Lines:
    """Which opening tags of the call stand on lines of their own: the end tags do as well. None: it is not known.

    Where the first value's is not `indented`, no end tag on a line of its own is: such ones are text.
    """

    values: bool | None
    call: bool | None
    indented: bool = False

    def own_line(self, cursor: Cursor, position: int) -> bool:
        """Whether an end tag at a position stands on a line of its own, as the call's do."""
        if not cursor.begins_line(position):
            return False
        return self.indented or cursor.preceding(position) not in BLANKS


@dataclass(frozen=True, slots=True)
class Chain:
    """End tags that stand behind each other, from the inside out, one at least; and what stands behind them.

    `due` is how many closers of wrappers the call needs; `called` says that it has an end tag of its own, too.
    """

    tags: tuple[EndTag, ...]
    behind: Behind
    due: int
    called: bool

    @property
    def start(self) -> int:
        """Where it begins."""
        return self.tags[0].start

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.tags[-1].end

    @property
    def values_only(self) -> bool:
        """Whether no tag of it closes a call or a wrapper."""
        return self.tags[-1].level is Level.VALUE

    @property
    def wrappers_only(self) -> bool:
        """Whether no tag of it closes a value or a call."""
        return self.tags[0].level is Level.WRAPPER

    def count(self, level: Level) -> int:
        """How many tags of this level are in it."""
        return sum(each.level is level for each in self.tags)

    @property
    def foreign(self) -> bool:
        """Whether a tag of it is of another family."""
        return any(each.mark.kind == FOREIGN for each in self.tags)

    @property
    def closes_all(self) -> bool:
        """Whether all that is open is closed, and what can follow a call follows."""
        return self.behind in self._followers()

    def _followers(self) -> tuple[Behind, ...]:
        """What may follow if the chain is the end of the call; nothing if it cannot be."""
        calls = [each for each in self.tags if each.level is Level.CALL]
        if any(each.mark.kind == FOREIGN for each in calls):
            return ()
        if self.values_only:
            return _REPLY_OVER
        if self.called and not calls:
            return ()
        return _OVER if self.count(Level.WRAPPER) >= self.due else _OVER_UNCLOSED

    @property
    def may_close(self) -> bool:
        """Whether it could be the end of the call if no better one comes."""
        if self.behind is Behind.QUOTE:
            return False
        if self.behind in _OVER_UNCLOSED:
            return True
        if self.count(Level.WRAPPER):
            return True
        if self.due:
            return False
        return self.count(Level.CALL) > 0


def wrapper_marks(cursor: Cursor, ends: tuple[bytes, ...] = (b"</tool_call>",)) -> dict[bytes, Mark]:
    """What the tags of the wrappers that are open are; those of `<tool_call>`, spelled like `ends`, if none is."""
    open_ = cursor.context.enclosures
    wrappers = [(each.opener, each.closers) for each in open_ if not each.opener.startswith(FENCE)]
    if not wrappers:
        wrappers = [(end.replace(b"</", b"<"), (end,)) for end in ends]
    marks: dict[bytes, Mark] = {}
    for opener, closers in wrappers:
        kind = closers[0].decode()
        marks[opener] = Mark(Level.WRAPPER, False, kind)
        marks |= {closer: Mark(Level.WRAPPER, True, kind) for closer in closers}
    return marks


class KnownTags:
    """Tags that are always written alike, and what each of them is."""

    def __init__(self, marks: Mapping[bytes, Mark]) -> None:
        self._marks = marks
        self._table = Literals(marks)

    def read(self, cursor: Cursor) -> Parsing[Mark | None]:
        """Read one that stands here."""
        found = yield from cursor.which(self._table)
        return self._marks[found] if found else None


def read_chain(cursor: Cursor, markup: Markup) -> Parsing[Chain]:
    """Read the end tags that stand here, one at least."""
    due = len(cursor.context.enclosures)
    tags = yield from _end_tags(cursor, markup, due)
    found = Chain(tags, Behind.OTHER, due, markup.called)
    behind = yield from _behind_chain(cursor, markup, found)
    return replace(found, behind=behind)


def _end_tags(cursor: Cursor, markup: Markup, due: int) -> Parsing[tuple[EndTag, ...]]:
    """Read end tags of which each one closes what is around the one before: in `</function></parameter>` the second
    one begins another chain.
    """
    tags: list[EndTag] = []
    outermost = Level.VALUE.value
    while len(tags) < MAX_CHAIN:
        resume = cursor.pos
        if (yield from cursor.maybe(_between(cursor, _is_complete(tags, markup, due)))) is None:
            break
        start = cursor.pos
        mark = yield from _closing(cursor, markup)
        if mark is None or mark.level.value < outermost:
            cursor.pos = resume
            break
        outermost = mark.level.value
        tags.append(EndTag(mark, start, cursor.pos))
    return tuple(tags)


def _is_complete(tags: list[EndTag], markup: Markup, due: int) -> bool:
    """Whether these end tags close all that must be closed. Without a wrapper it is not known what comes."""
    levels = [each.level for each in tags]
    if markup.called and Level.CALL not in levels:
        return False
    return levels.count(Level.WRAPPER) >= due > 0


def _behind_chain(cursor: Cursor, markup: Markup, chain: Chain) -> Parsing[Behind]:
    """What stands behind a chain that was just read."""
    if chain.values_only:
        if (yield from cursor.ahead(cursor.maybe(_another(cursor, markup)))):
            return Behind.ANOTHER_VALUE
        behind = yield from cursor.ahead(_behind(cursor, markup, all_closed=False))
        if behind is not Behind.REPLY_END:
            return behind
        # Else the value was cut off.
        return behind if cursor.stopped else Behind.OTHER
    all_closed = chain.count(Level.WRAPPER) >= chain.due
    return (yield from cursor.ahead(_behind(cursor, markup, all_closed)))


def _between(cursor: Cursor, whole: bool) -> Parsing[bool]:
    """Read what may stand between two end tags: blanks. Behind all that are due it is no line end: what stands on the
    next line need not be awaited.
    """
    if not whole:
        return (yield from blanks(cursor))
    yield from cursor.until(_NOT_SPACE, _MAX_SPACES)
    return (yield from cursor.byte()) not in (b"\r", b"\n")


def spelled_as_opened(cursor: Cursor, chain: Chain, lines: Lines) -> bool:
    """Whether the end tags stand on lines of their own exactly where the opening ones did."""
    if inside_a_line(cursor, chain, lines):
        return False
    wanted = _wanted(cursor, chain, lines)
    return not any(cursor.begins_line(each.start) for each, want in wanted if want is False)


def inside_a_line(cursor: Cursor, chain: Chain, lines: Lines) -> bool:
    """Whether an end tag that should stand on a line of its own does not."""
    wanted = _wanted(cursor, chain, lines)
    return any(not lines.own_line(cursor, each.start) for each, want in wanted if want)


def _wanted(cursor: Cursor, chain: Chain, lines: Lines) -> list[tuple[EndTag, bool | None]]:
    """Each end tag of a call or wrapper, and whether it must stand on a line of its own, if that is known.

    What stands inside something begins on a line exactly if the end tag around it does: before
    `</function>⏎</tool_call>` stood `<tool_call>⏎<function=NAME>⏎<parameter=KEY>`.
    """
    calls = [each for each in chain.tags if each.level is Level.CALL][:1]
    wrappers = [each for each in chain.tags if each.level is Level.WRAPPER]
    inner = [lines.values]
    if chain.called:
        inner.append(lines.call)
    inner += [enclosure.lined for enclosure in reversed(cursor.context.enclosures[1:])]
    if chain.called and not calls:
        # The call's own end tag is missing, for which the values would tell.
        del inner[0]
    inner += [None] * len(chain.tags)
    return list(zip(calls + wrappers, inner, strict=False))


def _closing(cursor: Cursor, markup: Markup) -> Parsing[Mark | None]:
    """Read the end tag that stands here, of whatever kind; None if there is none."""
    start = cursor.pos
    mark = yield from cursor.maybe(markup.read(cursor))
    if mark is None:
        return (yield from _foreign(cursor))
    if mark.closing:
        return mark
    cursor.pos = start
    return None


def _foreign(cursor: Cursor) -> Parsing[Mark | None]:
    """Read what closes a wrapper, a fence or a call of another family; None if nothing such stands here.

    Models mix them: `</parameter></invoke></tool_call>` behind `<function=NAME>`.
    """
    if (yield from cursor.which(_CLOSERS)):
        return Mark(Level.WRAPPER, True, FOREIGN)
    if (yield from _closed_fence(cursor)):
        return Mark(Level.WRAPPER, True, FOREIGN)
    found = yield from tag_ahead(cursor)
    if not closes(found):
        return None
    if found.kind in VALUE_KINDS:
        return None
    yield from tag(cursor)
    return Mark(Level.CALL if found.kind in _IN_CALL else Level.WRAPPER, True, FOREIGN)


def _closed_fence(cursor: Cursor) -> Parsing[bool]:
    """Read the end of a fence that is open; whether it stood here."""
    closers = (closer for each in cursor.context.enclosures for closer in each.closers)
    fences = tuple(closer for closer in closers if closer.startswith(FENCE))
    if not fences:
        return False
    return (yield from cursor.which(fences)) is not None


def _another(cursor: Cursor, markup: Markup) -> Parsing[bool]:
    yield from cursor.blanks()
    return (yield from markup.another(cursor))


def _behind(cursor: Cursor, markup: Markup, all_closed: bool) -> Parsing[Behind]:
    """What stands behind a chain; where it closed all, nothing behind a line end is looked at."""
    try:
        yield from cursor.until(_NOT_SPACE, _MAX_SPACES)
    except NotACall:
        return Behind.REPLY_END if cursor.at_end() else Behind.OTHER
    if all_closed and (yield from cursor.byte()) in (b"\r", b"\n"):
        return Behind.LINE_END
    if (yield from cursor.maybe(blanks(cursor))) is None:
        return Behind.OTHER
    if cursor.at_end():
        return Behind.REPLY_END
    if (yield from _ends_turn(cursor, all_closed)):
        return Behind.TURN_END
    if (yield from cursor.peek(MARKER_OPENERS)):
        return Behind.NEXT_CALL
    if (yield from cursor.byte()) in _QUOTES:
        return _mark_behind(cursor, all_closed)
    return (yield from _tag_behind(cursor, markup, all_closed))


def _mark_behind(cursor: Cursor, all_closed: bool) -> Behind:
    """The same where a quotation mark stands behind the chain. The end of the sentence that quotes the call is no mark
    of a value that shows its own end tags.
    """
    if not all_closed:
        return Behind.QUOTE
    return Behind.LINE_END if cursor.context.in_quotation() else Behind.QUOTE


def _ends_turn(cursor: Cursor, all_closed: bool) -> Parsing[bool]:
    """Whether an end-of-turn token stands here, behind which nothing else comes if not all was closed."""
    if (yield from cursor.peek(TURN_ENDS)) is None:
        return False
    if all_closed:
        return True
    return (yield from cursor.maybe(turn_ends(cursor))) is not None


def _tag_behind(cursor: Cursor, markup: Markup, all_closed: bool) -> Parsing[Behind]:
    """The same where a tag may stand behind the chain, or the next call as JSON."""
    if not all_closed and (yield from cursor.peek(_OBJECTS)):
        return Behind.NEXT_CALL
    # A tag that breaks off here is the end of the reply; whether one did before does not matter.
    known, cursor.ends_in_literal = cursor.ends_in_literal, False
    own = yield from cursor.ahead(cursor.maybe(markup.read(cursor)))
    tag = yield from tag_ahead(cursor)
    broken_off = cursor.ends_in_literal
    cursor.ends_in_literal |= known
    if own is not None and not own.closing:
        return Behind.NEXT_CALL
    if tag is NO_TAG:
        return Behind.REPLY_END if broken_off else Behind.OTHER
    if tag.closing:
        return Behind.OTHER
    if tag.marked:
        return Behind.NEXT_CALL
    return Behind.NEXT_CALL if tag.kind in _OPENING_KINDS else Behind.OTHER
