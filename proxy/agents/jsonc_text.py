"""JSON with comments and trailing commas (JSONC), as people write it: read, and edited in place.

The JSON of requests and answers is read and written by `codec/json_text.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from proxy.agents.spans import Edit, NotMergeableError, apply, line_end, line_of
from proxy.codec.json_text import Json, JsonObject

_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"')
_STRING_OR_COMMENT = re.compile(rf"{_STRING.pattern}|//[^\n]*|/\*[\s\S]*?\*/")
_PLAIN = re.compile(r"[-+.\w]+")
_BLANK = " \t\r\n"
_REST = re.compile(r"[ \t]*\r?\n")
_DEEPEST = 100


@dataclass(slots=True)
class Node:
    """A value of the text, from `start` to `end`; `members` are those of an object: where its key stands, its value."""

    value: Json
    start: int
    end: int
    members: dict[str, tuple[int, Node]] = field(default_factory=dict)


def parse(text: str) -> Node:
    """Read a text; raises ValueError if it is none."""
    reader = _Reader(text.removeprefix("\ufeff").rjust(len(text)))
    node = reader.value(0)
    reader.blank()
    if reader.at < len(text):
        raise ValueError(f"something stands behind its end, at character {reader.at}")
    return node


def written(content: JsonObject, unit: str = "  ") -> str:
    """A whole file of this content."""
    return json.dumps(content, indent=unit, ensure_ascii=False) + "\n"


def edited(text: str, content: JsonObject) -> str:
    """The text with the content in it, whatever else it says."""
    if not text.strip():
        return written(content)
    root = parse(text)
    return apply(text, _edits(text, root, content, _unit(text, root)))


def without(text: str, path: Sequence[str]) -> str:
    """The text without the member of this path, which is there; comments stay."""
    *outer, key = path
    node = parse(text)
    for name in outer:
        node = node.members[name][1]
    at, member = node.members[key]
    return apply(text, _removed(text, node, at, member.end))


def _removed(text: str, node: Node, start: int, end: int) -> Iterator[Edit]:
    """A member is taken out from its key to its comma, and its line, if it has one of its own."""
    comma = _comma(text, end, node.end - 1)
    if comma is None:
        before = max((member.end for _, member in node.members.values() if member.end <= start), default=start)
        last = _comma(text, before, start)
        if last is not None:
            yield Edit(last, last + 1, "")
    elif comma == end:
        end += 1
        end += len(text[end:]) - len(text[end:].lstrip(" \t"))
    else:  # behind a comment
        yield Edit(comma, comma + 1, "")
    line = line_of(text, start)
    rest = _REST.match(text, end)
    if rest is not None and not line.strip(_BLANK):
        start, end = start - len(line), rest.end()
    yield Edit(start, end, "")


def _edits(text: str, node: Node, content: JsonObject, unit: str) -> Iterator[Edit]:
    """The edits of an object of the text."""
    inner = _indent(text, node, unit)
    new: JsonObject = {}
    for key, value in content.items():
        if key not in node.members:
            new[key] = value
            continue
        at, member = node.members[key]
        if isinstance(value, dict) and isinstance(member.value, dict):
            yield from _edits(text, member, value, unit)
        elif repr(member.value) != repr(value):  # 1 is no true
            # What was said in the old value stands before its key then.
            comments = [f"{comment}{line_end(text)}{inner}" for comment in _comments(text[member.start : member.end])]
            if comments:
                yield Edit(at, at, "".join(comments))
            yield Edit(member.start, member.end, _dumped(value, unit, inner, text))
    if new:
        yield from _added(text, node, new, unit)


def _added(text: str, node: Node, new: JsonObject, unit: str) -> Iterator[Edit]:
    """New members behind those that are there, and behind the comments that stand there."""
    inner = _indent(text, node, unit)
    lines = [f"{inner}{json.dumps(key, ensure_ascii=False)}: {_dumped(new[key], unit, inner, text)}" for key in new]
    newline = line_end(text)
    brace = node.end - 1
    before = len(text[:brace].rstrip(_BLANK))
    added = newline + f",{newline}".join(lines)
    end = before
    if "\n" not in text[before:brace]:
        added += newline + inner.removesuffix(unit)
        end = brace
    if node.members:
        last = max(member.end for _, member in node.members.values())
        if _comma(text, last, brace) is None:
            if last == before:
                added = f",{added}"
            else:
                yield Edit(last, last, ",")
    yield Edit(before, end, added)


def _comma(text: str, start: int, end: int) -> int | None:
    """Where a comma stands between two places, but for comments; None if there is none."""
    reader = _Reader(text[:end])
    reader.at = start
    reader.blank()
    return reader.at if reader.at < end else None


def _comments(text: str) -> list[str]:
    """The comments in a text that has been read."""
    found = (match[0].rstrip() for match in _STRING_OR_COMMENT.finditer(text))
    return [each for each in found if each.startswith("/")]


def _dumped(value: Json, unit: str, indent: str, text: str) -> str:
    lines = json.dumps(value, indent=unit, ensure_ascii=False).split("\n")
    return (line_end(text) + indent).join(lines)


def _indent(text: str, node: Node, unit: str) -> str:
    """The indent of an object's members, each on its line."""
    for at, _ in node.members.values():
        before = line_of(text, at)
        if not before.strip(_BLANK):
            return before
    line = line_of(text, node.start)
    return line[: len(line) - len(line.lstrip(_BLANK))] + unit


