"""Calls written as JSON objects: `{"name": …, "arguments": {…}}` and its spellings (F1, F2, F6, F30).

One object, several behind each other or line by line, or an array of them; pretty-printed or not; Python's quotation
marks and words; commas and braces too many or too few; the OpenAI shape; arguments as a JSON string; the name as the
key. The reading ends at the first key that no call has, so that a JSON answer is let go at once.

Some spellings are common in JSON answers too. They count as the whole reply only, with at least one argument, or in a
wrapper: `{"tool_call": "NAME", "parameters": {…}}`, `{"tool_call": {…}}`, `{"action": "NAME", "action_input": {…}}`,
`{"tool_name": "NAME", "params": {…}}`, `{"tool_calls": […]}`, `{"NAME": {…}}`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..events import load_json
from ..reader import MAX_KEY, NotACall, Parsing, RawCall, Reader
from ..tools import Tool
from .ends import ends_here, whole_value
from .loose_json import JSON_TAILS, OPEN_TEXT, arguments_value, may_end_in_text
from .several import one_of_several
from .values import arguments, read_string

_NAMES = frozenset(("name", "tool_name", "tool", "function_name", "function"))
_ARGUMENTS = frozenset(("arguments", "parameters", "args", "input"))
# These count as the whole reply and in a wrapper only.
_WIDER_NAMES = _NAMES | {"tool_call", "action"}
_WIDER_ARGUMENTS = _ARGUMENTS | {"params", "action_input"}
_LIST = "tool_calls"
_IGNORED = frozenset(("id", "index", "tool_call_id", "call_id"))
_TYPES = frozenset((b"function", b"tool_use", b"tool_call", b"function_call"))
# No tool is named so by the key of its arguments.
_OWN_KEYS = _WIDER_NAMES | _WIDER_ARGUMENTS | _IGNORED | {_LIST, "type"}
_QUOTES = (b'"', b"'")


class _Place(Enum):
    """Where an object stands, which says what may stand in it."""

    TOP = "by itself, or in an array that does"
    LISTED = "in `tool_call` or in the list `tool_calls`"
    FUNCTION = "in `function`"


# What an object in an object may be the value of, and where it stands then.
_SHAPES = {
    (_Place.TOP, "function"): _Place.FUNCTION,
    (_Place.LISTED, "function"): _Place.FUNCTION,
    (_Place.TOP, "tool_call"): _Place.LISTED,
}


@dataclass(slots=True)
class _Members:
    """What was read of one call's object so far; `keyed` if the name was the key of its arguments, `wider` if a key was
    one that counts as the whole reply only.
    """

    name: str | None = None
    arguments: bytes | None = None
    inner: tuple[RawCall, ...] | None = None
    keyed: bool = False
    wider: bool = False

    @property
    def empty(self) -> bool:
        """True if nothing was read that makes a call."""
        return self.name is None and self.arguments is None and self.inner is None


def json_object(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read one object that stands here."""
    return (yield from _object(reader, _Place.TOP, keyed=_counts_wider(reader), alone=True))


def _counts_wider(reader: Reader) -> bool:
    """True where the spellings count that are common in JSON answers too."""
    return reader.first or reader.wrapped


