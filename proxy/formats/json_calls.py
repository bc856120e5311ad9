"""Calls written as JSON objects: `{"name": …, "arguments": {…}}` and its spellings (F1, F2, F6, F30).

One object, several behind each other or line by line, or an array of them; pretty-printed or not; Python's quotation
marks and words; commas and braces too many or too few; the OpenAI shape; arguments as a JSON string; the name as the
key. The reading ends at the first key that no call has, so that a JSON answer is let go at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..reader import MAX_KEY, NotACall, Parsing, RawCall, Reader
from ..tools import Tool
from .ends import ends_here, whole_value
from .values import arguments, read_string

_NAMES = frozenset(("name", "tool_name", "tool", "function_name", "function"))
_ARGUMENTS = frozenset(("arguments", "parameters", "args", "input"))
_IGNORED = frozenset(("id", "index", "tool_call_id", "call_id"))
_TYPES = frozenset((b"function", b"tool_use", b"tool_call", b"function_call"))
_QUOTES = (b'"', b"'")


@dataclass(slots=True)
class _Members:
    """What was read of one call's object so far; `keyed` if the name was the key of its arguments."""

    name: str | None = None
    arguments: bytes | None = None
    inner: RawCall | None = None
    keyed: bool = False

    @property
    def empty(self) -> bool:
        """True if nothing was read that makes a call."""
        return self.name is None and self.arguments is None and self.inner is None


def json_object(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read one object that stands here."""
    return ((yield from _call(reader, keyed=reader.wrapped)),)


def shown_json(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read JSON in the middle of a line: its strings are strings, whatever they hold."""
    reader.strict = True
    reader.annul(why="JSON in the middle of a line is no call")
    yield from reader.value()
    raise NotACall(reader.why)


def json_array(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read one array of objects that stands here."""
    yield from reader.expect(b"[")
    calls: list[RawCall] = []
    while True:
        yield from reader.blanks()
        here = yield from reader.byte()
        if here == b"{":
            calls.append((yield from _call(reader, keyed=True)))
        elif here == b"]" and calls:
            reader.pos += 1
            return tuple(calls)
        else:
            # An array of something else: its strings are strings, whatever they hold.
            reader.annul(why="the array holds something else")
            yield from reader.value()
        yield from reader.blanks()
        end = yield from reader.which((b",", b"]"))
        if end is None and calls and (yield from reader.byte()) == b"{":
            continue  # the comma is missing
        if end is None and calls and not reader.void and (yield from ends_here(reader)):
            return tuple(calls)
        if end == b"]" and not reader.void:
            return tuple(calls)
        if end != b",":
            raise NotACall(reader.why or "the array goes on with something else")


def _call(reader: Reader, *, keyed: bool = False, inner: bool = False) -> Parsing[RawCall]:
    yield from reader.expect(b"{")
    members = _Members()
    seen: set[str] = set()
    while True:
        yield from reader.blanks()
        if seen and (yield from reader.which((b"}",))):
            return _finished(reader, members)
        key = yield from _key(reader)
        reader.annul(key in seen, f"the key {key!r} stands there twice")
        seen.add(key)
        yield from _member(reader, key, members, inner, keyed and len(seen) == 1)
        yield from reader.blanks()
        end = yield from reader.which((b",", b"}"))
        lost = end is None and members.arguments is not None and not reader.void
        if end == b"}" or (lost and (yield from ends_here(reader))):
            return _finished(reader, members)
        if end is None:
            raise reader.refuse("the object goes on with something else")


def _key(reader: Reader) -> Parsing[str]:
    key = yield from _string(reader)
    yield from reader.blanks()
    yield from reader.expect(b":")
    yield from reader.blanks()
    return key


def _member(reader: Reader, key: str, members: _Members, inner: bool, keyed: bool) -> Parsing[None]:
    here = yield from reader.byte()
    if key in _NAMES and members.name is None and members.inner is None and here in _QUOTES:
        members.name = yield from _string(reader)
        reader.tool(members.name)
    elif key in _ARGUMENTS and members.arguments is None and members.inner is None:
        members.arguments = yield from whole_value(reader)
    elif key == "function" and members.empty and not inner and here == b"{":
        members.inner = yield from _call(reader, inner=True)
    elif key == "type":
        kind = yield from reader.value()
        reader.annul(kind.strip(b"\"'") not in _TYPES, "its type is no function")
    elif keyed and here == b"{" and key not in _IGNORED and reader.tools.resolve(key) is not None:
        reader.tool(key)
        members.name, members.arguments, members.keyed = key, (yield from reader.value()), True
    else:
        # A key that no call has, or an id that is none: this is JSON of another kind.
        foreign = key not in _IGNORED or here in (b"{", b"[") or members.keyed
        reader.annul(foreign, f"the key {key!r} is of no call")
        yield from reader.value(0 if reader.void else MAX_KEY)


def _finished(reader: Reader, members: _Members) -> RawCall:
    if reader.void:
        raise NotACall(reader.why)
    if members.inner is not None:
        return members.inner
    if members.name is None or (members.arguments is None and not reader.wrapped):
        raise NotACall("the object has no name or no arguments")
    tool = reader.tool(members.name)
    return RawCall(tool, members.name, _text(members.arguments, tool))


def _text(value: bytes | None, tool: Tool) -> str:
    return arguments(value or b"null", tool)


def _string(reader: Reader) -> Parsing[str]:
    quoted = yield from reader.string(MAX_KEY, or_void=True)
    return "" if reader.void else read_string(quoted)
