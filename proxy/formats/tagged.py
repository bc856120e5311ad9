"""Calls written as tags that name the tool: Qwen's `<function=NAME><parameter=KEY>VALUE</parameter></function>`, the
`<invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke>` of Claude, MiniMax, DeepSeek (DSML) and many
more, MiniMax M3's `<invoke name="NAME"><KEY>VALUE</KEY></invoke>` (F3, F4, F5, F10, F12, F13).

Values are raw text, typed by the tool's schema. An end tag counts only if a legal next tag follows, so that a value
may hold it. In Qwen's spelling a line end behind the opening tag, and then one before the end tag, are markup.
"""

from __future__ import annotations

import re

from ..events import Json, load_json
from ..literals import dump
from ..reader import NotACall, Parsing, RawCall, Reader
from ..tools import Tool
from .elements import element_value
from .ends import CALL_KINDS, enclosed, ends_here
from .tags import Tag, peek_tag, read_tag, tag
from .values import arguments

PARAMETER_KINDS = frozenset(("parameter", "param"))
_CDATA = b"<![CDATA["
# Beam pads its values as Qwen does.
_BEAM = b"</rfl:"
_LEADING = re.compile(r"\A\r?\n")
_TRAILING = re.compile(r"\r?\n\Z")
# A parameter's opening tag at the start of a line: one that was never closed stood before it.
_UNCLOSED = re.compile(r"\r?\n[ \t]*<([^<>\n]{1,200})>")


