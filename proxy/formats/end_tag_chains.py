"""The end tags that stand behind each other where a raw value may end, and whether they end it.

`</parameter>⏎</function>⏎</tool_call>⏎` is such a chain. A value may show one itself. It is the call's own if it closes
all that is open, is spelled as the opening tags were (on lines of their own or not), and is followed by what can follow
a call.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from proxy.formats.markers import MARKER_CLOSERS, MARKER_OPENERS, WRAPPER_KINDS
from proxy.formats.terminators import CALL_KINDS, TURN_ENDS, VALUE_KINDS, blanks, closes, turn_ends
from proxy.formats.xml_tags import peek_tag, tag
from proxy.parsing.cursor import Cursor, Literals, NotACall, Parsing

# End tags of one chain that are looked at.
MAX_CHAIN = 8
_MAX_SPACES = 64
_NOT_SPACE = re.compile(rb"[^ \t]")
_OBJECTS = (b'{"',)
_QUOTES = (b'"', b"'", b"`", b"\\")
_CLOSERS = Literals(MARKER_CLOSERS)
FENCE = b"`"
_PARAMETERS = "Parameters"
# An end tag of a kind that is not the call's own.
FOREIGN = "foreign"


class Level(Enum):
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


@dataclass(frozen=True, slots=True)
class Markup:
    """How a family writes its values.

    `literals` are the beginnings of its tags, `read` reads the one that stands here, and `another` tells whether the
    next value begins here. `called`: the call has an end tag of its own inside its wrapper. `anywhere`: opening tags
    need not stand at the start of a line. `own` is the kind of the value's own end tag, where that names the key;
    `inner` are the keys that may also be of the value's own object.
    """

    literals: tuple[bytes, ...]
    read: Callable[[Cursor], Parsing[Mark | None]]
    another: Callable[[Cursor], Parsing[bool]]
    called: bool = True
    anywhere: bool = False
    own: str | None = None
    inner: frozenset[str] = frozenset()

    def may_end(self, mark: Mark) -> bool:
        """Whether an end tag that closes nothing inside the value can end it, or what is around it."""
        return mark.level is not Level.VALUE or self.own is None or mark.kind == self.own


class Behind(Enum):
    """What stands behind a chain."""

    ANOTHER_VALUE = auto()
    NEXT_CALL = auto()
    LINE_END = auto()
    TURN_END = auto()
    REPLY_END = auto()
    QUOTE = auto()
    OTHER = auto()


_OVER = (Behind.LINE_END, Behind.NEXT_CALL, Behind.TURN_END, Behind.REPLY_END)
_OVER_UNCLOSED = (Behind.NEXT_CALL, Behind.TURN_END, Behind.REPLY_END)


@dataclass(frozen=True, slots=True)
class Lines:
    """Which opening tags of the call stand on lines of their own: the end tags do as well. None: it is not known."""

    values: bool | None
    call: bool | None


@dataclass(frozen=True, slots=True)
class Chain:
    """End tags that stand behind each other, with where each begins and ends, and what stands behind them.

    `due` is how many closers of wrappers the call needs.
    """

    marks: tuple[tuple[Mark, int, int], ...]
    behind: Behind
    due: int
    called: bool

    @property
    def start(self) -> int:
        """Where it begins."""
        return self.marks[0][1]

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.marks[-1][2]

    def count(self, level: Level) -> int:
        """How many tags of this level are in it."""
        return sum(mark.level is level for mark, _, _ in self.marks)

    @property
    def closes_all(self) -> bool:
        """Whether all that is open is closed, and what can follow a call follows."""
        wrappers, calls = self.count(Level.WRAPPER), self.count(Level.CALL)
        if any(mark.kind == FOREIGN and mark.level is Level.CALL for mark, _, _ in self.marks):
            return False
        if not wrappers and not calls:
            return self.behind in (Behind.TURN_END, Behind.REPLY_END)
        if self.called and not calls:
            return False
        return self.behind in (_OVER if wrappers >= self.due else _OVER_UNCLOSED)

    @property
    def may_close(self) -> bool:
        """Whether it could be the end of the call if no better one comes."""
        wrappers, calls = self.count(Level.WRAPPER), self.count(Level.CALL)
        if self.behind is Behind.QUOTE:
            return False
        if self.behind in _OVER_UNCLOSED:
            return True
        return bool(wrappers) or (bool(calls) and not self.due)


class WrapperTags:
    """The tags of the wrappers that are open; those of `<tool_call>`, spelled like `ends`, if none is."""

    def __init__(self, cursor: Cursor, ends: tuple[bytes, ...] = (b"</tool_call>",)) -> None:
        wrappers = [(each.opener, each.closers) for each in cursor.enclosures if not each.opener.startswith(FENCE)]
        wrappers = wrappers or [(end.replace(b"</", b"<"), (end,)) for end in ends]
        self._marks: dict[bytes, Mark] = {}
        for opener, closers in wrappers:
            kind = closers[0].decode()
            self._marks[opener] = Mark(Level.WRAPPER, False, kind)
            self._marks |= {closer: Mark(Level.WRAPPER, True, kind) for closer in closers}
        self.literals = tuple(self._marks)
        self._table = Literals(self.literals)

    def read(self, cursor: Cursor) -> Parsing[Mark | None]:
        """Read one that stands here."""
        found = yield from cursor.which(self._table)
        return self._marks[found] if found else None


def read_chain(cursor: Cursor, markup: Markup) -> Parsing[Chain]:
    """Read the end tags that stand here, one at least."""
    marks: list[tuple[Mark, int, int]] = []
    due = len(cursor.enclosures)
    while len(marks) < MAX_CHAIN:
        resume = cursor.pos
        if (yield from cursor.maybe(_between(cursor, _is_whole(marks, markup, due)))) is None:
            break
        start = cursor.pos
        mark = yield from _closing(cursor, markup)
        if mark is None or (marks and mark.level.value < marks[-1][0].level.value):
            cursor.pos = resume
            break
        marks.append((mark, start, cursor.pos))
    found = Chain(tuple(marks), Behind.OTHER, due, markup.called)
    closers = found.count(Level.WRAPPER) + found.count(Level.CALL)
    if not closers and (yield from cursor.ahead(cursor.maybe(_another(cursor, markup)))):
        return Chain(found.marks, Behind.ANOTHER_VALUE, due, markup.called)
    all_closed = bool(closers) and found.count(Level.WRAPPER) >= due
    behind = yield from cursor.ahead(_behind(cursor, markup, all_closed))
    if behind is Behind.REPLY_END and not closers and not cursor.stopped:
        behind = Behind.OTHER  # the value was cut off
    return Chain(found.marks, behind, due, markup.called)


def _is_whole(marks: list[tuple[Mark, int, int]], markup: Markup, due: int) -> bool:
    """Whether these end tags close all that must be closed. Without a wrapper it is not known what comes."""
    levels = [mark.level for mark, _, _ in marks]
    called = Level.CALL in levels or not markup.called
    return called and levels.count(Level.WRAPPER) >= due > 0


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
    wanted = _wanted(cursor, chain, lines)
    return all(want is None or want == cursor.begins_line(mark[1]) for mark, want in wanted)


def inside_a_line(cursor: Cursor, chain: Chain, lines: Lines) -> bool:
    """Whether an end tag that should stand on a line of its own does not."""
    wanted = _wanted(cursor, chain, lines)
    return any(want is True and not cursor.begins_line(mark[1]) for mark, want in wanted)


def _wanted(cursor: Cursor, chain: Chain, lines: Lines) -> list[tuple[tuple[Mark, int, int], bool | None]]:
    """Each end tag of a call or wrapper, and whether it must stand on a line of its own, if that is known.

    What stands inside something begins on a line exactly if the end tag around it does.
    """
    inner = [lines.values, lines.call] if chain.called else [lines.values]
    inner += [enclosure.lined for enclosure in reversed(cursor.enclosures[1:])]
    closers = [mark for mark in chain.marks if mark[0].level is Level.WRAPPER]
    closers = [mark for mark in chain.marks if mark[0].level is Level.CALL][:1] + closers
    if chain.called and closers and closers[0][0].level is not Level.CALL:
        inner = inner[1:]
    expected = inner + [None] * len(closers)
    return list(zip(closers, expected, strict=False))


def _closing(cursor: Cursor, markup: Markup) -> Parsing[Mark | None]:
    """Read the end tag that stands here, of whatever kind; None if there is none."""
    start = cursor.pos
    mark = yield from cursor.maybe(markup.read(cursor))
    if mark is not None and mark.closing:
        return mark
    cursor.pos = start
    if mark is not None:
        return None
    if (yield from cursor.which(_CLOSERS)):
        return Mark(Level.WRAPPER, True, FOREIGN)
    fences = tuple(closer for each in cursor.enclosures for closer in each.closers if closer.startswith(FENCE))
    if fences and (yield from cursor.which(fences)):
        return Mark(Level.WRAPPER, True, FOREIGN)
    if (yield from cursor.byte()) not in (b"<", b"]"):
        return None
    found = yield from peek_tag(cursor)
    if found is None or not closes(found) or found.kind in VALUE_KINDS:
        return None
    yield from tag(cursor)
    in_call = found.kind in CALL_KINDS or found.kind == _PARAMETERS
    return Mark(Level.CALL if in_call else Level.WRAPPER, True, FOREIGN)


def _another(cursor: Cursor, markup: Markup) -> Parsing[bool]:
    yield from cursor.blanks()
    return (yield from markup.another(cursor))


def _behind(cursor: Cursor, markup: Markup, all_closed: bool) -> Parsing[Behind]:
    """What stands behind a chain; where it closed all, nothing behind a line end is looked at."""
    try:
        yield from cursor.until(_NOT_SPACE, _MAX_SPACES)
    except NotACall:
        return Behind.REPLY_END if cursor.at_end() else Behind.OTHER
    here = yield from cursor.byte()
    if here in (b"\r", b"\n") and all_closed:
        return Behind.LINE_END
    if (yield from cursor.maybe(blanks(cursor))) is None:
        return Behind.OTHER
    if cursor.at_end():
        return Behind.REPLY_END
    if (yield from cursor.peek(TURN_ENDS)) and (all_closed or (yield from cursor.maybe(turn_ends(cursor)))):
        return Behind.TURN_END
    if (yield from cursor.peek(MARKER_OPENERS)):
        return Behind.NEXT_CALL
    here = yield from cursor.byte()
    if here in _QUOTES:
        # The end of the sentence that quotes the call is no mark of a value that shows its own end tags.
        return Behind.LINE_END if all_closed and cursor.in_quotation() else Behind.QUOTE
    return (yield from _tag_behind(cursor, markup, all_closed))


def _tag_behind(cursor: Cursor, markup: Markup, all_closed: bool) -> Parsing[Behind]:
    """The same where a tag may stand behind the chain, or the next call as JSON."""
    if not all_closed and (yield from cursor.peek(_OBJECTS)):
        return Behind.NEXT_CALL
    known, cursor.broken_off = cursor.broken_off, False
    own = yield from cursor.ahead(cursor.maybe(markup.read(cursor)))
    found = (yield from peek_tag(cursor)) if (yield from cursor.byte()) in (b"<", b"]") else None
    broken_off, cursor.broken_off = cursor.broken_off, known or cursor.broken_off
    if own is not None and not own.closing:
        return Behind.NEXT_CALL
    if found is None:
        return Behind.REPLY_END if broken_off else Behind.OTHER
    opens = not found.closing and (found.kind in (CALL_KINDS | WRAPPER_KINDS) or found.marked)
    return Behind.NEXT_CALL if opens else Behind.OTHER
