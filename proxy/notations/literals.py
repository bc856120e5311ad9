"""Tolerant reader of values: JSON, Python literals, Gemma literals, and nested elements (MiniMax M3)."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

import regex

from proxy.json import Json, JsonObject, integer, is_deep, refuse, verbatim
from proxy.notations.schema import ALL_TYPES, ANYTHING, Schema, or_anything, type_of
from proxy.notations.source import NeedMore, NoCall, Source, Tokens
from proxy.notations.string_escapes import unescaped
from proxy.notations.strings import MARKS, TYPOGRAPHIC, Oddity, Open, OpenString, StringReader
from proxy.notations.tables import ARGUMENT_WORDS, SEP, STRONG
from proxy.notations.validator import same

# Maximum nesting of brackets. Each level takes three Python stack frames.
MAX_DEPTH = 100
# Steps charged for each member of an object.
MEMBER_STEPS = 16
MAX_KEY = 200
# The first string has single quotation marks, maybe after numbers and words of Python: Python printed the value.
_PRINTED = re.compile(r"(?:[\s{\[(]|(?:None|True|False|-?[\d.]+),)*'")
# String delimiters that are single tokens.
DELIMITERS = Tokens(('<|"|>', "<escape>", '<|\\"|>'))
# The end of a string that shows a call up to the delimiter of a value.
_OPENED = re.compile(r"(?:<\|tool_call>|<start_function_call>)call:[\w.-]+\{[^<>]*:\Z")
_WORDS: dict[str, Json] = {
    **{"true": True, "false": False, "null": None},
    **{"True": True, "False": False, "None": None},
}
_NUMBER = regex.compile(r"[-+]?(?:0x[0-9a-fA-F]+|(?:\d[\d_]*)?\.?\d+(?:[eE][-+]?\d+)?)(?![\w.](?!\w*=))")
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_PLAIN_NUMBER = re.compile(r"-?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?", re.A)
_WORD = regex.compile(r"[A-Za-z_][\w-]*")
_BARE_KEY = regex.compile(r"--[\w.-]+|[^\s\"'{}\[\](),:=<>][^\"'{}\[\](),:=<>\n]{0,80}?(?=\s*[:=])")
_QUOTED_KEY = {mark: regex.compile(rf"((?:[^{mark}\\\n]|\\.)*){mark}", regex.S) for mark in "\"'”“’"}
_PREFIXED = regex.compile(r"[rbu]{1,2}[\"']")
# Markup of any family that may follow a whole value.
CLOSING = regex.compile(
    r"\s*(?!<\|\"\|>|<escape>)(?:</[^<>\s]{1,60}>|<[|｜][^<>\n]{1,60}>|<\w+\|>|\[/?[A-Z_]+\]|```|>>>|\[e~\[|$)"
)
# Text that may follow a delimited key, value or item.
_FOLLOWS = regex.compile(r"\s*(?:[,}\]):=]|$|<)")
# Maximum length of a truncated word, number sign or escape.
MAX_CUT = 8
_PREFIXED_TEXT = re.compile(r"[A-Za-z]{1,2}[\"']")
_CALLED = re.compile(r"[A-Za-z_]\w*\.?\w*\(.*\)")
_QUOTED = re.compile(r"[\"'+]|^\w+\(")
# Maximum nesting of elements.
MAX_NESTED = 64


class Literals(StringReader):
    """Reader of values at positions in a source. `_bare` is the pattern of strings without quotation marks, if any."""

    _bare: regex.Pattern[str] | None = None

    def whole(self, pos: int) -> tuple[Json, int]:
        """Return the value at a position and its end. Strict JSON is tried first."""
        text = self.source.text
        if self.strict and text.startswith(("{", "["), pos):
            try:
                value, end, odd = strict_value(text, pos)
                if not self.alone or not self.closers or self.source.match(self.closers, end):
                    self.odd = odd
                    return value, end
            except json.JSONDecodeError as error:
                cut = error.pos > self.source.size - MAX_CUT or "Unterminated" in error.msg
                if cut and not self.source.final:
                    raise NeedMore from error
            except (ValueError, RecursionError) as error:
                raise NoCall("nested too deeply, or a number that no client can read") from error
        self._printed = _PRINTED.match(text, pos) is not None
        value, end = self.value(pos, self.schema)
        self.check()
        self.odd = self.odd or {Oddity.OTHER}
        return value, end

    def check(self) -> None:
        """Reject a value whose end was inferred if another reading is possible."""
        lost_comma = Oddity.LOST_COMMAS in self.odd
        if (self.marks_told and (self.completed or self._undeclared or self._paths or lost_comma)) or (
            self.completed and (self._strayed or self.lost_comma or self._for_text or Oddity.COMMENTS in self.odd)
        ):
            raise OpenString("a string or a bracket may end elsewhere")

    def _next(self, pos: int) -> int:
        """Return the position after whitespace and comments. Raise NoCall if a comment may be part of a string."""
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
            raise NoCall("a value was expected")
        if token := source.token(DELIMITERS, pos):
            return self._between(token, pos + len(token))
        sign = source.text[pos]
        self._for_text |= sign in "{[(" and schema.types == {"string"}
        if sign == "{":
            return self.members(pos + 1, "}", schema)
        if sign == "[":
            return self.items(pos + 1, "]", schema)
        if sign == "(":
            # As in Python, only a comma makes a list.
            items, end = self.items(pos + 1, ")", schema if schema.types == {"array"} else Schema(items=schema))
            return (items[0] if len(items) == 1 and not self._after_comma else items), end
        if sign in MARKS:
            declared = schema.all_keys()
            if declared and "string" not in schema.types and (key := self._key_at(pos)) in declared:
                self._strayed |= any(key in each.keys for each in self._open)
                self.odd.add(Oddity.CLOSERS)  # the opening bracket is missing
                return self.members(pos, "}", schema)
            return self.string(pos)
        if self.python and (prefixed := source.match(_PREFIXED, pos)):
            value, end = self.string(prefixed.end() - 1)
            if "r" in prefixed.group() and "\\" in source.text[pos:end]:
                raise NoCall("a raw string with backslashes")
            return value, end
        if number := source.match(_NUMBER, pos):
            if schema.types == {"string"} and not _JSON_NUMBER.fullmatch(number.group()):
                return number.group(), number.end()
            return _number(number.group()), number.end()
        word = source.match(_WORD, pos)
        if word and word.group() in _WORDS:
            return _WORDS[word.group()], word.end()
        return self.bare(pos)

    def bare(self, pos: int) -> tuple[str, int]:
        """Return the unquoted text at a position, and its end."""
        found = self._bare and self.source.match(self._bare, pos)
        if not found or not found.group().strip() or "{" in found.group():
            raise NoCall("a value was expected")
        text = found.group().removesuffix('<|"|>').strip()
        if text in ("...", "…") or text in self.schema.properties:
            raise NoCall("the value is only a name")
        self.bares.add(text)
        return text, found.end()

    def _between(self, token: str, start: int) -> tuple[str, int]:
        """Return a string up to the token that ends it."""
        end = self.source.find(token, start)
        if end >= 0 and _OPENED.search(self.source.text[start:end]):
            raise OpenString("a token in a string")
        if end < 0 or self.source.match(_FOLLOWS, end + len(token)) is None:
            raise OpenString("a string without its end")
        text = self.source.text[start:end]
        if token == "<escape>":  # FunctionGemma delimits values of every type this way
            self.bares.add(text)
        return text, end + len(token)

    # -- objects and lists ------------------------------------------------------------------------------------------

    def members(
        self, pos: int, close: str, schema: Schema, assign: tuple[str, ...] = (":", "=>", "=")
    ) -> tuple[JsonObject, int]:
        """Return the members of an object up to its closing bracket, which may be missing at the reply's end."""
        source, values, key = self.source, JsonObject(), ""
        declared = schema.all_keys()
        self._open.append(Open(close, schema, declared=declared, keys={*declared}))
        while True:
            pos, more = self._next_part(pos, begun=bool(values))
            if not more:
                self.lost_comma |= self._after_comma and isinstance(values.get(key), str)
                return values, pos
            sign = source.text[pos]
            if sign == "{" and not values and close == "}":  # doubled braces
                inner, pos = self.value(pos, schema)
                values = inner if isinstance(inner, dict) else values
                self._open[-1].has_text = any(isinstance(each, str) for each in values.values())
                continue
            # A list without its brackets.
            if sign == "{" and key and (listed := _member(schema, key)).types == {"array"}:
                value, pos = self.value(pos, _items_of(listed))
                items = values[key]
                if not isinstance(items, list):
                    items = values[key] = [items]
                items.append(value)
                continue
            apart = self._after_comma or not values
            self.lost_comma |= not apart and sign in MARKS and isinstance(values.get(key), str)
            key, pos = self._read_member(pos, assign, values, apart=apart)

    def _next_part(self, pos: int, *, begun: bool) -> tuple[int, bool]:
        """Return the position of the next member or item of the open bracket, and True.

        At the end of the bracket, return the position after it, and False. `begun`: the bracket has a part already.
        Set `_after_comma`.
        """
        source, self._after_comma = self.source, False
        while True:
            pos = self._next(pos)
            if pos >= source.size:
                return self._cut(pos), False
            sign = source.text[pos]
            if sign == self._open[-1].close:
                self._open.pop()
                return pos + 1, False
            if begun and sign in "<[]}`" and self.closers and source.match(self.closers, pos):
                self._after_comma = False
                return self._cut(pos), False
            if sign != "," or self._after_comma or not begun:
                return pos, True
            pos, self._after_comma = pos + 1, True

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
            # Only an earlier string could extend to here.
            self._undeclared |= bool(opened.declared) and opened.has_text
            self._strayed |= any(key in each.keys for each in self._open)
        if self.bares and self._undeclared:
            raise NoCall("an undeclared key may be part of the text before it")
        schema = _member(opened.schema, key)
        if schema is ANYTHING and key in ARGUMENT_WORDS and not values:  # unwrap {"arguments": {…}}
            schema = opened.schema
        value, pos = self.value(pos + len(sign), schema)
        if key in values:  # one of the two may be part of a string
            raise NoCall("a key is there twice")
        values[key] = value
        opened.has_text |= isinstance(value, str)
        if not apart:
            self.odd.add(Oddity.LOST_COMMAS)
        return key, pos

    def _cut(self, pos: int) -> int:
        """Close the last bracket, which is missing; return the position. Raise NoCall after a comma."""
        if pos < self.source.size and self.source.match(STRONG, pos):  # the text before it may belong to a string
            raise OpenString("another call begins before a bracket ends")
        if self._after_comma:
            raise NoCall("a value was expected")
        self.odd.add(Oddity.CLOSERS)
        self._open.pop()
        return pos

    def _key(self, pos: int, close: str) -> tuple[str, int]:
        source = self.source
        if token := source.token(DELIMITERS, pos):
            end = source.find(token, pos + len(token))
            if end < 0 or end - pos > MAX_KEY:
                raise NoCall("a key was expected")
            return source.text[pos + len(token) : end], end + len(token)
        sign = source.text[pos]
        if sign in MARKS and sign != "`":
            if MARKS[sign] in TYPOGRAPHIC:
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
        items, each = list[Json](), _items_of(schema)
        self._open.append(Open(close, schema, listed=True, declared=each.all_keys()))
        while True:
            pos, more = self._next_part(pos, begun=bool(items))
            if not more:
                return items, pos
            if items and not self._after_comma:
                self.odd.add(Oddity.LOST_COMMAS)
                self.lost_comma |= self.source.text[pos] in MARKS
            value, pos = self.value(pos, each)
            items.append(value)