def tagged_call(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read one call that stands here, opening tag and all."""
    opener = yield from tag(reader)
    if opener.kind not in CALL_KINDS or opener.closing or not opener.name:
        raise NotACall("a tag that names a function was expected")
    tool = reader.tool(opener.name)
    while (yield from reader.maybe(_again(reader, opener))):
        pass  # an opening tag that stands there twice is one
    start = reader.pos
    yield from reader.blanks()
    if (yield from reader.byte()) == b"{":
        value = yield from reader.value()
        text = "" if reader.void else arguments(value, tool)
        yield from _expect_end(reader)
        return (RawCall(tool, opener.name, text),)
    padded = reader.pos > start
    values = yield from parameters(reader, tool, opener.ends, padded)
    return (RawCall(tool, opener.name, dump(values)),)


def _again(reader: Reader, opener: Tag) -> Parsing[bool]:
    """Read the same opening tag once more; whether it stood here."""
    yield from reader.blanks()
    if (yield from reader.byte()) not in (b"<", b"]") or (yield from peek_tag(reader)) != opener:
        return False
    yield from tag(reader)
    return True


def parameters(
    reader: Reader, tool: Tool, ends: tuple[bytes, ...] = (b"</function>",), padded: bool = True
) -> Parsing[dict[str, Json]]:
    """Read parameters up to the end of their call, which `ends` may be, end tag and all if it is there.

    `padded`: a line end behind a parameter's opening tag, and then one before its end tag, belong to the markup.
    """
    values: dict[str, Json] = {}
    while True:
        before = reader.pos
        yield from reader.blanks()
        padded = padded or reader.pos > before
        if reader.at_end():
            if not values or not reader.stopped:
                raise reader.refuse("a parameter or the end of the call was expected")
            reader.weak = True
            return values
        found = yield from _next_tag(reader)
        if found is None:
            return values  # the end tag is missing where a wrapper ends or another call begins
        yield from tag(reader)
        if found.closing:
            return values
        if found.kind in PARAMETER_KINDS and found.name:
            key, text = found.name, (yield from _value(reader, found, ends))
            reader.annul(key in values, f"the parameter {key!r} stands there twice")
            values.update(_split(tool, key, _trimmed(text, found, padded), found, values))
        else:
            reader.annul(found.kind not in tool.properties or found.kind in values, "no parameter has this tag")
            text = yield from _value(reader, found, ends)
            values[found.kind] = element_value(text, tool, found.kind)


def _next_tag(reader: Reader) -> Parsing[Tag | None]:
    """The next tag, which is not read: a parameter's, or the call's end tag; None where the call must be over without
    one. End tags of parameters that stand there twice are read.
    """
    while True:
        found = (yield from peek_tag(reader)) if (yield from reader.byte()) in (b"<", b"]") else None
        if found is not None and found.kind in PARAMETER_KINDS and found.closing:
            yield from tag(reader)
            yield from reader.blanks()
            continue
        if found is not None and found.kind in CALL_KINDS:
            return found if found.closing else None
        if found is not None and not found.closing:
            return found
        if (yield from ends_here(reader)):
            return None
        raise reader.refuse("a parameter or the end of the call was expected")


def _expect_end(reader: Reader) -> Parsing[None]:
    yield from reader.blanks()
    found = yield from peek_tag(reader)
    if found is not None and found.closing and found.kind in CALL_KINDS:
        yield from tag(reader)
    elif not (yield from ends_here(reader)):
        raise reader.refuse("the end of the call was expected")
    elif found is None:
        reader.weak = True


def _value(reader: Reader, opener: Tag, call_ends: tuple[bytes, ...]) -> Parsing[str]:
    """Read a value and its end tag."""
    if opener.kind == "param" and (yield from reader.which((_CDATA,))):
        start = reader.pos
        end, _ = yield from reader.find(b"]]>")
        text = reader.text(start, end)
        yield from reader.blanks()
        if (yield from reader.which(opener.ends)) is None:
            raise reader.refuse("an end tag was expected")
        return text
    return (
        yield from enclosed(
            reader,
            opener.ends,
            opener.begins,
            call_ends,
            follows=lambda: _tag_follows(reader, opener, call_ends),
            call_follows=lambda: _call_follows(reader),
        )
    )


def _tag_follows(reader: Reader, opener: Tag, call_ends: tuple[bytes, ...]) -> Parsing[bool]:
    """Whether what may follow an end tag stands here: then it was one."""
    yield from reader.blanks()
    if (yield from reader.which(opener.ends)):
        yield from reader.blanks()  # it stands there twice
    if (yield from reader.peek(call_ends)):
        return True
    found = (yield from peek_tag(reader)) if (yield from reader.byte()) in (b"<", b"]") else None
    if found is not None and found.kind in CALL_KINDS and found.closing:
        return False
    if found is not None and not found.closing:
        element = opener.kind not in PARAMETER_KINDS
        return element or found.kind in CALL_KINDS or (found.kind in PARAMETER_KINDS and bool(found.name))
    return (yield from ends_here(reader))


def _call_follows(reader: Reader) -> Parsing[bool]:
    """Whether behind a call's end tag stands what may follow a call."""
    yield from reader.blanks()
    found = yield from peek_tag(reader)
    if found is not None and not found.closing and found.kind in CALL_KINDS and found.name:
        return True
    return (yield from ends_here(reader))


def _trimmed(text: str, opener: Tag, padded: bool) -> str:
    """The value without the line ends of the markup."""
    markup = padded if opener.assigned else opener.ends[0].startswith(_BEAM)
    if not markup or not _LEADING.match(text):
        return text
    return _TRAILING.sub("", _LEADING.sub("", text))


def _split(tool: Tool, key: str, text: str, opener: Tag, known: dict[str, Json]) -> dict[str, Json]:
    """The value, and that of a parameter that begins in it because its end tag is missing (F5): it must be spelled
    alike and of the key's type.
    """
    unclosed = list(_UNCLOSED.finditer(text)) if opener.marked or "string" not in opener.attributes else []
    # Behind all but the last one stands another tag, so that it is no value but text.
    for found in unclosed[-1:]:
        inner = read_tag(found.group(1))
        alike = inner is not None and not inner.closing and inner.ends == opener.ends
        if inner and alike and inner.name in tool.properties and inner.name != key and inner.name not in known:
            second = _typed(tool, inner.name, text[found.end() :], inner)
            if not isinstance(second, str):
                return {key: _typed(tool, key, text[: found.start()], opener), inner.name: second}
    return {key: _typed(tool, key, text, opener)}


def _typed(tool: Tool, key: str, text: str, opener: Tag) -> Json:
    """The value as the schema types it, or as DSML's attribute does."""
    said = opener.attributes.get("string")
    if said == "true":
        return text
    if said == "false":
        try:
            return load_json(text.strip())
        except ValueError:
            pass
    return tool.typed(key, text)
