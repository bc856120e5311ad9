"""One tolerant reader of values: JSON, Python's literals and Gemma's.

A string ends where the text can go on after it: at the mark after which the next declared key, a closing bracket or the
end of the call follows. If an unescaped mark inside leaves two such places, nothing is read.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable

import regex

from proxy.codec.json_text import Json, JsonObject, VerbatimNumber
from proxy.notations.source import NeedMore, NoCall, Source, end_of

MAX_DEPTH = 100
MAX_KEY = 200
MARKS = {'"': '"', "'": "'", "“": "”", "”": "”", "‘": "’", "’": "’", "`": "`"}
# Delimiters of strings that are tokens of their own.
TOKENS = ('<|"|>', "<escape>", '<|\\"|>')
# A string that ends with the delimiter of a value in a call that it shows.
_OPENED = re.compile(r"(?:<\|tool_call>|<start_function_call>)call:[\w.-]+\{[^<>]*:\Z")
_WORDS: dict[str, Json] = {
    **{"true": True, "false": False, "null": None},
    **{"True": True, "False": False, "None": None},
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", "\\": "\\", '"': '"', "'": "'", "\n": ""}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U(000[0-9a-fA-F]{5}|0010[0-9a-fA-F]{4})|(.))", re.S)
_NUMBER = regex.compile(r"[-+]?(?:0x[0-9a-fA-F]+|(?:\d[\d_]*)?\.?\d+(?:[eE][-+]?\d+)?)(?![\w.](?!\w*=))")
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_WORD = regex.compile(r"[A-Za-z_][\w-]*")
_BARE_KEY = regex.compile(r"--[\w-]+|[^\s\"'{}\[\](),:=<>][^\"'{}\[\](),:=<>\n]{0,80}?(?=\s*[:=])")
_QUOTED_KEY = {mark: regex.compile(rf"((?:[^{mark}\\\n]|\\.)*){mark}", regex.S) for mark in "\"'”’"}
_COMMENT = regex.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", regex.S)
_PYTHON_COMMENT = regex.compile(r"(?:\s|#[^\n]*)*")
_SKIPPED = frozenset((*" \t\r\n\f\v/#", ""))
_PREFIXED = regex.compile(r"[rbu]{1,2}[\"']")
_ANOTHER_STRING = regex.compile(r"[ \t]+[\"'][^\"'\n]*[\"']\s*[,)]")
# What may follow a value, a key in quotation marks or bare, an item.
_FOLLOWS = regex.compile(r"\s*(?:[,}\]):=]|$|<)")
_NEXT_KEY = regex.compile(r"[\"'“]([^\"'”\n\\]{1,80})[\"'”]\s*(?::|=>)|([A-Za-z_]\w{0,60})\s*[:=](?!=)")
_NEXT_ITEM = regex.compile(r"[\"'\[{<]|-?\d|true|false|null|None|True|False")
_BEHIND_PYTHON = regex.compile(r"\s*(?:[\])};]|,\s*[A-Za-z_][\w.-]*(?::\d+)?\(|<|$|\n|```)")
_BRACKETS = re.compile(r"[\s}\])]*")


def _verbatim(text: str) -> float:
    """Return a number that is written as it was read."""
    number = VerbatimNumber(text)
    number.text = text
    return number


STRICT = json.JSONDecoder(strict=False, parse_float=_verbatim)
# A word, a number's sign or an escape that is cut off has fewer characters.
MAX_CUT = 8


class Literals:
    """Reads values at positions of a source.

    `keys` are those that the tool declares; None if `keys_later` gives them once they matter. `closers` match what may
    follow the whole value. `lists` are the keys whose value is a list. What was found out: `marks_told`, an unescaped
    mark inside a string was told by what follows; `lost_comma`, a comma was missing or too much behind a string;
    `completed`, closing brackets were missing; `in_string`, a string cannot be read; `plain`, the value is strict JSON.
    """

    def __init__(
        self,
        source: Source,
        keys: frozenset[str] | None = frozenset(),
        closers: regex.Pattern[str] | None = None,
        *,
        python: bool = False,
        lists: frozenset[str] = frozenset(),
    ) -> None:
        self.source, self.closers, self.python, self.lists = source, closers, python, lists
        self._keys = keys
        self.keys_later: Callable[[], frozenset[str]] = frozenset
        self.marks_told = self.lost_comma = self.completed = self.in_string = self._in_list = False
        self.plain = True

    @property
    def keys(self) -> frozenset[str]:
        """The keys that the tool declares."""
        if self._keys is None:
            self._keys = self.keys_later()
        return self._keys

    @property
    def is_told(self) -> bool:
        """True if what follows told where a string or a bracket ends."""
        return self.marks_told or self.lost_comma or self.completed

    def whole(self, pos: int) -> tuple[Json, int]:
        """Return the value at a position and its end: as strict JSON, if it is."""
        text = self.source.text
        if text.startswith(("{", "["), pos):
            try:
                value, end = STRICT.raw_decode(text, pos)
                if _is_unique(text, pos):
                    return value, end
            except json.JSONDecodeError as error:
                cut = error.pos > self.source.size - MAX_CUT or "Unterminated" in error.msg
                if cut and not self.source.final:
                    raise NeedMore from error
            except RecursionError:
                raise NoCall("nested too deeply") from None
        self.plain = False
        return self.value(pos, 0)

    def skip(self, pos: int) -> int:
        """Return the position after blanks and comments."""
        if self.source.text[pos : pos + 1] not in _SKIPPED:
            return pos
        found = self.source.match(_PYTHON_COMMENT if self.python else _COMMENT, pos, bounded=False)
        return found.end() if found else pos

    def value(self, pos: int, depth: int) -> tuple[Json, int]:
        """Return the value at a position and its end."""
        if depth > MAX_DEPTH:
            raise NoCall("nested too deeply")
        source, pos = self.source, self.skip(pos)
        if pos >= source.size:
            if source.final:
                raise NoCall("a value was expected")
            raise NeedMore
        if token := next((token for token in TOKENS if source.starts(token, pos)), None):
            return self._between(token, pos + len(token))
        sign = source.text[pos]
        if sign == "{":
            return self.members(pos + 1, "}", depth)
        if sign in "[(":
            return self._items(pos + 1, "]" if sign == "[" else ")", depth)
        if sign in MARKS:
            return self.string(pos)
        if self.python and (prefixed := source.match(_PREFIXED, pos)):
            return self.string(prefixed.end() - 1)
        if number := source.match(_NUMBER, pos):
            return _number(number.group()), number.end()
        word = source.match(_WORD, pos)
        if word and word.group() in _WORDS:
            return _WORDS[word.group()], word.end()
        return self.bare(pos)

    def bare(self, pos: int) -> tuple[str, int]:
        """Return a string without quotation marks and its end."""
        raise NoCall("a value was expected")

    def _between(self, token: str, start: int) -> tuple[str, int]:
        """Return a string up to the token that ends it, wherever that is."""
        end = self.source.find(token, start)
        if end >= 0 and _OPENED.search(self.source.text[start:end]):
            self.in_string = True
            raise NoCall("a token in a string")
        if end < 0 or self.source.match(_FOLLOWS, end + len(token)) is None:
            self.in_string = True
            raise NoCall("a string without its end")
        return self.source.text[start:end], end + len(token)

    # -- objects and lists ------------------------------------------------------------------------------------------

    def members(
        self, pos: int, close: str, depth: int, assign: tuple[str, ...] = (":", "=>", "=")
    ) -> tuple[JsonObject, int]:
        """Return the members of an object up to its closing bracket, which may be missing at the reply's end."""
        source, values, key, comma = self.source, JsonObject(), "", False
        while True:
            pos = self.skip(pos)
            if pos >= source.size:
                return values, self._cut(pos)
            sign = source.text[pos]
            if sign == close:
                self.lost_comma |= comma and isinstance(values.get(key), str)
                return values, pos + 1
            if sign == "{" and not values and close == "}":  # doubled braces
                inner, pos = self.value(pos, depth + 1)
                values = inner if isinstance(inner, dict) else values
                continue
            if sign == "{" and key in self.lists:  # a list without its brackets
                value, pos = self.value(pos, depth + 1)
                before = values[key]
                values[key] = [*(before if isinstance(before, list) else [before]), value]
                continue
            if sign == "," and values:
                pos, comma = pos + 1, True
                continue
            if values and sign in "<[]" and self.closers and source.match(self.closers, pos):
                return values, self._cut(pos)
            self.lost_comma |= bool(values) and sign in MARKS and not comma and isinstance(values.get(key), str)
            comma = False
            key, pos = self._member(pos, close, depth, assign, values)

    def _member(self, pos: int, close: str, depth: int, assign: tuple[str, ...], values: JsonObject) -> tuple[str, int]:
        """Read a key and its value into `values`; return the key and where the value ends."""
        written, pos = self._key(pos, close)
        pos = self.skip(pos)
        sign = next((each for each in assign if self.source.starts(each, pos)), "")
        if not sign and not written.startswith("--"):
            raise NoCall("a key without a value")
        self._in_list = False
        value, pos = self.value(pos + len(sign), depth + 1)
        key = written.removeprefix("--") if not sign else written
        if key in values and values[key] != value:
            raise NoCall("a key is there twice")
        values[key] = value
        return key, pos

    def _cut(self, pos: int) -> int:
        """Note that a closing bracket is missing."""
        if not self.source.final and pos >= self.source.size:
            raise NeedMore
        self.completed = True
        return pos

    def _key(self, pos: int, close: str) -> tuple[str, int]:
        source = self.source
        for token in TOKENS:
            if source.starts(token, pos):
                end = source.find(token, pos + len(token))
                if end < 0 or end - pos > MAX_KEY:
                    raise NoCall("a key was expected")
                return source.text[pos + len(token) : end], end + len(token)
        sign = source.text[pos]
        if sign in MARKS and sign != "`":
            quoted = source.match(_QUOTED_KEY[MARKS[sign]], pos + 1)
            if not quoted:
                raise NoCall("a key was expected")
            return unescaped(quoted.group(1)), quoted.end()
        bare = source.match(_BARE_KEY, pos)
        if not bare or (self.python and close == "}"):
            raise NoCall("a key was expected")
        return bare.group().strip(), bare.end()

    def _items(self, pos: int, close: str, depth: int) -> tuple[list[Json], int]:
        """Return the items of a list up to its closing bracket, which may be missing at the reply's end."""
        source, items = self.source, list[Json]()
        while True:
            pos = self.skip(pos)
            if pos >= source.size:
                return items, self._cut(pos)
            sign = source.text[pos]
            if sign == close:
                return items, pos + 1
            if items and sign == ",":
                pos += 1
                continue
            if items and sign in "<[}" and self.closers and source.match(self.closers, pos):
                return items, self._cut(pos)
            self._in_list = True
            value, pos = self.value(pos, depth + 1)
            items.append(value)

    # -- strings ----------------------------------------------------------------------------------------------------

    def string(self, pos: int) -> tuple[str, int]:
        """Return a string in quotation marks, up to the first mark after which the text goes on as after a value."""
        source, mark = self.source, MARKS[self.source.text[pos]]
        if source.starts(mark * 3, pos):
            return self._tripled(mark * 3, pos + 3)
        start = at = pos + 1
        while (at := _next_mark(source.text, mark, at)) >= 0 and not self._may_end(at + 1):
            if self.python and source.match(_ANOTHER_STRING, at + 1):
                raise NoCall("two strings side by side")
            self.marks_told = True
            at += 1
        if at < 0:
            if not source.final:
                raise NeedMore
            self.in_string = True
            raise NoCall("a string without its end")
        if self.marks_told:
            self._check_told(start, at, mark)
        return unescaped(source.text[start:at]), at + 1

    def _tripled(self, marks: str, start: int) -> tuple[str, int]:
        """Return a string between three marks."""
        end = self.source.find(marks, start)
        while end >= 0 and not self._may_end(end + 3):
            end = self.source.find(marks, end + 1)
        if end < 0:
            raise NoCall("a string without its end")
        return unescaped(self.source.text[start:end]), end + 3

    def _may_end(self, pos: int) -> bool:
        """Return whether a string may end before this position: a key, a bracket, or the end of all follows."""
        source, pos = self.source, self.skip(pos)
        if pos >= source.size:
            return True
        sign = source.text[pos]
        if self.python and sign == ")":
            return source.match(_BEHIND_PYTHON, pos + 1) is not None
        if sign in "}])":
            return True
        if sign == ",":
            return self._goes_on(self.skip(pos + 1))
        if self.closers and source.match(self.closers, pos):
            return True
        # A comma may be missing before a declared key.
        found = source.match(_NEXT_KEY, pos)
        return bool(found and (found.group(1) or found.group(2)) in self.keys)

    def _goes_on(self, pos: int) -> bool:
        """Return whether a key, an item or a bracket follows a comma."""
        source = self.source
        if pos >= source.size or source.text[pos] in "}])":
            return True
        found = source.match(_NEXT_KEY, pos)
        if found and (not self.marks_told or not self.keys or (found.group(1) or found.group(2)) in self.keys):
            return True
        return self._in_list and source.match(_NEXT_ITEM, pos) is not None

    def _check_told(self, start: int, end: int, mark: str) -> None:
        """Refuse a string with marks inside that may have lost its last one, or whose end is not the only one."""
        text, source = self.source.text, self.source
        inside = text.count(mark, start, end) - text.count("\\" + mark, start, end)
        if inside % 2:
            self.in_string = True  # it may have taken other calls along
            raise NoCall("a string without its last mark")
        tail = end_of(_BRACKETS, text, end + 1)
        if tail >= source.size:
            if not source.final:
                raise NeedMore
            return
        if text[tail] == "," or (self.python and text[tail] in "<`;\n"):
            return
        if self.closers and source.match(self.closers, tail):
            return
        self.in_string = True
        raise NoCall("a string may end in two places")


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


