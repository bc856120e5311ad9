"""The end of a raw value between tags, for parameters, GLM's pairs, elements and Kimi K3.

An end tag ends the value if another value of the tool or the end of the call follows. End tags of tags opened inside
the value do not count, nor do tags in a code fence. If the end tag is missing, the next declared key's opener or the
call's end tag ends the value. Ambiguous values are rejected.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from proxy.notations.source import NeedMore, NoCall, Source, end_of
from proxy.notations.tables import SEP
from proxy.notations.toolset import Tool

_CDATA = re.compile(r"\s*<!\[CDATA\[")
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})", re.M)
# A fence directly after the opener of its value.
_FIRST_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(?!.*`)")
_BLANKS = re.compile(r"\s*")
_ELEMENT = re.compile(rf"{re.escape(SEP)}<(/?)([A-Za-z_$][\w.-]*)>")
_QUOTES = "\"'`"
# `Mark.word` of an opener that is an element named after the key.
KEY = "key"
# Maximum length of meaningless text before the end of a wrapper.
MAX_JUNK = 40


class Level(Enum):
    """The part of a call that a tag opens or closes."""

    VALUE = auto()
    CALL = auto()
    WRAPPER = auto()


class Follows(Enum):
    """The text after an end tag of a value."""

    TEXT = auto()
    VALUE = auto()
    END = auto()
    NOTHING = auto()
    SAME_END = auto()


_ENDS = (Follows.VALUE, Follows.END, Follows.NOTHING)


@dataclass(slots=True, eq=False)
class Mark:
    """A tag of the call's notation at text[start:end].

    `key` is the key of the value it opens, `kind` the tag's word, and `declared` the type it gives to the value. `word`
    is the spelling of a call or wrapper tag, or the style of a value's opener.
    """

    start: int
    end: int
    level: Level
    closing: bool
    key: str = ""
    kind: str = ""
    declared: str = ""
    word: str = ""


class Marks(Protocol):
    """Finder of the next mark from a position or, with `here`, of a mark exactly at it."""

    def __call__(self, pos: int, here: bool = False) -> Mark | None: ...


@dataclass(frozen=True, slots=True)
class RawEnd:
    """The end of a value: it ends before `end`, and reading resumes at `resume`. `unended`: its end tag is missing."""

    end: int
    resume: int
    unended: bool = False


@dataclass(slots=True)
class Layout:
    """Spelling and layout of the call being read.

    `words` are the spellings of the open call and wrapper. `lined`: the call's tags begin lines; `indented`: after
    whitespace. `shown` are positions inside a value, where no wrapper can end.
    """

    words: dict[Level, str] = field(default_factory=dict)
    lined: bool = False
    indented: bool = False
    shown: range = range(0)


@dataclass(slots=True)
class RawValue:
    """The value opened by `own`, during the search for its end.

    `given` are the keys that have a value already. `ends_turn` returns the position after an end-of-turn token, or 0.
    """

    source: Source
    marks: Marks
    layout: Layout
    own: Mark
    given: Collection[str]
    tool: Tool | None
    ends_turn: Callable[[int], int]
    # `foreign`: another kind of value's end tag ended it. `unended`: no end tag did.
    foreign: bool = False
    unended: bool = False

    def find_end(self) -> RawEnd:
        """Return the end of the value. Try end tags spelled like the call's own first, then any others."""
        try:
            return self._checked(_Search(self).run())
        except NoCall:
            text, words = self.source.text, self.layout.words
            if not any(words.values()) or all(text.find(f"</{word}>", self.own.end) >= 0 for word in words.values()):
                raise
            if not self.source.final:
                raise NeedMore from None
            self.layout.words = {}
            try:
                return self._checked(_Search(self).run())
            finally:
                self.layout.words = words

    def _checked(self, end: RawEnd) -> RawEnd:
        """Reject a value that lacks its end tag but contains one, or that ends inside quotation marks."""
        if not end.unended:
            return end
        shows_end, last = self.shown(end.end)
        if shows_end:
            raise NoCall("a value without its end tag shows one")
        if last and last.closing and not self.source.text[last.end : end.end].strip():
            if last.level is not Level.VALUE:
                raise NoCall("a value without its end tag ends with the call's")
            if self.is_own_end(last):
                return RawEnd(last.start, last.end)  # an opener inside had no end tag
        if self.is_in_quotation(end.end, end.resume):
            raise NoCall("what follows may be quoted")
        return end

    def shown(self, end: int) -> tuple[bool, Mark | None]:
        """Return whether the value up to a position contains an unmatched end tag, and its last mark."""
        depth, last = 0, None
        for last in self.between(self.own.end, end):
            if last.level is Level.VALUE and (not last.closing or self.is_own_end(last)):
                depth += -1 if last.closing else 1
            if depth < 0:
                break
        return depth < 0, last

    def between(self, start: int, end: int = sys.maxsize) -> Iterator[Mark]:
        """Yield the marks that begin between two positions."""
        while (mark := self.marks(start)) is not None and mark.start < end:
            yield mark
            start = mark.end

    def is_in_quotation(self, end: int, resume: int) -> bool:
        """Return whether the value ends with an open quotation mark, or one that is repeated after its tags."""
        text = self.source.text
        written = text[self.own.end : end].rstrip()
        if not written or written[-1] not in _QUOTES:
            return False
        return written.count(written[-1]) % 2 == 1 or text.startswith(written[-1], resume)

    # -- kinds of marks ---------------------------------------------------------------------------------------------

    def others(self) -> set[str] | None:
        """Return the declared keys that may still follow; None if any key may."""
        return set(self.tool.properties) - set(self.given) - {self.own.key} if self.tool else None

    def meant(self, key: str) -> str:
        """Return the declared key that the model meant."""
        return self.tool.meant(key, self.given) if self.tool else key

    def is_spelled(self, mark: Mark) -> bool:
        """Return whether the end tag of a call or wrapper is spelled like the open one."""
        word = self.layout.words.get(mark.level)
        if word is None:  # in a wrapper that is a tag, a token of another family closes nothing
            return bool(mark.word) or not self.layout.words.get(Level.WRAPPER)
        return mark.word == word

    def is_own_end(self, mark: Mark) -> bool:
        """Return whether an end tag may be that of this value."""
        return not mark.kind or not self.own.kind or mark.kind == self.own.kind

    @property
    def holds_keys(self) -> bool:
        """True for an element that is not a declared key: it may contain the tool's keys."""
        return self.own.word == KEY and self.tool is not None and self.own.key not in self.tool.properties

    @property
    def has_elements(self) -> bool:
        """True for an element that cannot be a string: it may contain elements."""
        tool, own = self.tool, self.own
        return own.word == KEY and tool is not None and "string" not in tool.parameter(own.key).types

    def begins_line(self, pos: int) -> bool:
        """Return whether only whitespace precedes the position on its line."""
        text = self.source.text
        return not text[text.rfind("\n", 0, pos) + 1 : pos].strip()

    def is_shown_indented(self, mark: Mark) -> bool:
        """Return whether an end tag is indented although the call's tags are not."""
        if not mark.closing or self.layout.indented or self.source.text[mark.start - 1] not in " \t":
            return False
        return self.begins_line(mark.start)

    def is_placed(self, pos: int, *, declared: bool = True) -> bool:
        """Return whether a key's opener is placed like the call's own: on its own line or directly after a tag."""
        text, start = self.source.text, self.own.start
        if end_of(_BLANKS, text, self.own.end) >= pos:
            return True
        # The key of a pair may directly follow the previous value, even if the first key begins a line.
        glued = declared and self.own.kind == "arg_value" and not text[pos - 1].isspace()
        if self.begins_line(start) and not glued:
            return self.begins_line(pos)
        return not text[pos - 1].isspace() or text[start - 1].isspace()

    # -- what follows -----------------------------------------------------------------------------------------------

    def follows(self, pos: int, stack: list[Mark]) -> tuple[Follows, int]:
        """Return what follows an end tag of a value, and the position after the tag that decides it."""
        pos = self.source.blanks(pos)
        if pos == self.source.size or self.ends_turn(pos):
            over = pos == self.source.size or self.ends_turn(pos) not in self.layout.shown
            return (Follows.NOTHING if over else Follows.TEXT), pos
        mark = self.marks(pos, here=True)
        if mark is None:
            return Follows.TEXT, pos
        if not mark.closing:
            return self._follows_opener(mark, pos, stack), mark.end
        if mark.level is Level.VALUE:
            return (Follows.SAME_END if self._ends_after(mark.end) else Follows.TEXT), mark.end
        if any(_pairs(each, mark) for each in stack) or not self.is_spelled(mark):
            return Follows.TEXT, pos
        over = self.call_is_over(mark.end) if mark.level is Level.CALL else self.line_is_over(mark.end)
        return (Follows.END if over else Follows.TEXT), mark.end

    def _follows_opener(self, mark: Mark, pos: int, stack: list[Mark]) -> Follows:
        if mark.level is not Level.VALUE:
            placed = self.begins_line(pos) or not self.layout.lined
            return Follows.END if mark.level is Level.CALL and not stack and placed else Follows.TEXT
        key, others, placed = self.meant(mark.key), self.others(), self.is_placed(pos)
        alike = mark.word == self.own.word
        if others is None or key in others:
            in_line = self.begins_line(self.own.start) and not placed and self.own.word
            if in_line and not stack and self.tool and key not in self.tool.required:
                raise NoCall("a key's opener in a line may be shown")
            return Follows.VALUE if alike or placed else Follows.TEXT
        # An undeclared key counts only if it is placed and written like the call's own.
        return Follows.VALUE if alike and self.is_placed(pos, declared=False) else Follows.TEXT

    def _ends_after(self, pos: int) -> bool:
        """Return whether the call continues or ends after a repeated end tag."""
        while True:
            pos = self.source.blanks(pos)
            if pos == self.source.size:
                return True
            mark = self.marks(pos, here=True)
            if mark is None:
                return bool(self.ends_turn(pos))
            if not (mark.closing and mark.level is Level.VALUE):
                return mark.closing or mark.level is Level.VALUE
            pos = mark.end

    def call_is_over(self, pos: int) -> bool:
        """Return whether the wrapper ends, another call begins, or the reply ends after a call's end tag."""
        while True:
            pos = self.source.blanks(pos)
            if pos == self.source.size or self.ends_turn(pos):
                return pos not in self.layout.shown
            mark = self.marks(pos, here=True)
            if mark is None:
                return self._wrapper_ends_soon(pos)
            if mark.level is Level.CALL and mark.closing:
                pos = mark.end
                continue
            if mark.closing:
                return mark.level is Level.WRAPPER and self.is_spelled(mark) and self.wrapper_is_over(mark.end)
            if mark.level is Level.VALUE or pos in self.layout.shown:
                return False
            if self.begins_line(pos) or not self.layout.lined:
                return True
            raise NoCall("a call begins in the middle of a line")

    def _wrapper_ends_soon(self, pos: int) -> bool:
        """Return whether the wrapper ends after a few meaningless words."""
        mark = self.marks(pos)
        if mark is None:
            if not self.source.final:
                raise NeedMore
            return False
        words = self.source.text[pos : mark.start]
        if mark.level is not Level.WRAPPER or not mark.closing or len(words) >= MAX_JUNK:
            return False
        return "\n" not in words and "<" not in words and self.line_is_over(mark.end)

    def wrapper_is_over(self, pos: int) -> bool:
        """Return whether a wrapper may end here, which is not the case inside a quotation in the value."""
        if pos in self.layout.shown:
            return False
        if pos == self.source.size and not self.source.final:
            raise NeedMore
        return self.source.text[pos : pos + 1] not in _QUOTES or pos == self.source.size

    def line_is_over(self, pos: int) -> bool:
        """Return whether a wrapper may end here, and no text follows on the line."""
        text, size = self.source.text, self.source.size
        at = pos
        while at < size and text[at] in " \t\r":
            at += 1
        if at == size and not self.source.final:
            raise NeedMore
        over = at == size or text[at] in "\n<]" or bool(self.ends_turn(at))
        return over and self.wrapper_is_over(pos)

    def is_inside(self, pos: int) -> bool:
        """Return whether the call continues after a wrapper's end tag, which is then part of the value."""
        pos = self.source.blanks(pos)
        mark = self.marks(pos, here=True) if pos < self.source.size else None
        return mark is not None and mark.level is not Level.WRAPPER

    def goes_on(self, pos: int) -> bool:
        """Return whether the next tag after the call is at the start of a line and opens another key of the call."""
        mark, others = self.marks(pos), self.others()
        if mark is None or mark.closing or mark.level is not Level.VALUE or others is None:
            return False
        return self.begins_line(mark.start) and self.meant(mark.key) in others

    def last_chain(self, pos: int) -> int:
        """Return the start of the last chain of end tags after a position, or -1."""
        stack, last = list[Mark](), -1
        for mark in self.between(pos):
            if not mark.closing:
                stack.append(mark)
            elif (opened := _opened(stack, mark)) is not None:
                del stack[opened:]
            elif mark.level is Level.VALUE and self.is_own_end(mark) and self.follows(mark.end, stack)[0] in _ENDS:
                last = mark.start
        return last


