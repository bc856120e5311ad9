"""The end of a raw value between tags, for parameters, GLM's pairs, elements and Kimi K3.

An end tag ends the value if another value of the tool or the end of the call follows. End tags of tags opened inside
the value do not count, nor do tags in a code fence. If the end tag is missing, the next declared key's opener or the
call's end tag ends the value. Ambiguous values are rejected.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

import regex

from proxy.notations.literals import elements
from proxy.notations.marks import KEY, Level, Mark, Marks
from proxy.notations.source import NeedMore, NoCall, Source, Tokens, end_of
from proxy.notations.tables import CLOSING_TOKENS, END_OF_TURN, SEP
from proxy.notations.toolset import Tool

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})", re.M)
# A fence or character data directly after the opener of its value.
_FIRST_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(?!.*`)|\s*(<!\[CDATA\[)")
_BLANKS = re.compile(r"\s*")
_LINE_REST = re.compile(r"[ \t\r]*")
# Meaningless words before the end tag of a wrapper.
_FEW_WORDS = regex.compile(r"[^<\n]{1,39}(?=<)")
_QUOTES = "\"'`"
# Leftovers after a call. Elsewhere `</answer>` closes what the model opened.
_LEFT = Tokens((*END_OF_TURN, *CLOSING_TOKENS, "</answer>"))


def ends_turn(source: Source, pos: int) -> int:
    """Return the position after an end-of-turn token or a closing token, or 0."""
    token = source.token(_LEFT, pos)
    return pos + len(token) if token else 0


class Follows(Enum):
    """The text after an end tag: part of the value, another value, the end of the call, or the end of the reply."""

    TEXT = auto()
    VALUE = auto()
    END = auto()
    NOTHING = auto()


@dataclass(frozen=True, slots=True)
class RawEnd:
    """The end of a value: it ends before `end`, and reading resumes at `resume`. `unended`: its end tag is missing."""

    end: int
    resume: int
    unended: bool = False


@dataclass(slots=True)
class Layout:
    """Spelling and layout of the call being read.

    `words` are the spellings of the open call and wrapper, `last_ends` the position of the last end tag in each
    spelling, or -1. `lined`: the call's tags begin lines. `indented`: its first key is indented. `shown` are positions
    inside a value, where no wrapper can end.
    """

    words: dict[Level, str] = field(default_factory=dict)
    last_ends: dict[str, int] = field(default_factory=dict)
    lined: bool = False
    indented: bool = False
    shown: range = range(0)


@dataclass(slots=True)
class RawValue:
    """The value opened by `own`, during the search for its end.

    `given` are the keys that have a value already.
    """

    source: Source
    marks: Marks
    layout: Layout
    own: Mark
    given: Collection[str]
    tool: Tool | None
    # `foreign`: another kind of value's end tag ended it. `unended`: no end tag did, or the value is empty.
    foreign: bool = False
    unended: bool = False

    def shown(self, end: int) -> tuple[bool, Mark | None]:
        """Return whether the value up to a position contains an unmatched end tag, and its last mark."""
        depth, last = 0, None
        for last in self.between(self.own.end, end):
            if last.level is Level.VALUE and (not last.closing or last.closes(self.own)):
                depth += -1 if last.closing else 1
            if depth < 0:
                break
        return depth < 0, last

    def between(self, start: int, end: int = sys.maxsize) -> Iterator[Mark]:
        """Yield the marks that begin between two positions."""
        while (mark := self.marks.after(start)) is not None and mark.start < end:
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

    def other_key(self, mark: Mark) -> str:
        """Return the declared key that an opener means, if it has no value yet; otherwise an empty one."""
        if self.tool is None or not mark.key:
            return ""
        key = self.tool.meant(mark.key, self.given)
        return key if key in self.tool.properties.keys() - {*self.given, self.own.key} else ""

    def is_spelled(self, mark: Mark) -> bool:
        """Return whether the end tag of a call or wrapper is spelled like the open tag.

        Any spelling counts if the text has no end tag in that spelling.
        """
        words, last_ends = self.layout.words, self.layout.last_ends
        if mark.level in words:
            spelled = mark.word == words[mark.level]
        else:  # in a wrapper that is a tag, a token of another family closes nothing
            spelled = bool(mark.word) or not words.get(Level.WRAPPER)
        if spelled:
            return True
        for word in filter(None, words.values()):
            if word not in last_ends:
                last_ends[word] = self.source.text.rfind(f"</{word}>")
            if last_ends[word] < self.own.end:
                if not self.source.final:
                    raise NeedMore
                return True
        return False

    @property
    def holds_keys(self) -> bool:
        """True for an element that is not a declared key: it may contain the tool's keys."""
        return self.own.word == KEY and self.tool is not None and self.own.key not in self.tool.properties

    def begins_line(self, pos: int) -> bool:
        """Return whether only whitespace precedes the position on its line."""
        text = self.source.text
        return not text[text.rfind("\n", 0, pos) + 1 : pos].strip()

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

    def place_opened(self, mark: Mark, stack: Sequence[Mark]) -> int:
        """Return the place in a stack of the open tag that an end tag closes, or -1."""
        for at in range(len(stack) - 1, -1, -1):
            self.source.step()
            if mark.closes(stack[at]):
                return at
        return -1

    def close(self, mark: Mark, stack: list[Mark]) -> Mark | None:
        """Remove and return the open tag that an end tag closes, or return None.

        Tags opened inside it are removed, too.
        """
        if (at := self.place_opened(mark, stack)) < 0:
            return None
        opened = stack[at]
        del stack[at:]
        return opened

    # -- what follows -----------------------------------------------------------------------------------------------

    def follows(self, closer: Mark, stack: Sequence[Mark] = ()) -> tuple[Follows, int]:
        """Return what follows an end tag of a value or call and its repetitions, and the position after those.

        `stack` are the tags that are open inside the value.
        """
        source, text, level, pos = self.source, self.source.text, closer.level, closer.end
        behind = pos
        while (pos := source.blanks(pos)) < source.size and not ends_turn(source, pos):
            mark = self.marks.at(pos)
            if mark is None and level is Level.CALL and (words := source.match(_FEW_WORDS, pos)):
                wrapper = self.marks.at(words.end())
                mark = wrapper if wrapper and wrapper.closing and wrapper.level is Level.WRAPPER else None
            if mark is None:
                return Follows.TEXT, behind
            if not mark.closing:
                return self._follows_opener(mark, level, stack), behind
            if mark.level is not Level.VALUE:
                shown = level is Level.VALUE and self.place_opened(mark, stack) >= 0
                if shown or not self.is_spelled(mark):
                    if level is not Level.CALL:
                        return Follows.TEXT, behind
                    pos = mark.end  # another wrapper's end tag between those of the call and its own wrapper
                    continue
            if mark.level is Level.WRAPPER:
                # After the call's own end tag, text may follow the wrapper on its line.
                after_call = level is Level.CALL and mark.start == pos
                return Follows.END if self.wrapper_is_over(mark.end, after_call=after_call) else Follows.TEXT, behind
            if mark.level is Level.VALUE:
                if level is not closer.level:
                    raise NoCall("a value may end before the call's end tag")
                if level is Level.CALL or text[mark.start : mark.end] != text[closer.start : closer.end]:
                    return Follows.TEXT, behind
                behind = mark.end
            level, pos = mark.level, mark.end
        if pos in self.layout.shown:
            return Follows.TEXT, behind
        return Follows.END if level is Level.CALL else Follows.NOTHING, behind

    def _follows_opener(self, mark: Mark, level: Level, stack: Sequence[Mark]) -> Follows:
        """Return what an opener after the end tag of a value or call begins."""
        if mark.level is not Level.VALUE:
            if mark.start in self.layout.shown or (level is Level.VALUE and (stack or mark.level is Level.WRAPPER)):
                return Follows.TEXT
            if self.layout.lined and not self.begins_line(mark.start):
                raise NoCall("a call begins in the middle of a line")
            return Follows.END
        if level is Level.CALL:
            return Follows.TEXT
        key, placed = self.other_key(mark), self.is_placed(mark.start)
        if self.tool is None or key:
            in_line = self.begins_line(self.own.start) and not placed and self.own.word
            if in_line and not stack and self.tool and key not in self.tool.required:
                raise NoCall("a key's opener in a line may be shown")
            return Follows.VALUE if placed or mark.word == self.own.word else Follows.TEXT
        # An undeclared key counts only if it is placed and written like the call's own.
        own = mark.word == self.own.word and self.is_placed(mark.start, declared=False)
        return Follows.VALUE if own else Follows.TEXT

    def wrapper_is_over(self, pos: int, *, after_call: bool = False) -> bool:
        """Return whether a wrapper may end here: no text follows on the line.

        After the end tag of the call, only a quotation mark shows that it does not end.
        """
        text = self.source.text
        at = pos if after_call else end_of(_LINE_REST, text, pos)
        if at == len(text):
            if not self.source.final:
                raise NeedMore
            return pos not in self.layout.shown
        if pos in self.layout.shown:
            return False
        if after_call:
            return text[at] not in _QUOTES
        return text[at] in "\n<]" or bool(ends_turn(self.source, at))

    def goes_on(self, pos: int) -> bool:
        """Return whether the next tag after the call shows that the value may go on to there.

        It is an end tag, and that of the value is missing, or it opens another key of the call at the start of a line.
        """
        mark = self.marks.after(pos)
        if mark and mark.closing:
            return self.unended
        return bool(mark and self.begins_line(mark.start) and self.other_key(mark))

    def last_chain(self, pos: int) -> int:
        """Return the start of the last chain of end tags after a position, or -1."""
        stack, last = list[Mark](), -1
        for mark in self.between(pos):
            if not mark.closing:
                stack.append(mark)
            elif not self.close(mark, stack) and mark.level is Level.VALUE and mark.closes(self.own):
                last = mark.start if self.follows(mark, stack)[0] is not Follows.TEXT else last
        return last


