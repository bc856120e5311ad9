"""The JSON arguments of a wrapped call, also where no reader of JSON can tell how far they go (F30, contract C9).

    <tool_call>
    {"name": "bash", "arguments": {"command": "echo "hi""}}
    </tool_call>

Quotation marks and brackets say where JSON ends. Where the marks of strings have no backslash, or keys no marks, they
say nothing, or something wrong: then the end tag of the wrapper tells how far the object goes, and the tool's schema
what it says (`repair/unescaped_strings.py`).
"""

from __future__ import annotations

import re
from collections.abc import Collection

from proxy.codec.json_text import load_json
from proxy.formats.argument_values import arguments
from proxy.formats.markers import END_OF_TURN, MARKER_BY_OPENER, MARKER_OPENERS, MARKERS, encoded
from proxy.formats.shown_closers import TWO_READINGS, Span, goes_on, may_end_elsewhere, span_of
from proxy.formats.terminators import completed_value, ends_here, leftover
from proxy.formats.unreadable_calls import past_the_reply
from proxy.parsing.cursor import (
    MAX_KEY,
    Cursor,
    Literals,
    NotACall,
    Parsing,
    StringGoesOn,
    Truncated,
    Unreadable,
    unreadable,
)
from proxy.repair.argument_readers import may_go_on
from proxy.repair.schema_fixes import USUAL, ends_in_doubt
from proxy.tools.toolset import Tool

# The end tags of a wrapper that are tried: a string may show one.
MAX_TRIES = 8
# Brackets behind the arguments: those of the object that names the tool, and of the array and the object around that.
JSON_TAILS = ("}", "}]", "}}", "}}]", "}]}", "}}]}")
NO_TAIL = ("",)
_MAX_BRACKETS = 8
# A string, and what closes the arguments; a comma may stand there too many.
_ENDS_BEHIND_STRING = re.compile(rb"[\"'][\s\]},]*\Z")
# The object of the next call in a list, as it stands there and not in a text: its marks have no backslash.
_NEXT_OBJECT = re.compile(rb"""\}\s*+[,;]\s*+\{\s*+["']?name["']?\s*+:""")
MARKER_OPENED = tuple(MARKER_BY_OPENER)
_MAX_SURPLUS = 3
_BRACKETS = Literals((b"}", b"]"))
_NAME_LAST = re.compile(r',\s*"name"\s*:\s*"([^"\\]{1,128})"\s*\}[\s\]]*\Z')
OPEN_TEXT = "a bracket is missing, and where a text ends is not known"
# Behind a marker without a closer a call ends where the next one begins, or the turn does.
_OPEN_ENDS = encoded(*(marker.opener for marker in MARKERS if not marker.closers), *END_OF_TURN)


def arguments_value(
    cursor: Cursor, tool: Tool, *, closers: tuple[bytes, ...] = (), tails: Collection[str] = NO_TAIL
) -> Parsing[bytes]:
    """Read the JSON of a call's arguments, which stands here, and give it.

    `closers` are the texts that end the call, where it has any of its own; else the wrapper's are. `tails` are the
    brackets that may stand between the arguments and those.
    """
    ends = closers or _ends_of(cursor)
    if not _is_enclosed(cursor, tool, ends):
        try:
            return (yield from _sure_value(cursor, tool))
        except NotACall as refusal:
            raise unreadable(refusal) from None
    value = yield from _enclosed_value(cursor, tool, closers, ends, tails)
    # Void now if one of its keys is wrong; the ends are those of the wrapper still.
    if cursor.void or not (yield from goes_on(cursor, tool, value, ends)):
        return value
    raise StringGoesOn(TWO_READINGS)


