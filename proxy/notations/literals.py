"""One tolerant reader of values: JSON, Python's literals and Gemma's.

A string ends at its first mark if the text can go on there as after a value. If it cannot, marks inside lack their
backslashes, and the string ends at the first mark after which the schema lets the text go on: a comma and a declared
key that is not given yet, or the brackets that are open, and then such a key or the end of the call.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import Enum, auto

import regex

from proxy.codec.json_text import Json, JsonObject, VerbatimNumber, is_deep
from proxy.codec.string_escapes import has_doubtful_path, unescape
from proxy.notations.source import NeedMore, NoCall, Source, end_of
from proxy.notations.tables import ARGUMENT_WORDS, STRONG
from proxy.tools.schema import ALL_TYPES, ANYTHING, Schema, or_anything, type_of
from proxy.tools.validator import same

# Brackets in brackets: each takes three frames of Python's stack.
MAX_DEPTH = 100
MAX_DIGITS = 4_000
# A member of an object takes as long as so many steps.
MEMBER_STEPS = 16
MAX_KEY = 200
# The steps for each character of a text that may be a literal, and more.
LITERAL_STEPS, MORE_STEPS = 8, 5_000
MARKS = {'"': '"', "'": "'", "“": "”", "„": "“", "”": "”", "‘": "’", "’": "’", "`": "`"}
_TYPOGRAPHIC = "”“’"
# The first string is in Python's marks.
_PRINTED = re.compile(r"[\s{\[(]*+'")
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
_PLAIN_NUMBER = re.compile(r"-?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?", re.A)
_WORD = regex.compile(r"[A-Za-z_][\w-]*")
_BARE_KEY = regex.compile(r"--[\w.-]+|[^\s\"'{}\[\](),:=<>][^\"'{}\[\](),:=<>\n]{0,80}?(?=\s*[:=])")
_QUOTED_KEY = {mark: regex.compile(rf"((?:[^{mark}\\\n]|\\.)*){mark}", regex.S) for mark in "\"'”“’"}
# A comment that may be in a string, which ends in it, is none.
_COMMENT = regex.compile(r"(?:\s|//(?![^\n]*\"\s*[\]})])[^\n]*|/\*.*?\*/)*", regex.S)
_PYTHON_COMMENT = regex.compile(r"(?:\s|#[^\n]*)*")
_SKIPPED = frozenset((*" \t\r\n\f\v/#", ""))
_PREFIXED = regex.compile(r"[rbu]{1,2}[\"']")
# Another string, which an operator joins to the one before: `"a" + "b"`, `"a" "b"`, `"a", "b"`.
_ANOTHER_STRING = regex.compile(r"(?:\s++[,;+.%|&]{0,2}|[,;+.%|&]{1,2})\s*+[\"']")
# What may follow a whole value: markup of any family.
CLOSING = regex.compile(
    r"\s*(?!<\|\"\|>|<escape>)(?:</[^<>\s]{1,60}>|<[|｜][^<>\n]{1,60}>|<\w+\|>|\[/?[A-Z_]+\]|```|>>>|\[e~\[|$)"
)
# What may follow a value, a key in quotation marks or bare, an item.
_FOLLOWS = regex.compile(r"\s*(?:[,}\]):=]|$|<)")
_LAST_COMMENT = re.compile(r"[\"'][ \t]*(?:(?://|#)[^\n\\]{0,200}|/\*[^*\\]{0,200}(?:\*/\s{0,9})?)\Z")
_MEMBER = re.compile(r"[\"'](?P<quoted>[^\"'\\\n]{1,80})[\"']\s*:|\b(?P<bare>[\w$.-]{1,80})\s*:")
# The last mark of a string may stand there twice: `ls""`, but not `a "` and a mark.
_DOUBLED_END = re.compile(r"\S[\"']\Z")
_NEXT_ARGUMENT = re.compile(r"([\"'])\s*,\s*[A-Za-z_]\w*\s*=\s*\1")
_SHOWN_KEY = re.compile(r"[\"'}\]][\s,;{\[]*+[\"'](?P<K>[^\"'\\\n]{1,80})[\"']\s*:")
_NEXT_KEY = regex.compile(
    r"[\"'“„](?P<quoted>[^\"'”“\n\\]{1,80})[\"'”“]\s*[:=](?!=)|(?P<bare>[^\W\d]\w{0,60})\s*[:=](?!=)|--(?P<option>[\w.-]{1,80})"
)
_NEXT_ITEM = regex.compile(r"[\"'“‘\[{(<]|-?\d|true|false|null|None|True|False")
_BRACKETS = re.compile(r"[\s}\])]*")
_BEHIND_PYTHON = regex.compile(r"\s*(?:[\])};]|,\s*[A-Za-z_][\w.-]*(?::\d+)?\(|<|$|\n|```)")


def _verbatim(text: str) -> float:
    """Return a number that is written as it was read."""
    number = VerbatimNumber(text)
    number.text = text
    return number


def _no_constant(word: str) -> float:
    """Refuse NaN and Infinity, which no client can read."""
    raise NoCall(f"{word} is a number that no client can read")


def _int(text: str) -> int | float:
    """Return an integer; one with more digits than Python reads is written as it was read."""
    return int(text) if len(text) < MAX_DIGITS else _verbatim(text)


STRICT = json.JSONDecoder(strict=False, parse_int=_int, parse_float=_verbatim, parse_constant=_no_constant)
# A word, a number's sign or an escape that is cut off has fewer characters.
MAX_CUT = 8


class Oddity(Enum):
    """A way in which a value is not written as JSON has it, and that is worth a word of its own."""

    DUPLICATE_KEY = auto()
    BARE_KEYS = auto()
    LOST_COMMAS = auto()
    COMMENTS = auto()
    SMART_QUOTES = auto()
    CLOSERS = auto()
    INNER_QUOTES = auto()


@dataclass(slots=True)
class _Open:
    """A bracket that is open: what closes it, what the schema says, whether it holds items, the keys that it declares,
    those not given yet.
    """

    close: str
    schema: Schema
    listed: bool = False
    declared: frozenset[str] = frozenset()
    keys: set[str] = field(default_factory=set)


class Literals:
    """Reads values at positions of a source.

    `schema` is what the whole value should be; None if `schema_later` gives it once it matters. `closers` match what
    may follow the whole value. What was found out: `odd`, how it differs from JSON; `told`, the strings of which what
    follows told where they end; `lost_comma`, a comma was missing or too much behind a string; `in_string`, a string
    cannot be read; `plain`, the value is strict JSON. Without `strict` it is not read as such: more of it follows.
    `alone`: nothing but `closers` may follow it.
    """

    def __init__(
        self,
        source: Source,
        schema: Schema | None = ANYTHING,
        closers: regex.Pattern[str] | None = None,
        *,
        python: bool = False,
    ) -> None:
        self.source, self.closers, self.python = source, closers, python
        self._schema, self._open = schema, list[_Open]()
        self.schema_later: Callable[[], Schema] = lambda: ANYTHING
        # A string may hold a path of Windows with single backslashes.
        self._paths = False
        self.odd = set[Oddity]()
        self.lost_comma = self.in_string = False
        self.told = list[str]()
        # A key that its object does not declare, and one that an object around it declares.
        self._undeclared = self._strayed = False
        # An object or a list stands where the schema wants a text, and no key that is declared followed.
        self._for_text = False
        # A comma precedes the closing bracket of the last list; the value is
        # printed by Python, which has more escapes.
        self._ended_by_comma = self._printed = False
        self.plain = self.strict = True
        self.alone = False

    @property
    def schema(self) -> Schema:
        """What the whole value should be."""
        if self._schema is None:
            self._schema = self.schema_later()
        return self._schema

    @property
    def marks_told(self) -> bool:
        """True if a mark inside a string lacks its backslash: what follows told where the string ends."""
        return Oddity.INNER_QUOTES in self.odd

    @property
    def completed(self) -> bool:
        """True if closing brackets were missing."""
        return Oddity.CLOSERS in self.odd

    @property
    def is_told(self) -> bool:
        """True if what follows told where a string or a bracket ends."""
        return self.marks_told or self.lost_comma or self.completed

    def whole(self, pos: int) -> tuple[Json, int]:
        """Return the value at a position and its end: as strict JSON, if it is."""
        text = self.source.text
        if self.strict and text.startswith(("{", "["), pos):
            try:
                strict = _strictly(text, pos)
                if strict and not (self.alone and self.closers and not self.source.match(self.closers, strict[1])):
                    value, end, self.odd = strict
                    return value, end
            except json.JSONDecodeError as error:
                cut = error.pos > self.source.size - MAX_CUT or "Unterminated" in error.msg
                if cut and not self.source.final:
                    raise NeedMore from error
            except RecursionError:
                raise NoCall("nested too deeply") from None
        self.plain = False
        self._printed = _PRINTED.match(text, pos) is not None
        value, end = self.value(pos, self.schema)
        self.check()
        return value, end

    def check(self) -> None:
        """Refuse a value if what told where it ends leaves another reading."""
        lost_comma = Oddity.LOST_COMMAS in self.odd
        if (self.marks_told and (self.completed or self._undeclared or self._paths or lost_comma)) or (
            self.completed and (self._strayed or self.lost_comma or self._for_text)
        ):
            self.in_string = True
            raise NoCall("a string or a bracket may end elsewhere")

    def skip(self, pos: int) -> int:
        """Return the position after blanks and comments."""
        if self.source.text[pos : pos + 1] not in _SKIPPED:
            return pos
        found = self.source.match(_PYTHON_COMMENT if self.python else _COMMENT, pos, bounded=False)
        return found.end() if found else pos

    def _next(self, pos: int) -> int:
        """Return the position after blanks and comments, which stand between values and not in one."""
        end = self.skip(pos)
        if end > pos and (comment := self.source.text[pos:end].strip()):
            if '"' in comment:
                raise NoCall("a comment may be part of a string")
            self.odd.add(Oddity.COMMENTS)
        return end

    def value(self, pos: int, schema: Schema) -> tuple[Json, int]:
        """Return the value at a position and its end."""
        if len(self._open) > MAX_DEPTH:
            raise NoCall("nested too deeply")
        source, pos = self.source, self._next(pos)
        if pos >= source.size:
            if source.final:
                raise NoCall("a value was expected")
            raise NeedMore
        if token := next((token for token in TOKENS if source.starts(token, pos)), None):
            return self._between(token, pos + len(token))
        sign = source.text[pos]
        self._for_text |= sign in "{[(" and schema.types == {"string"}
        if sign == "{":
            return self.members(pos + 1, "}", schema)
        if sign == "[":
            return self.items(pos + 1, "]", schema)
        if sign == "(":
            return self._in_round_brackets(pos + 1, schema)
        if sign in MARKS:
            declared = _keys_of(schema)
            if declared and "string" not in schema.types and self._is_key(pos, declared):
                self._strayed |= any(self._is_key(pos, each.keys) for each in self._open)
                self.odd.add(Oddity.CLOSERS)  # the opening bracket is missing
                return self.members(pos, "}", schema)
            return self.string(pos)
        if self.python and (prefixed := source.match(_PREFIXED, pos)):
            value, end = self.string(prefixed.end() - 1)
            if "r" in prefixed.group() and "\\" in source.text[pos:end]:
                raise NoCall("a raw string with backslashes")
            return value, end
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
        self, pos: int, close: str, schema: Schema, assign: tuple[str, ...] = (":", "=>", "=")
    ) -> tuple[JsonObject, int]:
        """Return the members of an object up to its closing bracket, which may be missing at the reply's end."""
        source, values, key, comma = self.source, JsonObject(), "", False
        declared = _keys_of(schema)
        self._open.append(_Open(close, schema, declared=declared, keys={*declared}))
        while True:
            pos = self._next(pos)
            if pos >= source.size:
                return values, self._cut(pos, comma=comma)
            sign = source.text[pos]
            if sign == close:
                self.lost_comma |= comma and isinstance(values.get(key), str)
                return values, self._close(pos + 1)
            if sign == "{" and not values and close == "}":  # doubled braces
                inner, pos = self.value(pos, schema)
                values = inner if isinstance(inner, dict) else values
                continue
            if sign == "{" and key and _member(schema, key).types == {"array"}:  # a list without its brackets
                value, pos = self.value(pos, _items_of(_member(schema, key)))
                before = values[key]
                values[key] = [*(before if isinstance(before, list) else [before]), value]
                comma = False
                continue
            if sign == "," and values and not comma:
                pos, comma = pos + 1, True
                continue
            if values and sign in "<[]`" and self.closers and source.match(self.closers, pos):
                return values, self._cut(pos)
            self.lost_comma |= bool(values) and sign in MARKS and not comma and isinstance(values.get(key), str)
            apart, comma = comma or not values, False
            key, pos = self._read_member(pos, assign, values, apart=apart)

    def _read_member(self, pos: int, assign: tuple[str, ...], values: JsonObject, *, apart: bool) -> tuple[str, int]:
        """Read a key and its value into `values`; return the key and where the value ends. `apart`: after a comma."""
        self.source.steps -= MEMBER_STEPS
        opened = self._open[-1]
        written, pos = self._key(pos, opened.close)
        pos = self._next(pos)
        sign = next((each for each in assign if self.source.starts(each, pos)), "")
        if not sign and not written.startswith("--"):
            raise NoCall("a key without a value")
        key = written.removeprefix("--") if not sign else written
        opened.keys.discard(key)
        self._for_text &= key not in opened.declared
        if key not in opened.declared:
            # Only text before it can go on to here.
            self._undeclared |= bool(opened.declared) and isinstance(values.get(next(reversed(values), "")), str)
            self._strayed |= any(key in each.keys for each in self._open)
        schema = _member(opened.schema, key)
        if schema is ANYTHING and key in ARGUMENT_WORDS and not values:  # a wrapper that comes off
            schema = opened.schema
        value, pos = self.value(pos + len(sign), schema)
        if key in values:  # the first of them, or this one, may be part of a string
            raise NoCall("a key is there twice")
        values[key] = value
        if not apart:
            self.odd.add(Oddity.LOST_COMMAS)
        return key, pos

    def _close(self, pos: int) -> int:
        """Close the last bracket; return the position."""
        self._open.pop()
        return pos

    def _cut(self, pos: int, *, comma: bool = False) -> int:
        """Close the last bracket, which is missing; return the position. NoCall behind a comma: more was to come."""
        if not self.source.final and pos >= self.source.size:
            raise NeedMore
        if pos < self.source.size and self.source.match(STRONG, pos):  # the text before it may belong to a string
            self.in_string = True
            raise NoCall("another call begins before a bracket ends")
        if comma:
            raise NoCall("a value was expected")
        self.odd.add(Oddity.CLOSERS)
        return self._close(pos)

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
            if MARKS[sign] in _TYPOGRAPHIC:
                self.odd.add(Oddity.SMART_QUOTES)
            quoted = source.match(_QUOTED_KEY[MARKS[sign]], pos + 1)
            if not quoted:
                raise NoCall("a key was expected")
            return unescaped(quoted.group(1)), quoted.end()
        self.odd.add(Oddity.BARE_KEYS)
        bare = source.match(_BARE_KEY, pos)
        if not bare or (self.python and close == "}"):
            raise NoCall("a key was expected")
        return bare.group().strip(), bare.end()

    def items(self, pos: int, close: str, schema: Schema) -> tuple[list[Json], int]:
        """Return the items of a list up to its closing bracket, which may be missing at the reply's end."""
        source, items, each = self.source, list[Json](), _items_of(schema)
        self._open.append(_Open(close, schema, listed=True, declared=_keys_of(each)))
        comma = False
        while True:
            pos = self._next(pos)
            if pos >= source.size:
                return items, self._cut(pos, comma=comma)
            sign = source.text[pos]
            if sign == close:
                self._ended_by_comma = comma
                return items, self._close(pos + 1)
            if items and sign == "," and not comma:
                pos, comma = pos + 1, True
                continue
            if items and sign in "<[}" and self.closers and source.match(self.closers, pos):
                return items, self._cut(pos)
            if items and not comma:
                self.odd.add(Oddity.LOST_COMMAS)
                self.lost_comma |= sign in MARKS
            comma = False
            value, pos = self.value(pos, each)
            items.append(value)

    def _in_round_brackets(self, pos: int, schema: Schema) -> tuple[Json, int]:
        """Return the value in round brackets; as in Python, only a comma makes a list."""
        items, end = self.items(pos, ")", schema if schema.types == {"array"} else Schema(items=schema))
        return (items[0] if len(items) == 1 and not self._ended_by_comma else items), end

    # -- strings ----------------------------------------------------------------------------------------------------

    def string(self, pos: int) -> tuple[str, int]:
        """Return a string in quotation marks, up to the first mark after which the text goes on as after a value."""
        source, mark = self.source, MARKS[self.source.text[pos]]
        if mark in _TYPOGRAPHIC:
            self.odd.add(Oddity.SMART_QUOTES)
        if source.starts(mark * 3, pos):
            return self._tripled(mark * 3, pos + 3)
        start = at = pos + 1
        told = inside = False
        while (at := _next_mark(source.text, mark, at)) >= 0 and not self._may_end(at + 1):
            if source.text[at - 1] == "\\" or (not inside and source.match(_ANOTHER_STRING, at + 1)):
                self.in_string = True
                raise NoCall("two strings side by side, or a mark after two backslashes")
            told, inside = True, not inside
            self.odd.add(Oddity.INNER_QUOTES)
            at += 1
        if at < 0:
            if not source.final:
                raise NeedMore
            self.in_string = True
            raise NoCall("a string without its end")
        text = source.text[start:at]
        # With an odd number of marks inside, the last one is lost, and other calls may have been taken along.
        odd = (text.count(mark) - text.count("\\" + mark)) % 2
        named = bool(self._open) and not self._open[-1].listed and bool(self._open[-1].declared)
        if told and ((odd and not self._sure_end(text, at + 1)) or not named or self._may_have_ended(text)):
            self.in_string = True
            raise NoCall("a string may end elsewhere")
        self.told += [text] * told
        # Who wrote no backslash before a mark wrote none in a path either: `say "x" in C:\new`.
        self._paths |= has_doubtful_path(text)
        if mark == "'" and not self.python and "\\" in text:
            self._check_marks_of_python(text)
        return self._unescaped(text), at + 1

    def _sure_end(self, text: str, end: int) -> bool:
        """Return whether a string with an odd number of marks inside can end only here: all of the text is one value,
        and the string's end is that of all, or a key follows that its object needs. The mark that is lost must not be
        one before a key: `"a, "b": "c"`.
        """
        if not self.alone or _DOUBLED_END.search(text) or _depth(text) > 0:
            return False
        if any((found["quoted"] or found["bare"]) in self._open[-1].declared for found in _MEMBER.finditer(text)):
            return False
        pos = self.skip(end)
        if self.source.text.startswith(",", pos):
            return self._is_key(self.skip(pos + 1), _required(self._open[-1].schema))
        return self.skip(end_of(_BRACKETS, self.source.text, pos)) >= self.source.size

    def _unescaped(self, text: str) -> str:
        """Return the text of a string without its escapes; NoCall if its backslashes can be read in two ways."""
        try:
            return unescape(text, python=self.python or self._printed)
        except ValueError as error:
            raise NoCall(str(error)) from None

    def _check_marks_of_python(self, text: str) -> None:
        """Refuse a string in Python's marks whose escapes mean something else in Python: `'\\x1b'`."""
        try:
            value = unescape(text, python=True)
        except ValueError:
            return
        if value != self._unescaped(text):
            raise NoCall("escapes of Python, or of none")

    def _tripled(self, marks: str, start: int) -> tuple[str, int]:
        """Return a string between three marks."""
        end = self.source.find(marks, start)
        while end >= 0 and not self._may_end(end + 3):
            end = self.source.find(marks, end + 1)
        if end < 0:
            raise NoCall("a string without its end")
        text = self.source.text[start:end]
        if not self.python and (not text or text[0] == marks[0]):
            self.in_string = True
            raise NoCall("the marks may be the text's own")
        return self._unescaped(text), end + 3

    def _may_have_ended(self, text: str) -> bool:
        """Return whether a string with marks inside may have ended: before a declared key, a key that is in
        no object of its own, or a comment at its end.
        """
        if _LAST_COMMENT.search(text) or (self.python and _NEXT_ARGUMENT.search(text)):
            return True
        depth = at = 0
        for found in _SHOWN_KEY.finditer(text):
            depth += _depth(text[at : found.start("K")])
            at = found.start("K")
            if depth <= 0 or any(found["K"] in each.declared for each in self._open):
                return True
        return False

    def _may_end(self, pos: int) -> bool:
        """Return whether a string may end before this position: a key, a bracket, or the end of all follows."""
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
        # A comma may be missing before a declared key, or what is between two items.
        if sign == "{":
            pos = self.skip(pos + 1)
        opened = self._open[-1] if self._open else None
        apart = pos > written or sign in MARKS or self.python
        return opened is not None and apart and self._is_key(pos, opened.declared)

    def _closes(self, pos: int) -> bool:
        """Return whether brackets that are open close here, and the text goes on after them as the schema says."""
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
        if level == len(self._open):  # other brackets: before a key of the call the string may end, and is refused
            pos = self.skip(end_of(_BRACKETS, text, pos))
            known = frozenset[str]().union(*(each.declared for each in self._open))
            return text.startswith(",", pos) and self._is_key(self.skip(pos + 1), known)
        if text[pos] == ",":
            return self._goes_on(self.skip(pos + 1), level)
        if self.closers and source.match(self.closers, pos):
            return True
        return not self.marks_told and self._goes_on_loosely(pos, level)

    def _goes_on_loosely(self, pos: int, level: int) -> bool:
        """Return whether closing brackets are too many, or a comma is missing before a key or another object."""
        source = self.source
        if not level and self.strict and not self.alone:
            return True
        if not level:
            pos = self.skip(end_of(_BRACKETS, source.text, pos))
            ended = pos >= source.size or (self.closers is not None and source.match(self.closers, pos) is not None)
            if ended or self.alone:
                return ended
        return self._is_key(self.skip(pos + 1) if source.text[pos] == "{" else pos, None)

    def _goes_on(self, pos: int, level: int) -> bool:
        """Return whether a key or an item follows a comma in the bracket of that level."""
        source = self.source
        if pos >= source.size:
            return True
        opened = self._open[level - 1] if level else None
        if opened is None:
            return not self.alone and (source.text[pos] in "{[" or (not self.marks_told and self._is_key(pos, None)))
        if opened.listed:
            found = source.match(_NEXT_ITEM, pos)
            if found is None or level == len(self._open) or not (self.marks_told or opened.declared):
                return found is not None
            if found.group() != "{":
                return found.group() == "["
            pos = self.skip(pos + 1)
            return source.starts("}", pos) or not opened.declared or self._is_key(pos, opened.declared)
        if source.text[pos] == "{":  # the brackets before another item may be missing
            pos = self.skip(pos + 1)
            return source.starts("}", pos) or self._is_key(pos, opened.declared if self.marks_told else None)
        if self.marks_told and self._is_key(pos, opened.declared - opened.keys):
            self.in_string = True
            raise NoCall("a key may be there twice")
        return self._is_key(pos, opened.keys if self.marks_told else None)

    def _is_key(self, pos: int, keys: Collection[str] | None) -> bool:
        """Return whether one of the keys begins here; any, if None."""
        found = self.source.match(_NEXT_KEY, pos)
        return bool(found and (keys is None or (found["quoted"] or found["bare"] or found["option"]) in keys))


