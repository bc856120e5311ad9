"""Strict readers of the judge: they read a reply exactly as its family's template writes it.

An end tag ends a raw value if the template's closers or another parameter follow. If a value contains the family's
markup, there can be several readings, one for each `Mode`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterator, Sequence
from enum import Enum
from typing import Any

from benchmarks.harm.families import M3, Body, Call, Family, Type
from benchmarks.harm.offers import Offer, Schema
from benchmarks.harm.writing import CLEAN, GEMMA_MARK

_KEY = r'([^<>"\s/][^<>"\s]{0,79})'
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null")
_GEMMA_KEY = re.compile(r"[\w-]+")


class Mode(Enum):
    """End of a raw value: the first end tag that counts outside of balanced markup; the first one that counts; or the
    opening tag of another key of the tool, because an end tag is missing.
    """

    BALANCED = "balanced"
    FIRST = "first"
    SPLIT = "split"


class NotStrict(ValueError):
    """The text differs from the template's output."""


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _refuse(word: str) -> Any:
    raise ValueError(word)


# Raw line ends in strings are unambiguous.
_DECODER = json.JSONDecoder(object_pairs_hook=_no_doubles, parse_constant=_refuse, strict=False)


def read_object(text: str, *, lines: bool = False) -> dict[str, Any] | None:
    """Return a strict JSON object without duplicate keys; None if invalid. `lines`: raw line ends are allowed."""
    try:
        value = json.loads(text, object_pairs_hook=_no_doubles, parse_constant=_refuse, strict=not lines)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def readings(
    family: Family, text: str, offers: Sequence[Offer], modes: Sequence[Mode] = (Mode.BALANCED, Mode.FIRST)
) -> list[list[Call]]:
    """Return the strict readings of a reply, each a list of calls; `text` begins with the first call."""
    found: list[list[Call]] = []
    for mode in modes if family.body is Body.TAGS else (Mode.FIRST,):
        # After a section that ended early, a call without its section's opener may or may not count.
        for outside in (True, False):
            try:
                calls = _Reader(family, text, offers, mode).reply(outside=outside)
            except (ValueError, RecursionError, SyntaxError):
                continue
            if calls not in found:
                found.append(calls)
    return found


