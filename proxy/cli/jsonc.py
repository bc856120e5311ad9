"""JSON with comments and trailing commas (JSONC): parsed, and edited in place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from proxy.codec.json_text import Json, JsonObject

_STRING = r'"(?:[^"\\]|\\.)*+"'
_COMMENT = re.compile(rf"({_STRING})|//[^\n]*|/\*[\s\S]*?\*/")
# A comma without a value before it stays, and is an error.
_TRAILING = re.compile(rf"({_STRING}|[\[{{,]\s*,)|,(?=\s*[}}\]])")
_SIGN = re.compile(r"\S")
_COMMA = re.compile(r"\s*,")
_BLANK = " \t\r\n"

_Edit = tuple[int, int, str]


class NotMergeableError(Exception):
    """A file cannot be merged safely. The text says why; it follows the file's name."""


class _Member(NamedTuple):
    """A member of an object: the place of its key, its value, and the value's place."""

    key: int
    value: Json
    start: int
    end: int


def _unique(pairs: list[tuple[str, Json]]) -> JsonObject:
    content: JsonObject = {}
    for name, value in pairs:
        if name in content:
            raise NotMergeableError(f"the key {name!r} occurs twice")
        content[name] = value
    return content


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


def loads(text: str) -> Json:
    """Return the value of a text. Raises ValueError, and NotMergeableError for a key that occurs twice."""
    value: Json = _DECODER.decode(_blanked(_blanked(text.removeprefix("\ufeff"), _COMMENT), _TRAILING))
    return value


def dumps(content: JsonObject, unit: str = "  ") -> str:
    """Return the text of a new file."""
    return json.dumps(content, indent=unit, ensure_ascii=False) + "\n"


def edited(text: str, content: JsonObject) -> str:
    """Return the text, whose value is an object, with the content merged into it; the rest of it is unchanged."""
    if not text.strip():
        return dumps(content)
    document = _Document(text)
    starts = (document.line_start(member.key) for member in document.members(document.root).values())
    unit = next((indent for indent in starts if indent and not indent.strip(_BLANK)), "  ")
    return document.edited(document.merging(document.root, content, unit))


def without(text: str, path: Sequence[str]) -> str:
    """Return the text without the member at a path, which must exist, and without its line if that is left blank."""
    document = _Document(text)
    at = document.root
    for name in path[:-1]:
        at = document.members(at)[name].start
    members = document.members(at)
    start, _, _, end = members[path[-1]]
    edits = list[_Edit]()
    comma = document.comma(end)
    if comma is None:
        # The last member: the comma before it goes.
        before = max((each.end for each in members.values() if each.end <= start), default=start)
        comma = document.comma(before) if before < start else None
        edits += [] if comma is None else [(comma, comma + 1, "")]
    elif comma == end:
        end += 1
        end += len(text[end:]) - len(text[end:].lstrip(" \t"))
    else:  # after a comment
        edits.append((comma, comma + 1, ""))
    indent = document.line_start(start)
    rest = re.compile(r"[ \t]*\r?\n").match(text, end)
    if rest is not None and not indent.strip(_BLANK):
        start, end = start - len(indent), rest.end()
    return document.edited([*edits, (start, end, "")])


def _blanked(text: str, pattern: re.Pattern[str]) -> str:
    """Return the text with blanks instead of what the pattern matches outside strings."""
    return pattern.sub(lambda found: found[1] or " " * len(found[0]), text)


class _Document:
    """A valid text, and where its objects have their members. `root` is the place of the outermost object."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._bare = _blanked(text.removeprefix("\ufeff").rjust(len(text)), _COMMENT)
        # Strict JSON of the same length.
        self._strict = _blanked(self._bare, _TRAILING)
        self.root = self._after_blanks(0)

    def _after_blanks(self, at: int) -> int:
        found = _SIGN.search(self._strict, at)
        return found.start() if found else len(self._strict)

    def members(self, at: int) -> dict[str, _Member]:
        """Return the members of the object at a place, by their keys."""
        members: dict[str, _Member] = {}
        while self._strict[at] != "}":
            key = self._after_blanks(at + 1)
            if self._strict[key] == "}":  # an empty object
                break
            name, end = _DECODER.raw_decode(self._strict, key)
            start = self._after_blanks(self._after_blanks(end) + 1)
            value, end = _DECODER.raw_decode(self._strict, start)
            members[name] = _Member(key, value, start, end)
            at = self._after_blanks(end)
        return members

    def comma(self, at: int) -> int | None:
        """Return where the comma after a value is, which ends at `at`."""
        found = _COMMA.match(self._bare, at)
        return found.end() - 1 if found else None

    def line_start(self, at: int) -> str:
        """Return the part of a line before a place."""
        return self._text[self._text.rfind("\n", 0, at) + 1 : at]

    def edited(self, edits: Iterable[_Edit]) -> str:
        """Return the text with these replacements made."""
        text = self._text
        for start, end, new in sorted(edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def merging(self, at: int, content: JsonObject, unit: str) -> Iterator[_Edit]:
        """Yield the edits that merge the content into the object at a place."""
        members = self.members(at)
        indents = (self.line_start(member.key) for member in members.values())
        line = self.line_start(at)
        usual = line[: len(line) - len(line.lstrip(_BLANK))] + unit
        indent = next((before for before in indents if not before.strip(_BLANK)), usual)
        newline = "\r\n" if "\r\n" in self._text else "\n"

        def dumped(value: Json) -> str:
            return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", newline + indent)

        added = []
        for key, value in content.items():
            member = members.get(key)
            if member is None:
                added.append(f"{indent}{json.dumps(key, ensure_ascii=False)}: {dumped(value)}")
            elif isinstance(value, dict) and isinstance(member.value, dict):
                yield from self.merging(member.start, value, unit)
            elif repr(member.value) != repr(value):  # 1 == True
                yield member.start, member.end, dumped(value)
        if not added:
            return
        # New members follow the others and the comments after them.
        brace = _DECODER.raw_decode(self._strict, at)[1] - 1
        end = start = len(self._text[:brace].rstrip(_BLANK))
        new = newline + f",{newline}".join(added)
        if "\n" not in self._text[start:brace]:
            new += newline + indent.removesuffix(unit)
            end = brace
        if members:
            last = max(member.end for member in members.values())
            if self.comma(last) is None:
                if last == start:
                    new = f",{new}"
                else:
                    yield last, last, ","
        yield start, end, new
