"""One tolerant reader for what models write as values: JSON, Python's literals, Gemma's, with or without quotation marks.

Strings end where the text can go on behind them: at the mark behind which the next declared key, a closing bracket or
the end of the call follows. If an unescaped mark inside leaves two such places, nothing is read.
"""

from __future__ import annotations

import json
import math
import re

import regex

from proxy.codec.json_text import VerbatimNumber
from proxy.notations.source import NeedMore, NoCall, Source



def _verbatim(text: str) -> float:
    """Return a number that is written as it was read."""
    number = VerbatimNumber(text)
    number.text = text
    return number


STRICT = json.JSONDecoder(strict=False, parse_float=_verbatim)
WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
NUMBER = regex.compile(r"[-+]?(?:0x[0-9a-fA-F]+|(?:\d[\d_]*)?\.?\d+(?:[eE][-+]?\d+)?)(?![\w.](?!\w*=))")
WORD = regex.compile(r"[A-Za-z_][\w-]*")
BARE_KEY = regex.compile(r"--[\w-]+|[^\s\"'{}\[\](),:=<>][^\"'{}\[\](),:=<>\n]{0,80}?(?=\s*[:=])")
COMMENT = regex.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", regex.S)
PYTHON_COMMENT = regex.compile(r"(?:\s|#[^\n]*)*")
TOKENS = ('<|"|>', "<escape>", '<|\\"|>')
MARKS = {'"': '"', "'": "'", "“": "”", "”": "”", "‘": "’", "`": "`"}
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", "\\": "\\", '"': '"', "'": "'", "\n": ""}
ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.S)
MAX_DEPTH = 100