class _Search:
    """Search for the end of one value, mark by mark."""

    def __init__(self, value: RawValue) -> None:
        self.value = value
        self.stack: list[Mark] = []
        # Openers of calls and wrappers in the middle of lines.
        self.named: list[Mark] = []
        # `split`: the first properly placed opener of a declared key inside the value; `doubtful`: one placed
        # elsewhere. `fallback`: the end before such an opener. `inner`: the last end tag of a tag opened inside.
        self.split: Mark | None = None
        self.doubtful: Mark | None = None
        self.fallback: RawEnd | None = None
        self.inner: RawEnd | None = None
        # Number of end tags of the value's kind that ended nothing.
        self.shown_ends = 0
        self.others = value.others()
        # Start of the last fence that contains tags, and the number of values open in it.
        self.fence, self.open_in_fence = -1, 0
        # One of the value's own end tags did not end it.
        self.passed = False
        # `again`: the opener of the `split` key is repeated. `shows_key`: a declared key's opener is placed like the
        # call's own, or two are placed elsewhere.
        self.again = self.shows_key = False

    def run(self) -> RawEnd:
        """Return the end of the value. Raise NoCall if there is no end, or two possible ones."""
        end = self._cdata() or self._find()
        if self.again and self.split and end.unended and end.end == self.split.start:
            raise NoCall("a key's opener is there twice")
        return end

    def _find(self) -> RawEnd:
        """Return the end of the value that its marks determine."""
        value = self.value
        fenced = _Fences(value.source, value.own.end)
        elements = _Elements(value.source.text, value.own.end) if value.has_elements else None
        for mark in value.between(value.own.end):
            if fenced.holds(mark.start):
                self._check_fenced(mark, fenced)
                continue
            if elements and elements.hold(mark.start):
                continue
            if value.is_shown_indented(mark):
                if mark.level is not Level.VALUE and (opened := _opened(self.stack, mark)) is not None:
                    del self.stack[opened:]
                continue
            if not mark.closing:
                self._opening(mark)
            elif (end := self._closing(mark)) is not None:
                return end
        if not value.source.final:
            raise NeedMore
        end = self.fallback or self._last_chain()
        if end is None:
            raise NoCall("a value without its end")
        return end

    def _check_fenced(self, mark: Mark, fenced: _Fences) -> None:
        """Reject a fence that contains the value's end tag and another key: it may end in another value."""
        if mark.level is not Level.VALUE:
            return
        if fenced.begin != self.fence:
            self.fence, self.open_in_fence = fenced.begin, 0
        self.open_in_fence += -1 if mark.closing else 1
        if self.open_in_fence < 0 and self.value.follows(mark.end, [])[0] is Follows.VALUE:
            raise NoCall("a fence may end in another value")

    def _cdata(self) -> RawEnd | None:
        value, source = self.value, self.value.source
        found = _CDATA.match(source.text, value.own.end)
        if not found or value.own.kind not in ("param", "parameter"):
            return None
        end = source.find("]]>", found.end())
        at = source.blanks(end + 3) if end >= 0 else source.size
        mark = value.marks(at, here=True) if at < source.size else None
        if mark is None or not mark.closing:
            raise NoCall("character data without its end")
        return RawEnd(at, mark.end)

    def _opening(self, mark: Mark) -> None:
        value = self.value
        mark.key = value.meant(mark.key) if mark.key else ""
        if self.split and not self.fallback and mark.key == self.split.key:
            self.again |= value.is_placed(mark.start)
        another = mark.level is Level.VALUE and self.others is not None and mark.key in self.others
        placed = another and value.is_placed(mark.start)
        self.shows_key |= placed
        if another and not self.stack:
            if self.shown_ends and placed:
                raise NoCall("text between two values")
            if placed:
                self.split = self.split or mark
            else:
                self.shows_key |= self.doubtful is not None
                self.doubtful = self.doubtful or mark
        if mark.level is Level.VALUE and mark.word == value.own.word and self.shown_ends:
            self.shown_ends -= 1  # `</x><x>` is as balanced as `<x></x>`
        elif mark.level is Level.VALUE and mark.word == value.own.word:
            self.stack.append(mark)
        elif mark.level is not Level.VALUE:
            # If the call's tags begin lines, a tag in the middle of a line is only mentioned.
            placed = not value.layout.lined or mark.start == value.own.end or value.begins_line(mark.start)
            (self.stack if placed else self.named).append(mark)

    def _closing(self, mark: Mark) -> RawEnd | None:
        opened = _opened(self.stack, mark)
        if mark.level is Level.VALUE:
            return self._value_end(mark) if opened is None else self._inner_end(mark, opened)
        if opened is not None:
            del self.stack[opened:]
            return None
        if named := next((each for each in reversed(self.named) if _pairs(each, mark)), None):
            self.named.remove(named)
            if self.split and named.start < self.split.start:
                self.split = self.fallback = None  # the key was inside text that is shown
            return None
        if not self.value.is_spelled(mark):
            return None
        if any(each.level is Level.VALUE for each in self.stack) and self.split is None:
            return None
        return self._call_end(mark)

    def _value_end(self, mark: Mark) -> RawEnd | None:
        """Return the end at an end tag that closes nothing inside the value."""
        value = self.value
        if value.own.word == KEY and mark.kind == value.own.kind:
            self.stack = []  # it names the key, so tags in the text need not be closed
        follows, after = value.follows(mark.end, self.stack)
        if follows is Follows.SAME_END and value.source.text.endswith(
            value.source.text[mark.start : mark.end], 0, after
        ):
            # A value never ends with its own end tag: the second one is surplus.
            self._check_doubled(mark)
            return RawEnd(mark.start, after)
        if follows not in _ENDS:
            self.shown_ends += value.is_own_end(mark)
            self.passed |= value.is_own_end(mark)
            return None
        if self.split is not None and self.split in self.stack:
            return RawEnd(self.split.start, self.split.start, True)
        if self.fallback is not None and not (value.holds_keys and value.is_own_end(mark)):
            raise NoCall("another key may begin in a value")
        if self.passed and self.stack:
            raise NoCall("what a value shows is not closed")
        value.foreign = not value.is_own_end(mark)
        if follows is Follows.NOTHING:
            self._check_token(mark)
        if not value.foreign and not value.source.text[value.own.end : mark.start].strip():
            self._check_empty(mark)
        return RawEnd(mark.start, mark.end)

    def _check_empty(self, mark: Mark) -> None:
        """Reject an empty value whose end tag is repeated among the closers: the first may be part of the value."""
        source, pos = self.value.source, mark.end
        while (pos := source.blanks(pos)) < source.size:
            closer = self.value.marks(pos, here=True)
            if closer is None or not closer.closing:
                return
            if closer.level is Level.VALUE:
                raise NoCall("an end tag is there twice around nothing")
            pos = closer.end

    def _check_token(self, mark: Mark) -> None:
        """Reject an end tag before an end-of-turn token if a later tag shows that the value may continue."""
        later, tagged = self.value.marks(mark.end), any(self.value.layout.words.values())
        if later and (later.level is Level.VALUE if later.closing else tagged):
            raise NoCall("a value may end after a token")
        if later is None and tagged and not self.value.source.final:
            raise NeedMore

    def _check_doubled(self, mark: Mark) -> None:
        """Reject a repeated end tag if the value is empty, or one of the two closes a tag inside the value."""
        value, depth = self.value, 0
        if not value.source.text[value.own.end : mark.start].strip():
            raise NoCall("an end tag is there twice around nothing")
        for inner in value.between(value.own.end, mark.start):
            depth += (-1 if inner.closing else 1) if inner.level is Level.VALUE else 0
        if depth > 0:
            raise NoCall("what a value shows is not closed")

    def _inner_end(self, mark: Mark, opened: int) -> RawEnd | None:
        """Record the end tag of a tag opened inside. If the call closes after it, the value's end tag is missing."""
        inner = self.stack[opened]
        del self.stack[opened:]
        glued = inner is self.doubtful and self.value.source.text[inner.start - 1] not in f" \t{_QUOTES}"
        doubtful = glued and not self.named
        telling = inner is self.split or doubtful
        follows = self.value.follows(mark.end, self.stack)[0] if telling else Follows.TEXT
        if doubtful and follows in (Follows.END, Follows.NOTHING):
            raise NoCall("a key's opener in a line may be shown")
        self.inner = RawEnd(mark.start, mark.end)
        if inner is self.split and follows in _ENDS:
            self.fallback = self.fallback or RawEnd(inner.start, inner.start, True)
            return self.fallback if follows is Follows.END else None
        return None

    def _call_end(self, mark: Mark) -> RawEnd | None:
        """Return the end at an end tag of the call or its wrapper, if the value's own may be missing."""
        value = self.value
        over = value.call_is_over(mark.end) if mark.level is Level.CALL else value.line_is_over(mark.end)
        if not over or (mark.level is Level.WRAPPER and value.is_inside(mark.end)):
            return None
        if self.fallback is not None:
            return self.fallback
        inside = self.split is not None and self.split in self.stack
        inner = self.inner if mark.level is Level.CALL and not inside else None
        if inner and not value.source.text[inner.resume : mark.start].strip():
            if self.shows_key:
                raise NoCall("another key may begin in a value")
            return inner
        if self.doubtful in self.stack:
            raise NoCall("a key's opener in a line may be shown")
        at = self.split.start if inside and self.split else mark.start
        return RawEnd(at, at, True)

    def _last_chain(self) -> RawEnd | None:
        """Return the end at the reply's last end tags, if they could be the call's own."""
        value = self.value
        found = [*value.between(value.own.end)]
        pos = found[-1].end if found else value.own.end
        while found and found[-1].closing and found[-1].level is not Level.VALUE:
            pos = found.pop().start
        if not found or not found[-1].closing or value.source.text[found[-1].end : pos].strip():
            return None
        if any(not mark.closing and mark.level is Level.VALUE for mark in found):
            return None
        behind = max(pos, found[-1].end)
        while (mark := value.marks(behind, here=True)) is not None:
            behind = value.source.blanks(mark.end)
        if value.is_in_quotation(found[-1].start, behind) and behind < value.source.size:
            return None
        return RawEnd(found[-1].start, found[-1].end)


