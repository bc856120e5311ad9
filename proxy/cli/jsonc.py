"""JSON with comments and trailing commas (JSONC): parsed, and edited in place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from proxy.codec.json_text import Json, JsonObject

# Blanks and comments, then a token, which is empty at the end and where none can be read.
_TOKEN = re.compile(r'(?:[ \t\r\n]|//[^\n]*|/\*[\s\S]*?\*/)*+("(?:[^"\\]|\\.)*+"|[-+.\w]+|[{}\[\],:]|)')
_BLANK = " \t\r\n"
_DEEPEST = 100

_Edit = tuple[int, int, str]


class NotMergeableError(Exception):
    """A file cannot be merged safely. The text says why; it follows the file's name."""


@dataclass(slots=True)
class _Node:
    """A value, from `start` to `end`. `members` are those of an object: the place of the key, and the value."""

    value: Json
    start: int
    end: int
    members: dict[str, tuple[int, _Node]] = field(default_factory=dict)


def loads(text: str) -> Json:
    """Return the value of a text. Raises ValueError."""
    return _parse(text).value


def dumps(content: JsonObject, unit: str = "  ") -> str:
    """Return the text of a new file."""
    return json.dumps(content, indent=unit, ensure_ascii=False) + "\n"


def edited(text: str, content: JsonObject) -> str:
    """Return the text with the content merged into it; the rest of it is unchanged."""
    if not text.strip():
        return dumps(content)
    root = _parse(text)
    starts = (_line_start(text, at) for at, _ in root.members.values())
    unit = next((indent for indent in starts if indent and not indent.strip(_BLANK)), "  ")
    return _apply(text, _edits(text, root, content, unit))


def without(text: str, path: Sequence[str]) -> str:
    """Return the text without the member at a path, which must exist, and without its line if that is left blank."""
    node = _parse(text)
    for name in path[:-1]:
        node = node.members[name][1]
    start, member = node.members[path[-1]]
    end, edits = member.end, list[_Edit]()
    comma = _comma(text, end)
    if comma is None:
        # The last member: the comma before it goes.
        before = max((each.end for _, each in node.members.values() if each.end <= start), default=start)
        comma = _comma(text, before) if before < start else None
        edits += [] if comma is None else [(comma, comma + 1, "")]
    elif comma == end:
        end += 1
        end += len(text[end:]) - len(text[end:].lstrip(" \t"))
    else:  # after a comment
        edits.append((comma, comma + 1, ""))
    indent = _line_start(text, start)
    rest = re.compile(r"[ \t]*\r?\n").match(text, end)
    if rest is not None and not indent.strip(_BLANK):
        start, end = start - len(indent), rest.end()
    return _apply(text, [*edits, (start, end, "")])


def _apply(text: str, edits: Iterable[_Edit]) -> str:
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _edits(text: str, node: _Node, content: JsonObject, unit: str) -> Iterator[_Edit]:
    """Yield the edits that merge the content into an object."""
    indent = _indent(text, node, unit)
    newline = "\r\n" if "\r\n" in text else "\n"

    def dumped(value: Json) -> str:
        return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", newline + indent)

    added = []
    for key, value in content.items():
        if key not in node.members:
            added.append(f"{indent}{json.dumps(key, ensure_ascii=False)}: {dumped(value)}")
            continue
        member = node.members[key][1]
        if isinstance(value, dict) and isinstance(member.value, dict):
            yield from _edits(text, member, value, unit)
        elif repr(member.value) != repr(value):  # 1 == True
            yield member.start, member.end, dumped(value)
    if not added:
        return
    # New members follow the others and the comments after them.
    brace = node.end - 1
    end = start = len(text[:brace].rstrip(_BLANK))
    new = newline + f",{newline}".join(added)
    if "\n" not in text[start:brace]:
        new += newline + indent.removesuffix(unit)
        end = brace
    if node.members:
        last = max(member.end for _, member in node.members.values())
        if _comma(text, last) is None:
            if last == start:
                new = f",{new}"
            else:
                yield last, last, ","
    yield start, end, new


def _comma(text: str, start: int) -> int | None:
    """Return where the next token is, if it is a comma."""
    token = _TOKEN.match(text, start)
    return token.start(1) if token and token[1] == "," else None


def _line_start(text: str, at: int) -> str:
    """Return the part of a line before a place."""
    return text[text.rfind("\n", 0, at) + 1 : at]


def _indent(text: str, node: _Node, unit: str) -> str:
    """Return the indent of an object's members, each on a line of its own."""
    for at, _ in node.members.values():
        before = _line_start(text, at)
        if not before.strip(_BLANK):
            return before
    line = _line_start(text, node.start)
    return line[: len(line) - len(line.lstrip(_BLANK))] + unit


def _parse(text: str) -> _Node:
    reader = _Reader(text.removeprefix("\ufeff").rjust(len(text)))
    node = reader.value(0)
    if reader.token or reader.at < len(text):
        raise reader.error()
    return node


class _Reader:
    """A reader of values. `token` is the next token, from `start` to `at`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.token = ""
        self.start = self.at = 0
        self._next()

    def _next(self, wanted: str = "") -> None:
        """Go to the next token; the current one must be `wanted`, if given."""
        if wanted and self.token != wanted:
            raise self.error()
        match = _TOKEN.match(self._text, self.at)
        assert match is not None
        self.token, self.start, self.at = match[1], match.start(1), match.end()

    def error(self) -> ValueError:
        line = self._text.count("\n", 0, self.start) + 1
        return ValueError(f"unexpected {self._text[self.start : self.start + 1] or 'end'!r} in line {line}")

    def value(self, depth: int) -> _Node:
        """Read the current token's value. Raises ValueError, and NotMergeableError for a key that occurs twice."""
        if depth > _DEEPEST:
            raise ValueError("it is nested too deeply")
        opener, start, end = self.token, self.start, self.at
        if opener not in ("{", "["):
            value = self._scalar()
            return _Node(value, start, end)
        closer = "}" if opener == "{" else "]"
        members: dict[str, tuple[int, _Node]] = {}
        items: list[Json] = []
        self._next()
        while self.token != closer:
            place = self.start
            if opener == "{":
                if not self.token.startswith('"'):
                    raise self.error()
                key = str(self._scalar())
                if key in members:
                    raise NotMergeableError(f"the key {key!r} occurs twice")
                self._next(":")
                members[key] = (place, self.value(depth + 1))
            else:
                items.append(self.value(depth + 1).value)
            if self.token != closer:
                self._next(",")
        end = self.at
        self._next()
        if opener == "[":
            return _Node(items, start, end)
        return _Node({key: node.value for key, (_, node) in members.items()}, start, end, members)

    def _scalar(self) -> Json:
        try:
            value: Json = json.loads(self.token)
        except ValueError:
            raise self.error() from None
        self._next()
        return value
