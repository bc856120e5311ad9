"""The arguments alone, where the client forced the choice of a tool (F87).

Some servers then give what their guided decoding made as the text of the reply, without the name that is known:

    {"path": "a.py"}

It is weak evidence: it must be the whole reply, an object of that tool's own keys, every required one among them.
"""

from __future__ import annotations

from proxy.formats.argument_values import read_string
from proxy.formats.json_calls import CALL_KEYS
from proxy.formats.name_then_arguments import called
from proxy.formats.unwrapped import rest_of_calls
from proxy.formats.wrappers import FormatParser
from proxy.parsing.cursor import MAX_KEY, Cursor, Parsing, RawCall


def arguments_or(other: FormatParser, name: str) -> FormatParser:
    """The parser for an object at the beginning of a reply: the arguments of the forced tool, or what else it is."""

    def parse(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
        if not (yield from _are_arguments(cursor, name)):
            return (yield from other(cursor))
        start = cursor.pos
        call = yield from called(cursor, name)
        cursor.evidence.add_span(start, cursor.pos)
        return (yield from rest_of_calls(cursor, (call,)))

    return parse


def _are_arguments(cursor: Cursor, name: str) -> Parsing[bool]:
    """Whether the object that stands here begins with a key of this tool's, and does not say a tool's name; nothing is
    read.
    """
    key = yield from cursor.ahead(cursor.maybe(_key(cursor)))
    if key is None or key not in cursor.tool(name).properties:
        return False
    if key not in CALL_KEYS:
        return True
    # `{"name": "run", "arguments": {…}}`, or the arguments of a tool that has a `name` itself
    value = yield from cursor.ahead(cursor.maybe(_first_text(cursor)))
    return value is None or cursor.context.tools.resolve(value) is None


def _key(cursor: Cursor) -> Parsing[str]:
    yield from cursor.expect(b"{")
    yield from cursor.blanks()
    return read_string((yield from cursor.string(MAX_KEY)))


def _first_text(cursor: Cursor) -> Parsing[str]:
    """The value of the first key, if it is a short text."""
    yield from _key(cursor)
    yield from cursor.blanks()
    yield from cursor.expect(b":")
    yield from cursor.blanks()
    return read_string((yield from cursor.string(MAX_KEY)))
