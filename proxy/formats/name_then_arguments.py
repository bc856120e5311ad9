"""Calls written as the name and then the arguments: `NAME` and JSON in all the ways in which markers stand between them
(Mistral, Kimi, DeepSeek, Solar, PLaMo, functionary), pairs of tags (GLM), parameters (F4) or Python's arguments (F16).

    [TOOL_CALLS]read[ARGS]{"path": "a.py"}
    <|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>{"path": "a.py"}<|tool_call_end|>
    <tool_call>read<arg_key>path</arg_key><arg_value>a.py</arg_value></tool_call>

What stands here is the name, or a marker before it; wrappers and what opens them were read before.
"""

from __future__ import annotations

import re

from proxy.codec.json_text import JsonObject, dump
from proxy.formats.argument_values import arguments
from proxy.formats.glm_pairs import KEY, VALUE, bare_key, glm_pairs
from proxy.formats.json_arguments import arguments_value
from proxy.formats.markers import FILLERS, ID_FOLLOWS, NAME_FOLLOWS, SEPARATORS, encoded
from proxy.formats.python_calls import python_arguments
from proxy.formats.terminators import CALL_KINDS, ends_here
from proxy.formats.xml_calls import PARAMETER_KINDS, parameters, tagged_call
from proxy.formats.xml_tags import Tag, tag, tag_or_none
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
    if here in (b"<", b"]"):
        joined = yield from _joined_key(cursor, name)
        if joined is not None:
            return joined
    tool = cursor.tool(name)
    text = yield from _arguments(cursor, tool, here, closers)
    if not call_id and _KIMI_ID.match(name):
        call_id = name
    return RawCall(tool, name, text, call_id)


def _joined_key(cursor: Cursor, name: str) -> Parsing[RawCall | None]:
    """Read the call of GLM whose name runs into its first key, since the tag between them is missing (F7); None, and
    nothing is read, if it is none: `readpath</arg_key><arg_value>a.py</arg_value>`.
    """
    if not (yield from tag_or_none(cursor)).closes((KEY,)):
        return None
    if cursor.context.tools.resolve(name) is not None:
        return None
    split = cursor.context.tools.split(name)
    if not split:
        return None
    yield from tag(cursor)
    tool = cursor.tool(split[0].name)
    return RawCall(tool, name, dump((yield from glm_pairs(cursor, tool, split[1]))))


def _read_head(cursor: Cursor, head: _Head) -> Parsing[None]:
    """Read names and markers up to the arguments."""
    while True:
        yield from cursor.blanks()
        marker = yield from cursor.which(_SEPARATORS)
        if marker is None:
            if head.name:
                if (yield from _tag_between(cursor)):
                    continue
                return
            if (yield from cursor.byte()) in (b"{", b"("):
                return
            head.name = yield from _name(cursor)
        elif marker in _NAME_FOLLOWS:
            yield from _behind_kind(cursor, head)
            if head.tagged:
                return
        elif marker == _ID_FOLLOWS:
            head.id = (yield from cursor.until(_AFTER_ID, MAX_KEY)).decode()


def _name(cursor: Cursor) -> Parsing[str]:
    name = (yield from cursor.until(_AFTER_NAME, MAX_KEY)).decode("utf-8", "replace")
    if not name:
        raise cursor.refuse("the name of a tool was expected")
    return name


def _behind_kind(cursor: Cursor, head: _Head) -> Parsing[None]:
    """See what follows DeepSeek's separator: what stood before it was the call's kind or its id, unless the arguments
    follow already.

        function<｜tool▁sep｜>read
        read<｜tool▁sep｜>{"path": "a.py"}
    """
    yield from cursor.blanks()
    here = yield from cursor.byte()
    if here == b"{":
        return
    head.name = ""
    if here == b"<":
        head.tagged = (yield from tag_or_none(cursor)).opens(CALL_KINDS)


def _tag_between(cursor: Cursor) -> Parsing[bool]:
    """Read a tag that only separates (Hunyuan's, with or without a suffix), or an end tag that ends nothing (F7)."""
    if (yield from cursor.byte()) != b"<":
        return False
    if not _only_separates((yield from tag_or_none(cursor))):
        return False
    yield from tag(cursor)
    return True


def _only_separates(found: Tag) -> bool:
    """Whether a tag says nothing between a name and its arguments: a separator, or the end tag of no value."""
    if found.kind == "tool_sep":
        return True
    return found.closes((VALUE,))


def _arguments(cursor: Cursor, tool: Tool, here: bytes, closers: tuple[bytes, ...]) -> Parsing[str]:
    """Read the arguments, whose first byte is `here`: the text of their object."""
    if here == b"{":
        value = yield from arguments_value(cursor, tool, closers=closers)
        return "" if cursor.void else arguments(value, tool)
    if here == b"`":
        return (yield from _fenced(cursor, tool))
    if here == b"(":
        return (yield from python_arguments(cursor, tool))
    values = yield from _tagged_values(cursor, tool)
    if values is not None:
        return dump(values)
    if (yield from _lacks_arguments(cursor, tool)):
        return "{}"
    if cursor.context.wrapped and not cursor.void and (yield from bare_key(cursor)):
        return dump((yield from glm_pairs(cursor, tool)))
    raise cursor.refuse("the arguments of a call were expected")


def _tagged_values(cursor: Cursor, tool: Tool) -> Parsing[JsonObject | None]:
    """Read arguments in tags, parameters or GLM's pairs; None, and nothing is read, if none begin here."""
    tag = yield from tag_or_none(cursor)
    if tag.opens(PARAMETER_KINDS):
        return (yield from parameters(cursor, tool))
    if tag.opens((KEY,)):
        return (yield from glm_pairs(cursor, tool))
    return None


def _lacks_arguments(cursor: Cursor, tool: Tool) -> Parsing[bool]:
    """Whether the call is over behind its name, in a wrapper and of a tool that requires nothing."""
    if not cursor.context.wrapped or tool.required:
        return False
    # A word that names no tool is a word.
    if cursor.passing or cursor.at_end():
        return False
    return (yield from ends_here(cursor))


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