def nameless_arguments(cursor: Cursor) -> Parsing[bytes]:
    """Read arguments that stand before the name of their tool; if they are no JSON, by the schema of the tool that the
    end of the call names: `{"arguments": {"command": "echo "hi""}, "name": "bash"}</tool_call>`.
    """
    start = cursor.pos
    try:
        value = yield from completed_value(cursor)
        if (yield from cursor.ahead(cursor.maybe(_may_follow(cursor, (), member=True)))):
            return value
        refusal: NotACall = StringGoesOn("a string goes on behind the arguments")
    except NotACall as reason:
        refusal = unreadable(reason.with_traceback(None))
    end, cursor.pos = cursor.pos, start
    if _may_look_for_name(cursor):
        loose = yield from cursor.maybe(_before_the_name(cursor, _ends_of(cursor)))
        if loose:
            return loose
    cursor.pos = end
    try:
        raise refusal
    finally:
        del refusal  # it refers to this frame, and so would keep the text until garbage is collected


def _may_look_for_name(cursor: Cursor) -> bool:
    """Whether to read on to the end of the call for the name: something encloses the call, and only a few times in a
    reply the same text is read again.
    """
    if not cursor.context.wrapped:
        return False
    if not cursor.context.enclosures:
        return False
    if cursor.void:
        return False
    return cursor.may_reread()


def _before_the_name(cursor: Cursor, ends: tuple[bytes, ...]) -> Parsing[bytes]:
    """Read the arguments as far as the name that stands before the first closer."""
    start = cursor.pos
    at, _ = yield from cursor.find(*ends)
    text = cursor.text(start, at)
    named = _NAME_LAST.search(text)
    tool = cursor.context.tools.resolve(named.group(1)) if named else None
    if named is None or tool is None or "name" in tool.properties:
        raise NotACall("no tool is named behind the arguments")
    written = text[: named.start()]
    if not _is_readable(written, tool):
        raise NotACall("the arguments cannot be read")
    value = written.encode("utf-8", "surrogatepass")
    cursor.pos = at
    if (yield from goes_on(cursor, tool, value, ends)):
        raise NotACall(TWO_READINGS)
    cursor.pos = start + len(value)
    return value


def _is_enclosed(cursor: Cursor, tool: Tool, ends: tuple[bytes, ...]) -> bool:
    """Whether it is known what ends the call, and what its arguments should be."""
    if cursor.void:
        return False
    if not ends:
        return False
    return tool.name != ""


def _enclosed_value(
    cursor: Cursor, tool: Tool, closers: tuple[bytes, ...], ends: tuple[bytes, ...], tails: Collection[str]
) -> Parsing[bytes]:
    """Read the arguments as JSON; if they are none, or what stands behind them belongs to no call, once more, up to the
    first end before which the tool's schema can read them.
    """
    start = cursor.pos
    refusal: NotACall | None = None
    value = b""
    try:
        value = yield from _sure_value(cursor, tool)
        if (yield from cursor.ahead(cursor.maybe(_may_follow(cursor, closers, member=tails is not NO_TAIL)))):
            if tails is NO_TAIL:
                yield from cursor.maybe(_surplus(cursor, closers))
            return value
    except NotACall as reason:
        refusal = reason.with_traceback(None)
    end = cursor.pos
    if cursor.may_reread():
        cursor.pos = start
        loose = yield from cursor.maybe(_up_to_closer(cursor, tool, ends, tails))
        if loose:
            return loose
        if refusal is None:
            cursor.pos = end
            yield from _check_end(cursor, value, closers)
    if refusal is None:
        return value
    if isinstance(refusal, Truncated):
        # The tokens that end the reply are no text of it.
        yield from past_the_reply(cursor)
    else:
        cursor.pos = end
    try:
        raise unreadable(refusal)
    finally:
        del refusal  # it refers to this frame, and so would keep the text until garbage is collected


