"""Calls written as tags that name the tool: Qwen's `<function=NAME><parameter=KEY>VALUE</parameter></function>`, the
`<invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke>` of Claude, MiniMax, DeepSeek (DSML) and many
more, MiniMax M3's `<invoke name="NAME"><KEY>VALUE</KEY></invoke>` (F3, F4, F5, F10, F12, F13).

    <function=edit>                          <invoke name="edit">
    <parameter=path>                         <parameter name="path">a.py</parameter>
    a.py                                     </invoke>
    </parameter>
    </function>

Values are raw text, typed by the tool's schema. An end tag counts only if a legal next tag follows, so that a value
may hold it. In Qwen's spelling a line end behind the opening tag, and then one before the end tag, are markup.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

from proxy.codec.json_text import Json, dump, load_json
from proxy.formats.argument_values import arguments
from proxy.formats.end_tag_chains import KnownTags, Level, Mark, Markup, wrapper_marks
from proxy.formats.json_arguments import arguments_value
from proxy.formats.raw_values import RawText, RawValues
from proxy.formats.terminators import CALL_KINDS, VALUE_KINDS, ends_here
from proxy.formats.xml_elements import element_value, inner_keys, shows_element
from proxy.formats.xml_tags import NO_TAG, SEPARATOR, Tag, tag, tag_ahead, tag_or_none
from proxy.parsing.cursor import Cursor, NotACall, Parsing, RawCall, Truncated, ValueGoesOn
from proxy.tools.toolset import Tool

PARAMETER_KINDS = VALUE_KINDS
_CDATA = b"<![CDATA["
# Beam pads its values as Qwen does.
_BEAM = b"</rfl:"
_LEADING = re.compile(r"\A\r?\n")
_TRAILING = re.compile(r"\r?\n\Z")
_CALL_ENDS = (b"</function>",)


def tagged_call(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read one call that stands here, opening tag and all."""
    begin = cursor.pos
    lined = cursor.begins_line(begin) if cursor.context.enclosures else None
    opener = yield from tag(cursor)
    if not opener.names(CALL_KINDS):
        raise NotACall("a tag that names a function was expected")
    written = (cursor.written(begin),)
    tool = cursor.tool(opener.name)
    while (yield from cursor.which(written)) or (yield from cursor.maybe(_again(cursor, opener))):
        pass  # an opening tag that stands there twice is one
    start = cursor.pos
    yield from cursor.blanks()
    if (yield from cursor.byte()) == b"{":
        value = yield from arguments_value(cursor, tool, closers=opener.ends)
        text = "" if cursor.void else arguments(value, tool)
        yield from _expect_end(cursor)
        return (RawCall(tool, opener.name, text),)
    padded = cursor.pos > start
    values = yield from parameters(cursor, tool, CallTag(opener.ends, lined), padded)
    return (RawCall(tool, opener.name, dump(values)),)


def _again(cursor: Cursor, opener: Tag) -> Parsing[bool]:
    """Read the same opening tag once more; whether it stood here."""
    yield from cursor.blanks()
    if (yield from tag_ahead(cursor)) != opener:
        return False
    yield from tag(cursor)
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
    cursor: Cursor, tool: Tool, call: CallTag = NO_CALL_TAG, padded: bool = True
) -> Parsing[dict[str, Json]]:
    """Read parameters up to the end of their call, end tag and all if it is there.

    `padded`: a line end behind a parameter's opening tag, and then one before its end tag, belong to the markup.
    """
    values: dict[str, Json] = {}
    raw = RawValues(cursor, tool, call.lined)
    # Whether the last opening tag was `<parameter=KEY>`.
    assigned: bool | None = None
    while True:
        before = cursor.pos
        yield from cursor.blanks()
        start = cursor.pos
        padded |= start > before
        if cursor.at_end():
            # The end tags of call and wrapper are missing: `…</parameter>` ends the reply.
            _check_missing_end(cursor, values)
            break
        found = yield from _next_tag_behind(cursor, values)
        if found is None:
            break  # the end tag is missing where a wrapper ends or another call begins
        tag_start = cursor.pos
        if found.names(PARAMETER_KINDS):
            raw.check_opener(found.name, values, alike=assigned in (None, found.assigned))
            assigned = found.assigned
        yield from tag(cursor)
        if found.closing:
            break
        raw.begins(start)
        read = _parameter if found.names(PARAMETER_KINDS) else _element
        written = cursor.text(tag_start, cursor.pos)
        yield from read(cursor, raw, _ValuePlace(found, written, call, tool, padded), values)
    raw.finish(values)
    return values


