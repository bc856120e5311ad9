"""Calls written as the name and then the arguments: `NAME` and JSON in all the ways in which markers stand between them
(Mistral, Kimi, DeepSeek, Solar, PLaMo, functionary), pairs of tags (GLM), parameters (F4) or Python's arguments (F16).
"""

from __future__ import annotations

import re

from proxy.codec.json_text import dump
from proxy.formats.argument_values import arguments
from proxy.formats.glm_pairs import KEY, VALUE, bare_key, glm_pairs
from proxy.formats.json_arguments import arguments_value
from proxy.formats.markers import FILLERS, ID_FOLLOWS, NAME_FOLLOWS, SEPARATORS, encoded
from proxy.formats.python_calls import python_arguments
from proxy.formats.terminators import CALL_KINDS, ends_here
from proxy.formats.xml_calls import PARAMETER_KINDS, parameters, tagged_call
from proxy.formats.xml_tags import peek_tag, tag
from proxy.parsing.cursor import MAX_KEY, Cursor, Literals, NotACall, Parsing, RawCall
from proxy.tools.toolset import Tool

_AFTER_NAME = re.compile(rb"[\s<>{}\[\]()\"'`,;=]")
_AFTER_ID = re.compile(rb"[^A-Za-z0-9_.:-]")
_SEPARATORS = Literals(encoded(*SEPARATORS, *NAME_FOLLOWS, ID_FOLLOWS, *FILLERS))
_NAME_FOLLOWS = encoded(*NAME_FOLLOWS)
_ID_FOLLOWS = ID_FOLLOWS.encode()
_FENCE = b"```"
_LINE_END = re.compile(rb"\n")
_MAX_INFO = 32
# The id that Kimi gives its calls; it knows them by it in the next turn (F8).
_KIMI_ID = re.compile(r"functions\.[^\s:]+:[0-9]{1,6}\Z")


class _Head:
    """What stands before the arguments."""

    def __init__(self) -> None:
        self.name = ""
        self.id = ""
        # A tag that names the tool follows instead.
        self.tagged = False


def named(cursor: Cursor, *, python: bool = True) -> Parsing[tuple[RawCall, ...]]:
    """Read one call whose name, or a marker before it, stands here; its arguments as Python's only if so."""
    head = _Head()
    yield from _read_head(cursor, head)
    if not python and (yield from cursor.byte()) == b"(":
        raise NotACall("code is no call")
    if head.tagged:
        return (yield from tagged_call(cursor))
    return ((yield from called(cursor, head.name, head.id)),)


def called(cursor: Cursor, name: str, call_id: str = "", closers: tuple[bytes, ...] = ()) -> Parsing[RawCall]:
    """Read the arguments of the call of this name, which stand here; `closers` end it where no wrapper does."""
    here = yield from cursor.byte()
    if here == b"(":
        name = name.removesuffix(".call")
    found = (yield from peek_tag(cursor)) if here in (b"<", b"]") else None
    if found is not None and found.kind == KEY and cursor.tools.resolve(name) is None:
        # The tag before the first key is missing, and the name runs into it (F7).
        split = cursor.tools.split(name) if found.closing else None
        if split:
            yield from tag(cursor)
            tool = cursor.tool(split[0].name)
            return RawCall(tool, name, dump((yield from glm_pairs(cursor, tool, split[1]))))
    tool = cursor.tool(name)
    kimi = _KIMI_ID.match(name)
    text = yield from _arguments(cursor, tool, here, closers)
    return RawCall(tool, name, text, call_id or (name if kimi else ""))


def _read_head(cursor: Cursor, head: _Head) -> Parsing[None]:
    """Read names and markers up to the arguments."""
    while True:
        yield from cursor.blanks()
        marker = yield from cursor.which(_SEPARATORS)
        if marker is None:
            if head.name and (yield from _tag_between(cursor)):
                continue
            if head.name or (yield from cursor.byte()) in (b"{", b"("):
                return
            head.name = (yield from cursor.until(_AFTER_NAME, MAX_KEY)).decode("utf-8", "replace")
            if not head.name:
                raise cursor.refuse("the name of a tool was expected")
        elif marker in _NAME_FOLLOWS:
            # What stood before was the call's kind or its id, unless the arguments follow already.
            yield from cursor.blanks()
            here = yield from cursor.byte()
            found = (yield from peek_tag(cursor)) if here == b"<" else None
            head.name = head.name if here == b"{" else ""
            if found is not None and found.kind in CALL_KINDS and not found.closing:
                head.tagged = True
                return
        elif marker == _ID_FOLLOWS:
            head.id = (yield from cursor.until(_AFTER_ID, MAX_KEY)).decode()


def _tag_between(cursor: Cursor) -> Parsing[bool]:
    """Read a tag that only separates (Hunyuan's, with or without a suffix), or an end tag that ends nothing (F7)."""
    if (yield from cursor.byte()) != b"<":
        return False
    found = yield from peek_tag(cursor)
    if found is None or not (found.kind == "tool_sep" or (found.closing and found.kind == VALUE)):
        return False
    yield from tag(cursor)
    return True


def _arguments(cursor: Cursor, tool: Tool, here: bytes, closers: tuple[bytes, ...]) -> Parsing[str]:
    if here == b"{":
        value = yield from arguments_value(cursor, tool, closers=closers)
        return "" if cursor.void else arguments(value, tool)
    if here == b"`":
        return (yield from _fenced(cursor, tool))
    if here == b"(":
        return (yield from python_arguments(cursor, tool))
    found = yield from peek_tag(cursor)
    if found is not None and found.kind in PARAMETER_KINDS and not found.closing:
        return dump((yield from parameters(cursor, tool)))
    if found is not None and found.kind == KEY and not found.closing:
        return dump((yield from glm_pairs(cursor, tool)))
    # A word that names no tool is a word.
    bare = cursor.wrapped and not tool.required and not cursor.passing
    if bare and not cursor.at_end() and (yield from ends_here(cursor)):
        return "{}"
    if cursor.wrapped and not cursor.void and (yield from bare_key(cursor)):
        return dump((yield from glm_pairs(cursor, tool)))
    raise cursor.refuse("the arguments of a call were expected")


def _fenced(cursor: Cursor, tool: Tool) -> Parsing[str]:
    """A fenced JSON object (DeepSeek V3, F9)."""
    yield from cursor.expect(_FENCE)
    yield from cursor.until(_LINE_END, _MAX_INFO)
    yield from cursor.blanks()
    value = yield from arguments_value(cursor, tool, closers=(_FENCE,))
    text = "" if cursor.void else arguments(value, tool)
    yield from cursor.blanks()
    if (yield from cursor.which((_FENCE,))) is None and not (yield from ends_here(cursor)):
        raise NotACall("the end of the fence was expected")
    return text