class _Reader:
    def __init__(self, family: Family, text: str, offers: Sequence[Offer], mode: Mode) -> None:
        self._family = family
        self._text = text
        self._at = 0
        self._offers = {offer.name: offer for offer in offers}
        self._mode = mode
        names = "|".join(map(re.escape, sorted(self._offers, key=len, reverse=True)))
        self._head = re.compile(_template(family.head, f"(?P<name>{names})"))
        self._foot = re.compile(_template(family.foot, "(?:)"))
        tags = family.tags
        self._opening = re.compile(
            _template(tags.open, "(?:)").replace(r"\{key\}", _KEY).replace(r"\{type\}", r"(\w+)")
        )

    def reply(self, *, outside: bool = True) -> list[Call]:
        """Return all calls, including those `outside` of a section. Raise ValueError if the first is not strict."""
        if self._family.body is Body.PYTHON:
            return self._python()
        calls = self._section()
        if self._family.body is not Body.TAGS:
            return calls
        # After a call that ended early, another one may follow, in the same section or another.
        while (head := self._head.search(self._text, self._at)) is not None:
            self._at = self._start_of(head.start())
            begun = not self._text.startswith(self._family.section[0], self._at)
            if begun and not outside:
                self._at = head.end()
                continue
            try:
                calls += self._section(begun=begun)
            except NotStrict:
                self._at = head.end()
        return calls

    def _start_of(self, head: int) -> int:
        """Return the start of the call with its head at a position."""
        at = head
        for part in (self._family.opener, self._family.section[0]):
            at -= len(part) if part and self._text.endswith(part, 0, at) else 0
        return at

    def _section(self, *, begun: bool = False) -> list[Call]:
        """Read a section of calls at the current position; `begun`: without the text before its first call."""
        family = self._family
        if not begun:
            self._expect(family.section[0])
        calls = [self._call()]
        while self._next_call_follows(self._at):
            self._expect(family.between)
            calls.append(self._call())
        self._expect(family.section[1])
        if self._family.body is Body.TAGS and not self._reply_goes_on(self._at):
            raise NotStrict("something stands behind the calls")
        return calls

    def _call(self) -> Call:
        family = self._family
        self._expect(family.opener)
        head = self._head.match(self._text, self._at)
        if head is None:
            raise NotStrict("no head")
        self._at = head.end()
        offer = self._offers[head.group("name")]
        values = self._arguments(offer)
        foot = self._foot.match(self._text, self._at)
        if foot is None:
            raise NotStrict("no foot")
        self._at = foot.end()
        self._expect(family.closer)
        return offer.name, values

    def _arguments(self, offer: Offer) -> dict[str, Any]:
        match self._family.body:
            case Body.JSON:
                value, self._at = _DECODER.raw_decode(self._text, self._at)
            case Body.GEMMA:
                value, self._at = _gemma(self._text, self._at)
            case _:
                return self._parameters(offer)
        if not isinstance(value, dict):
            raise NotStrict("no object")
        return value

    def _expect(self, literal: str) -> None:
        bare = literal
        if self._family.body is not Body.TAGS:
            # JSON and literals are self-delimiting, so line ends around them are optional.
            bare = literal.strip("\n")
            self._skip_line_ends(literal.startswith("\n"))
        if not self._text.startswith(bare, self._at):
            raise NotStrict(f"{literal!r} was expected")
        self._at += len(bare)
        self._skip_line_ends(bare != literal and literal.endswith("\n"))

    def _skip_line_ends(self, skipped: bool) -> None:
        while skipped and self._text.startswith("\n", self._at):
            self._at += 1

    def _next_call_follows(self, at: int) -> bool:
        """Return whether another call of the section begins at a position."""
        start = self._family.between + self._family.opener
        return self._text.startswith(start, at) and self._head.match(self._text, at + len(start)) is not None

    def _reply_goes_on(self, at: int) -> bool:
        """Return whether a line end, another call, or nothing follows the last closer."""
        rest = self._text[at : at + 1]
        start = self._family.section[0] + self._family.opener
        return rest in ("", "\n", "\r") or bool(start and self._text.startswith(start, at))

    def _parameters(self, offer: Offer) -> dict[str, Any]:
        tags = self._family.tags
        values: dict[str, Any] = {}
        while (opening := self._opening.match(self._text, self._at)) is not None:
            key = opening.group(1)
            if key in values:
                raise NotStrict("a key stands there twice")
            said = opening.group(2) if tags.type in (Type.DSML, Type.XTML) else ""
            start = opening.end()
            if not self._text.startswith(tags.edge, start):
                raise NotStrict("no line end")
            start += len(tags.edge)
            others = offer.properties.keys() - values.keys() - {key}
            split = self._opener_of(others, start) if self._mode is Mode.SPLIT else None
            end = self._value_end(start, key)
            if split is not None and split < end:
                end, self._at = split - len(tags.edge or tags.behind), split
            else:
                self._at = end + len(tags.edge + tags.closer(key) + tags.behind)
                self._expect_no_swallowed(self._text[start:end], others, key)
            values[key] = _typed(self._text[start:end], offer.properties.get(key), tags.type, said)
        return values

    def _opener_of(self, keys: Collection[str], start: int, end: int | None = None) -> int | None:
        """Return the position of an opening tag of one of these keys, as in the template, or None."""
        edge = self._family.tags.edge
        for opening in self._opening.finditer(self._text, start, len(self._text) if end is None else end):
            if opening.group(1) in keys and (not edge or self._text[opening.start() - 1] == "\n"):
                return opening.start()
        return None

    def _expect_no_swallowed(self, value: str, others: Collection[str], key: str) -> None:
        """Reject a value with an unclosed opening tag of another key or call."""
        end = self._at
        start = (
            end
            - len(value)
            - len(self._family.tags.closer(key))
            - len(self._family.tags.edge + self._family.tags.behind)
        )
        if balanced(self._family, value, [*others, key]):
            return
        if self._opener_of(others, start, start + len(value)) is not None or self._head.search(value):
            raise NotStrict("it holds another one")

    def _value_end(self, start: int, key: str) -> int:
        """Return the end of the value at a position: the end tag that counts."""
        tags = self._family.tags
        closer = tags.closer(key)
        depth, at = 0, start
        while True:
            end = self._text.find(closer, at)
            if end < 0:
                raise NotStrict("no end tag")
            if self._mode is Mode.BALANCED:
                depth += self._openers(at, end, key)
            at = end + len(closer)
            if depth:
                depth -= 1
                continue
            padded = self._text.startswith(tags.edge, end - len(tags.edge)) and end - len(tags.edge) >= start
            if padded and self._text.startswith(tags.behind, at) and self._continues(at + len(tags.behind)):
                return end - len(tags.edge)

    def _openers(self, start: int, end: int, key: str) -> int:
        """Return the number of the key's opening tags between two positions, as in the template."""
        tags = self._family.tags
        found = 0
        for opening in self._opening.finditer(self._text, start, end):
            alone = not tags.edge or self._text[opening.start() - 1 : opening.start()] == "\n"
            same = "{key}" not in tags.close or opening.group(1) == key
            found += alone and same
        return found

    def _continues(self, at: int) -> bool:
        """Return whether text from the template follows an end tag: a parameter, or closers and a valid rest."""
        if self._opening.match(self._text, at):
            return True
        foot = self._foot.match(self._text, at)
        if foot is None or not self._text.startswith(self._family.closer, foot.end()):
            return False
        at = foot.end() + len(self._family.closer)
        if self._next_call_follows(at):
            return True
        end = self._family.section[1]
        return self._text.startswith(end, at) and self._reply_goes_on(at + len(end))

    def _python(self) -> list[Call]:
        tree = ast.parse(self._text.strip(), mode="eval").body
        if not isinstance(tree, ast.List):
            raise NotStrict("no list")
        return [self._python_call(call) for call in tree.elts]

    def _python_call(self, call: ast.expr) -> Call:
        known = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in self._offers
        if not known or call.args:  # type: ignore[attr-defined]
            raise NotStrict("no call")
        keywords = call.keywords  # type: ignore[attr-defined]
        return call.func.id, _no_doubles([(word.arg, ast.literal_eval(word.value)) for word in keywords])  # type: ignore[attr-defined]


