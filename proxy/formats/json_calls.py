"""Calls written as JSON objects: `{"name": …, "arguments": {…}}` and its spellings (F1, F2, F6, F30).

One object, several behind each other or line by line, or an array of them; pretty-printed or not; Python's quotation
marks and words; commas and braces too many or too few; the OpenAI shape; arguments as a JSON string; the name as the
key. The reading ends at the first key that no call has, so that a JSON answer is let go at once.

    {"name": "read", "arguments": {"path": "a.py"}}
    [{"type": "function", "function": {"name": "read", "arguments": "{\\"path\\": \\"a.py\\"}"}}]
    {'name': 'read', 'parameters': {'path': 'a.py'}}

Some spellings are common in JSON answers too. They count as the whole reply only, with at least one argument, or in a
wrapper: `{"tool_call": "NAME", "parameters": {…}}`, `{"tool_call": {…}}`, `{"action": "NAME", "action_input": {…}}`,
`{"tool_name": "NAME", "params": {…}}`, `{"tool_calls": […]}`, `{"NAME": {…}}`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum

from proxy.codec.json_text import load_json
from proxy.formats.argument_values import arguments, read_string
from proxy.formats.json_arguments import JSON_TAILS, OPEN_TEXT, arguments_value, may_end_in_text, nameless_arguments
from proxy.formats.sibling_calls import sibling_calls
from proxy.formats.terminators import completed_value, ends_here
from proxy.parsing.cursor import MAX_KEY, Cursor, NotACall, Parsing, RawCall, StringGoesOn, Truncated, unreadable
from proxy.tools.toolset import Tool

_NAMES = frozenset(("name", "tool_name", "function_name"))
_ARGUMENTS = frozenset(("arguments", "parameters"))
# These count as the whole reply and in a wrapper only.
_WIDER_NAMES = _NAMES | {"tool", "function", "tool_call", "action"}
_WIDER_ARGUMENTS = _ARGUMENTS | {"args", "input", "params", "action_input"}
# The keys of the name and those of the arguments, by whether the wider spellings count.
_KEYS = {False: (_NAMES, _ARGUMENTS), True: (_WIDER_NAMES, _WIDER_ARGUMENTS)}
_LIST = "tool_calls"
_IGNORED = frozenset(("id", "index", "tool_call_id", "call_id"))
_TYPES = frozenset((b"function", b"tool_use", b"tool_call", b"function_call"))
# No tool is named so by the key of its arguments.
CALL_KEYS = _WIDER_NAMES | _WIDER_ARGUMENTS | _IGNORED | {_LIST, "type"}
_QUOTES = (b'"', b"'")
_OPENERS = (b"{", b"[")
_ARRAY_GOES_ON = "the array goes on with something else"
_AFTER_KEY = re.compile(rb"[^A-Za-z_]")


class _ObjectPlace(Enum):
    """Where an object stands, which says what may stand in it."""

    TOP = "by itself, or in an array that does"
    LISTED = "in `tool_call` or in the list `tool_calls`"
    FUNCTION = "in `function`"


class _Role(Enum):
    """What a key of a call's object is for."""

    NAME = "`name`: the tool's"
    ARGUMENTS = "`arguments`: an object, or a string that holds one"
    INNER = "`function`, `tool_calls`: the call, or several, are its value"
    TYPE = "`type`: says that it is a call"
    NAME_OF_ARGUMENTS = "the tool's name, of which the arguments are the value"
    IGNORED = "`id`, `index`: says nothing about the call"
    FOREIGN = "a key that no call has, or an id that is none: this is JSON of another kind"