class Literals:
    """Reads values at positions of a source. `keys` are those that the tool declares; `closers` match what may stand
    behind the whole value, `assign` is what stands between a key and its value."""

    def __init__(self, source: Source, keys=frozenset(), closers=None, python: bool = False, lists=frozenset()) -> None:
        self.source, self.keys, self.closers, self.python = source, keys, closers, python
        self.lists, self.in_list, self.lost_comma, self.in_string = lists, False, False, False
        self.marks_told = False  # an unescaped mark inside a string was told by what follows
        self.completed = False  # closing brackets were missing
        self.plain = True  # strict JSON

    def whole(self, pos: int):
        """The value at a position and the position behind it: as strict JSON, if it is."""
        text = self.source.text
        if text.startswith(("{", "["), pos):
            try:
                value, end = STRICT.raw_decode(text, pos)
                if _unique(value, text, pos, end):
                    return value, end
            except (ValueError, RecursionError) as error:
                # a broken string or bracket of which the rest is still to come
                if isinstance(error, json.JSONDecodeError) and error.pos >= self.source.size and not self.source.final:
                    raise NeedMore from error
                if isinstance(error, json.JSONDecodeError) and "Unterminated" in error.msg and not self.source.final:
                    raise NeedMore from error
        self.plain = False
        if self.keys is None:
            self.keys = self.keys_later()
        return self.value(pos, 0)

    @property
    def is_told(self) -> bool:
        """True if what follows told where a string or a bracket ends."""
        return self.marks_told or self.lost_comma or self.completed

    def skip(self, pos: int) -> int:
        if self.source.text[pos : pos + 1] not in _SKIPPED:
            return pos
        pos = self.source.match(PYTHON_COMMENT if self.python else COMMENT, pos, bounded=False).end()
        return pos

    def value(self, pos: int, depth: int):
        if depth > MAX_DEPTH:
            raise NoCall("nested too deeply")
        source, pos = self.source, self.skip(pos)
        text = source.text
        if pos >= source.size:
            if source.final:
                raise NoCall("a value was expected")
            raise NeedMore
        for token in TOKENS:
            if source.starts(token, pos):
                end = source.find(token, pos + len(token))
                if end < 0:
                    raise NoCall("a string without its end")
                return self._between(token, pos + len(token), end)
        sign = text[pos]
        if sign == "{":
            return self.members(pos + 1, "}", depth)
        if sign in "[(":
            return self._items(pos + 1, "]" if sign == "[" else ")", depth)
        if sign in MARKS:
            return self.string(pos)
        if self.python and (found := source.match(PREFIXED, pos)):
            return self.string(found.end() - 1, raw=True)
        found = source.match(NUMBER, pos)
        if found:
            number = _number(found.group())
            if isinstance(number, float) and math.isinf(number):
                raise NoCall("a number that no client can read")
            return number, found.end()
        found = source.match(WORD, pos)
        if found and found.group() in WORDS:
            return WORDS[found.group()], found.end()
        return self.bare(pos)

    def bare(self, pos: int):
        raise NoCall("no literal")

    def _between(self, token: str, start: int, end: int):
        text = self.source.text
        if self.source.match(_FOLLOWS, end + len(token)) is None:
            self.in_string = True
            raise NoCall("a token in a string")
        value = text[start:end]
        return value, end + len(token)

    def members(self, pos: int, close: str, depth: int, assign: tuple = (":", "=>", "=")):
        """The members of an object up to its closing bracket, which may be missing at the reply's end."""
        source, values, key, comma = self.source, {}, "", False
        while True:
            pos = self.skip(pos)
            if pos >= source.size:
                return self._cut(values, pos)
            sign = source.text[pos]
            if sign == close:
                return values, pos + 1
            if sign == "{" and not values and close == "}":  # doubled braces
                values, pos = self.value(pos, depth + 1)
                continue
            if sign == "{" and key in self.lists:  # a list without its brackets
                value, pos = self.value(pos, depth + 1)
                values[key] = [*(values[key] if isinstance(values[key], list) else [values[key]]), value]
                continue
            if sign == "," and values:
                pos, comma = pos + 1, True
                continue
            if values and sign in "<]" and self.closers and source.match(self.closers, pos):
                return self._cut(values, pos)
            if values and sign in MARKS and not comma and isinstance(values.get(key), str):
                self.lost_comma = True
            comma = False
            key, pos = self._key(pos)
            pos = self.skip(pos)
            for each in assign:
                if source.starts(each, pos):
                    pos += len(each)
                    break
            else:
                if not key.startswith("--"):
                    raise NoCall("a key without a value")
            self.in_list = False
            value, pos = self.value(pos, depth + 1)
            key = key.removeprefix("--")
            if key in values and values[key] != value:
                raise NoCall("a key twice")
            values[key] = value

    def _cut(self, values, pos: int):
        if not self.source.final and pos >= self.source.size:
            raise NeedMore
        self.completed = True
        return values, pos

    def _key(self, pos: int):
        source = self.source
        for token in TOKENS:
            if source.starts(token, pos):
                end = source.find(token, pos + len(token))
                if end < 0 or end - pos > 200:
                    raise NoCall("no key")
                return source.text[pos + len(token) : end], end + len(token)
        sign = source.text[pos]
        if sign in MARKS and sign != "`":
            found = source.match(_QUOTED_KEY[MARKS[sign]], pos + 1)
            if not found:
                raise NoCall("no key")
            return unescaped(found.group(1)), found.end()
        found = source.match(BARE_KEY, pos)
        if not found:
            raise NoCall("no key")
        return found.group().strip(), found.end()

    def _items(self, pos: int, close: str, depth: int):
        items: list = []
        while True:
            pos = self.skip(pos)
            if pos >= self.source.size:
                return self._cut(items, pos)
            if self.source.text[pos] == close:
                return items, pos + 1
            if items and self.source.text[pos] == ",":
                pos += 1
                continue
            if items and self.source.text[pos] in "<}" and self.closers and self.source.match(self.closers, pos):
                return self._cut(items, pos)
            self.in_list = True
            value, pos = self.value(pos, depth + 1)
            items.append(value)

    def string(self, pos: int, raw: bool = False):
        """A string in quotation marks: up to the first mark behind which the text goes on as a value's text does."""
        source, mark = self.source, MARKS[self.source.text[pos]]
        if source.starts(mark * 3, pos):
            end = source.find(mark * 3, pos + 3)
            while end >= 0 and not self._may_end(end + 3):
                end = source.find(mark * 3, end + 1)
            if end < 0:
                raise NoCall("a string without its end")
            return unescaped(source.text[pos + 3 : end]), end + 3
        start, found = pos + 1, []
        at = start
        while True:
            at = _next_mark(source.text, mark, at)
            if at < 0:
                if not source.final:
                    raise NeedMore
                break
            if self._may_end(at + 1):
                found.append(at)
                break
            if self.python and source.match(_ANOTHER_STRING, at + 1):
                raise NoCall("two strings side by side")
            self.marks_told = True
            at += 1
        if not found:
            self.in_string = True
            raise NoCall("a string without its end")
        end = found[0]
        if self.marks_told:
            if (source.text.count(mark, start, end) - source.text.count("\\" + mark, start, end)) % 2:
                self.in_string = True  # it may have lost its last mark, and taken other calls along
                raise NoCall("a text without its last mark")
            self._check_no_other(end, mark)
        return unescaped(source.text[start:end]), end + 1

    def _may_end(self, pos: int) -> bool:
        """Whether a string may end before this position: a key, a bracket, or the end of all follows."""
        source = self.source
        pos = self.skip(pos)
        if pos >= source.size:
            return True
        sign = source.text[pos]
        if self.python and sign == ")":
            return source.match(_BEHIND_PYTHON, pos + 1) is not None
        if sign in "}])":
            return True
        if sign == ",":
            after = self.skip(pos + 1)
            if after >= source.size:
                return True
            if source.text[after] in "}])":
                return True
            found = source.match(_NEXT_KEY, after)
            if found and (not self.marks_told or not self.keys or (found.group(1) or found.group(2)) in self.keys):
                return True
            # in a list: the next item
            return self.in_list and source.match(_NEXT_ITEM, after) is not None
        if self.closers and source.match(self.closers, pos):
            return True
        # a comma that is missing before a declared key
        found = source.match(_NEXT_KEY, pos)
        return bool(found and (found.group(1) or found.group(2)) in self.keys)

    def _check_no_other(self, end: int, mark: str) -> None:
        """Where a mark inside was told by what follows, the place must be the only one before the next bracket."""
        text, source = self.source.text, self.source
        tail = re.compile(r"[\s}\])]*").match(text, end + 1).end()
        if tail >= source.size:
            if not source.final:
                raise NeedMore
            return
        if (
            (self.python and text[tail] in "<`;\n")
            or text[tail] == ","
            or (self.closers and source.match(self.closers, tail))
        ):
            return
        self.in_string = True
        raise NoCall("a string may end in two places")


