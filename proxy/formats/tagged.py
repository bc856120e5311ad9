"""Calls written as tags that name the tool: Qwen's `<function=NAME><parameter=KEY>VALUE</parameter></function>`, the
`<invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke>` of Claude, MiniMax, DeepSeek (DSML) and many
more, MiniMax M3's `<invoke name="NAME"><KEY>VALUE</KEY></invoke>` (F3, F4, F5, F10, F12, F13).

Values are raw text, typed by the tool's schema. An end tag counts only if a legal next tag follows, so that a value
may hold it. In Qwen's spelling a line end behind the opening tag, and then one before the end tag, are markup.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..events import Json, load_json
from ..literals import dump
from ..reader import Literals, NotACall, Parsing, RawCall, Reader
from ..tools import Tool
from .chains import Level, Mark, Markup, WrapperTags
from .elements import begins_element, element_value, inner_keys
from .ends import CALL_KINDS, VALUE_KINDS, ends_here
from .loose_json import arguments_value
from .raw_value import RawText, RawValues
from .tags import SEPARATOR, Tag, peek_tag, tag
from .values import arguments

PARAMETER_KINDS = VALUE_KINDS
_CDATA = b"<![CDATA["
# Beam pads its values as Qwen does.
_BEAM = b"</rfl:"
_LEADING = re.compile(r"\A\r?\n")
_TRAILING = re.compile(r"\r?\n\Z")
_CALL_ENDS = (b"</function>",)


def tagged_call(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read one call that stands here, opening tag and all."""
    lined = reader.begins_line(reader.pos) if reader.enclosures else None
    opener = yield from tag(reader)
    if opener.kind not in CALL_KINDS or opener.closing or not opener.name:
        raise NotACall("a tag that names a function was expected")
    tool = reader.tool(opener.name)
    while (yield from reader.maybe(_again(reader, opener))):
        pass  # an opening tag that stands there twice is one
    start = reader.pos
    yield from reader.blanks()
    if (yield from reader.byte()) == b"{":
        value = yield from arguments_value(reader, tool, closers=opener.ends)
        text = "" if reader.void else arguments(value, tool)
        yield from _expect_end(reader)
        return (RawCall(tool, opener.name, text),)
    padded = reader.pos > start
    values = yield from parameters(reader, tool, CallTag(opener.ends, lined), padded)
    return (RawCall(tool, opener.name, dump(values)),)


def _again(reader: Reader, opener: Tag) -> Parsing[bool]:
    """Read the same opening tag once more; whether it stood here."""
    yield from reader.blanks()
    if (yield from reader.byte()) not in (b"<", b"]") or (yield from peek_tag(reader)) != opener:
        return False
    yield from tag(reader)
    return True


@dataclass(frozen=True, slots=True)
class CallTag:
    """The tag around the parameters: what ends it, whether it stands on a line of its own inside its wrapper (None if
    that says nothing), and whether it was there at all.
    """

    ends: tuple[bytes, ...]
    lined: bool | None = None
    there: bool = True


NO_CALL_TAG = CallTag(_CALL_ENDS, there=False)


def parameters(
    reader: Reader, tool: Tool, call: CallTag = NO_CALL_TAG, padded: bool = True
) -> Parsing[dict[str, Json]]:
    """Read parameters up to the end of their call, end tag and all if it is there.

    `padded`: a line end behind a parameter's opening tag, and then one before its end tag, belong to the markup.
    """
    values: dict[str, Json] = {}
    raw = RawValues(reader, tool, call.lined)
    while True:
        before = reader.pos
        yield from reader.blanks()
        padded = padded or reader.pos > before
        if reader.at_end():
            if not values or not reader.stopped:
                raise reader.refuse("a parameter or the end of the call was expected")
            reader.weak = True
            break
        start = reader.pos
        found = yield from _next_tag(reader)
        if found is None:
            break  # the end tag is missing where a wrapper ends or another call begins
        yield from tag(reader)
        if found.closing:
            break
        raw.begins(start)
        named = found.kind in PARAMETER_KINDS and bool(found.name)
        yield from (_parameter if named else _element)(reader, raw, _Place(found, call, tool, padded), values)
    raw.finish(values)
    return values


@dataclass(frozen=True, slots=True)
class _Place:
    """The opening tag of a value, the tag around it, the tool, and whether line ends around values are markup."""

    opener: Tag
    call: CallTag
    tool: Tool
    padded: bool


def _parameter(reader: Reader, raw: RawValues, place: _Place, values: dict[str, Json]) -> Parsing[None]:
    """Read the value of `<parameter=KEY>`, in any spelling, behind its opening tag."""
    opener, tool = place.opener, place.tool
    key = opener.name
    reader.annul(key in values, f"the parameter {key!r} stands there twice")
    if opener.kind == "param" and (yield from reader.which((_CDATA,))):
        value = RawText((yield from _character_data(reader, opener)))
    else:
        markup = _named_markup(reader, opener, place.call)
        value = yield from raw.read(markup, key, values, padded=_in_lines(opener, place.padded))
    meant = tool.meant(key, values)
    values[key] = _typed(tool, meant, _trimmed(value.text, opener, place.padded), opener)
    raw.check(meant, values[key], value)