def _next_tag_behind(cursor: Cursor, values: Collection[str]) -> Parsing[Tag | None]:
    """The next tag behind these values; if no call goes on so, the last one of them may not have ended."""
    try:
        return (yield from _next_tag(cursor))
    except Truncated:
        raise
    except NotACall as refusal:
        if not values:
            raise
        raise ValueGoesOn(refusal.rejection, str(refusal)) from None


def _check_missing_end(cursor: Cursor, values: dict[str, Json]) -> None:
    """Let a call end with the reply: weak evidence, if the model stopped behind a value."""
    if not values or not cursor.stopped:
        raise cursor.refuse("a parameter or the end of the call was expected")
    cursor.evidence.weaken()


@dataclass(frozen=True, slots=True)
class _ValuePlace:
    """The opening tag of a value, also as it was written, the tag around it, the tool, and whether line ends around
    values are markup.
    """

    opener: Tag
    written: str
    call: CallTag
    tool: Tool
    padded: bool


def _parameter(cursor: Cursor, raw: RawValues, place: _ValuePlace, values: dict[str, Json]) -> Parsing[None]:
    """Read the value of `<parameter=KEY>`, in any spelling, behind its opening tag."""
    opener, tool = place.opener, place.tool
    key = opener.name
    cursor.reject_if(key in values, f"the parameter {key!r} stands there twice")
    if opener.kind == "param" and (yield from cursor.which((_CDATA,))):
        value = RawText((yield from _character_data(cursor, opener)))
    else:
        markup = _named_markup(cursor, raw, place, values)
        value = yield from raw.read(markup, key, values, padded=_in_lines(opener, place.padded), opener=place.written)
    meant = tool.meant(key, values)
    values[key] = _typed(tool, meant, _trimmed(value.text, opener, place.padded), opener)
    raw.check(meant, values[key], value)


def _element(cursor: Cursor, raw: RawValues, place: _ValuePlace, values: dict[str, Json]) -> Parsing[None]:
    """Read the value of `<KEY>` behind its opening tag."""
    key = place.opener.kind
    cursor.reject_if(key not in place.tool.properties or key in values, "no parameter has this tag")
    value = yield from raw.read(_element_markup(cursor, place, key), key, values, opener=place.written)
    # The next element may be one inside this one's object: `<shipping><city>Oslo</city>`, without `</shipping>`.
    cursor.reject_if(value.unended and not value.text.strip(), "its values can be read in two ways")
    try:
        values[key] = element_value(value.text, place.tool, key)
    except NotACall as refusal:
        cursor.reject(str(refusal))
    raw.check(key, values.get(key), replace(value, begins_value=shows_element(value.text)))


def _character_data(cursor: Cursor, opener: Tag) -> Parsing[str]:
    """Read the rest of `<![CDATA[…]]>`, and the end tag behind it."""
    start = cursor.pos
    end, _ = yield from cursor.find(b"]]>")
    text = cursor.text(start, end)
    yield from cursor.blanks()
    if (yield from cursor.which(opener.ends)) is None:
        raise cursor.refuse("an end tag was expected")
    return text


def _next_tag(cursor: Cursor) -> Parsing[Tag | None]:
    """The next tag, which is not read: a parameter's, or the call's end tag; None where the call must be over without
    one. End tags of parameters that stand there twice are read.
    """
    found = yield from tag_ahead(cursor)
    while found.closes(PARAMETER_KINDS):
        yield from tag(cursor)
        yield from cursor.blanks()
        found = yield from tag_ahead(cursor)
    if found.closes(CALL_KINDS):
        return found
    if found.opens(CALL_KINDS):
        return None
    if found.opening:
        return found
    if (yield from ends_here(cursor)):
        return None
    raise cursor.refuse("a parameter or the end of the call was expected")


def _expect_end(cursor: Cursor) -> Parsing[None]:
    yield from cursor.blanks()
    found = yield from tag_or_none(cursor)
    if found.closes(CALL_KINDS):
        yield from tag(cursor)
        return
    if not (yield from ends_here(cursor)):
        raise cursor.refuse("the end of the call was expected")
    if found is NO_TAG:
        cursor.evidence.weaken()


