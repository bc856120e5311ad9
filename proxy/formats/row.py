"""Calls without a wrapper: weak evidence (contract C3), committed only where the reply ends with them.

A row is what may end a reply: bare JSON objects or arrays, fenced blocks of them, functions in tags, one or several
behind each other, with nothing but blanks, orphan closers (F3) and end-of-turn tokens (F18) between and after them.
All else makes the whole row prose.
"""

from __future__ import annotations

from collections.abc import Collection

from ..events import JsonObject, load_json
from ..reader import NotACall, Parsing, RawCall, Reader
from .bodies import WRAPPER, body, closed_by_itself, element
from .definitions import is_definition
from .ends import leftover

_SURPLUS = (b"}", b"]")
_BETWEEN = (b",", b";", b">>>")


def strong(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read a wrapper that stands here: its calls if it is closed; else it is a row to the end of the reply."""
    calls = yield from element(reader)
    return (yield from closed(reader, calls))


def closed(reader: Reader, calls: tuple[RawCall, ...]) -> Parsing[tuple[RawCall, ...]]:
    """The calls that were read, if their evidence was strong; else with the row that they begin."""
    if reader.left and (reader.cut or reader.weak):
        # What stays text ends a row before it begins; behind it one may begin.
        if reader.may_go_back:
            reader.pos = reader.back_to = reader.left[-1][1]
        raise NotACall(reader.why)
    if reader.cut:
        reader.weak = True
        _check(reader, calls)
        return calls
    if not reader.weak:
        return calls
    return (yield from rest_of_row(reader, calls))


def row(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read a row from its first call, which stands here, to the end of the reply."""
    return (yield from rest_of_row(reader, ()))


def rest_of_row(reader: Reader, before: tuple[RawCall, ...]) -> Parsing[tuple[RawCall, ...]]:
    """Read a row on to the end of the reply, behind these calls of it."""
    calls = [*before]
    try:
        while not (reader.void and calls):
            yield from reader.blanks()
            if reader.at_end():
                break
            if calls and ((yield from leftover(reader)) or (yield from reader.which(_SURPLUS))):
                continue
            if calls and (yield from reader.which(_BETWEEN)):
                yield from reader.blanks()
            calls += yield from _item(reader)
        reader.weak = True
        _check(reader, calls)
    except NotACall as reason:
        reader.pos = reader.pos if reader.back_to < 0 else reader.back_to
        reader.why = f"more text follows ({reason})" if calls and not reader.at_end() else str(reason)
        raise
    return tuple(calls)


def _item(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read one call, or several in a wrapper, which is strong evidence: it counts although what stands before it may
    not. Only a few times in a reply is the same text read again for that.
    """
    start = reader.pos
    if reader.back_to < 0 and not reader.void and (yield from closed_by_itself(reader)) == WRAPPER:
        if not reader.may_go_back:
            raise NotACall("a wrapped call follows")
        reader.back_to = start
    calls = yield from body(reader)
    reader.spans.append((start, reader.pos))
    return calls


def _check(reader: Reader, calls: Collection[RawCall]) -> None:
    """Weak evidence needs the natural end of the reply, every key to be a property and every required one there."""
    if reader.void:
        raise NotACall(reader.why)
    if not reader.stopped and not reader.cut:
        raise NotACall("the reply was cut off, and what is not enclosed counts only at its natural end")
    if not calls or reader.left:
        raise NotACall(reader.why or "there is no call")
    for call in calls:
        arguments = load_json(call.arguments)
        if not isinstance(arguments, dict) or not _fits(reader, call, arguments):
            keys = ", ".join(map(repr, arguments)) if isinstance(arguments, dict) else ""
            raise NotACall(f"without a closed wrapper {call.tool.name!r} needs its own keys, not: {keys or 'none'}")
        if is_definition(arguments, call.tool):
            raise NotACall("it is the definition of a tool")


def _fits(reader: Reader, call: RawCall, arguments: JsonObject) -> bool:
    """Whether the keys are the tool's. An object that says name and arguments and is the whole reply may have one more:
    models add a `description` to every command.
    """
    if call.tool.accepts(arguments):
        return True
    return reader.first and call.explicit and call.tool.tolerates(arguments)