def _check_end(cursor: Cursor, value: bytes, closers: tuple[bytes, ...]) -> Parsing[None]:
    """NotACall if the value may not end where its brackets do: what stands between it and the end of the call may be a
    part of it, or, where nothing encloses it, what stands on the rest of its line.

        <|message|>{"edits": [{"new": "f("}], "path": "z")"}], "path": "p"}<|call|>
    """
    if closers:
        behind = yield from cursor.ahead(_before(cursor, closers))
        if may_go_on(value.decode("utf-8", "surrogatepass"), behind):
            raise StringGoesOn(TWO_READINGS)
        return
    if cursor.context.enclosures:
        return
    if (yield from cursor.ahead(cursor.maybe(_goes_on_with_key(cursor)))):
        raise StringGoesOn(TWO_READINGS)
    if not _ENDS_BEHIND_STRING.search(value) and not may_end_elsewhere(value):
        return
    if '"' in (yield from cursor.ahead(_before(cursor, (b"\n",)))):
        raise StringGoesOn(TWO_READINGS)


def _goes_on_with_key(cursor: Cursor) -> Parsing[bool]:
    """Read brackets and a comma, and see whether a key follows: `}, "path": "p"}`."""
    yield from cursor.blanks()
    for _ in range(_MAX_BRACKETS):
        if not (yield from cursor.which(_BRACKETS)):
            break
        yield from cursor.blanks()
    yield from cursor.expect(b",")
    yield from cursor.blanks()
    yield from cursor.string(MAX_KEY)
    yield from cursor.blanks()
    return (yield from cursor.byte()) == b":"


def _sure_value(cursor: Cursor, tool: Tool) -> Parsing[bytes]:
    """Read a JSON value whose last brackets may be missing, unless it would end in a text then."""
    start = cursor.pos
    value = yield from completed_value(cursor)
    if cursor.void:
        return value
    completed = len(value) > cursor.pos - start
    if completed and may_end_in_text(value, tool):
        raise Unreadable(OPEN_TEXT)
    return value


def may_end_in_text(value: bytes, tool: Tool) -> bool:
    """True if arguments whose end was supplied may end in a text: where that was meant to end is not known."""
    try:
        values = load_json(arguments(value, tool))
    except (NotACall, ValueError):
        return False
    if not isinstance(values, dict):
        return False
    return ends_in_doubt(values, tool.compiled, USUAL)


def _before(cursor: Cursor, closers: tuple[bytes, ...]) -> Parsing[str]:
    """Read on past the next closer, and give what stands before it; all that follows, if there is none."""
    start = cursor.pos
    found = yield from cursor.past(*closers)
    return cursor.text(start, cursor.pos - len(found))


def _ends_of(cursor: Cursor) -> tuple[bytes, ...]:
    """What ends the innermost wrapper that is open; nothing where there is none."""
    if not cursor.context.wrapped:
        return ()
    if not cursor.context.enclosures:
        return _OPEN_ENDS
    return cursor.context.enclosures[-1].closers or _OPEN_ENDS


def _surplus(cursor: Cursor, closers: tuple[bytes, ...]) -> Parsing[bool]:
    """Read braces too many (F31), if what ends the call follows them."""
    yield from cursor.blanks()
    for _ in range(_MAX_SURPLUS):
        if not (yield from cursor.which((b"}",))):
            break
        yield from cursor.blanks()
    return (yield from _call_ends(cursor, closers))


def _call_ends(cursor: Cursor, closers: tuple[bytes, ...]) -> Parsing[bool]:
    """Whether the call is over here, or the next one begins; nothing is read."""
    if closers and (yield from cursor.peek(closers)):
        return True
    if (yield from ends_here(cursor)):
        return True
    return (yield from cursor.peek(MARKER_OPENERS)) is not None


def _may_follow(cursor: Cursor, closers: tuple[bytes, ...], *, member: bool) -> Parsing[bool]:
    """Whether what may follow arguments stands here: brackets, and then the end of the call, or another member, if they
    are a `member` of an object themselves. Behind a name they are none, and another key says that they go on:

        [TOOL_CALLS]edit[ARGS]{"edits": [{"new": "f("}], "path": "z")"}], "path": "p"}
    """
    yield from cursor.blanks()
    for _ in range(_MAX_BRACKETS):
        if (yield from _call_ends(cursor, closers)):
            return True
        if not (yield from cursor.which(_BRACKETS)):
            break
        yield from cursor.blanks()
    if (yield from cursor.which((b",", b";"))):
        if closers:
            return False
        yield from cursor.blanks()
    if (yield from cursor.byte()) == b"<":
        return True
    # Another member, or another object.
    another = yield from cursor.which((b"{", b"[{"))
    if not another and (closers or not member):
        return False
    yield from cursor.blanks()
    yield from cursor.string(MAX_KEY)
    yield from cursor.blanks()
    return (yield from cursor.byte()) == b":"