class BareLiterals(Literals):
    """Reader of Gemma's literals."""

    # The delimiter before the text may be missing.
    _bare = regex.compile(r"[^,}\]\n<]+(?:<\|\"\|>(?=\s*[,}\])<]))?")


class PythonLiterals(Literals):
    """Reader of Python literals as arguments of a call."""

    python = True
    # Up to a comma before another key, or to the end of the call.
    _bare = regex.compile(
        r"(?!,)"
        r"(?:(?!,\s*[A-Za-z_]\w*\s*=|\)\s*(?:,\s*[A-Za-z_][\w.-]*(?::\d+)?\(|\]\s*(?:$|<|\n)))[^\n]|\n(?=[^\n]))+",
        regex.S,
    )

    def bare(self, pos: int) -> tuple[str, int]:
        """Return the unquoted text at a position, and its end. Reject broken strings and expressions."""
        text, end = super().bare(pos)
        if _PREFIXED_TEXT.match(text) or text.count('"') % 2 or text.count("'") % 2:
            raise NoCall("a text without its last mark")
        if (not self.schema.properties and _QUOTED.search(text)) or _CALLED.fullmatch(text):
            raise NoCall("an expression")
        return text, end


def literal(text: str, *, tolerant: bool = False) -> Json:
    """Return the value of a JSON or Python literal; the text itself if it is neither.

    `tolerant`: the literal may deviate from both.
    """
    written = text.strip()
    if written in _WORDS:
        return _WORDS[written]
    try:
        if _PLAIN_NUMBER.fullmatch(written):
            return _number(written)
        if not written.startswith(("{", "[", "(", '"', "'")):
            return text
        literals = Literals(Source(written))
        value, end = literals.whole(0)
    except (NoCall, RecursionError):
        return text
    exact = tolerant or (literals.odd <= {Oddity.OTHER} and not literals.lost_comma)
    return value if exact and end == len(written) and not is_deep(value) else text


