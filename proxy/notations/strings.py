"""Quoted strings, and where they end.

A string ends at its first quotation mark if the text after it is valid after a value. Otherwise quotation marks inside
lack their backslashes. The string then ends at the first mark followed by text that the schema allows: a comma and a
declared key that is not given yet, or the open brackets and then such a key or the end of the call.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property

import regex

from proxy.notations.schema import ANYTHING, Schema
from proxy.notations.source import NeedMore, NoCall, Source, end_of
from proxy.notations.string_escapes import has_doubtful_path, unescape

MARKS = {'"': '"', "'": "'", "“": "”", "„": "“", "”": "”", "‘": "’", "’": "’", "`": "`"}
TYPOGRAPHIC = "”“’"
# Whitespace and comments. `//` is not a comment if a string may end on its line.
_COMMENT = regex.compile(r"(?:\s|//(?![^\n]{0,400}\"\s{0,9}[\]})])[^\n]{0,400}|/\*.{0,400}?\*/)*", regex.S)
_PYTHON_COMMENT = regex.compile(r"(?:\s|#[^\n]*)*")
_SKIPPED = frozenset((*" \t\r\n\f\v/#", ""))
# Another string after this one: `"a" + "b"`, `"a" "b"`, `"a", "b"`.
_BEFORE_OPENING = frozenset(" \t\n([{=,:")
_ANOTHER_STRING = regex.compile(
    r"(?:\s*+[-,;+.%|&*/?=<>!]{1,3}|\s++(?:(?:if|or|and|else|in|not)\b[^\"'\n]{0,40})?)\s*+[\"']|([\"'])(?<=\w\1\1)\w"
)
_LAST_COMMENT = re.compile(r"[\"'][ \t]*(?:(?://|#)[^\n\\]{0,200}|/\*[^*\\]{0,200}(?:\*/\s{0,9})?)\Z")
_QUOTED_MEMBER = re.compile(r"[\"'](?P<K>[^\"'\\\n]{1,80})[\"']\s*:")
_MEMBER = re.compile(r"[\"'](?P<quoted>[^\"'\\\n]{1,80})[\"']\s*:|\b(?P<bare>[\w$.-]{1,80})\s*:")
# The last mark of a string may be doubled: `ls""`, but not `a ""`.
_DOUBLED_END = re.compile(r"\S[\"']\Z")
# The last mark in a string opens a quotation that the string's end may close: `git commit -m "fix`.
_OPENS_LAST = re.compile(r"(?:^|[\s(\[{=,:])[\"'][^\s\"'][^\"']*\Z")
_NEXT_ARGUMENT = re.compile(r"([\"'])\s*,\s*[A-Za-z_]\w*\s*=\s*\1")
_NEXT_KEY = regex.compile(
    r"[\"'“„](?P<quoted>[^\"'”“\n\\]{1,80})[\"'”“]\s*[:=](?!=)|(?P<bare>[^\W\d]\w{0,60})\s*[:=](?!=)|--(?P<option>[\w.-]{1,80})"
)
_NEXT_ITEM = regex.compile(r"[\"'“‘\[{(<]|-?\d|true|false|null|None|True|False")
_BRACKETS = re.compile(r"[\s}\])]*")
_BEHIND_PYTHON = regex.compile(r"\s*(?:[\])};]|,\s*[A-Za-z_][\w.-]*(?::\d+)?\(|<|$|\n|```)")


class Oddity(Enum):
    """A deviation from standard JSON that is reported by name."""

    DUPLICATE_KEY = auto()
    BARE_KEYS = auto()
    LOST_COMMAS = auto()
    COMMENTS = auto()
    SMART_QUOTES = auto()
    CLOSERS = auto()
    INNER_QUOTES = auto()
    # None of these.
    OTHER = auto()


class OpenString(NoCall):
    """A string is unreadable, and may extend to the end of the text. Calls in it do not count."""


NOT_ODD = frozenset[Oddity]()


@dataclass(slots=True)
class Open:
    """An open bracket: its closer and schema, whether it is a list, the declared keys, the declared keys not given yet,
    and whether one of its values is a string.
    """

    close: str
    schema: Schema
    listed: bool = False
    declared: frozenset[str] = frozenset()
    keys: set[str] = field(default_factory=set)
    has_text: bool = False


class StringReader:
    """Reader of strings, aware of the open brackets around them.

    `schema` is the schema of the whole value, or a function that returns it when it is needed. `closers` matches text
    that may follow the whole value. `strict`: try strict JSON first. `alone`: only `closers` may follow the value.

    Results: `odd`, deviations from standard JSON, none for strict JSON; `told`, the strings with an inferred end;
    `bares`, those without quotation marks; `lost_comma`, a comma after a string is missing or surplus.
    """

    # Python's comments, prefixes and escapes.
    python = False

    def __init__(
        self,
        source: Source,
        schema: Schema | Callable[[], Schema] = ANYTHING,
        closers: regex.Pattern[str] | None = None,
    ) -> None:
        self.source, self.closers = source, closers
        self._schema, self._open = schema, list[Open]()
        # A string may contain a Windows path with single backslashes.
        self._paths = False
        self.odd = set[Oddity]()
        self.lost_comma = False
        self.told = list[str]()
        self.bares = set[str]()
        # `_undeclared`: a key is not declared by its object. `_strayed`: a key is declared by an enclosing object.
        self._undeclared = self._strayed = False
        # An object or list is in place of a string, and no declared key followed.
        self._for_text = False
        # `_after_comma`: a comma precedes the last part or closing bracket that was met. `_printed`: Python printed
        # the value, with Python's escapes.
        self._after_comma = self._printed = False
        self.strict, self.alone = True, False

    @cached_property
    def schema(self) -> Schema:
        """The schema of the whole value."""
        return self._schema if isinstance(self._schema, Schema) else self._schema()

    @property
    def marks_told(self) -> bool:
        """True if a quotation mark inside a string lacks its backslash, so that the string's end was inferred."""
        return Oddity.INNER_QUOTES in self.odd

    @property
    def completed(self) -> bool:
        """True if closing brackets were missing."""
        return Oddity.CLOSERS in self.odd

    @property
    def is_told(self) -> bool:
        """True if the end of a string or bracket was inferred from the following text."""
        return self.marks_told or self.lost_comma or self.completed

    def skip(self, pos: int) -> int:
        """Return the position after whitespace and comments."""
        if self.source.text[pos : pos + 1] not in _SKIPPED:
            return pos
        found = self.source.match(_PYTHON_COMMENT if self.python else _COMMENT, pos, bounded=False)
        return found.end() if found else pos

    def string(self, pos: int) -> tuple[str, int]:
        """Return a quoted string, up to the first mark after which the text is valid after a value."""
        source, mark = self.source, MARKS[self.source.text[pos]]
        if mark in TYPOGRAPHIC:
            self.odd.add(Oddity.SMART_QUOTES)
        if source.starts(mark * 3, pos):
            if mark == "`":
                raise NoCall("a fence, and no string")
            return self._tripled(mark * 3, pos + 3)
        start = at = pos + 1
        told = inside = False
        while (at := _next_mark(source.text, mark, at)) >= 0 and not self._may_end(at + 1):
            ends = not inside and source.text[at - 1] not in _BEFORE_OPENING
            if source.text[at - 1] == "\\" or (ends and source.match(_ANOTHER_STRING, at + 1)):
                raise OpenString("two strings side by side, or a mark after two backslashes")
            told, inside = True, not inside
            self.odd.add(Oddity.INNER_QUOTES)
            at += 1
        if at < 0:
            if not source.final:
                raise NeedMore
            raise OpenString("a string without its end")
        text = source.text[start:at]
        # With an odd number of marks inside, the closing mark may be missing, and the string may include other calls.
        odd = (text.count(mark) - text.count("\\" + mark)) % 2
        named = bool(self._open) and not self._open[-1].listed and bool(self._open[-1].declared)
        if told and (not named or (odd and not self._sure_end(text, at + 1)) or self._may_have_ended(text)):
            raise OpenString("a string may end elsewhere")
        self.told += [text] * told
        # A model that omits backslashes before marks omits them in paths, too: `say "x" in C:\new`.
        self._paths |= has_doubtful_path(text)
        return self._unescaped(text, mark), at + 1

    def _sure_end(self, text: str, end: int) -> bool:
        """Return whether a string with an odd number of marks inside can end only here.

        The text must be a single value, and the end of the value or a required key must follow. The missing mark must
        not be one before a key: `"a, "b": "c"`.
        """
        if not self.alone or _DOUBLED_END.search(text) or _depth(text) > 0 or _OPENS_LAST.search(text):
            return False
        if any((found["quoted"] or found["bare"]) in self._open[-1].declared for found in _MEMBER.finditer(text)):
            return False
        pos = self.skip(end)
        if self.source.text.startswith(",", pos):
            required = {key for part in self._open[-1].schema.all_parts() for key in part.required}
            return self._key_at(self.skip(pos + 1)) in required
        return self.skip(end_of(_BRACKETS, self.source.text, pos)) >= self.source.size

    def _unescaped(self, text: str, mark: str) -> str:
        """Return a string with its escapes decoded. Raise NoCall if its backslashes are ambiguous.

        A single-quoted string may be one of Python, where more is an escape: `'\\x1b'`.
        """
        python = self.python or self._printed
        try:
            value = unescape(text, python=python)
            if mark == "'" and value != unescape(text, python=True):
                raise NoCall("escapes of Python, or of none")
        except ValueError as error:
            raise NoCall(str(error)) from None
        return value

    def _tripled(self, marks: str, start: int) -> tuple[str, int]:
        """Return a string between three marks."""
        end = self.source.find(marks, start)
        while end >= 0 and not self._may_end(end + 3):
            end = self.source.find(marks, end + 1)
        if end < 0:
            raise NoCall("a string without its end")
        text = self.source.text[start:end]
        if not self.python and (not text or text[0] == marks[0]):
            raise OpenString("the marks may be the text's own")
        return self._unescaped(text, marks[0]), end + 3

    def _may_have_ended(self, text: str) -> bool:
        """Return whether a string with marks inside may have ended earlier: before a declared key, a key outside of
        any nested object, or a trailing comment.
        """
        if _LAST_COMMENT.search(text) or (self.python and _NEXT_ARGUMENT.search(text)):
            return True
        depth = at = 0
        for found in _QUOTED_MEMBER.finditer(text):
            depth += _depth(text[at : found.start("K")])
            at = found.start("K")
            if depth <= 0 or (self._open and found["K"] in self._open[-1].declared):
                return True
        return False

    def _may_end(self, pos: int) -> bool:
        """Return whether a string may end before this position: a key, a bracket, or the end of the value follows."""
        source, written = self.source, pos
        pos = self.skip(pos)
        if pos >= source.size:
            return True
        sign = source.text[pos]
        if sign in "}])":
            return self._closes(pos)
        if sign == ",":
            pos = self.skip(pos + 1)
            if source.text[pos : pos + 1] in ("}", "]", ")"):
                return not self.marks_told and self._closes(pos)
            return self._goes_on(pos, len(self._open))
        if self.closers and sign in "<[`>|" and source.match(self.closers, pos):
            return True
        # A comma may be missing before a declared key, or `},` before the next item.
        if sign == "{":
            pos = self.skip(pos + 1)
        opened = self._open[-1] if self._open else None
        apart = pos > written or sign in MARKS or self.python
        return opened is not None and apart and self._key_at(pos) in opened.declared

    def _closes(self, pos: int) -> bool:
        """Return whether open brackets close here, and text that the schema allows follows."""
        source, text, level = self.source, self.source.text, len(self._open)
        while level and text.startswith(self._open[level - 1].close, pos):
            level, pos = level - 1, pos + 1
            if self.python and not level:
                return source.match(_BEHIND_PYTHON, pos) is not None
            pos = self.skip(pos)
            after = self.skip(pos + 1) if level and not self.marks_told and text.startswith(",", pos) else pos
            pos = after if level and text.startswith(self._open[level - 1].close, after) else pos
        if pos >= source.size:
            return True
        if level == len(self._open):  # other brackets: the string may end before a key of the call, and is rejected
            pos = self.skip(end_of(_BRACKETS, text, pos))
            key = self._key_at(self.skip(pos + 1)) if text.startswith(",", pos) else None
            return any(key in each.declared for each in self._open)
        if text[pos] == ",":
            return self._goes_on(self.skip(pos + 1), level)
        if self.closers and source.match(self.closers, pos):
            return True
        return not self.marks_told and self._goes_on_loosely(pos, level)

    def _goes_on_loosely(self, pos: int, level: int) -> bool:
        """Return whether there are surplus closing brackets, or a comma is missing before a key or another object."""
        source = self.source
        if not level:
            if self.strict and not self.alone:
                return True
            pos = self.skip(end_of(_BRACKETS, source.text, pos))
            ended = pos >= source.size or (self.closers is not None and source.match(self.closers, pos) is not None)
            if ended or self.alone:
                return ended
        return bool(self._key_at(self.skip(pos + 1) if source.text[pos] == "{" else pos))

    def _goes_on(self, pos: int, level: int) -> bool:
        """Return whether a key or an item follows a comma in the bracket at `level`."""
        source = self.source
        if pos >= source.size:
            return True
        opened = self._open[level - 1] if level else None
        if opened is None:
            return not self.alone and (source.text[pos] in "{[" or (not self.marks_told and bool(self._key_at(pos))))
        if opened.listed:
            found = source.match(_NEXT_ITEM, pos)
            if found is None or level == len(self._open) or not (self.marks_told or opened.declared):
                return found is not None
            if found.group() != "{":
                return found.group() == "["
            pos = self.skip(pos + 1)
            return source.starts("}", pos) or not opened.declared or self._key_at(pos) in opened.declared
        in_item = source.text[pos] == "{"  # the closing bracket before another item may be missing
        if in_item:
            pos = self.skip(pos + 1)
            if source.starts("}", pos):
                return True
        key = self._key_at(pos)
        if not self.marks_told:
            return bool(key)
        if not in_item and key in opened.declared - opened.keys:
            raise OpenString("a key may be there twice")
        return key in opened.declared

    def _key_at(self, pos: int) -> str | None:
        """Return the key at a position, or None."""
        found = self.source.match(_NEXT_KEY, pos)
        return found["quoted"] or found["bare"] or found["option"] if found else None


def _next_mark(text: str, mark: str, at: int) -> int:
    """Return the position of the next mark that is not escaped, or -1."""
    while (at := text.find(mark, at)) >= 0:
        back = at
        while text[back - 1] == "\\":
            back -= 1
        if (at - back) % 2 == 0:
            return at
        at += 1
    return -1


def _depth(text: str) -> int:
    """Return the number of brackets that a text opens minus those that it closes."""
    return text.count("{") + text.count("[") - text.count("}") - text.count("]")