def _begins(ends: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """What the opening tags of these end tags begin with."""
    return tuple(end.replace(b"</", b"<").removesuffix(b">") for end in ends)


def _named_markup(cursor: Cursor, raw: RawValues, place: _ValuePlace, given: Collection[str]) -> Markup:
    """The tags of `<parameter=KEY>` in its spelling, behind values of these keys."""
    opener = place.opener
    outside = _Outside(cursor, place.call)
    known = KnownTags({**outside.marks, **dict.fromkeys(opener.ends, Mark(Level.VALUE, True))})

    def read(cursor: Cursor) -> Parsing[Mark | None]:
        mark = (yield from known.read(cursor)) or (yield from outside.read_opener(cursor))
        if mark is not None:
            return mark
        found = yield from tag_or_none(cursor)
        if not found.names(PARAMETER_KINDS):
            return None
        if set(found.ends).isdisjoint(opener.ends):
            return None
        yield from tag(cursor)
        return Mark(Level.VALUE, False, key=found.name)

    def another(cursor: Cursor) -> Parsing[bool]:
        tag = yield from tag_ahead(cursor)
        if not tag.names(PARAMETER_KINDS):
            return False
        return raw.may_begin(tag.name, given, alike=tag.assigned == opener.assigned)

    literals = (*opener.ends, *_begins(opener.ends), *outside.literals)
    return Markup(tuple(dict.fromkeys(literals)), read, another, place.call.there)


def _element_markup(cursor: Cursor, place: _ValuePlace, key: str) -> Markup:
    """The tags of `<KEY>`, with or without the separator."""
    separator = SEPARATOR if place.opener.ends[0].startswith(SEPARATOR.encode()) else ""
    outside = _Outside(cursor, place.call)
    keys = dict.fromkeys((key, *place.tool.properties))
    marks = {f"{separator}</{name}>".encode(): Mark(Level.VALUE, True, name) for name in keys}
    marks |= {f"{separator}<{name}>".encode(): Mark(Level.VALUE, False, name, name) for name in keys}
    marks |= {end: Mark(Level.VALUE, True, key) for end in place.opener.ends}
    known = KnownTags({**outside.marks, **marks})

    def read(cursor: Cursor) -> Parsing[Mark | None]:
        return (yield from known.read(cursor)) or (yield from outside.read_opener(cursor))

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
    """The tags around the values: the call's and those of its wrappers. `marks` are those that are always written
    alike, `literals` what all of them begin with.
    """

    def __init__(self, cursor: Cursor, call: CallTag) -> None:
        self._ends = frozenset(call.ends)
        wrappers = wrapper_marks(cursor)
        self.marks = {**wrappers, **dict.fromkeys(call.ends, Mark(Level.CALL, True))}
        self.literals = (*call.ends, *_begins(call.ends), *wrappers)

    def read_opener(self, cursor: Cursor) -> Parsing[Mark | None]:
        """Read the opening tag of another call, if one stands here."""
        if not self._is_opener((yield from tag_or_none(cursor))):
            return None
        yield from tag(cursor)
        return Mark(Level.CALL, False)

    def _is_opener(self, found: Tag) -> bool:
        """Whether a tag begins another call, spelled like this one."""
        if found.closing:
            return False
        if self._ends.isdisjoint(found.ends):
            return False
        if found.kind not in CALL_KINDS:
            return True
        return found.name != ""


def _another_element(cursor: Cursor) -> Parsing[bool]:
    """Whether another element begins here, or a parameter."""
    tag = yield from tag_ahead(cursor)
    if not tag.opening:
        return False
    return tag.kind not in CALL_KINDS


def _in_lines(opener: Tag, padded: bool) -> bool:
    """Whether line ends around a value belong to the markup."""
    return padded if opener.assigned else opener.ends[0].startswith(_BEAM)


def _trimmed(text: str, opener: Tag, padded: bool) -> str:
    """The value without the line ends of the markup."""
    if not _in_lines(opener, padded):
        return text
    if not _LEADING.match(text):
        return text
    return _TRAILING.sub("", _LEADING.sub("", text))


def _typed(tool: Tool, key: str, text: str, opener: Tag) -> Json:
    """The value as the schema types it, or as DSML's attribute does."""
    is_string = opener.attributes.get("string")
    if is_string == "true":
        return text
    if is_string == "false":
        try:
            return load_json(text.strip())
        except ValueError:
            pass
    return tool.typed(key, text)