def literal(text: str) -> Json:
    """Return the value that a whole text is in JSON or Python; the text itself if it is neither."""
    written = text.strip()
    if written in _WORDS:
        return _WORDS[written]
    try:
        if _PLAIN_NUMBER.fullmatch(written):
            return _number(written)
        if not written.startswith(("{", "[", "(", '"', "'")):
            return text
        literals = Literals(Source(written, True, LITERAL_STEPS * len(written) + MORE_STEPS))
        value, end = literals.whole(0)
    except (NoCall, RecursionError):
        return text
    return text if end < len(written) or literals.odd or literals.lost_comma or is_deep(value) else value


def typed(schema: Schema, text: str, declared: str = "") -> Json:
    """Return the value that a raw text stands for, in notations that write no quotation marks (Qwen XML).

    `declared` is the type that the notation itself gives it. Else it is the text itself where the schema says nothing
    or allows strings only, and otherwise what it is a literal of, if that is of an allowed type: with
    `{"type": "integer"}`, `10` is 10, and `ten` stays a string, so that the client's error teaches the model.
    """
    if declared:
        return text if declared == "string" else literal(text)
    if schema.types in (ALL_TYPES, {"string"}):
        return text
    value = literal(text)
    return value if type_of(value) in schema.types - {"string"} else text


