"""Calls without a wrapper: weak evidence (contract C3), committed only where the reply ends with them.

A row is what may end a reply: bare JSON objects or arrays, fenced blocks of them, functions in tags, one or several
behind each other, with nothing but blanks, orphan closers (F3) and end-of-turn tokens (F18) between and after them.
All else makes the whole row prose.

    I read both files.

    {"name": "read", "arguments": {"path": "a.py"}}
    {"name": "read", "arguments": {"path": "b.py"}}</tool_call><|im_end|>
"""

from __future__ import annotations

from collections.abc import Collection

from proxy.codec.json_text import JsonObject, load_json
from proxy.formats.terminators import leftover
from proxy.formats.tool_listings import names_a_schema
from proxy.formats.wrappers import WRAPPER, closed_by_itself, read_call, read_wrapper
from proxy.parsing.cursor import Cursor, NotACall, Parsing, RawCall, Rejection

_SURPLUS = (b"}", b"]")
_BETWEEN = (b",", b";", b">>>")


def strong(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read a wrapper that stands here: its calls if it is closed; else it is a row to the end of the reply."""
    calls = yield from read_wrapper(cursor)
    return (yield from closed(cursor, calls))


def closed(cursor: Cursor, calls: tuple[RawCall, ...]) -> Parsing[tuple[RawCall, ...]]:
    """The calls that were read, if their evidence was strong; else with the row that they begin."""
    doubtful = cursor.evidence.cut_off or cursor.evidence.weak
    if cursor.evidence.kept_text and doubtful:
        # What stays text ends a row before it begins; behind it one may begin.
        if cursor.context.may_go_back:
            cursor.pos = cursor.back_to = cursor.evidence.kept_text[-1].end
        raise cursor.rejected()
    if cursor.evidence.cut_off:
        cursor.evidence.weaken()
        _check(cursor, calls)
        return calls
    if cursor.evidence.weak:
        return (yield from rest_of_calls(cursor, calls))
    return calls


def unwrapped(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read a row from its first call, which stands here, to the end of the reply."""
    return (yield from rest_of_calls(cursor, ()))


def rest_of_calls(cursor: Cursor, before: tuple[RawCall, ...]) -> Parsing[tuple[RawCall, ...]]:
    """Read a row on to the end of the reply, behind these calls of it."""
    calls = [*before]
    try:
        while not (cursor.void and calls):
            yield from cursor.blanks()
            if cursor.at_end():
                break
            if calls and (yield from _between(cursor)):
                continue
            calls += yield from _next_item(cursor)
        cursor.evidence.weaken()
        _check(cursor, calls)
    except NotACall as refusal:
        if cursor.back_to >= 0:
            cursor.pos = cursor.back_to
        more = calls and not cursor.at_end()
        cursor.evidence.explain(NotACall(f"more text follows ({refusal})") if more else refusal)
        raise
    return tuple(calls)


def _between(cursor: Cursor) -> Parsing[bool]:
    """Read what says nothing behind a call: a closer, a bracket too many. False if there is none; then a comma that
    stood here is read, and the next call follows.
    """
    if (yield from leftover(cursor)):
        return True
    if (yield from cursor.which(_SURPLUS)):
        return True
    if (yield from cursor.which(_BETWEEN)):
        yield from cursor.blanks()
    return False


def _next_item(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read one call, or several in a wrapper, which is strong evidence: it counts although what stands before it may
    not. Only a few times in a reply is the same text read again for that.
    """
    start = cursor.pos
    if (yield from _wrapper_begins(cursor)):
        if not cursor.context.may_go_back:
            raise NotACall("a wrapped call follows")
        cursor.back_to = start
    calls = yield from read_call(cursor)
    cursor.evidence.add_span(start, cursor.pos)
    return calls


def _wrapper_begins(cursor: Cursor) -> Parsing[bool]:
    """Whether a wrapper stands here, and it would be the first place to go back to."""
    if cursor.void:
        return False
    if cursor.back_to >= 0:
        return False
    return (yield from closed_by_itself(cursor)) is WRAPPER


def _check(cursor: Cursor, calls: Collection[RawCall]) -> None:
    """Weak evidence needs the natural end of the reply, every key to be a property and every required one there."""
    if cursor.void:
        raise cursor.rejected()
    if not cursor.stopped and not cursor.evidence.cut_off:
        raise NotACall("the reply was cut off, and what is not enclosed counts only at its natural end")
    if not calls or cursor.evidence.kept_text:
        raise cursor.rejected("there is no call")
    for call in calls:
        _check_keys(cursor, call)


def _check_keys(cursor: Cursor, call: RawCall) -> None:
    """NotACall if the arguments are not the tool's own, or the schema of them."""
    arguments = load_json(call.arguments)
    if not isinstance(arguments, dict):
        raise _needs_own_keys(call, ())
    if not _fits(cursor, call, arguments):
        raise _needs_own_keys(call, arguments)
    if names_a_schema(arguments, call.tool):
        raise NotACall(Rejection.DEFINITION)


def _needs_own_keys(call: RawCall, given: Collection[str]) -> NotACall:
    """What to raise where these keys were given, which are not the tool's."""
    keys = ", ".join(map(repr, given)) or "none"
    return NotACall(f"without a closed wrapper {call.tool.name!r} needs its own keys, not: {keys}")


def _fits(cursor: Cursor, call: RawCall, arguments: JsonObject) -> bool:
    """Whether the keys are the tool's. An object that says name and arguments and is the whole reply may have one more:
    models add a `description` to every command.
    """
    if call.tool.accepts(arguments):
        return True
    if not cursor.context.first:
        return False
    if not call.explicit:
        return False
    return call.tool.tolerates(arguments)
