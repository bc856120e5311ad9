"""Arguments whose strings hold quotation marks without a backslash, read by the schema (contract C9).

    {"path": "a.js", "content": "console.log("hi")"}

No reader of JSON can tell which mark ends the second string; the schema can, in one pass from the left:
* a string ends at the first mark behind which stand a comma and one of its object's own keys that is not yet given, in
  quotation marks, with its colon: `", "content":`;
* the last string of an object ends at that object's last mark: the one behind which all brackets close, up to the end
  of the text, to the next own key of an object further out, or to the next object of an array;
* three marks that begin a string are one delimiter: `\"\"\"…\"\"\"`.

Nothing is guessed. Where the text has a second reading, it has none: an own key's opener that stands twice, also
behind the closers of what is nested; a second object behind one that may be whole; a mark without a backslash in an
array of strings; an opener of a key that only may be meant; another string behind a mark; a path like `C:\\new`, for
whoever left out the backslashes of marks may have left out others. Nothing supplies the end of a string, and each that
comes of it is what stood between its two marks, its escapes decoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import ClassVar

from proxy.codec.json_text import Json, JsonObject, is_deep
from proxy.codec.literals import has_doubtful_path, read_literal, unescape
from proxy.limits import MAX_DEPTH
from proxy.tools.schema import Schema
from proxy.tools.validator import children

_BLANKS = re.compile(r"[ \t\r\n]*")
_MARK = {'"': re.compile(r'\\.|"', re.DOTALL), "'": re.compile(r"\\.|'", re.DOTALL)}
# A key in its quotation marks and its colon; no key of a tool holds marks, line ends or backslashes.
_KEY = re.compile(r"""(["'])([^"'\\\r\n]{1,128})\1[ \t\r\n]*:""")
# The same of a key that may be misspelt.
_ANY_KEY = re.compile(r"""(["'])([^"'\r\n]{1,128})\1[ \t\r\n]*:""")
# The same of one that may have lost its second mark, or its colon.
_HALF_KEY = re.compile(r"""(["'])([^"':\r\n]{1,128}+)(?:\1{0,2}[ \t\r\n]*+:|\1[ \t\r\n]*+["'])""")
_BEFORE_KEY = (",", ";", "}", "]", "[")
_BRACKETS = ("}", "]")
_MISSPELT = ",;:.{}[]\\ "
# What may be the opener of a key, however broken.
_BROKEN_KEY = re.compile(r"""(?:[ \t\r\n]*[,;][ \t\r\n]*[^\w\s]{0,2}|[ \t\r\n]+["']?|["'])([A-Za-z_][\w.-]{0,127})""")
_STRICT_STRING = {mark: re.compile(rf"{mark}((?:[^{mark}\\]|\\.)*+){mark}", re.DOTALL) for mark in "\"'"}
# How far back a comma is looked for.
_NEAR = 32
_QUOTED_TWO_WAYS = "where a string ends can be read in two ways"
_SCALAR = re.compile(r"[^\s,:{}\[\]\"']+")
_CLOSERS = re.compile(r"(?>(?:[ \t\r\n]*+(?:,[ \t\r\n]*+)?[}\]]){1,500})")
# Another key behind a mark, whatever brackets and commas stand between: `"}, {"path":`, `"},, "path":`, `" {"path":`.
_MORE_KEYS = re.compile(
    r"""(?:[ \t\r\n]*+[,;}\]]|[ \t\r\n]++\{)[ \t\r\n,;:{}\[\]]*+"""
    r"""(["'])[^"'\r\n]{1,128}\1{1,2}(?:[ \t\r\n,;{}\[\]]*+:|[ \t\r\n]*+["'])""",
)
# Another string behind a mark: `"a" + "b"`, `"a", "b"`, `"a" "b"`.
_MORE_STRINGS = re.compile(r"""(?:[ \t\r\n]++[,;+.%|&]{0,2}|[,;+.%|&]{1,2})[ \t\r\n]*+["']""")
# What ends with a mark that may as well be the string's end, said twice: `ls"`, and not `a "`.
_DOUBLED_END = re.compile(r"""\S["']\Z""")
_OBJECT = frozenset(("object",))
# An item of an array that is no object.
_ITEM = re.compile(r"""\[|(?:"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'|[\w.+-]++)[ \t\r\n]*[,\]]""", re.DOTALL)


class _End(Enum):
    """The certainty of a string's end, by the text behind its quotation mark."""

    # The text is over, or a required key of its object begins: it can be nothing else.
    SURE = auto()
    # The next object of an array begins, or a key that could as well be missing: only if all marks come in pairs.
    PAIRED_ONLY = auto()


class _Doubt(Enum):
    """What speaks against the end of a string; one alone refutes nothing."""

    UNPAIRED = auto()  # it holds an odd number of marks
    NEEDS_PAIRS = auto()  # it ends where it does only if all marks come in pairs
    BARE_MARKS = auto()  # it has marks without a backslash
    DOUBTFUL_PATH = auto()  # it has what may be a path without its backslashes


# The doubts that together leave a second reading, and what that is.
_REFUTED: dict[frozenset[_Doubt], str] = {
    frozenset((_Doubt.NEEDS_PAIRS, _Doubt.UNPAIRED)): _QUOTED_TWO_WAYS,
    frozenset((_Doubt.BARE_MARKS, _Doubt.DOUBTFUL_PATH)): "the backslashes of a path can be read in two ways",
}


@dataclass(slots=True, eq=False)
class _Object:
    """An object that is being read: the keys that are its own, and those that were given so far, in their order."""

    parts: tuple[Schema, ...]
    parent: _Object | _Array | None
    closer: ClassVar[str] = "}"
    own: frozenset[str] = field(init=False)
    required: frozenset[str] = field(init=False)
    extensible: bool = field(init=False)
    given: list[str] = field(default_factory=list)

    def expects(self, key: str | None) -> bool:
        """True for an own key that was not given yet."""
        if key not in self.own:
            return False
        return key not in self.given

    def __post_init__(self) -> None:
        self.own = frozenset(key for part in self.parts for key in part.properties)
        self.required = frozenset(key for part in self.parts for key in part.required)
        self.extensible = any(part.extensible for part in self.parts)


@dataclass(slots=True, eq=False)
class _Array:
    """An array that is being read, and what the schema says of its items."""

    parts: tuple[Schema, ...]
    parent: _Object | _Array | None
    closer: ClassVar[str] = "]"

    @property
    def item_keys(self) -> frozenset[str]:
        return frozenset(key for part in self.parts for key in part.properties)

    @property
    def takes_others(self) -> bool:
        """True if the schema allows items that are no objects."""
        return not all(part.types <= _OBJECT for part in self.parts)


def read_unescaped(text: str, schema: Schema) -> JsonObject:
    """The object that a text stands for, of which strings hold quotation marks without a backslash.

    ValueError if the text has no reading, or more than one.
    """
    values = _Parser(text).whole_object(_Object(schema.all_parts(), None))
    if is_deep(values):
        raise ValueError("nested too deeply")
    return values


class _Parser:
    """One pass through the text: recursive descent, with the schema's keys in place of backslashes."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._pos = 0
        # All openers that stood behind a comma: `key`, or `{key` of an item.
        self._openers: set[str] = set()
        # Keys whose opener stood behind brackets, which a string in them may have shown.
        self._behind_brackets: set[str] = set()
        self._doubts: set[_Doubt] = set()

    def whole_object(self, frame: _Object) -> JsonObject:
        """The object that is all of the text."""
        self._pos = self._behind_blanks(0)
        values = self._object(frame)
        if self._behind_blanks(self._pos) < len(self._text):
            raise ValueError("more text follows the object")
        for doubts, why in _REFUTED.items():
            if doubts <= self._doubts:
                raise ValueError(why)
        return values

    def _behind_blanks(self, at: int) -> int:
        blanks = _BLANKS.match(self._text, at)
        assert blanks is not None  # it matches nothing, too
        return blanks.end()

    def _next(self) -> str:
        """Go over blanks; the character behind them, empty at the end."""
        self._pos = self._behind_blanks(self._pos)
        return self._text[self._pos : self._pos + 1]

    def _expect(self, mark: str) -> None:
        if self._next() != mark:
            raise ValueError(f"{mark!r} was expected")
        self._pos += 1

    def _object(self, frame: _Object) -> JsonObject:
        values: JsonObject = {}
        self._expect("{")
        if self._next() == "}":
            self._pos += 1
            return values
        nested = False
        while True:
            self._next()
            key = self._key()
            if key in frame.given:
                raise ValueError(f"the key {key!r} stands there twice")
            if frame.given:
                self._openers.add(key)
            if nested:
                self._behind_brackets.add(key)
            frame.given.append(key)
            values[key] = self._member(frame, key)
            nested = self._text[self._pos - 1] in _BRACKETS
            if self._next() != ",":
                break
            self._pos += 1
        self._expect("}")
        return values

    def _key(self) -> str:
        match = _KEY.match(self._text, self._pos)
        if match is None:
            raise ValueError("a key was expected")
        self._pos = match.end()
        return match.group(2)

    def _member(self, frame: _Object, key: str) -> Json:
        if self._next() not in _MARK:
            return self._value(_flat(children(key, frame.parts)), frame)
        if key in frame.own:
            return self._loose_string(frame)
        return self._strict_string()

    def _value(self, parts: tuple[Schema, ...], parent: _Object | _Array) -> Json:
        here = self._next()
        if _depth(parent) > MAX_DEPTH:
            raise ValueError("nested too deeply")
        if here == "{":
            return self._object(_Object(parts, parent))
        if here == "[":
            return self._array(_Array(_flat(part.items for part in parts), parent))
        if here in _MARK:
            return self._strict_string()
        match = _SCALAR.match(self._text, self._pos)
        if match is None:
            raise ValueError("a value was expected")
        self._pos = match.end()
        return read_literal(match.group())

    def _array(self, frame: _Array) -> list[Json]:
        items: list[Json] = []
        self._expect("[")
        if self._next() == "]":
            self._pos += 1
            return items
        while True:
            items.append(self._value(frame.parts, frame))
            if self._next() != ",":
                break
            self._pos += 1
            self._next()
            opener = self._opener_at(self._pos)
            if opener is not None:
                self._openers.add(opener)
        self._expect("]")
        return items

    def _strict_string(self) -> str:
        """A string that must have its backslashes."""
        match = _STRICT_STRING[self._next()].match(self._text, self._pos)
        if match is None:
            raise ValueError("a string does not end")
        self._pos = match.end()
        return self._unescaped(match.group(1))

    def _unescaped(self, inside: str) -> str:
        if has_doubtful_path(inside):
            self._doubts.add(_Doubt.DOUBTFUL_PATH)
        return unescape(inside)

    def _loose_string(self, frame: _Object) -> str:
        """A string up to the mark that the schema says is its end.

        {"cmd": "grep "a b" x", "cwd": "/"}
                ^     ^    ^ ^  ^ an own key follows: the end
        """
        mark = self._text[self._pos]
        delimiter = mark
        if self._text.startswith(mark * 3, self._pos):
            delimiter = mark * 3
            self._refuse_other_delimiter(mark, frame)
        start = self._pos + len(delimiter)
        marks, backslashes = 0, -1
        for match in _MARK[mark].finditer(self._text, start):
            if match.group() == "\\\\":
                backslashes = match.end()
            if match.group() != mark:
                continue
            end = self._end_at(match.start(), delimiter, frame)
            if end is not None:
                self._pos = match.start() + len(delimiter)
                return self._ended(end, self._text[start : match.start()], delimiter, marks)
            if match.start() == backslashes:
                raise ValueError("a mark behind two backslashes can be read in two ways")
            if delimiter == mark:
                self._refuse_second_reading(match.end(), frame, paired=marks % 2 == 0)
                self._refuse_key(match.start(), frame, outside=marks % 2 == 1)
            else:
                self._refuse_more_keys(match.start(), delimiter)
            marks += 1
        raise ValueError("a string does not end")

    def _refuse_other_delimiter(self, mark: str, frame: _Object) -> None:
        """Three marks that begin a string must be its delimiter, and not one that the string's own marks follow.

        \"\"\"\"\"\" is the empty text in three marks, or four marks in one; \"\"\", may be a mark in marks.
        """
        behind = self._pos + 3
        if self._text.startswith(mark, behind) or self._end_behind(behind, frame) is not None:
            raise ValueError(_QUOTED_TWO_WAYS)

    def _refuse_more_keys(self, at: int, delimiter: str) -> None:
        """Three marks that end nothing must not stand before another key: `\"\"\"a\"\"\"}{"old": \"\"\"a\"\"\"`."""
        if not self._text.startswith(delimiter, at):
            return
        if _MORE_KEYS.match(self._text, at + len(delimiter)):
            raise ValueError(_QUOTED_TWO_WAYS)

    def _end_at(self, at: int, delimiter: str, frame: _Object) -> _End | None:
        """The certainty that the mark at a place ends its string; None if it does not."""
        if not self._text.startswith(delimiter, at):
            return None
        return self._end_behind(at + len(delimiter), frame)

    def _ended(self, end: _End, inside: str, delimiter: str, marks: int) -> str:
        """The string that ended behind so many marks of its own; noted is what speaks against that end.

        The last mark of `x = {"a": "b"}` is none if the string broke off there.
        """
        # Between three marks each one is the string's own, in pairs or not.
        if len(delimiter) == 1 and marks % 2:
            if _DOUBLED_END.search(inside):
                raise ValueError("a mark that stands there twice can be read in two ways")
            if _opens_more(inside):
                raise ValueError("a string does not end, or its brackets do not")
            self._doubts.add(_Doubt.UNPAIRED)
        if end is _End.PAIRED_ONLY:
            self._doubts.add(_Doubt.NEEDS_PAIRS)
        if marks:
            self._doubts.add(_Doubt.BARE_MARKS)
        return self._unescaped(inside)

    def _refuse_second_reading(self, at: int, frame: _Object, *, paired: bool) -> None:
        """A mark that is the string's own, with `at` behind it: it must not look like the end before another key.

        `paired` if the marks before it come in pairs, so that it would be an end as good as any.
        """
        broken = _group(_BROKEN_KEY.match(self._text, at), 1)
        if paired and frame.expects(broken):
            raise ValueError(_QUOTED_TWO_WAYS)
        self._refuse_opener_again(at)
        if paired and any(pattern.match(self._text, at) for pattern in (_MORE_KEYS, _MORE_STRINGS)):
            raise ValueError(_QUOTED_TWO_WAYS)
        behind, reached = self._behind_closers(at, frame)
        if reached is None:
            return
        if isinstance(reached, _Array):
            self._refuse_item(behind, reached, paired=paired)
        elif self._text.startswith(",", behind):
            self._refuse_key_behind_comma(self._behind_blanks(behind + 1), reached)
        else:
            self._refuse_key_without_comma(behind, reached, paired=paired)

    def _behind_closers(self, at: int, frame: _Object) -> tuple[int, _Object | _Array | None]:
        """The continuation behind a mark if it closed its string: the place behind the closers that fit, and the object
        or array that goes on there; None if all is closed.
        """
        reached: _Object | _Array | None = frame
        at = self._behind_blanks(at)
        while reached is not None:
            closer = at
            if self._text.startswith(",", at):
                closer = self._behind_blanks(at + 1)  # a comma may stand too many
            if not self._text.startswith(reached.closer, closer):
                break
            at, reached = self._behind_blanks(closer + 1), reached.parent
        return at, reached

    def _refuse_opener_again(self, at: int) -> None:
        """Behind a mark that is the string's own must not stand, whatever is closed between, an opener that ended a
        string before: either of them may be the one.

        {"o": {"note": "f("}, "path": "z")"}, "path": "p"}
                         ^ taken as the end   ^ as good as that
        """
        while (closers := _CLOSERS.match(self._text, at)) is not None:
            at = closers.end()  # of so many at most: an atomic group keeps what each was
        at = self._behind_blanks(at)
        if not self._text.startswith(",", at):
            return
        opener = self._opener_at(self._behind_blanks(at + 1))
        if opener in self._openers:
            raise ValueError(f"{opener!r} stands there twice")

    def _opener_at(self, at: int) -> str | None:
        """The opener that stands at a place: a key's as the key itself, an object's with its first key as `{key`."""
        if not self._text.startswith("{", at):
            return self._key_at(at)
        key = self._key_at(self._behind_blanks(at + 1))
        if key is None:
            return None
        return "{" + key

    def _refuse_item(self, at: int, frame: _Array, *, paired: bool) -> None:
        """`{"s": "a"}, 5` in an array: the mark may have been the end before the next item."""
        if not paired:
            return
        if not frame.takes_others:
            return
        if not self._text.startswith(",", at):
            return
        if _ITEM.match(self._text, self._behind_blanks(at + 1)):
            raise ValueError(_QUOTED_TWO_WAYS)

    def _refuse_key_behind_comma(self, at: int, frame: _Object) -> None:
        """`"a", "b": …` where `b` may be a key that the schema does not name."""
        if frame.extensible and _ANY_KEY.match(self._text, at):
            raise ValueError(_QUOTED_TWO_WAYS)

    def _refuse_key_without_comma(self, at: int, frame: _Object, *, paired: bool) -> None:
        """`"a" "b": …` where the comma before `b` may be lost."""
        key = self._key_at(at)
        if key not in frame.own:
            return
        if paired or key not in frame.given:
            raise ValueError(_QUOTED_TWO_WAYS)

    def _refuse_key(self, at: int, frame: _Object, *, outside: bool) -> None:
        """A mark that is the string's own must not open a key that is still to come, if the marks before it say that
        the string may be over, whatever stands between: a comment, or nothing but a line end; nor behind a comma, for
        the mark before that may be lost. Nor must it be the opener of a key again that stood behind brackets, for these
        may have been a string's: `{"l": [{"s": "f("}], "note": "z")"}, {"n": 0}], "note": "a"}`.
        """
        before = self._text[max(0, at - _NEAR) : at].rstrip()
        if before.endswith(",") and self._key_at(at) in self._behind_brackets:
            raise ValueError(_QUOTED_TWO_WAYS)
        if not outside and not before.endswith(_BEFORE_KEY):
            return
        key = _group(_HALF_KEY.match(self._text, at), 2)
        if key is not None and frame.expects(key.strip(_MISSPELT)):
            raise ValueError(_QUOTED_TWO_WAYS)

    def _key_at(self, at: int) -> str | None:
        """The key whose opener stands at a place."""
        return _group(_KEY.match(self._text, at), 2)

    def _end_behind(self, at: int, frame: _Object | _Array | None) -> _End | None:
        """The certainty that a value ends at `at` in this object or array; None if it may not."""
        while frame is not None:
            at = self._behind_blanks(at)
            if self._text.startswith(",", at):
                return self._next_member(self._behind_blanks(at + 1), frame)
            if not self._text.startswith(frame.closer, at):
                return None
            at, frame = at + 1, frame.parent
        if self._behind_blanks(at) < len(self._text):
            return None
        return _End.SURE

    def _next_member(self, at: int, frame: _Object | _Array) -> _End | None:
        """The same behind a comma."""
        if isinstance(frame, _Array):
            return self._next_item(at, frame)
        key = self._key_at(at)
        if not frame.expects(key):
            return None
        if key in frame.required:
            return _End.SURE
        return _End.PAIRED_ONLY

    def _next_item(self, at: int, frame: _Array) -> _End | None:
        """The same behind a comma of an array: the next of its objects must begin."""
        if not self._text.startswith("{", at):
            return None
        inside = self._behind_blanks(at + 1)
        if self._text.startswith("}", inside) or self._key_at(inside) in frame.item_keys:
            return _End.PAIRED_ONLY
        return None


def _group(found: re.Match[str] | None, number: int) -> str | None:
    """A group of what was found; None if nothing was."""
    if found is None:
        return None
    return found.group(number)


def _opens_more(inside: str) -> bool:
    """True if a bracket is open at the end of a text."""
    return any(inside.count(opener) > inside.count(closer) for opener, closer in ("{}", "[]"))


def _flat(schemas: Iterable[Schema | None]) -> tuple[Schema, ...]:
    """The schemas with all of their parts and alternatives."""
    return tuple(part for schema in schemas if schema is not None for part in schema.all_parts())


def _depth(frame: _Object | _Array | None) -> int:
    levels = 0
    while frame is not None:
        frame = frame.parent
        levels += 1
    return levels