@dataclass(slots=True)
class ValueEnd:
    """Search for the end of one value, mark by mark.

    `stack` are the open tags inside the value; `named`, the openers of calls and wrappers in the middle of lines.
    `split` is the first properly placed opener of a declared key inside the value, `doubtful` the first one in another
    place. `fallback` is the end of the value before the `split` opener. `last_end` is the last end tag of a value.
    """

    value: RawValue
    stack: list[Mark] = field(default_factory=list)
    named: list[Mark] = field(default_factory=list)
    split: Mark | None = None
    doubtful: Mark | None = None
    fallback: RawEnd | None = None
    last_end: Mark | None = None
    # Number of end tags of the value's kind that ended nothing. `passed`: there was one.
    shown_ends: int = 0
    passed: bool = False
    # `again`: the opener of the `split` key is repeated. `opened_value`: the value contains an opener of a value.
    again: bool = False
    opened_value: bool = False

    def find(self) -> RawEnd:
        """Return the end of the value. Raise NoCall if there is no end, or two possible ones."""
        value, end = self.value, self._by_marks()
        if not end.unended:
            return end
        if self.again and self.split and end.end == self.split.start:
            raise NoCall("a key's opener is there twice")
        shows_end, last = value.shown(end.end)
        if shows_end:
            raise NoCall("a value without its end tag shows one")
        if last and last.closing and not value.source.text[last.end : end.end].strip():
            if last.level is not Level.VALUE:
                raise NoCall("another key may begin in a value")
            if last.closes(value.own):
                return RawEnd(last.start, last.end)  # an opener inside had no end tag
        if value.is_in_quotation(end.end, end.resume):
            raise NoCall("what follows may be quoted")
        return end

    def _by_marks(self) -> RawEnd:
        """Return the end of the value that its marks determine."""
        value = self.value
        own, tool, text = value.own, value.tool, value.source.text
        fenced = _Fences(value.source, own.end)
        # An element that cannot be a string may contain elements.
        nested = own.word == KEY and tool is not None and "string" not in tool.parameter(own.key).types
        inner = elements(text, own.end) if nested else iter(())
        element = next(inner, None)
        for mark in value.between(own.end):
            if fenced.holds(mark.start):
                if mark.level is Level.VALUE:
                    fenced.depth += -1 if mark.closing else 1
                    if fenced.depth < 0 and value.follows(mark)[0] is Follows.VALUE:
                        raise NoCall("a fence may end in another value")
                continue
            while element and element.text_end < mark.start:
                element = next(inner, None)
            if element and element.start < mark.start:
                continue  # tags in the text of an element do not count
            if not mark.closing:
                self._opening(mark)
            elif not value.layout.indented and text[mark.start - 1] in " \t" and value.begins_line(mark.start):
                # Indented, although the call's tags are not: part of the value.
                if mark.level is not Level.VALUE:
                    value.close(mark, self.stack)
            elif (end := self._closing(mark)) is not None:
                return end
        if not value.source.final:
            raise NeedMore
        end = self.fallback or self._last_chain()
        if end is None:
            raise NoCall("a value without its end")
        return end

    def _last_chain(self) -> RawEnd | None:
        """Return the end at the reply's last end tags, if the value opens no other value."""
        value, last = self.value, self.last_end
        if last is None or self.opened_value:
            return None
        text, pos = value.source.text, last.end
        for mark in value.between(pos):
            if not mark.closing or text[pos : mark.start].strip():
                return None
            pos = mark.end
        # A value never ends with its own end tag: a second one is surplus.
        tag, first, at = text[last.start : last.end], last.start, last.start
        while at > value.own.end:
            if text[at - 1].isspace():
                at -= 1
            elif text.endswith(tag, value.own.end, at):
                first = at = at - len(tag)
            else:
                break
        if first < last.start and not text[value.own.end : first].strip():
            raise NoCall("an end tag is there twice around nothing")
        return None if value.is_in_quotation(first, value.source.blanks(pos)) else RawEnd(first, last.end)

    def _opening(self, mark: Mark) -> None:
        value = self.value
        mark.key = value.other_key(mark)
        if mark.key:
            placed = value.is_placed(mark.start)
            if self.split and not self.fallback and mark.key == self.split.key:
                self.again |= placed
            if not self.stack and placed:
                if self.shown_ends:
                    raise NoCall("text between two values")
                self.split = self.split or mark
            elif not self.stack:
                self.doubtful = self.doubtful or mark
        if mark.level is not Level.VALUE:
            # If the call's tags begin lines, a tag in the middle of a line is only mentioned.
            placed = not value.layout.lined or mark.start == value.own.end or value.begins_line(mark.start)
            (self.stack if placed else self.named).append(mark)
            return
        self.opened_value = True
        if mark.word == value.own.word and self.shown_ends:
            self.shown_ends -= 1  # `</x><x>` is as balanced as `<x></x>`
        elif mark.word == value.own.word:
            self.stack.append(mark)

    def _closing(self, mark: Mark) -> RawEnd | None:
        closed = self.value.close(mark, self.stack)
        if mark.level is Level.VALUE:
            self.last_end = mark
            if closed is None:
                return self._value_end(mark)
            self._note_inner(mark, closed)
        if closed:
            return None
        if named := self.value.close(mark, self.named):
            if self.split and named.start < self.split.start:
                self.split = self.fallback = None  # the key was inside text that is shown
            return None
        if not self.value.is_spelled(mark):
            return None
        return self._call_end(mark)

    def _value_end(self, mark: Mark) -> RawEnd | None:
        """Return the end at an end tag that closes nothing inside the value."""
        value, is_own = self.value, mark.closes(self.value.own)
        if value.own.word == KEY and mark.kind == value.own.kind:
            self.stack = []  # it names the key, so tags in the text need not be closed
        follows, resume = value.follows(mark, self.stack)
        if follows is Follows.TEXT:
            self.shown_ends += is_own
            self.passed |= is_own
            return None
        if resume > mark.end:
            # A value never ends with its own end tag: the second one is surplus.
            if not value.source.text[value.own.end : mark.start].strip():
                raise NoCall("an end tag is there twice around nothing")
            inner = [each.closing for each in value.between(value.own.end, mark.start) if each.level is Level.VALUE]
            if inner.count(False) > inner.count(True):
                raise NoCall("what a value shows is not closed")
            return RawEnd(mark.start, resume)
        if self.fallback is not None and not (value.holds_keys and is_own):
            raise NoCall("another key may begin in a value")
        if self.passed and self.stack:
            raise NoCall("what a value shows is not closed")
        value.foreign = not is_own
        if follows is Follows.NOTHING:
            # A tag after an end-of-turn token shows that the value may continue.
            later, tagged = value.marks.after(mark.end), any(value.layout.words.values())
            if later and (later.level is Level.VALUE if later.closing else tagged):
                raise NoCall("a value may end after a token")
            if later is None and tagged and not value.source.final:
                raise NeedMore
        return RawEnd(mark.start, mark.end)

    def _note_inner(self, mark: Mark, inner: Mark) -> None:
        """Note that the value's own end tag is missing if the call continues after the end of a key opened inside."""
        glued = inner is self.doubtful and self.value.source.text[inner.start - 1] not in f" \t{_QUOTES}"
        doubtful = glued and not self.named
        if not doubtful and inner is not self.split:
            return
        follows = self.value.follows(mark, self.stack)[0]
        if doubtful and follows in (Follows.END, Follows.NOTHING):
            raise NoCall("a key's opener in a line may be shown")
        if inner is self.split and follows is not Follows.TEXT:
            self.fallback = self.fallback or RawEnd(inner.start, inner.start, True)

    def _call_end(self, mark: Mark) -> RawEnd | None:
        """Return the end at an end tag of the call or its wrapper, if the value's own may be missing."""
        value = self.value
        if mark.level is Level.CALL:
            over = value.follows(mark)[0] is not Follows.TEXT
        else:
            pos = value.source.blanks(mark.end)
            inside = value.marks.at(pos)
            # The call continues after the tag, which is part of the value.
            over = value.wrapper_is_over(mark.end) and (inside is None or inside.level is Level.WRAPPER)
        if not over:
            return None
        if self.fallback is not None:
            return self.fallback
        if self.doubtful in self.stack:
            raise NoCall("a key's opener in a line may be shown")
        at = self.split.start if self.split and self.split in self.stack else mark.start
        return RawEnd(at, at, True)