def _up_to_closer(cursor: Cursor, tool: Tool, closers: tuple[bytes, ...], tails: Collection[str]) -> Parsing[bytes]:
    """Read the arguments as far as the first closer before which they can be read."""
    start = cursor.pos
    for _ in range(MAX_TRIES):
        at, last = yield from _closer(cursor, closers)
        found = _readable(cursor.text(start, at).rstrip(), tails, tool)
        if found and not _breaks_off(found, span_of(cursor, closers)):
            cursor.pos = start + len(found)
            return found
        if last or not cursor.context.enclosures:
            break
        # A string may show the end of its wrapper; but what stands behind that must not be the next call.
        if (yield from cursor.ahead(cursor.maybe(_next_call(cursor)))):
            break
    raise NotACall("the arguments cannot be read")


def _readable(text: str, tails: Collection[str], tool: Tool) -> bytes:
    """The arguments that the text holds before one of these tails; empty if none can be read."""
    for tail in tails:
        found = _without(text, tail)
        if found is not None and _is_readable(found, tool):
            return found.encode("utf-8", "surrogatepass")
    return b""


def _breaks_off(value: bytes, span: Span | None) -> bool:
    """Whether a text may end within a call that it shows, or in the next call of the reply.

        {"command": "echo "x <tool_call>{"command": "ls"}
        {"command": "ls}}</tool_call> Then: <tool_call>{"command": "rm"}
        {"command": "ls}}, {"name": "bash", "arguments": {"command": "rm"}
    """
    if _NEXT_OBJECT.search(value):
        return True
    openers = MARKER_OPENED if span is None else (span.opener, *MARKER_OPENED)
    if not any(opener in value for opener in openers):
        return False
    if value.count(b"{") > value.count(b"}"):
        return True
    return span is not None and _closes_before_it_opens(value, span)


def _closes_before_it_opens(value: bytes, span: Span) -> bool:
    """Whether an end of the call stands in a text without its opener, and an opener behind that."""
    tags = re.compile(b"|".join(map(re.escape, (span.opener, *span.closers))))
    depth = 0
    for match in tags.finditer(value):
        if match.group() != span.opener:
            depth -= 1
        elif depth < 0:
            return True
        else:
            depth += 1
    return False


def _next_call(cursor: Cursor) -> Parsing[bool]:
    """Whether another wrapper like the innermost one that is open begins here."""
    yield from cursor.blanks()
    while (yield from cursor.maybe(leftover(cursor))):
        yield from cursor.blanks()
    return (yield from cursor.peek((cursor.context.enclosures[-1].opener, *MARKER_OPENED))) is not None


def _closer(cursor: Cursor, closers: tuple[bytes, ...]) -> Parsing[tuple[int, bool]]:
    """Read on past the next closer; where it begins, and whether it is the end of the reply instead."""
    try:
        at, _ = yield from cursor.find(*closers)
    except NotACall:
        if not cursor.stopped:
            raise
        yield from cursor.past(*closers)
        return cursor.pos, True
    return at, False


def _without(text: str, tail: str) -> str | None:
    """The text without these brackets at its end, between which blanks may stand; None if others stand there."""
    for bracket in reversed(tail):
        if not text.endswith(bracket):
            return None
        text = text[:-1].rstrip()
    return text if text.endswith("}") else None


def _is_readable(text: str, tool: Tool) -> bool:
    try:
        arguments(text.encode("utf-8", "surrogatepass"), tool)
    except NotACall:
        return False
    return True