def _keys_of(schema: Schema) -> frozenset[str]:
    """Return the keys that an object's schema declares."""
    return frozenset(key for part in schema.all_parts() for key in part.properties)


def _required(schema: Schema) -> frozenset[str]:
    """Return the keys that an object must have."""
    return frozenset(key for part in schema.all_parts() for key in part.required)


def _member(schema: Schema, key: str) -> Schema:
    """Return the schema of a member of an object; ANYTHING if the object does not declare it."""
    found = (part.properties.get(key) for part in schema.all_parts())
    return next((or_anything(each) for each in found if each is not None), ANYTHING)


def _items_of(schema: Schema) -> Schema:
    """Return the schema of a list's items."""
    return next((or_anything(part.items) for part in schema.all_parts() if part.items is not None), ANYTHING)


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
        if re.match(r"-?0\d", text):
            raise NoCall("a number with leading zeros")
        number = _int(text)
    else:
        number = float(text)
    if isinstance(number, float) and math.isinf(number):
        raise NoCall("a number that no client can read")
    return number


def _strictly(text: str, start: int) -> tuple[Json, int, set[Oddity]] | None:
    """Return the JSON value at a position, its end, and whether a key of an object is there twice; None if one has two
    values. JSONDecodeError if it is no JSON; control characters in strings are taken.
    """
    differ = False
    odd = set[Oddity]()

    def members(pairs: list[tuple[str, Json]]) -> JsonObject:
        nonlocal differ
        found = dict(pairs)
        if len(found) != len(pairs):
            odd.add(Oddity.DUPLICATE_KEY)
            differ |= not all(same(found[key], value) for key, value in pairs)
        return found

    decoder = json.JSONDecoder(
        strict=False, parse_int=_int, parse_float=_verbatim, parse_constant=_no_constant, object_pairs_hook=members
    )
    value, end = decoder.raw_decode(text, start)
    return None if differ else (value, end, odd)


def _depth(text: str) -> int:
    """Return how many more brackets a text opens than it closes."""
    return text.count("{") + text.count("[") - text.count("}") - text.count("]")