def shown_json(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read JSON in the middle of a line: its strings are strings, whatever they hold."""
    reader.strict = True
    reader.annul(why="JSON in the middle of a line is no call")
    yield from reader.value()
    raise NotACall(reader.why)


def json_array(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read one array of objects that stands here."""
    return (yield from _array(reader, _Place.TOP))


def _array(reader: Reader, place: _Place) -> Parsing[tuple[RawCall, ...]]:
    yield from reader.expect(b"[")
    calls: list[RawCall] = []
    some = False
    while True:
        yield from reader.blanks()
        here = yield from reader.byte()
        if here == b"{":
            calls += yield from one_of_several(reader, lambda reader: _object(reader, place, keyed=True), len(calls))
            some = True
        elif here == b"]" and some:
            reader.pos += 1
            return tuple(calls)
        else:
            # An array of something else: its strings are strings, whatever they hold.
            reader.annul(why="the array holds something else")
            yield from reader.value()
        yield from reader.blanks()
        end = yield from reader.which((b",", b"]"))
        if end is None and some and (yield from reader.byte()) == b"{":
            continue  # the comma is missing
        if end is None and some and not reader.void and (yield from ends_here(reader)):
            return tuple(calls)
        if end == b"]" and not reader.void:
            return tuple(calls)
        if end != b",":
            raise NotACall(reader.why or "the array goes on with something else")


def _object(
    reader: Reader, place: _Place, *, keyed: bool = False, alone: bool = False
) -> Parsing[tuple[RawCall, ...]]:
    """Read an object: its call, or those that it lists. `keyed`: its key may be the name; `alone`: in no array."""
    yield from reader.expect(b"{")
    members = _Members()
    seen: set[str] = set()
    while True:
        yield from reader.blanks()
        if seen and (yield from reader.which((b"}",))):
            return _finished(reader, members, alone)
        key = yield from _key(reader)
        reader.annul(key in seen, f"the key {key!r} stands there twice")
        seen.add(key)
        yield from _member(reader, key, members, place, keyed and len(seen) == 1)
        yield from reader.blanks()
        end = yield from reader.which((b",", b"}"))
        if end == b"}":
            return _finished(reader, members, alone)
        lost = end is None and members.arguments is not None and not reader.void
        if lost and (yield from ends_here(reader)):
            reader.annul(_may_end_in_text(reader, members), OPEN_TEXT)
            return _finished(reader, members, alone)
        if end is None:
            raise reader.refuse("the object goes on with something else")


def _may_end_in_text(reader: Reader, members: _Members) -> bool:
    if members.name is None or members.arguments is None:
        return False
    return may_end_in_text(members.arguments, reader.tool(members.name))


def _key(reader: Reader) -> Parsing[str]:
    key = yield from _string(reader)
    yield from reader.blanks()
    yield from reader.expect(b":")
    yield from reader.blanks()
    return key


def _member(reader: Reader, key: str, members: _Members, place: _Place, keyed: bool) -> Parsing[None]:
    here = yield from reader.byte()
    wider = _counts_wider(reader)
    if key in (_WIDER_NAMES if wider else _NAMES) and here in _QUOTES and _lacks_name(members):
        members.name = yield from _string(reader)
        members.wider = members.wider or key not in _NAMES
        reader.tool(members.name)
    elif key in (_WIDER_ARGUMENTS if wider else _ARGUMENTS) and _lacks_arguments(members):
        members.arguments = yield from _arguments(reader, members)
        members.wider = members.wider or key not in _ARGUMENTS
    elif here in (b"{", b"[") and members.empty and _holds_calls(key, here, place, wider):
        yield from _inner(reader, key, members, place)
    elif key == "type":
        kind = yield from reader.value()
        reader.annul(kind.strip(b"\"'") not in _TYPES, "its type is no function")
    elif keyed and here == b"{" and _may_be_name(reader, key):
        tool = reader.tool(key)
        value = yield from arguments_value(reader, tool, tails=JSON_TAILS)
        members.name, members.arguments, members.keyed = key, value, True
    else:
        # A key that no call has, or an id that is none: this is JSON of another kind.
        foreign = key not in _IGNORED or here in (b"{", b"[") or members.keyed
        reader.annul(foreign, f"the key {key!r} is of no call")
        yield from reader.value(0 if reader.void else MAX_KEY)


def _arguments(reader: Reader, members: _Members) -> Parsing[bytes]:
    """Read the value of the key for the arguments; by the tool's schema, if it was named before and if need be."""
    if members.name is None or (yield from reader.byte()) != b"{":
        return (yield from whole_value(reader))
    return (yield from arguments_value(reader, reader.tool(members.name), tails=JSON_TAILS))


def _may_be_name(reader: Reader, key: str) -> bool:
    """Whether a key names a tool; among other calls also one that was not offered."""
    if reader.tools.resolve(key) is not None:
        return key not in _IGNORED
    return reader.passes and key not in _OWN_KEYS


def _lacks_name(members: _Members) -> bool:
    return members.name is None and members.inner is None


def _lacks_arguments(members: _Members) -> bool:
    return members.arguments is None and members.inner is None and not members.keyed


def _holds_calls(key: str, here: bytes, place: _Place, wider: bool) -> bool:
    """Whether the value of a key can be a call, or a list of them."""
    if here == b"[":
        return key == _LIST and place is _Place.TOP and wider
    return (place, key) in _SHAPES and (key == "function" or wider)


def _inner(reader: Reader, key: str, members: _Members, place: _Place) -> Parsing[None]:
    """Read the call, or the list of calls, that is the value of a key."""
    if key == _LIST:
        members.inner = yield from _array(reader, _Place.LISTED)
    else:
        members.inner = yield from _object(reader, _SHAPES[place, key])
    members.wider = key != "function"


def _finished(reader: Reader, members: _Members, alone: bool) -> tuple[RawCall, ...]:
    if reader.passing:
        return ()
    if reader.void:
        raise NotACall(reader.why)
    calls = members.inner
    if calls is None:
        calls = (_call(reader, members),)
    wider = members.wider or (members.keyed and alone)
    if wider and not reader.wrapped and any(load_json(call.arguments) == {} for call in calls):
        raise NotACall("such an object is a call only with an argument")
    return calls


def _call(reader: Reader, members: _Members) -> RawCall:
    if members.name is None or (members.arguments is None and not reader.wrapped):
        raise NotACall("the object has no name or no arguments")
    tool = reader.tool(members.name)
    return RawCall(tool, members.name, _text(members.arguments, tool), explicit=not members.keyed)


def _text(value: bytes | None, tool: Tool) -> str:
    return arguments(value or b"null", tool)


def _string(reader: Reader) -> Parsing[str]:
    quoted = yield from reader.string(MAX_KEY, or_void=True)
    return "" if reader.void else read_string(quoted)
