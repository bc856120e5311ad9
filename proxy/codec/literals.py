"""Values as models write them, which is not always JSON: a reader for the literals of JSON, Python and Gemma (F30).

It takes what JSON does and more: single quotation marks, `True`, `False` and `None`, commas too many, raw control
characters in strings, backslashes that escape nothing, and, where a format has marks of its own around strings, those
and keys without any. It never evaluates anything, never guesses where a string ends, and goes over the text once.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection
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


def _rest_of_string(closers: str) -> re.Pattern[str]:
    """A pattern for a string after its opening mark; any of `closers` ends it."""
    return re.compile(rf"[^{closers}\\]*+(?:\\.[^{closers}\\]*+)*+[{closers}]", re.DOTALL)


# The rest of a string, by the mark that began it.
_STRING = {mark: _rest_of_string(mark) for mark in "\"'"}
_TYPOGRAPHIC = {mark: _rest_of_string("“”") for mark in "“„‟"} | {"”": _rest_of_string("”")}
_ALL_STRINGS = {**_STRING, **_TYPOGRAPHIC}
_SURE = ("\\", '"', "'", "/")
_LETTERS = {**{mark: mark for mark in _SURE}, "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_PYTHON_LETTERS = {**_LETTERS, "v": "\v", "a": "\a", "\n": ""}
_BARE_LINE_END = re.compile(r"(?<!\\)\n")
_OCTAL = re.compile(r"[0-7]{1,3}")
# Repetitions of one escape are one match, so that a long text of backslashes is read in a few steps. A repetition
# before a digit may be a longer escape, and is matched again. (Not `*+`: Python before 3.11.5 loses its place there.)
_REPEATED = r"(?:\1(?![0-9a-fA-F])){0,1000}"
_ESCAPE = re.compile(
    rf"(\\(?:u[0-9a-fA-F]{{4}}|U000[0-9a-fA-F]{{5}}|U0010[0-9a-fA-F]{{4}}|.?)){_REPEATED}", re.DOTALL
)
_PYTHON_ESCAPE = re.compile(
    rf"(\\(?:[0-7]{{1,3}}|x[0-9a-fA-F]{{2}}|u[0-9a-fA-F]{{4}}|U[0-9a-fA-F]{{8}}|.?)){_REPEATED}", re.DOTALL
)
# The beginning of a path on Windows; the line end before it may be an escape.
_LETTER = r"(?:(?<!\w)|(?<=\\[nrt]))[A-Za-z]:"
_DRIVE = re.compile(rf"{_LETTER}\\")
# Such a path with single backslashes that are escapes too: `C:\new` (but not `if a:\n    b()`), `\\server\new`.
_DRIVE_PATH = re.compile(rf"{_LETTER}\\(?:[bfnrt][\w$]|[bft]\\\w)")
_SERVER_PATH = re.compile(r"""(?:^|(?<=[\s"'=(,])|(?<=\\[nrt]))\\\\[\w.$-]+\\(?=[\w$])""")
# How far back the end of the value before a missing comma is looked for.
_NEAR = 64
_IN_NESTED = re.compile(r"""["'{}\[\]]""")
_CLOSERS = {"{": "}", "[": "]"}
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")


class Also(Flag):
    """Notations that a text may hold besides the literals of JSON and Python.

    `BARE_KEYS`: `{path: "a"}`; `LOST_COMMAS`: `{"a": 1 "b": 2}`; `TYPOGRAPHIC`: `{“a”: „b“}`; `PYTHON`: the escapes
    that JSON does not have.
    """

    BARE_KEYS = auto()
    LOST_COMMAS = auto()
    TYPOGRAPHIC = auto()
    PYTHON = auto()


JSON_AND_PYTHON = Also(0)


def printed_by_python(text: str) -> Also:
    """The notations of a text: Python's escapes too, if its first key is in Python's quotation marks."""
    if text.lstrip("{[( \t\r\n").startswith("'"):
        return Also.PYTHON
    return JSON_AND_PYTHON


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


def missing_closers(text: str) -> str:
    """The brackets that are open at the end of a JSON text, closed; empty inside a string, whose end is not known."""
    stack: list[str] = []
    pos = 0
    while match := _IN_NESTED.search(text, pos):
        pos = match.end()
        mark = match.group()
        if mark in _STRING:
            end = _STRING[mark].match(text, pos)
            if end is None:
                return ""
            pos = end.end()
        elif mark in _CLOSERS:
            stack.append(_CLOSERS[mark])
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
        self._strings = _STRING
        if Also.TYPOGRAPHIC in also:
            self._strings = _ALL_STRINGS
        self._bare_key: re.Pattern[str] | None = None
        if marks:
            # A format with marks of its own around strings writes keys without any.
            self._bare_key = _WORD
        elif Also.BARE_KEYS in also:
            self._bare_key = _IDENTIFIER
        self._marks = tuple(marks)
        self._lists = lists
        self.pos = 0

    def blanks(self) -> str:
        """Go over blanks; give the character behind them, empty at the end."""
        match = _BLANKS.match(self._text, self.pos)
        assert match is not None  # it matches nothing, too
        self.pos = match.end()
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
        if marked is not None:
            return marked
        return self._word()

    def _object(self, depth: int) -> JsonObject:
        values: JsonObject = {}
        self.pos += 1
        while self._more("}", not values):
            key = self._key()
            if self.blanks() != ":":
                raise ValueError("a colon was expected")
            self.pos += 1
            if key in values:
                # In `{"s": "a", "n": 5"b": "c", "n": 5}` either of the two may be a part of the string.
                raise ValueError("a key is there twice")
            value = self.value(depth + 1)
            if isinstance(value, dict) and self._is_list(key, depth):
                value = self._lost_list(value, depth)
            values[key] = value
        return values

    def _is_list(self, key: str, depth: int) -> bool:
        """True for an argument that can be nothing but a list."""
        return depth == 0 and key in self._lists

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
        """The value in Python's brackets: only a comma makes a tuple, `(1)` is 1."""
        items: list[Json] = []
        commas = 0
        self.pos += 1
        while self._more(")", not items):
            items.append(self.value(depth + 1))
            commas += self.blanks() == ","
        if len(items) == 1 and not commas:
            return items[0]
        return items

    def _more(self, closer: str, first: bool) -> bool:
        """Read up to the next item, or past the end, where a comma may stand too many; whether there is one."""
        if not first:
            self._comma(closer)
        if self.blanks() != closer:
            return True
        self.pos += 1
        return False

    def _comma(self, closer: str) -> None:
        """Go over the comma behind an item; before the closer there need be none, and it may be lost."""
        here = self.blanks()
        if here == ",":
            self.pos += 1
        elif here != closer and not self._comma_lost(closer):
            raise ValueError("a comma was expected")

    def _comma_lost(self, closer: str) -> bool:
        """True if the next key, or the next item, follows without a comma; not behind a string in an array, where the
        marks may be those of one string: `["a" "b"]`, or three of them a delimiter.
        """
        if not self._commas_lost or self.blanks() not in ('"', "'", "{"):
            return False
        before = self._text[max(0, self.pos - _NEAR) : self.pos].rstrip()[-1:]
        if before in _STRING:
            return closer == "}" and self._text[self.pos - 1] != before
        return bool(before)

    def _key(self) -> str:
        first = self.blanks()
        if first in self._strings:
            return self._string(first)
        marked = self._marked()
        if marked is not None:
            return marked
        if self._bare_key is not None:
            match = self._bare_key.match(self._text, self.pos)
            if match is not None:
                self.pos = match.end()
                return match.group()
        raise ValueError("a key was expected")

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
        match = _WORD.match(self._text, self.pos)
        if match is None:
            raise ValueError("no value stands here")
        self.pos = match.end()
        word = match.group()
        if word in _WORDS:
            return _WORDS[word]
        if _NUMBER.match(word):
            return _number(word)
        raise ValueError("no value stands here")

    def _string(self, quote: str) -> str:
        start = self.pos + 1
        # Look for the end first: several readers try a text, and one that breaks off may be long.
        rest = self._strings[quote].match(self._text, start)
        if rest is None:
            raise ValueError("a string does not end")
        self.pos = rest.end()
        return unescape(self._text[start : self.pos - 1], python=self._python or quote == "'")


def _number(word: str) -> Json:
    """The number that a word says, also one that JSON does not know: `1.`, `.5`, `007`."""
    try:
        return load_json(word)
    except ValueError:
        if word.lstrip("-").isdigit():
            return int(word)
        return finite(word)


def unescape(inside: str, *, python: bool = False) -> str:
    """Return the value of a string from the text between its marks; marks without a backslash are kept.

    What escapes nothing stays as it is: in JSON `\\033` and `\\app` are no escapes, as they are in Python. Raises
    ValueError if the backslashes can be read in two ways.
    """
    if "\\" not in inside:
        return _joined(inside)
    meanings: dict[str, str] = {}

    def decoded(match: re.Match[str]) -> str:
        written, escape = match.group(0, 1)
        meaning = meanings.get(escape)
        if meaning is None:
            meaning = meanings[escape] = _meaning(escape[1:], python=python)
        return meaning * (len(written) // len(escape))

    text = (_PYTHON_ESCAPE if python else _ESCAPE).sub(decoded, inside)
    # Python joins lines after a backslash; who writes line ends without one may mean it as it stands.
    if "" in meanings.values() and _BARE_LINE_END.search(inside):
        raise ValueError("a backslash at the end of a line can be read in two ways")
    _check_escapes({_kind_of_escape(meaning) for meaning in meanings.values()}, inside)
    return _joined(text)


def _meaning(written: str, *, python: bool) -> str:
    """Decode an escape: the letter or number after the backslash."""
    letters = _PYTHON_LETTERS if python else _LETTERS
    if written in letters:
        return letters[written]
    if python and _OCTAL.fullmatch(written):
        return chr(int(written, 8))
    if len(written) > 1:
        return _character(written)
    return f"\\{written}"


def _character(escape: str) -> str:
    """The character of `u00e9`; the escape itself if there is none of that number."""
    code = int(escape[1:], 16)
    if code > sys.maxunicode:
        return f"\\{escape}"
    return chr(code)


class _Escape(Enum):
    """The meanings of a backslash in a string."""

    # It stands before a mark or another backslash: whoever wrote it knew how to escape.
    SURE = auto()
    # It stands for a character, unless it is that of a path: `\\new`.
    CHARACTER = auto()
    # It escapes nothing, and stays: `\\d`.
    NOTHING = auto()


def _kind_of_escape(part: str) -> _Escape:
    """The kind of an escape, by what it stands for."""
    if part in _SURE:
        return _Escape.SURE
    if part.startswith("\\"):
        return _Escape.NOTHING
    return _Escape.CHARACTER


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


def _joined(text: str) -> str:
    """Return the text with surrogate pairs, which escapes leave, as the characters that they encode."""
    if not _SURROGATES.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
