"""Calls written as the name and then the arguments: `NAME` and JSON in all the ways in which markers stand between them
(Mistral, Kimi, DeepSeek, Solar, PLaMo, functionary), pairs of tags (GLM), parameters (F4) or Python's arguments (F16).
"""

from __future__ import annotations

import re

from ..literals import dump
from ..reader import MAX_KEY, Literals, NotACall, Parsing, RawCall, Reader
from ..tools import Tool
from .ends import CALL_KINDS, ends_here
from .loose_json import arguments_value
from .pairs import KEY, VALUE, bare_key, pairs
from .pythonic import python_arguments
from .tagged import PARAMETER_KINDS, parameters, tagged_call
from .tags import peek_tag, tag
from .tokens import FILLERS, ID_FOLLOWS, NAME_FOLLOWS, SEPARATORS, encoded
from .values import arguments

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


def named(reader: Reader, *, python: bool = True) -> Parsing[tuple[RawCall, ...]]:
    """Read one call whose name, or a marker before it, stands here; its arguments as Python's only if so."""
    head = _Head()
    yield from _read_head(reader, head)
    if not python and (yield from reader.byte()) == b"(":
        raise NotACall("code is no call")
    if head.tagged:
        return (yield from tagged_call(reader))
    return ((yield from called(reader, head.name, head.id)),)


def called(reader: Reader, name: str, call_id: str = "", closers: tuple[bytes, ...] = ()) -> Parsing[RawCall]:
    """Read the arguments of the call of this name, which stand here; `closers` end it where no wrapper does."""
    here = yield from reader.byte()
    if here == b"(":
        name = name.removesuffix(".call")
    found = (yield from peek_tag(reader)) if here in (b"<", b"]") else None
    if found is not None and found.kind == KEY and reader.tools.resolve(name) is None:
        # The tag before the first key is missing, and the name runs into it (F7).
        split = reader.tools.split(name) if found.closing else None
        if split:
            yield from tag(reader)
            tool = reader.tool(split[0].name)
            return RawCall(tool, name, dump((yield from pairs(reader, tool, split[1]))))
    tool = reader.tool(name)
    kimi = _KIMI_ID.match(name)
    text = yield from _arguments(reader, tool, here, closers)
    return RawCall(tool, name, text, call_id or (name if kimi else ""))


def _read_head(reader: Reader, head: _Head) -> Parsing[None]:
    """Read names and markers up to the arguments."""
    while True:
        yield from reader.blanks()
        marker = yield from reader.which(_SEPARATORS)
        if marker is None:
            if head.name and (yield from _tag_between(reader)):
                continue
            if head.name or (yield from reader.byte()) in (b"{", b"("):
                return
            head.name = (yield from reader.until(_AFTER_NAME, MAX_KEY)).decode("utf-8", "replace")
            if not head.name:
                raise reader.refuse("the name of a tool was expected")
        elif marker in _NAME_FOLLOWS:
            # What stood before was the call's kind or its id, unless the arguments follow already.
            yield from reader.blanks()
            here = yield from reader.byte()
            found = (yield from peek_tag(reader)) if here == b"<" else None
            head.name = head.name if here == b"{" else ""
            if found is not None and found.kind in CALL_KINDS and not found.closing:
                head.tagged = True
                return
        elif marker == _ID_FOLLOWS:
            head.id = (yield from reader.until(_AFTER_ID, MAX_KEY)).decode()


def _tag_between(reader: Reader) -> Parsing[bool]:
    """Read a tag that only separates (Hunyuan's, with or without a suffix), or an end tag that ends nothing (F7)."""
    if (yield from reader.byte()) != b"<":
        return False
    found = yield from peek_tag(reader)
    if found is None or not (found.kind == "tool_sep" or (found.closing and found.kind == VALUE)):
        return False
    yield from tag(reader)
    return True


def _arguments(reader: Reader, tool: Tool, here: bytes, closers: tuple[bytes, ...]) -> Parsing[str]:
    if here == b"{":
        value = yield from arguments_value(reader, tool, closers=closers)
        return "" if reader.void else arguments(value, tool)
    if here == b"`":
        return (yield from _fenced(reader, tool))
    if here == b"(":
        return (yield from python_arguments(reader, tool))
    found = yield from peek_tag(reader)
    if found is not None and found.kind in PARAMETER_KINDS and not found.closing:
        return dump((yield from parameters(reader, tool)))
    if found is not None and found.kind == KEY and not found.closing:
        return dump((yield from pairs(reader, tool)))
    # A word that names no tool is a word.
    bare = reader.wrapped and not tool.required and not reader.passing
    if bare and not reader.at_end() and (yield from ends_here(reader)):
        return "{}"
    if reader.wrapped and not reader.void and (yield from bare_key(reader)):
        return dump((yield from pairs(reader, tool)))
    raise reader.refuse("the arguments of a call were expected")


def _fenced(reader: Reader, tool: Tool) -> Parsing[str]:
    """A fenced JSON object (DeepSeek V3, F9)."""
    yield from reader.expect(_FENCE)
    yield from reader.until(_LINE_END, _MAX_INFO)
    yield from reader.blanks()
    value = yield from arguments_value(reader, tool, closers=(_FENCE,))
    text = "" if reader.void else arguments(value, tool)
    yield from reader.blanks()
    if (yield from reader.which((_FENCE,))) is None and not (yield from ends_here(reader)):
        raise NotACall("the end of the fence was expected")
    return text