class _Elements:
    """Elements inside a value. Tags in their text do not count."""

    def __init__(self, text: str, start: int) -> None:
        self._tags = _ELEMENT.finditer(text, start)
        self._ahead = next(self._tags, None)
        self._name, self._depth = "", 0

    def hold(self, pos: int) -> bool:
        """Return whether an element is open at a position. Positions must not decrease."""
        while self._ahead and self._ahead.start() < pos:
            closing, name = self._ahead.groups()
            if not self._depth and not closing:
                self._name, self._depth = name, 1
            elif name == self._name:
                self._depth += -1 if closing else 1
            self._ahead = next(self._tags, None)
        return self._depth > 0


class _Fences:
    """Code fences in a value. Fences that are never closed do not count."""

    def __init__(self, source: Source, start: int) -> None:
        self._source, self._start, self._pos = source, start, start
        self.begin = self._end = -1

    def holds(self, pos: int) -> bool:
        """Return whether a fence is open at a position. Positions must not decrease."""
        while self._end <= pos and self._next(pos):
            pass
        return self.begin <= pos < self._end

    def _next(self, limit: int) -> bool:
        """Advance to the next fence that begins before `limit`; return whether there is one."""
        text = self._source.text
        found = _FIRST_FENCE.match(text, self._pos, limit) if self._pos == self._start else None
        found = found or _FENCE.search(text, self._pos, limit)
        if found is None:
            line = max(self._pos, text.rfind("\n", self._pos, limit) + 1)
            self._pos = limit if text[line:limit].strip(" \t`~") else line
            return False
        mark = found.group(1)
        # An end tag may be glued to the closing fence.
        end = rf"^[ \t]*{re.escape(mark)}{re.escape(mark[0])}*(?=[ \t]*(?:$|</|{re.escape(SEP)}))"
        closing = re.compile(end, re.M).search(text, found.end())
        if not self._source.final and (closing is None or closing.end() == len(text)):
            raise NeedMore
        if closing is None:
            self._pos, self.begin, self._end = len(text), -1, -1
            return False
        self._pos, self.begin, self._end = closing.end(), found.start(), closing.end()
        return True


def _opened(stack: list[Mark], mark: Mark) -> int | None:
    """Return the index of the open tag that an end tag closes; None if it closes none."""
    return next((at for at in range(len(stack) - 1, -1, -1) if _pairs(stack[at], mark)), None)


def _pairs(opened: Mark, closing: Mark) -> bool:
    """Return whether an end tag can close an opening tag."""
    if opened.level is not closing.level or (opened.kind and closing.kind and opened.kind != closing.kind):
        return False
    return not opened.word or not closing.word or opened.word == closing.word