def _template(text: str, name: str) -> str:
    """Return the pattern of a part of the template."""
    return re.escape(text).replace(r"\{name\}", name).replace(r"\{n\}", r"\d+")


def balanced(family: Family, text: str, keys: Collection[str]) -> bool:
    """Return whether opening and end tags in a value are balanced.

    If end tags name the key, only those of these keys count.
    """
    tags = family.tags
    if "{key}" in tags.close:
        return all(_is_balanced(text, re.escape(tags.opener(key, "", CLEAN)), tags.closer(key)) for key in keys)
    opening = re.escape(tags.open).replace(r"\{key\}", _KEY).replace(r"\{type\}", r"\w+")
    return _is_balanced(text, opening, tags.close)


def _is_balanced(text: str, opening: str, closer: str) -> bool:
    depth = 0
    for found in re.finditer(rf"{opening}|(?P<close>{re.escape(closer)})", text):
        depth += -1 if found.group("close") else 1
        if depth < 0:
            return False
    return depth == 0


def _typed(text: str, schema: Schema | None, kind: Type, said: str) -> Any:
    """Return the value of raw text: by the type in the format, or else in the schema."""
    if kind is Type.DSML or kind is Type.XTML:
        return text if said in ("true", "string") else json.loads(text)
    if schema is None:
        return text
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if kind is Type.ELEMENTS and types[0] in ("array", "object"):
        return _element(text, schema)
    if "string" not in types:
        return json.loads(text)
    return None if "null" in types and text == "null" else text


def _element(text: str, schema: Schema) -> Any:
    """Return the value of nested elements."""
    kind = schema["type"]
    if kind not in ("array", "object"):
        return _typed(text, schema, Type.ELEMENTS, "")
    inside: list[tuple[str, str]] = list(_elements(text))
    if kind == "array":
        return [_element(inner, schema["items"]) for _, inner in inside]
    return _no_doubles([(key, _element(inner, schema["properties"][key])) for key, inner in inside])


def _elements(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        opening = re.compile(rf"{re.escape(M3)}<([\w.-]+)>").match(text, at)
        if opening is None:
            raise NotStrict("no element")
        end = text.find(f"{M3}</{opening.group(1)}>", at)
        if end < 0:
            raise NotStrict("no end of an element")
        yield opening.group(1), text[opening.end() : end]
        at = end + len(f"{M3}</{opening.group(1)}>")


def _gemma(text: str, at: int) -> tuple[Any, int]:
    """Return one Gemma literal, and its end."""
    if text.startswith(GEMMA_MARK, at):
        start = at + len(GEMMA_MARK)
        end = text.find(GEMMA_MARK, start)
        if end < 0:
            raise NotStrict("no end of a string")
        return text[start:end], end + len(GEMMA_MARK)
    if text[at : at + 1] in ("{", "["):
        return _gemma_members(text, at)
    number = _NUMBER.match(text, at)
    if number is None:
        raise NotStrict("no value")
    return json.loads(number.group()), number.end()


def _gemma_members(text: str, at: int) -> tuple[Any, int]:
    bracket = text[at]
    members: list[tuple[str, Any]] = []
    at += 1
    while text[at : at + 1] not in ("}", "]"):
        if members:
            if text[at : at + 1] != ",":
                raise NotStrict("no comma")
            at += 1
        key = ""
        if bracket == "{":
            named = _GEMMA_KEY.match(text, at)
            if named is None or text[named.end() : named.end() + 1] != ":":
                raise NotStrict("no key")
            key, at = named.group(), named.end() + 1
        value, at = _gemma(text, at)
        members.append((key, value))
    if (text[at], bracket) not in (("}", "{"), ("]", "[")):
        raise NotStrict("the wrong bracket")
    return (_no_doubles(members) if bracket == "{" else [value for _, value in members]), at + 1
