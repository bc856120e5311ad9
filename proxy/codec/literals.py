"""Values as models write them, which is not always JSON: a reader for the literals of JSON, Python and Gemma (F30).

It takes what JSON does and more: single quotation marks, `True`, `False` and `None`, commas too many, raw control
characters in strings, backslashes that escape nothing, and, where a format has marks of its own around strings, those
and keys without any. It never evaluates anything, never guesses where a string ends, and goes over the text once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable
from enum import Enum, Flag, auto

from proxy.codec.json_text import Json, JsonObject, finite, load_json
from proxy.limits import MAX_DEPTH

_BLANKS = re.compile(r"[ \t\r\n]*")
_WORD = re.compile(r"[^\s,:{}\[\]()\"'<=]+")
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$-]*")
_WORDS: dict[str, Json] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "None": None,
}
_NUMBER = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")
_STRING = {'"': re.compile(r'["\\]'), "'": re.compile(r"['\\]")}
# What can end a string, by the mark that began it.
_TYPOGRAPHIC = {mark: re.compile(r"[“”\\]") for mark in "“„‟"} | {"”": re.compile(r"[”\\]")}
_ALL_STRINGS = {**_STRING, **_TYPOGRAPHIC}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_PYTHON_ESCAPES = {**_ESCAPES, "v": "\v", "a": "\a", "\n": ""}
_OCTAL = re.compile(r"[0-7]{1,3}")
# The beginning of a path on Windows; the line end before it may be an escape.
_LETTER = r"(?:(?<!\w)|(?<=\\[nrt]))[A-Za-z]:"
_DRIVE = re.compile(rf"{_LETTER}\\")
# Such a path with single backslashes that are escapes too: `C:\new` (but not `if a:\n    b()`), `\\server\new`.
_DRIVE_PATH = re.compile(rf"{_LETTER}\\(?:[bfnrt][\w$]|[bft]\\\w)")
_SERVER_PATH = re.compile(r"""(?:^|(?<=[\s"'=(,])|(?<=\\[nrt]))\\\\[\w.$-]+\\(?=[\w$])""")
# How far back the end of the value before a missing comma is looked for.
_NEAR = 64
_HEX = {"u": 4}
_PYTHON_HEX = {"x": 2, "u": 4, "U": 8}
_IN_NESTED = re.compile(r"""["'{}\[\]]""")
_STRING_REST = {mark: re.compile(rf"(?:[^{mark}\\]|\\.)*+{mark}", re.DOTALL) for mark in "\"'"}
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_MAX_DIGITS = 4_000


class VerbatimNumber(float):
    """A number that remembers how it was written: 1.10 as a text is not 1.1, and 1e999 is no infinity."""

    __slots__ = ("text",)
    text: str


class Also(Flag):
    """What a text may hold besides the literals of JSON and Python.

    `BARE_KEYS`: `{path: "a"}`; `LOST_COMMAS`: `{"a": 1 "b": 2}`; `TYPOGRAPHIC`: `{“a”: „b“}`; `PYTHON`: the escapes
    that JSON does not have.
    """

    BARE_KEYS = auto()
    LOST_COMMAS = auto()
    TYPOGRAPHIC = auto()
    PYTHON = auto()


JSON_AND_PYTHON = Also(0)


def printed_by_python(text: str) -> Also:
    """What a text may hold: Python's escapes too, if its first key is in Python's quotation marks."""
    return Also.PYTHON if text.lstrip("{[( \t\r\n").startswith("'") else JSON_AND_PYTHON


def read_literal(
    text: str,
    *,
    marks: Collection[str] = (),
    lists: Collection[str] = (),
    also: Also = JSON_AND_PYTHON,
) -> Json:
    """The value that the text stands for; ValueError if it is none or if anything is behind it.

    `marks` are texts that enclose a string without any escapes (Gemma's). `lists` are keys of the outermost object
    whose value may be several ones without the brackets of their array (F14). `also` is what else may be so.
    """
    reader = _LiteralParser(text, marks, lists, also)
    value = reader.value(0)
    reader.blanks()
    if reader.pos < len(text):
        raise ValueError("more text follows the value")
    return value


def read_json(text: str | bytes, pairs: Callable[[list[tuple[str, Json]]], JsonObject] | None = None) -> Json:
    """The value of a strict JSON text, with its numbers as they were written; ValueError for everything else.

    A key that is there twice is refused, or `pairs` makes the object.
    """
    try:
        value: Json = json.loads(
            text,
            object_pairs_hook=pairs or _no_doubles,
            parse_constant=_refuse,
            parse_float=_spelled,
            parse_int=_whole,
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if is_deep(value):
        raise ValueError("nested too deeply")  # it could not be written again
    return value


def is_deep(value: Json) -> bool:
    """True if a value has more than MAX_DEPTH levels."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [child for item in level for child in _children(item)]
        if not level:
            return False
    return True


def _children(value: Json) -> Iterable[Json]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _no_doubles(pairs: list[tuple[str, Json]]) -> JsonObject:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _refuse(word: str) -> Json:
    raise ValueError(f"{word} is no JSON")


def _spelled(text: str) -> float:
    number = VerbatimNumber(text)
    number.text = text
    return number


def _whole(text: str) -> int | float:
    """An integer; Python reads none of more than 4,300 digits."""
    return int(text) if len(text) < _MAX_DIGITS else _spelled(text)


def dump(value: Json) -> str:
    """The JSON text of a value, numbers as they were written; escaped where a string holds a lone surrogate, so that it
    can be sent at all. ValueError if it is nested too deeply.
    """
    try:
        text = _written(value, ascii_only=False)
        text.encode()
    except UnicodeEncodeError:
        return _written(value, ascii_only=True)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return text


def _written(value: Json, *, ascii_only: bool) -> str:
    if not _has_spelled(value):
        return json.dumps(value, ensure_ascii=ascii_only, allow_nan=False)
    if isinstance(value, dict):
        keys = (json.dumps(key, ensure_ascii=ascii_only) for key in value)
        texts = (_written(inner, ascii_only=ascii_only) for inner in value.values())
        return f"{{{', '.join(map('{}: {}'.format, keys, texts))}}}"
    if isinstance(value, list):
        return f"[{', '.join(_written(item, ascii_only=ascii_only) for item in value)}]"
    assert isinstance(value, VerbatimNumber)
    return value.text


def _has_spelled(value: Json) -> bool:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, VerbatimNumber):
            return True
        if isinstance(each, dict | list):
            waiting += each.values() if isinstance(each, dict) else each
    return False


def canonical(arguments: str) -> str:
    """The same text for the same arguments, however they are written; the text itself if it is no JSON."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def missing_closers(text: str) -> str:
    """The brackets that are open at the end of a JSON text, closed; empty inside a string, whose end is not known."""
    stack: list[str] = []
    pos = 0
    while found := _IN_NESTED.search(text, pos):
        pos = found.end()
        mark = found.group()
        if mark in _STRING_REST:
            end = _STRING_REST[mark].match(text, pos)
            if end is None:
                return ""
            pos = end.end()
        elif mark in "{[":
            stack.append("}" if mark == "{" else "]")
        elif not stack or stack.pop() != mark:
            return ""
    return "".join(reversed(stack))


class _LiteralParser:
    """A position in the text."""

    def __init__(
        self,
        text: str,
        marks: Collection[str],
        lists: Collection[str],
        also: Also,
    ) -> None:
        self._text = text
        self._python = Also.PYTHON in also
        self._commas_lost = Also.LOST_COMMAS in also
        self._strings = _ALL_STRINGS if Also.TYPOGRAPHIC in also else _STRING
        self._bare_key = _IDENTIFIER if Also.BARE_KEYS in also else None
        if marks:
            # A format with marks of its own around strings writes keys without any.
            self._bare_key = _WORD
        self._marks = tuple(marks)
        self._lists = lists
        self.pos = 0

    def blanks(self) -> str:
        """Go over blanks; give the character behind them, empty at the end."""
        found = _BLANKS.match(self._text, self.pos)
        self.pos = found.end() if found else self.pos
        return self._text[self.pos : self.pos + 1]

    def value(self, depth: int) -> Json:
        """A value of whatever kind."""
        if depth > MAX_DEPTH:
            raise ValueError("nested too deep")
        first = self.blanks()
        if first in self._strings:
            return self._string(first)
        if first == "{":
            return self._object(depth)
        if first == "[":
            return self._list(depth)
        if first == "(":
            return self._tuple(depth)
        marked = self._marked()
        return self._word() if marked is None else marked

    def _object(self, depth: int) -> JsonObject:
        values: JsonObject = {}
        self.pos += 1
        while self._more("}", not values):
            key = self._key()
            if self.blanks() != ":":
                raise ValueError("a colon was expected")
            self.pos += 1
            value = self.value(depth + 1)
            if not depth and key in self._lists and isinstance(value, dict):
                value = self._lost_list(value, depth)
            if key in values and (values[key] != value or type(values[key]) is not type(value)):
                raise ValueError("a key is there twice, with two values")
            values[key] = value
        return values

    def _lost_list(self, first: Json, depth: int) -> list[Json]:
        """Objects behind each other that were an array's items."""
        items = [first]
        while self.blanks() == ",":
            comma = self.pos
            self.pos += 1
            if self.blanks() != "{":
                self.pos = comma
                break
            items.append(self.value(depth + 1))
        return items

    def _list(self, depth: int) -> list[Json]:
        items: list[Json] = []
        self.pos += 1
        while self._more("]", not items):
            items.append(self.value(depth + 1))
        return items

    def _tuple(self, depth: int) -> Json:
        """What stands in Python's brackets: only a comma makes a tuple, `(1)` is 1."""
        items: list[Json] = []
        comma = False
        self.pos += 1
        while self._more(")", not items):
            items.append(self.value(depth + 1))
            comma = comma or self.blanks() == ","
        return items[0] if len(items) == 1 and not comma else items

    def _more(self, closer: str, first: bool) -> bool:
        """Read up to the next item, or past the end, where a comma may stand too many; whether there is one."""
        if not first and self.blanks() == ",":
            self.pos += 1
        elif not first and self.blanks() != closer and not self._comma_lost(closer):
            raise ValueError("a comma was expected")
        if self.blanks() != closer:
            return True
        self.pos += 1
        return False

    def _comma_lost(self, closer: str) -> bool:
        """True if the next key, or the next item, follows without a comma; not behind a string in an array, where the
        marks may be those of one string: `["a" "b"]`, or three of them a delimiter.
        """
        before = self._text[max(0, self.pos - _NEAR) : self.pos].rstrip()[-1:]
        if not before or (before in _STRING and (closer != "}" or self._text[self.pos - 1] == before)):
            return False
        return self._commas_lost and self.blanks() in ('"', "'", "{")

    def _key(self) -> str:
        first = self.blanks()
        if first in self._strings:
            return self._string(first)
        marked = self._marked()
        if marked is not None:
            return marked
        found = self._bare_key.match(self._text, self.pos) if self._bare_key else None
        if not found:
            raise ValueError("a key was expected")
        self.pos = found.end()
        return found.group()

    def _marked(self) -> str | None:
        """A string in the format's own marks."""
        for mark in self._marks:
            if self._text.startswith(mark, self.pos):
                start = self.pos + len(mark)
                end = self._text.find(mark, start)
                if end < 0:
                    raise ValueError("a string does not end")
                self.pos = end + len(mark)
                return self._text[start:end]
        return None

    def _word(self) -> Json:
        found = _WORD.match(self._text, self.pos)
        word = found.group() if found else ""
        if word not in _WORDS and not _NUMBER.match(word):
            raise ValueError("no value stands here")
        self.pos += len(word)
        if word in _WORDS:
            return _WORDS[word]
        try:
            return load_json(word)
        except ValueError:
            return int(word) if word.lstrip("-").isdigit() else finite(word)

    def _string(self, quote: str) -> str:
        parts: list[str] = []
        escapes: set[_Escape] = set()
        start = inside = self.pos + 1
        while True:
            found = self._strings[quote].search(self._text, start)
            if not found:
                raise ValueError("a string does not end")
            parts.append(self._text[start : found.start()])
            if found.group() != "\\":
                self.pos = found.end()
                _check_escapes(escapes, self._text[inside : found.start()])
                return _joined(parts)
            start = found.end()
            part, start = _escape(self._text, start, python=self._python or quote == "'")
            escapes.add(_kind_of_escape(part))
            parts.append(part)


def _escape(text: str, at: int, *, python: bool = False) -> tuple[str, int]:
    """What the escape behind a backslash stands for, and where it ends. What escapes nothing stays as it is: in JSON
    `\\033` and `\\app` are no escapes, as they are in Python.
    """
    letter = text[at : at + 1]
    lengths, escapes = (_PYTHON_HEX, _PYTHON_ESCAPES) if python else (_HEX, _ESCAPES)
    octal = _OCTAL.match(text, at) if python else None
    if octal:
        return chr(int(octal.group(), 8)), octal.end()
    digits = text[at + 1 : at + 1 + lengths.get(letter, 0)]
    if digits and len(digits) == lengths[letter] and all(digit in "0123456789abcdefABCDEF" for digit in digits):
        code = int(digits, 16)
        return (chr(code) if code <= 0x10FFFF else f"\\{letter}{digits}"), at + 1 + len(digits)
    if letter in escapes:
        return escapes[letter], at + 1
    return (letter if letter in ("\\", '"', "'", "/") else f"\\{letter}"), at + len(letter)


def unescape(inside: str) -> str:
    """What a string stands for, of which this stands between its marks; marks without a backslash are its own."""
    parts: list[str] = []
    escapes: set[_Escape] = set()
    start = 0
    while (at := inside.find("\\", start)) >= 0:
        parts.append(inside[start:at])
        part, start = _escape(inside, at + 1)
        escapes.add(_kind_of_escape(part))
        parts.append(part)
    parts.append(inside[start:])
    _check_escapes(escapes, inside)
    return _joined(parts)


class _Escape(Enum):
    """What a backslash in a string does."""

    # It stands before a mark or another backslash: whoever wrote it knew how to escape.
    SURE = auto()
    # It stands for a character, unless it is that of a path: `\\new`.
    CHARACTER = auto()
    # It escapes nothing, and stays: `\\d`.
    NOTHING = auto()


def _kind_of_escape(part: str) -> _Escape:
    """The kind of an escape, by what it stands for."""
    if part in ("\\", '"', "'", "/"):
        return _Escape.SURE
    return _Escape.NOTHING if part.startswith("\\") else _Escape.CHARACTER


def _check_escapes(kinds: set[_Escape], written: str) -> None:
    """ValueError if the backslashes of a string can be read in two ways: where one escapes nothing, as in a path that
    stands in it as it is, another one may not either.
    """
    if not kinds >= {_Escape.CHARACTER, _Escape.NOTHING}:
        return
    if _Escape.SURE not in kinds or _DRIVE.search(written):
        raise ValueError("backslashes that can be read in two ways")


def has_doubtful_path(written: str) -> bool:
    """True if a path on Windows may stand in a string with single backslashes, and these may be escapes as well.

    Whoever wrote no backslash before the string's own marks may have written none before those of the path either.
    """
    return bool(_DRIVE_PATH.search(written) or _SERVER_PATH.search(written))


def _joined(parts: list[str]) -> str:
    text = "".join(parts)
    return _SURROGATES.sub(lambda pair: pair.group().encode("utf-16", "surrogatepass").decode("utf-16"), text)