def _unit(text: str, root: Node) -> str:
    """By what the text indents."""
    for at, _ in root.members.values():
        before = line_of(text, at)
        if before and not before.strip(_BLANK):
            return before
    return "  "


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def blank(self) -> None:
        """Go on behind blanks and comments."""
        while self.at < len(self.text):
            if self.text[self.at] in _BLANK:
                self.at += 1
            elif self.text.startswith("//", self.at):
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif self.text.startswith("/*", self.at):
                end = self.text.find("*/", self.at + 2)
                if end < 0:
                    raise ValueError("a comment has no end")
                self.at = end + 2
            else:
                return

    def value(self, depth: int) -> Node:
        """Read the next value."""
        self.blank()
        if depth > _DEEPEST:
            raise ValueError("nested too deeply")
        match self._next():
            case "{":
                return self._object(depth)
            case "[":
                return self._array(depth)
            case '"':
                return self._string()
            case _:
                return self._plain()

    def _next(self) -> str:
        """The next character; empty at the end."""
        return self.text[self.at : self.at + 1]

    def _object(self, depth: int) -> Node:
        start = self.at
        members: dict[str, tuple[int, Node]] = {}
        for _ in self._items("}"):
            place = self.at
            key = str(self._string().value)
            if key in members:
                raise NotMergeableError(f"it says {key!r} twice")
            self._take(":")
            members[key] = (place, self.value(depth + 1))
        value: JsonObject = {key: node.value for key, (_, node) in members.items()}
        return Node(value, start, self.at, members)

    def _array(self, depth: int) -> Node:
        start = self.at
        value: list[Json] = [self.value(depth + 1).value for _ in self._items("]")]
        return Node(value, start, self.at)

    def _items(self, end: str) -> Iterator[None]:
        """Yield before each item; what takes it leaves the place behind it."""
        self.at += 1
        self.blank()
        while self._next() != end:
            yield
            self.blank()
            if self._next() == end:
                break
            self._take(",")
            self.blank()
        self.at += 1

    def _take(self, mark: str) -> None:
        self.blank()
        if self._next() != mark:
            raise ValueError(f"{mark!r} is missing at character {self.at}")
        self.at += 1

    def _string(self) -> Node:
        return self._matched(_STRING, "a text in quotation marks")

    def _plain(self) -> Node:
        return self._matched(_PLAIN, "a value")

    def _matched(self, pattern: re.Pattern[str], what: str) -> Node:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise ValueError(f"{what} is missing at character {self.at}")
        self.at = match.end()
        return Node(json.loads(match[0]), match.start(), match.end())