# What an object in an object may be the value of, and where it stands then.
_SHAPES = {
    (_ObjectPlace.TOP, "function"): _ObjectPlace.FUNCTION,
    (_ObjectPlace.LISTED, "function"): _ObjectPlace.FUNCTION,
    (_ObjectPlace.TOP, "tool_call"): _ObjectPlace.LISTED,
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
        return self.lacks_name and self.arguments is None

    @property
    def lacks_name(self) -> bool:
        """True if the name may still come."""
        return self.name is None and self.inner is None

    @property
    def is_key(self) -> bool:
        """True if the call is what a key says: `{"read": {…}}`, `{"function": {…}}`, `{"tool_calls": […]}`."""
        return self.keyed or self.inner is not None

    @property
    def lacks_arguments(self) -> bool:
        """True if the arguments may still come."""
        if self.is_key:
            return False
        return self.arguments is None

    def is_common(self, *, alone: bool) -> bool:
        """Whether JSON that is no call is often spelled so, too. `alone`: the object stands in no array."""
        if self.wider:
            return True
        if not alone:
            return False
        return self.is_key


def json_object(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read one object that stands here."""
    return (yield from _readable(_object(cursor, _ObjectPlace.TOP, keyed=_counts_wider(cursor), alone=True)))


def _counts_wider(cursor: Cursor) -> bool:
    """True where the spellings count that are common in JSON answers too."""
    return cursor.context.first or cursor.context.wrapped


def shown_json(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read JSON in the middle of a line: its strings are strings, whatever they hold."""
    cursor.context = replace(cursor.context, strict=True)
    cursor.reject("JSON in the middle of a line is no call")
    yield from cursor.value()
    raise cursor.rejected()


def json_array(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read one array of objects that stands here."""
    return (yield from _readable(_array(cursor, _ObjectPlace.TOP)))


def _readable(parsing: Parsing[tuple[RawCall, ...]]) -> Parsing[tuple[RawCall, ...]]:
    try:
        return (yield from parsing)
    except NotACall as refusal:
        raise unreadable(refusal) from None


def _array(cursor: Cursor, place: _ObjectPlace) -> Parsing[tuple[RawCall, ...]]:
    yield from cursor.expect(b"[")
    calls: list[RawCall] = []
    some = False
    while True:
        yield from cursor.blanks()
        here = yield from cursor.byte()
        if here == b"{":
            calls += yield from sibling_calls(cursor, lambda cursor: _object(cursor, place, keyed=True), len(calls))
            some = True
        elif here == b"]" and some:
            cursor.pos += 1
            return tuple(calls)
        else:
            # An array of something else: its strings are strings, whatever they hold.
            cursor.reject("the array holds something else")
            yield from cursor.value()
        if (yield from _array_ends(cursor, some)):
            return tuple(calls)


def _array_ends(cursor: Cursor, some: bool) -> Parsing[bool]:
    """Read what stands behind an element; whether the array is over. `some` of its elements were objects."""
    yield from cursor.blanks()
    sign = yield from cursor.which((b",", b"]"))
    if sign == b",":
        return False
    if sign is None:
        return (yield from _array_ends_unmarked(cursor, some))
    if cursor.void:
        raise cursor.rejected(_ARRAY_GOES_ON)
    return True


def _array_ends_unmarked(cursor: Cursor, some: bool) -> Parsing[bool]:
    """The same where neither a comma nor the bracket stands: either may be missing behind an object.

    `[{"name": …, "arguments": {…}} {"name": …`, `[{"name": …, "arguments": {…}}</tool_call>`
    """
    if some:
        if (yield from cursor.byte()) == b"{":
            return False
        if not cursor.void and (yield from ends_here(cursor)):
            return True
    raise _open_string(cursor, _ARRAY_GOES_ON)


def _object(
    cursor: Cursor, place: _ObjectPlace, *, keyed: bool = False, alone: bool = False
) -> Parsing[tuple[RawCall, ...]]:
    """Read an object: its call, or those that it lists. `keyed`: its key may be the name; `alone`: in no array."""
    yield from cursor.expect(b"{")
    members = _Members()
    seen: set[str] = set()
    while True:
        yield from cursor.blanks()
        if seen and (yield from cursor.which((b"}",))):
            return _finished(cursor, members, alone)
        key = yield from _key(cursor)
        if key in seen:
            cursor.reject(f"the key {key!r} stands there twice")
        seen.add(key)
        yield from _member(cursor, key, members, place, keyed)
        keyed = False
        if (yield from _object_ends(cursor, members)):
            return _finished(cursor, members, alone)


def _object_ends(cursor: Cursor, members: _Members) -> Parsing[bool]:
    """Read what stands behind a member; whether the object is over."""
    yield from cursor.blanks()
    sign = yield from cursor.which((b",", b"}"))
    if sign is not None:
        return sign == b"}"
    if not (yield from _lacks_brace(cursor, members)):
        raise _open_string(cursor, "the object goes on with something else")
    if _may_end_in_text(cursor, members):
        cursor.reject(OPEN_TEXT)
    return True


def _lacks_brace(cursor: Cursor, members: _Members) -> Parsing[bool]:
    """Whether the call is over behind its arguments, where the object's brace should stand:
    `{"name": "read", "arguments": {"path": "a"}</tool_call>`.
    """
    if members.arguments is None:
        return False
    if cursor.void:
        return False
    return (yield from ends_here(cursor))


def _open_string(cursor: Cursor, why: str) -> NotACall:
    """What to raise where a string, or what ends with one, may go on."""
    refusal = cursor.refuse(why)
    if isinstance(refusal, Truncated):
        return refusal
    return StringGoesOn(str(refusal))


def _may_end_in_text(cursor: Cursor, members: _Members) -> bool:
    if members.name is None or members.arguments is None:
        return False
    return may_end_in_text(members.arguments, cursor.tool(members.name))


def _key(cursor: Cursor) -> Parsing[str]:
    key = yield from _bare_key(cursor)
    if not key:
        key = yield from _string(cursor)
    yield from cursor.blanks()
    if (yield from cursor.which((b":",))) is None:
        raise _open_string(cursor, "the colon behind a key was expected")
    yield from cursor.blanks()
    return key


def _bare_key(cursor: Cursor) -> Parsing[str]:
    """Read a key without quotation marks: `{name: "read", arguments: {path: "a"}}`. Empty, and nothing is read, if none
    stands here; without a wrapper that is code.
    """
    if not cursor.context.wrapped:
        return ""
    if (yield from cursor.byte()) in _QUOTES:
        return ""
    key = yield from cursor.maybe(cursor.until(_AFTER_KEY, MAX_KEY))
    return (key or b"").decode()


def _member(cursor: Cursor, key: str, members: _Members, place: _ObjectPlace, keyed: bool) -> Parsing[None]:
    """Read the value of a key. `keyed`: the key may be the name of a tool, and its value the arguments."""
    here = yield from cursor.byte()
    role = _role_of(cursor, key, here, members, place, keyed=keyed)
    if role is _Role.NAME:
        members.name = yield from _string(cursor)
        members.wider |= key not in _NAMES
        cursor.tool(members.name)
    elif role is _Role.ARGUMENTS:
        members.arguments = yield from _arguments(cursor, members)
        members.wider |= key not in _ARGUMENTS
    elif role is _Role.INNER:
        yield from _inner(cursor, key, members, place)
    elif role is _Role.TYPE:
        kind = yield from cursor.value()
        if kind.strip(b"\"'") not in _TYPES:
            cursor.reject("its type is no function")
    elif role is _Role.NAME_OF_ARGUMENTS:
        tool = cursor.tool(key)
        value = yield from arguments_value(cursor, tool, tails=JSON_TAILS)
        members.name, members.arguments, members.keyed = key, value, True
    else:
        if role is _Role.FOREIGN:
            cursor.reject(f"the key {key!r} is of no call")
        yield from cursor.value(0 if cursor.void else MAX_KEY)


def _role_of(cursor: Cursor, key: str, here: bytes, members: _Members, place: _ObjectPlace, *, keyed: bool) -> _Role:
    """What a key is for, by its name, the first byte of its value, and what was read before."""
    wider = _counts_wider(cursor)
    names, arguments_keys = _KEYS[wider]
    if key in names and here in _QUOTES and members.lacks_name:
        return _Role.NAME
    if key in arguments_keys and members.lacks_arguments:
        return _Role.ARGUMENTS
    if members.empty and _holds_calls(key, here, place, wider):
        return _Role.INNER
    if keyed and _may_be_name(cursor, key, here):
        return _Role.NAME_OF_ARGUMENTS
    return _role_beside_a_call(key, here, members)


def _role_beside_a_call(key: str, here: bytes, members: _Members) -> _Role:
    """What a key is for that is not the call's own."""
    if key == "type":
        return _Role.TYPE
    if members.keyed:
        return _Role.FOREIGN
    if here in _OPENERS:
        return _Role.FOREIGN
    return _Role.IGNORED if key in _IGNORED else _Role.FOREIGN


def _arguments(cursor: Cursor, members: _Members) -> Parsing[bytes]:
    """Read the value of the key for the arguments; by the tool's schema, if it was named before and if need be."""
    if (yield from cursor.byte()) != b"{":
        return (yield from completed_value(cursor))
    if members.name is None:
        return (yield from nameless_arguments(cursor))
    return (yield from arguments_value(cursor, cursor.tool(members.name), tails=JSON_TAILS))


def _may_be_name(cursor: Cursor, key: str, here: bytes) -> bool:
    """Whether a key names a tool whose arguments, an object, begin `here`; among other calls also one that was not
    offered.
    """
    if here != b"{":
        return False
    if key == "type":
        return False
    if cursor.context.tools.resolve(key) is not None:
        return key not in _IGNORED
    if not cursor.context.holds_several:
        return False
    return key not in CALL_KEYS


def _holds_calls(key: str, here: bytes, place: _ObjectPlace, wider: bool) -> bool:
    """Whether the value of a key can be a call, or a list of them."""
    if here not in _OPENERS:
        return False
    if not wider:
        return False
    if here == b"[":
        return (place, key) == (_ObjectPlace.TOP, _LIST)
    return (place, key) in _SHAPES


def _inner(cursor: Cursor, key: str, members: _Members, place: _ObjectPlace) -> Parsing[None]:
    """Read the call, or the list of calls, that is the value of a key."""
    if key == _LIST:
        members.inner = yield from _array(cursor, _ObjectPlace.LISTED)
    else:
        members.inner = yield from _object(cursor, _SHAPES[place, key])
    members.wider = key != "function"


def _finished(cursor: Cursor, members: _Members, alone: bool) -> tuple[RawCall, ...]:
    """The calls of an object of which all was read."""
    if cursor.passing:
        return ()
    if cursor.void:
        raise cursor.rejected()
    calls = members.inner
    if calls is None:
        calls = (_call(cursor, members),)
    if cursor.context.wrapped:
        return calls
    if members.is_common(alone=alone) and any(load_json(call.arguments) == {} for call in calls):
        raise NotACall("such an object is a call only with an argument")
    return calls


def _call(cursor: Cursor, members: _Members) -> RawCall:
    lacks_arguments = members.arguments is None and not cursor.context.wrapped
    if members.name is None or lacks_arguments:
        raise NotACall("the object has no name or no arguments")
    tool = cursor.tool(members.name)
    return RawCall(tool, members.name, _text(members.arguments, tool), explicit=not members.keyed)


def _text(value: bytes | None, tool: Tool) -> str:
    return arguments(value or b"null", tool)


def _string(cursor: Cursor) -> Parsing[str]:
    quoted = yield from cursor.string(MAX_KEY, or_void=True)
    return "" if cursor.void else read_string(quoted)