_SKIPPED = frozenset((*" \t\r\n\f\v/#", ""))
PREFIXED = regex.compile(r"[rbu]{1,2}[\"']")
_ANOTHER_STRING = regex.compile(r"[ \t]+[\"'][^\"'\n]*[\"']\s*[,)]")
_FOLLOWS = regex.compile(r"\s*(?:[,}\]):=]|$|<)")
_QUOTED_KEY = {m: regex.compile(rf"((?:[^{m}\\\n]|\\.)*){m}", regex.S) for m in ('"', "'", "”", "’")}
_NEXT_KEY = regex.compile(r"[\"'“]([^\"'”\n\\]{1,80})[\"'”]\s*(?::|=>)|([A-Za-z_]\w{0,60})\s*[:=](?!=)")
_BEHIND_PYTHON = regex.compile(r"\s*(?:[\])};]|,\s*[A-Za-z_][\w.-]*\(|<|$|\n|```)")
_NEXT_ITEM = regex.compile(r"[\"'\[{<]|-?\d|true|false|null|None|True|False")


def _next_mark(text: str, mark: str, at: int) -> int:
    """The next mark that no backslash escapes."""
    while True:
        at = text.find(mark, at)
        if at < 0:
            return -1
        back = at
        while text[back - 1] == "\\":
            back -= 1
        if (at - back) % 2 == 0:
            return at
        at += 1


def unescaped(text: str) -> str:
    """The text of a string without its escapes; a backslash that begins none stays."""
    if "\\" not in text:
        return text
    out = ESCAPE.sub(_escape, text)
    if any("\ud800" <= c <= "\udfff" for c in out):
        out = out.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return out


def _escape(match: re.Match) -> str:
    code = match.group(1) or match.group(2)
    if code:
        return chr(int(code, 16))
    return ESCAPES.get(match.group(3), match.group(0))


def _number(text: str) -> int | float:
    """Return the number that a text is in JSON or Python."""
    text = text.replace("_", "").lstrip("+")
    if re.fullmatch(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?", text) and re.search(r"[.eE]", text):
        return _verbatim(text)
    try:
        return int(text, 0)
    except ValueError:
        return int(text) if text.lstrip("-").isdigit() else float(text)


def _unique(value, text: str, start: int, end: int) -> bool:
    """Whether no key of the object stands twice: a pass over the pairs, only where it could matter."""
    doubled = []

    def pairs(items):
        seen = dict(items)
        if len(seen) != len(items) and any(seen[k] != v for k, v in items):
            doubled.append(True)
        return seen

    json.JSONDecoder(strict=False, object_pairs_hook=pairs).raw_decode(text, start)
    return not doubled