def unescaped(text: str) -> str:
    """Return the text of a string without its escapes; a backslash that begins none stays."""
    if "\\" not in text:
        return text
    written = _ESCAPE.sub(_character, text)
    if any("\ud800" <= each <= "\udfff" for each in written):
        return written.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return written


def _character(found: re.Match[str]) -> str:
    code = found.group(1) or found.group(2) or found.group(3)
    if code:
        return chr(int(code, 16))
    return _ESCAPES.get(found.group(4), found.group())


def _number(text: str) -> int | float:
    """Return the number that a text is in JSON or Python; NoCall if no client can read it."""
    text = text.replace("_", "").lstrip("+")
    number: int | float
    if _JSON_NUMBER.fullmatch(text) and re.search(r"[.eE]", text):
        number = _verbatim(text)
    elif text.lower().lstrip("-").startswith("0x"):
        number = int(text, 16)
    elif text.lstrip("-").isdigit():
        number = int(text)
    else:
        number = float(text)
    if isinstance(number, float) and math.isinf(number):
        raise NoCall("a number that no client can read")
    return number


def _is_unique(text: str, start: int) -> bool:
    """Return whether no key of an object has two values."""
    doubled = []

    def pairs(items: list[tuple[str, Json]]) -> JsonObject:
        members = dict(items)
        if len(members) != len(items) and any(members[key] != value for key, value in items):
            doubled.append(True)
        return members

    json.JSONDecoder(strict=False, object_pairs_hook=pairs).raw_decode(text, start)
    return not doubled