def typed(schema: Schema, text: str, declared: str = "") -> Json:
    """Return the value of a raw text, in notations without quotation marks (Qwen XML).

    `declared` is the type given by the notation; it takes precedence. Otherwise return the text if the schema allows
    any type or only strings. Otherwise return the literal's value if its type is allowed: with `{"type": "integer"}`,
    `10` becomes 10, and `ten` stays a string so that the client's error teaches the model.
    """
    if declared:
        return text if declared == "string" else literal(text)
    if schema.types in (ALL_TYPES, {"string"}):
        return text
    value = literal(text)
    return value if type_of(value) in schema.types - {"string"} else text


def _member(schema: Schema, key: str) -> Schema:
    """Return the schema of an object's member; ANYTHING if it is not declared."""
    found = (part.properties.get(key) for part in schema.all_parts())
    return next((or_anything(each) for each in found if each is not None), ANYTHING)


def _items_of(schema: Schema) -> Schema:
    """Return the schema of a list's items."""
    return next((or_anything(part.items) for part in schema.all_parts() if part.items is not None), ANYTHING)


def _number(text: str) -> int | float:
    """Return a JSON or Python number. Raise NoCall if no client can read it."""
    text = text.replace("_", "").lstrip("+")
    if _JSON_NUMBER.fullmatch(text):
        number = integer(text) if text.lstrip("-").isdigit() else verbatim(text)
    elif text.lstrip("-").isdigit():
        raise NoCall("a number with leading zeros")
    else:
        number = int(text, 16) if "x" in text else float(text)
    if isinstance(number, float) and math.isinf(number):
        raise NoCall("a number that no client can read")
    return number


