"""Arguments whose strings hold quotation marks without a backslash, read by the schema (contract C9).

    {"path": "a.js", "content": "console.log("hi")"}

No reader of JSON can tell which mark ends the second string; the schema can, in one pass from the left:

* a string ends at the first mark behind which stand a comma and one of its object's own keys that is not yet given, in
  quotation marks, with its colon: `", "content":`;
* the last string of an object ends at that object's last mark: the one behind which all brackets close, up to the end
  of the text, to the next own key of an object further out, or to the next object of an array;
* three marks that begin a string are one delimiter: `\"\"\"…\"\"\"`.

Nothing is guessed. Where the text has a second reading, it has none: an own key's opener that stands twice, a mark
without a backslash in an array of strings, an opener of a key that only may be meant, a path like `C:\\new`: whoever
left out the backslashes of marks may have left out others. Nothing supplies the end of a string, and every string that
comes of it is what stood between its two marks, its escapes decoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from proxy.codec.json_text import Json, JsonObject
from proxy.codec.literals import has_doubtful_path, is_deep, read_literal, unescape
from proxy.limits import MAX_DEPTH
from proxy.tools.schema import Schema, all_parts, children

_BLANKS = re.compile(r"[ \t\r\n]*")
_MARK = {'"': re.compile(r'\\.|"', re.DOTALL), "'": re.compile(r"\\.|'", re.DOTALL)}
# A key in its quotation marks and its colon; no key of a tool holds marks, line ends or backslashes.
_KEY = re.compile(r"""(["'])([^"'\\\r\n]{1,128})\1[ \t\r\n]*:""")
# What may be the opener of a key, however broken.
_BROKEN_KEY = re.compile(r"""(?:[ \t\r\n]*[,;][ \t\r\n]*["']?|[ \t\r\n]+["']?|["'])([A-Za-z_][\w.-]{0,127})""")
_STRICT_STRING = {mark: re.compile(rf"{mark}((?:[^{mark}\\]|\\.)*+){mark}", re.DOTALL) for mark in "\"'"}
# How far back a comma is looked for.
_NEAR = 32
_SCALAR = re.compile(r"[^\s,:{}\[\]\"']+")


class _End(Enum):
    """What stands behind a quotation mark, if it is the end of a string."""

    # The text is over, or a required key of its object begins: it can be nothing else.
    SURE = auto()
    # The next object of an array begins, or a key that could as well be missing: only if all marks come in pairs.
    PAIRED_ONLY = auto()


@dataclass(slots=True, eq=False)
class _Object:
    """An object that is being read: the keys that are its own, and those that were given so far, in their order."""

    parts: tuple[Schema, ...]
    parent: _Object | _Array | None
    own: frozenset[str] = field(init=False)
    required: frozenset[str] = field(init=False)
    extensible: bool = field(init=False)
    given: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.own = frozenset(key for part in self.parts for key in part.properties)
        self.required = frozenset(key for part in self.parts for key in part.required)
        self.extensible = any(part.extensible for part in self.parts)


@dataclass(slots=True, eq=False)
class _Array:
    """An array that is being read, and what the schema says of its items."""

    parts: tuple[Schema, ...]
    parent: _Object | _Array | None

    @property
    def item_keys(self) -> frozenset[str]:
        return frozenset(key for part in self.parts for key in part.properties)


def read_unescaped(text: str, shape: Schema) -> JsonObject:
    """The object that a text stands for, of which strings hold quotation marks without a backslash.

    ValueError if the text has no reading, or more than one.
    """
    reader = _Reader(text)
    values = reader.whole_object(_Object(all_parts(shape), None))
    if is_deep(values):
        raise ValueError("nested too deeply")
    return values


class _Reader:
    """A position in the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._pos = 0
        # Strings that hold an odd number of marks, and boundaries that count only if no string does.
        self._unpaired = False
        self._needs_pairs = False
        # A string has marks without a backslash, and one has what may be a path without its backslashes.
        self._bare_marks = False
        self._doubtful_path = False

    def whole_object(self, frame: _Object) -> JsonObject:
        """The object that is all of the text."""
        self._pos = self._behind_blanks(0)
        values = self._object(frame)
        if self._behind_blanks(self._pos) < len(self._text):
            raise ValueError("more text follows the object")
        if self._needs_pairs and self._unpaired:
            raise ValueError("where a string ends can be read in two ways")
        if self._bare_marks and self._doubtful_path:
            raise ValueError("the backslashes of a path can be read in two ways")
        return values

    def _behind_blanks(self, at: int) -> int:
        found = _BLANKS.match(self._text, at)
        return found.end() if found else at

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
        while True:
            here = self._next()
            if here == "}" and not values:
                break
            key = self._key()
            if key in frame.given:
                raise ValueError(f"the key {key!r} stands there twice")
            frame.given.append(key)
            values[key] = self._member(frame, key)
            if self._next() != ",":
                break
            self._pos += 1
        self._expect("}")
        return values

    def _key(self) -> str:
        found = _KEY.match(self._text, self._pos)
        if found is None:
            raise ValueError("a key was expected")
        self._pos = found.end()
        return found.group(2)

    def _member(self, frame: _Object, key: str) -> Json:
        here = self._next()
        if here in _MARK and here:
            return self._loose_string(frame) if key in frame.own else self._strict_string()
        return self._value(_flat(children(key, frame.parts)), frame)

    def _value(self, parts: tuple[Schema, ...], parent: _Object | _Array) -> Json:
        here = self._next()
        if _depth(parent) > MAX_DEPTH:
            raise ValueError("nested too deeply")
        if here == "{":
            return self._object(_Object(parts, parent))
        if here == "[":
            return self._array(_Array(_flat(part.items for part in parts), parent))
        if here in _MARK and here:
            return self._strict_string()
        found = _SCALAR.match(self._text, self._pos)
        if found is None:
            raise ValueError("a value was expected")
        self._pos = found.end()
        return read_literal(found.group())

    def _array(self, frame: _Array) -> list[Json]:
        items: list[Json] = []
        self._expect("[")
        while True:
            here = self._next()
            if here == "]" and not items:
                break
            items.append(self._value(frame.parts, frame))
            if self._next() != ",":
                break
            self._pos += 1
        self._expect("]")
        return items

    def _strict_string(self) -> str:
        """A string that must have its backslashes."""
        found = _STRICT_STRING[self._next()].match(self._text, self._pos)
        if found is None:
            raise ValueError("a string does not end")
        self._pos = found.end()
        return self._unescaped(found.group(1))

    def _unescaped(self, inside: str) -> str:
        self._doubtful_path = self._doubtful_path or has_doubtful_path(inside)
        return unescape(inside)

    def _loose_string(self, frame: _Object) -> str:
        """A string up to the mark that the schema says is its end."""
        mark = self._text[self._pos]
        tripled = self._text.startswith(mark * 3, self._pos)
        delimiter = mark * 3 if tripled else mark
        start = self._pos + len(delimiter)
        at, marks, backslash = start, 0, -1
        while True:
            found = _MARK[mark].search(self._text, at)
            if found is None:
                raise ValueError("a string does not end")
            at = found.end()
            if found.group() != mark:
                backslash = at if found.group() == "\\\\" else backslash
                continue
            if self._text.startswith(delimiter, found.start()):
                end = self._end_behind(found.start() + len(delimiter), frame)
                if end is not None:
                    inside = self._text[start : found.start()]
                    # Between three marks each one is the string's own, in pairs or not.
                    self._ended(end, inside, paired=tripled or marks % 2 == 0)
                    self._pos = found.start() + len(delimiter)
                    self._bare_marks = self._bare_marks or marks > 0
                    return self._unescaped(inside)
            if found.start() == backslash:
                raise ValueError("a mark behind two backslashes can be read in two ways")
            if not tripled:
                self._refuse_second_reading(at, frame, paired=marks % 2 == 0)
                self._refuse_key(found.start(), frame, outside=marks % 2 == 1)
            marks += 1

    def _ended(self, end: _End, inside: str, *, paired: bool) -> None:
        """Note what speaks against an end that could also be none.

        The last mark of `x = {"a": "b"}` is none if the string broke off there.
        """
        if not paired and _opens_more(inside):
            raise ValueError("a string does not end, or its brackets do not")
        self._unpaired = self._unpaired or not paired
        self._needs_pairs = self._needs_pairs or end is _End.PAIRED_ONLY

    def _refuse_second_reading(self, at: int, frame: _Object, *, paired: bool) -> None:
        """A mark that is the string's own, with `at` behind it: it must not look like the end before another key.

        `paired` if the marks before it come in pairs, so that it would be an end as good as any.
        """
        broken = _BROKEN_KEY.match(self._text, at) if paired else None
        if broken is not None and broken.group(1) in frame.own and broken.group(1) not in frame.given:
            raise ValueError("where a string ends can be read in two ways")
        behind = self._behind_blanks(at)
        comma = self._text.startswith(",", behind)
        found = _KEY.match(self._text, self._behind_blanks(behind + 1) if comma else behind)
        if found is None:
            return
        key = found.group(2)
        if comma and key in frame.given[1:]:
            raise ValueError(f"the opener of the key {key!r} stands there twice")
        undeclared = comma and (paired or frame.extensible)
        comma_lost = not comma and key in frame.own and (paired or key not in frame.given)
        if undeclared or comma_lost:
            raise ValueError("where a string ends can be read in two ways")

    def _refuse_key(self, at: int, frame: _Object, *, outside: bool) -> None:
        """A mark that is the string's own must not open a key that is still to come, if the marks before it say that
        the string may be over, whatever stands between: a comment, or nothing but a line end; nor behind a comma, for
        the mark before that may be lost.
        """
        comma = self._text[max(0, at - _NEAR) : at].rstrip().endswith(",")
        found = _KEY.match(self._text, at) if outside or comma else None
        if found is not None and found.group(2) in frame.own and found.group(2) not in frame.given:
            raise ValueError("where a string ends can be read in two ways")

    def _end_behind(self, at: int, frame: _Object | _Array | None) -> _End | None:
        """What follows a value that ends at `at` in this object or array, if it may end there; else None."""
        while True:
            at = self._behind_blanks(at)
            if frame is None:
                return _End.SURE if at == len(self._text) else None
            here = self._text[at : at + 1]
            if here == ",":
                return self._next_member(self._behind_blanks(at + 1), frame)
            if here != ("}" if isinstance(frame, _Object) else "]"):
                return None
            at, frame = at + 1, frame.parent

    def _next_member(self, at: int, frame: _Object | _Array) -> _End | None:
        """The same behind a comma."""
        if isinstance(frame, _Array):
            if not self._text.startswith("{", at):
                return None
            inside = self._behind_blanks(at + 1)
            if self._text.startswith("}", inside):
                return _End.PAIRED_ONLY
            found = _KEY.match(self._text, inside)
            return _End.PAIRED_ONLY if found and found.group(2) in frame.item_keys else None
        found = _KEY.match(self._text, at)
        if found is None or found.group(2) not in frame.own or found.group(2) in frame.given:
            return None
        return _End.SURE if found.group(2) in frame.required else _End.PAIRED_ONLY


def _opens_more(inside: str) -> bool:
    """True if a bracket is open at the end of a text."""
    return any(inside.count(opener) > inside.count(closer) for opener, closer in ("{}", "[]"))


def _flat(shapes: Iterable[Schema | None]) -> tuple[Schema, ...]:
    """The shapes with all of their parts and alternatives."""
    return tuple(part for shape in shapes if shape is not None for part in all_parts(shape))


def _depth(frame: _Object | _Array | None) -> int:
    levels = 0
    while frame is not None:
        frame = frame.parent
        levels += 1
    return levels