def _element(reader: Reader, raw: RawValues, place: _Place, values: dict[str, Json]) -> Parsing[None]:
    """Read the value of `<KEY>` behind its opening tag."""
    key = place.opener.kind
    reader.annul(key not in place.tool.properties or key in values, "no parameter has this tag")
    value = yield from raw.read(_element_markup(reader, place, key), key, values)
    # It may be an element inside this one's object.
    reader.annul(value.unended and not value.text.strip(), "its values can be read in two ways")
    values[key] = element_value(value.text, place.tool, key)
    unread = isinstance(values[key], str) and not raw.is_text(key) and begins_element(value.text)
    reader.annul(unread, "its elements do not end")
    raw.check(key, values[key], value)


def _character_data(reader: Reader, opener: Tag) -> Parsing[str]:
    """Read the rest of `<![CDATA[…]]>`, and the end tag behind it."""
    start = reader.pos
    end, _ = yield from reader.find(b"]]>")
    text = reader.text(start, end)
    yield from reader.blanks()
    if (yield from reader.which(opener.ends)) is None:
        raise reader.refuse("an end tag was expected")
    return text


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


def _begins(ends: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """What the opening tags of these end tags begin with."""
    return tuple(end.replace(b"</", b"<").removesuffix(b">") for end in ends)


def _named_markup(reader: Reader, opener: Tag, call: CallTag) -> Markup:
    """The tags of `<parameter=KEY>` in its spelling."""
    outside = _Outside(reader, call)

    def read(reader: Reader) -> Parsing[Mark | None]:
        if (yield from reader.which(opener.ends)):
            return Mark(Level.VALUE, True)
        mark = yield from outside.read(reader)
        if mark is not None:
            return mark
        found = yield from peek_tag(reader)
        if found is None or found.closing or found.kind not in PARAMETER_KINDS or not found.name:
            return None
        if not set(found.ends) & set(opener.ends):
            return None
        yield from tag(reader)
        return Mark(Level.VALUE, False, key=found.name)

    literals = (*opener.ends, *_begins(opener.ends), *outside.literals)
    return Markup(tuple(dict.fromkeys(literals)), read, _another_parameter, call.there)


def _element_markup(reader: Reader, place: _Place, key: str) -> Markup:
    """The tags of `<KEY>`, with or without the separator."""
    separator = SEPARATOR if place.opener.ends[0].startswith(SEPARATOR.encode()) else ""
    outside = _Outside(reader, place.call)
    keys = dict.fromkeys((key, *place.tool.properties))
    marks = {f"{separator}</{name}>".encode(): Mark(Level.VALUE, True, name) for name in keys}
    marks |= {f"{separator}<{name}>".encode(): Mark(Level.VALUE, False, name, name) for name in keys}
    marks |= {end: Mark(Level.VALUE, True, key) for end in place.opener.ends}
    table = Literals(tuple(marks))

    def read(reader: Reader) -> Parsing[Mark | None]:
        found = yield from reader.which(table)
        if found:
            return marks[found]
        return (yield from outside.read(reader))

    return Markup(
        (*marks, *outside.literals),
        read,
        _another_element,
        place.call.there,
        anywhere=bool(separator),
        own=key,
        inner=inner_keys(place.tool, key),
    )


class _Outside:
    """The tags around the values: the call's and those of its wrappers."""

    def __init__(self, reader: Reader, call: CallTag) -> None:
        self._ends = call.ends
        self._wrappers = WrapperTags(reader)
        self.literals = (*self._ends, *_begins(self._ends), *self._wrappers.literals)

    def read(self, reader: Reader) -> Parsing[Mark | None]:
        """Read one that stands here."""
        if (yield from reader.which(self._ends)):
            return Mark(Level.CALL, True)
        mark = yield from self._wrappers.read(reader)
        if mark is not None:
            return mark
        found = yield from peek_tag(reader)
        if found is None or found.closing or not set(found.ends) & set(self._ends):
            return None
        if found.kind in CALL_KINDS and not found.name:
            return None
        yield from tag(reader)
        return Mark(Level.CALL, False)


def _another_parameter(reader: Reader) -> Parsing[bool]:
    """Whether another parameter begins here."""
    found = (yield from peek_tag(reader)) if (yield from reader.byte()) in (b"<", b"]") else None
    return found is not None and not found.closing and found.kind in PARAMETER_KINDS and bool(found.name)


def _another_element(reader: Reader) -> Parsing[bool]:
    """Whether another element begins here, or a parameter."""
    found = (yield from peek_tag(reader)) if (yield from reader.byte()) in (b"<", b"]") else None
    return found is not None and not found.closing and found.kind not in CALL_KINDS


def _in_lines(opener: Tag, padded: bool) -> bool:
    """Whether line ends around a value belong to the markup."""
    return padded if opener.assigned else opener.ends[0].startswith(_BEAM)


def _trimmed(text: str, opener: Tag, padded: bool) -> str:
    """The value without the line ends of the markup."""
    if not _in_lines(opener, padded) or not _LEADING.match(text):
        return text
    return _TRAILING.sub("", _LEADING.sub("", text))


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
