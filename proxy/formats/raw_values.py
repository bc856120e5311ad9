"""Raw values: text between tags, which may show the tags of its own family.

    <parameter=new>
    Close it with </parameter> as usual.
    </parameter>
    </function>

An end tag ends the value only if the whole chain of end tags behind it is the call's own
(`formats/end_tag_chains.py`), or if the next value begins behind it. Tags that were opened inside the value are closed
by the chains that match them: examples of whole calls are text. Where the value's end tag is missing, it ends before
the opening tag of one of the tool's other keys. If nothing qualifies up to the end of the reply, the last end tags that
could be the call's own are. `formats/raw_value_ends.py` judges the chains of one value; here is what the values of one
call have to do with each other.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

from proxy.codec.json_text import Json
from proxy.formats.end_tag_chains import BLANKS, Level, Lines, Markup
from proxy.formats.raw_value_ends import TWO_WAYS, ValueEnd, ValueEnds
from proxy.formats.raw_value_tags import LINE_ENDS
from proxy.parsing.cursor import Cursor, Parsing
from proxy.tools.toolset import Tool

# How often in one call a value may end before another one that begins in it.
MAX_SPLITS = 16
_NOTHING_FITS = "an end tag is missing, and no value fits"
# What an end tag begins with, in the families with raw values.
_END_TAG = re.compile(rb"</|<\|close\|>")
_TRAILING = re.compile(r"\r?\n[ \t]*\Z")


@dataclass(frozen=True, slots=True)
class RawText:
    """The text of a value as it was written; `unended` if its end tag is missing, or may be, and `begins_value` if the
    opening tag of a value stands in it.
    """

    text: str
    unended: bool = False
    begins_value: bool = False


class RawValues:
    """Reads the raw values of one call of a tool.

    `call_lined`: its opening tag stands on a line of its own inside its wrapper; None if that says nothing.
    """

    def __init__(self, cursor: Cursor, tool: Tool, call_lined: bool | None = None) -> None:
        self._cursor = cursor
        self._tool = tool
        self._call_lined = call_lined
        self._lined: bool | None = None
        self._indented = False
        # Where the chain begins that ends the call, once that is known, and how many values ended before another one.
        self._call_end = -1
        self._splits = 0
        # Whether the end tag of the last value is missing, or may be.
        self._doubted = False
        # What the keys of values were found to mean.
        self._meanings: dict[str, str] = {}
        # Other keys whose opening tags stand inside a value.
        self._shown: set[str] = set()

    def begins(self, start: int) -> None:
        """Say where the opening tag of a value stands: the first one tells how all are written."""
        if self._lined is not None:
            return
        if start:  # with nothing before it, it is not known
            self._lined = self._cursor.begins_line(start)
            self._indented = self._cursor.preceding(start) in BLANKS

    def may_begin(self, key: str | None, given: Collection[str], *, alike: bool = True) -> bool:
        """Whether the value of a key may begin at the cursor's position, behind the end tag of another value.

        One that the tool does not declare must stand where the call's own do, and be written alike; else the value
        shows it: `say </parameter> <parameter=KEY> in between`.
        """
        if key is None:
            return False
        if self._tool.meant(key, given) in self._tool.properties:
            self._doubted |= not alike
            return True
        if not alike:
            return False
        position = self._cursor.pos
        if self._lined:
            return self._cursor.begins_line(position)
        return not self._cursor.text(position - 1, position).isspace()

    def check_opener(self, key: str, given: Collection[str], *, alike: bool) -> None:
        """See to it that the opening tag at the cursor's position is no text of the value before it."""
        if not given or self._cursor.void:
            return
        self._cursor.reject_if(not self.may_begin(key, given, alike=alike), TWO_WAYS)
        if self._in_line():
            meant = self._tool.meant(key, given)
            # A key that may be missing, and whose value can be any text: it may be shown.
            may_be_shown = meant not in self._tool.required and self.is_text(meant)
            self._cursor.reject_if(may_be_shown, TWO_WAYS)
            self._doubted = True

    def _in_line(self) -> bool:
        """Whether the cursor is in the middle of a line, where the call writes no opening tags."""
        if not self._lined:
            return False
        return not self._cursor.begins_line(self._cursor.pos)

    def read(
        self, markup: Markup, key: str, given: Collection[str], *, padded: bool = False, opener: str = ""
    ) -> Parsing[RawText]:
        """Read the value of a key and its end tag, if it has one. `padded`: a line end behind its opening tag, and then
        one before its end tag, belong to the markup. `opener` is that tag, which may stand there twice.

        NotACall if its end cannot be told: too many end tags are missing, or the reply ends in it.
        """
        cursor = self._cursor
        start = cursor.pos
        markup = replace(markup, key=key)
        others = frozenset(self._tool.properties.keys() - self._meant((key, *given)))
        own_line = padded and (yield from cursor.peek(LINE_ENDS)) is not None
        lines = Lines(self._lined, self._call_lined, indented=self._indented)
        ends = ValueEnds(cursor, markup, others, lines, own_line=own_line, call_end=self._call_end)
        end = yield from ends.find()
        cursor.evidence.end_raw_value()
        if ends.seen.first is not None:
            self._splits += end.end <= ends.seen.first.start
        cursor.reject_if(self._splits > MAX_SPLITS, "too many end tags are missing")
        cursor.go_back(end.resume)
        self._call_end = end.chain
        text = self._text(start, end)
        if self.is_text(key):
            yield from self._check_end(markup, text, end, own_line=own_line, quotes_key=ends.seen.quotes_key)
        # `<parameter=old>⏎a⏎<parameter=KEY>⏎b⏎</parameter>`: where end tags are missing, that of `old` may be too.
        lacks_tags = self._doubted or end.unended
        cursor.reject_if(ends.seen.shows_value and lacks_tags, TWO_WAYS)
        # `<parameter=old>⏎a⏎<parameter=new>⏎b⏎<parameter=new>`: the first one may be shown.
        cursor.reject_if(self._doubted and key in ends.seen.keys, TWO_WAYS)
        self._shown |= ends.seen.keys | ends.seen.suspects
        ends_of_tags = tuple(literal.decode() for literal in markup.literals if _END_TAG.search(literal))
        text = _without_second(text, opener, ends_of_tags)
        unended = end.unended or bool(ends.seen.suspects)
        return RawText(text, unended, ends.seen.begins_value)

    def _check_end(
        self, markup: Markup, text: str, end: ValueEnd, *, own_line: bool, quotes_key: bool
    ) -> Parsing[None]:
        """See to it that a text could not end elsewhere."""
        cursor = self._cursor
        if end.unended:
            cursor.reject_if(own_line and self._has_two_ends(text), TWO_WAYS)
            # `<parameter=a>"<parameter=b>"x"</function>` shows a tag, or lacks the end tag before it.
            cursor.reject_if(quotes_key, TWO_WAYS)
            return
        again = yield from cursor.ahead(cursor.maybe(_ends_again(cursor, markup)))
        cursor.reject_if(bool(again), TWO_WAYS)

    def _has_two_ends(self, text: str) -> bool:
        """Whether a text without an end tag may lack the tag alone, or its line.

        `<parameter=new>⏎a⏎⏎</function>` is `a` or `a⏎`.
        """
        if self._lined is False:
            return False
        if len(text) <= 2:
            return False
        return _TRAILING.search(text) is not None

    def check(self, key: str, value: Json, read: RawText) -> None:
        """See to it that a value is what its key wants, if the end tag of it or of the one before may be missing.

        `<parameter=count>5<parameter=note>x</parameter>` is no number, whether the tool declares a `note` or not.
        """
        doubted = self._doubted or read.unended
        self._doubted = read.unended
        if not isinstance(value, str):
            return
        if doubted or read.begins_value:
            self._cursor.reject_if(not self.is_text(key), _NOTHING_FITS)
        if read.begins_value:
            unlisted = self._tool.parameter(key).is_unlisted(value)
            self._cursor.reject_if(unlisted, _NOTHING_FITS)

    def finish(self, given: Collection[str]) -> None:
        """Say that the call has no more values.

        If a required key never came, but its opening tag stands inside a value, that one may have ended before it.
        """
        lost = self._shown & self._tool.required - self._meant(given)
        self._cursor.reject_if(bool(lost), "a value may lack its end tag")

    def _meant(self, written: Collection[str]) -> set[str]:
        """The keys of the tool that those which were written are spellings of."""
        for key in written:
            if key not in self._meanings:
                self._meanings[key] = self._tool.meant(key, written)
        return {self._meanings[key] for key in written}

    def is_text(self, key: str) -> bool:
        """Whether the value of a key may be a text."""
        return "string" in self._tool.parameter(key).types

    def _text(self, start: int, end: ValueEnd) -> str:
        """The text of the value, without the line end of the markup before a missing end tag."""
        text = self._cursor.text(start, end.end)
        if not end.unended:
            return text
        return text if self._lined is False else _TRAILING.sub("", text)


def _without_second(text: str, opener: str, end_tags: Collection[str]) -> str:
    """The text of a value without its own opening tag at its beginning, if nothing closes that inside.

    `<parameter=path><parameter=path>a.py</parameter>` is `a.py`; with a second end tag the text shows a parameter.
    """
    if not opener:
        return text
    rest = text
    inside = rest.lstrip()
    while inside.startswith(opener):
        rest = inside.removeprefix(opener)
        inside = rest.lstrip()
    if any(each in rest for each in (opener, *end_tags)):
        return text
    return rest


def _ends_again(cursor: Cursor, markup: Markup) -> Parsing[bool]:
    """Whether another end tag of the value stands here: then the one before may be the end of its text.

    `<parameter=new>a</parameter></parameter>` is `a`, or `a</parameter>`.
    """
    yield from cursor.blanks()
    mark = yield from markup.read(cursor)
    if mark is None or not mark.closing:
        return False
    if mark.level is not Level.VALUE:
        return False
    return markup.may_end(mark)