class _Fences:
    """Code fences in a value. Fences that are never closed do not count.

    `depth` is the number of values open in a fence.
    """

    def __init__(self, source: Source, start: int) -> None:
        self._source, self._start, self._pos = source, start, start
        self._begin = self._end = -1
        self.depth = 0

    def holds(self, pos: int) -> bool:
        """Return whether a fence is open at a position. Positions must not decrease."""
        while self._end <= pos and self._next(pos):
            pass
        return self._begin <= pos < self._end

    def _next(self, limit: int) -> bool:
        """Advance to the next fence that begins before `limit`; return whether there is one."""
        text = self._source.text
        found = _FIRST_FENCE.match(text, self._pos, limit) if self._pos == self._start else None
        found = found or _FENCE.search(text, self._pos, limit)
        if found is None:
            line = max(self._pos, text.rfind("\n", self._pos, limit) + 1)
            self._pos = limit if text[line:limit].strip(" \t`~") else line
            return False
        mark = found.group(found.lastindex or 1)
        # An end tag may be glued to the closing fence.
        end = rf"^[ \t]*{re.escape(mark)}{re.escape(mark[0])}*(?=[ \t]*(?:$|</|{re.escape(SEP)}))"
        closing = re.compile(r"\]\]>" if mark[0] == "<" else end, re.M).search(text, found.end())
        if not self._source.final and (closing is None or closing.end() == len(text)):
            raise NeedMore
        if closing is None:
            self._pos = len(text)
            return False
        self._pos, self._begin, self._end, self.depth = closing.end(), found.start(), closing.end(), 0
        return True