def strict_value(text: str, start: int) -> tuple[Json, int, set[Oddity]]:
    """Return the JSON value at a position, its end, and its oddities.

    Control characters in strings are allowed. Raise JSONDecodeError if the text is not JSON, and NoCall if a key has
    different values.
    """
    odd = set[Oddity]()

    def members(pairs: list[tuple[str, Json]]) -> JsonObject:
        found = dict(pairs)
        if len(found) != len(pairs):
            odd.add(Oddity.DUPLICATE_KEY)
            if not all(same(found[key], value) for key, value in pairs):
                raise NoCall("a key is there twice")
        return found

    decoder = json.JSONDecoder(
        strict=False, parse_int=integer, parse_float=verbatim, parse_constant=refuse, object_pairs_hook=members
    )
    value, end = decoder.raw_decode(text, start)
    return value, end, odd


class Element(NamedTuple):
    """The element `<name>text</name>` at text[start:end], in nested elements. Its text is at text[text_start:text_end].

    An element without its end tag ends at sys.maxsize.
    """

    name: str
    start: int
    text_start: int
    text_end: int = sys.maxsize
    end: int = sys.maxsize


def elements(text: str, start: int = 0, prefix: str = SEP) -> Iterator[Element]:
    """Yield the outermost elements after a position. `prefix` precedes each tag."""
    opened, depth = None, 0
    for tag in re.compile(rf"{re.escape(prefix)}<(/?)([A-Za-z_$][\w.-]*)>").finditer(text, start):
        closing, name = tag.groups()
        if opened is None and not closing:
            opened, depth = Element(name, tag.start(), tag.end()), 1
        elif opened and name == opened.name:
            depth += -1 if closing else 1
            if not depth:
                yield opened._replace(text_end=tag.start(), end=tag.end())
                opened = None
    if opened:
        yield opened


def element_value(text: str, schema: Schema, prefix: str, depth: int = 0) -> Json:
    """Return the value of nested elements according to the schema; without elements, the value of the text."""
    if not text.strip() and schema.types & {"array", "object"} and "string" not in schema.types:
        return [] if "object" not in schema.types else {}
    parts, value = [*elements(text, prefix=prefix)], typed(schema, text)
    if not isinstance(value, str):
        return value  # a literal, even if its strings contain tags
    lead = text[: parts[0].start] if parts else text
    unopened = f"{prefix}</" in lead
    if not (parts or unopened) or ("string" in schema.types and (lead or schema.types != ALL_TYPES)):
        if prefix and prefix in text and schema.types == ALL_TYPES:
            raise NoCall("an element was expected")
        return value
    if unopened or depth > MAX_NESTED:
        raise NoCall("an end tag without its element, or nested too deeply")
    beside, end = lead.strip(), len(lead)
    for each in parts:
        if text[end : each.start].strip():
            raise NoCall("an element was expected")
        end = each.end
    if end > len(text) or text[end:].strip():
        raise NoCall("an element without its end")
    names = {each.name for each in parts}
    contents = [(each.name, text[each.text_start : each.text_end]) for each in parts]
    if not beside and (("array" in schema.types and "object" not in schema.types) or names == {"item"}):
        items = or_anything(schema.items)
        if len(names) > 1 or names & items.properties.keys():
            raise NoCall("elements beside the items, or keys of an item")
        return [element_value(content, items, prefix, depth + 1) for _, content in contents]
    if beside and "object" not in schema.types:
        raise NoCall("an element was expected")
    values: JsonObject = {"$text": beside} if beside else {}
    for name, content in contents:
        inner = element_value(content, or_anything(schema.properties.get(name)), prefix, depth + 1)
        if name not in values:
            values[name] = inner
            continue
        before = values[name]
        values[name] = [*before, inner] if isinstance(before, list) else [before, inner]
    return values
