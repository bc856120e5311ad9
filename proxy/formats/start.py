"""What counts only as the first thing of a reply: what servers leave of a call when they strip special tokens, bare
names before JSON, wrappers whose first bytes were cut off (section 4 of the formats; F8, F11, F18).

All of it is weak evidence: the row must be the whole reply.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from ..reader import MAX_KEY, Literals, NotACall, Parsing, RawCall, Reader
from .bare import bare_arguments, begins_arguments
from .bodies import FENCE, Body
from .headers import STRIPPED_HEADERS, header, stripped_header
from .named import called
from .pairs import KEY
from .row import rest_of_row
from .tagged import PARAMETER_KINDS
from .tags import peek_tag
from .tokens import BEFORE_TEXT, CUT_OPENERS, SEPARATORS, encoded

_TOKENS = Literals(encoded(*BEFORE_TEXT))
# What stands before the JSON of a format whose tokens are gone.
_LEADS = encoded("functools", "function call\n", *CUT_OPENERS)
_FUNCTION = "function"
_NAMESPACE = "functions."
_HEADERS = (b"to=",)
# Behind the name: Kimi's counter, the word that a stripped marker leaves.
_AFTER_NAME = re.compile(rb"[^0-9: a-z]")
_TAIL = re.compile(rb"(?::[0-9]{1,6})?(?: ?json)?\Z")
_MAX_TAIL = 16
_AFTER_GLUED = re.compile(rb"[\s\[{(<]")
_LINE_END = re.compile(rb"\n")
_SEPARATORS = Literals(encoded(*SEPARATORS))


def first_thing(parsers: Mapping[bytes, tuple[str, bytes, Body]], *, residues: bool) -> Body:
    """The parser for the beginning of a reply: one of these, or what counts only there.

    `residues`: the latter count. `parsers` are their names, the bytes of which one must follow if any, and the parsers
    themselves, by opener.
    """
    known = tuple(parsers)

    def first(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
        yield from reader.blanks()
        if (yield from reader.which(_TOKENS)):
            return ()  # what leaked there is no text
        opener = yield from reader.peek(_openers(known, reader.tools.names if residues else None))
        if opener is None:
            raise NotACall("no call begins so")
        reader.first = True
        if opener in parsers:
            reader.format, then, parse = parsers[opener]
            if then and (yield from reader.ahead(_behind(reader, opener))) not in then:
                raise NotACall("no call begins so")
            return (yield from parse(reader))
        if opener in _HEADERS:
            return (yield from header(reader))
        if opener in STRIPPED_HEADERS:
            return (yield from stripped_header(reader))
        if opener in _LEADS:
            yield from reader.expect(opener)
            return (yield from rest_of_row(reader, ()))
        return (yield from _bare_name(reader, opener))

    return first


def _behind(reader: Reader, opener: bytes) -> Parsing[bytes]:
    """The first byte behind the opener, blanks aside."""
    yield from reader.expect(opener)
    yield from reader.blanks()
    return (yield from reader.byte())


@lru_cache(maxsize=64)
def _openers(parsers: tuple[bytes, ...], names: tuple[str, ...] | None) -> Literals:
    if names is None:
        return Literals(parsers)
    prefixed = (f"{prefix}{name}" for name in names for prefix in ("", _NAMESPACE, _FUNCTION))
    return Literals({*parsers, *_HEADERS, *STRIPPED_HEADERS, *_LEADS, *encoded(*prefixed)})


def functionary(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read functionary 3.2's `>>>NAME`, a line end and JSON, and what follows it."""
    start = reader.pos
    yield from reader.expect(b">>>")
    name = (yield from reader.until(_LINE_END, MAX_KEY)).decode("utf-8", "replace")
    if reader.tools.resolve(name) is None:
        raise NotACall(f"no tool {name!r} is offered")
    yield from reader.blanks()
    return (yield from _json_behind(reader, start, name))


def tool_calls_word(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read what a detokeniser leaves of Mistral's marker, and the name and the JSON glued to it (F14)."""
    start = reader.pos
    yield from reader.expect(b"TOOL_CALLS")
    name = (yield from reader.until(_AFTER_GLUED, MAX_KEY)).decode("utf-8", "replace")
    if reader.tools.resolve(name) is None:
        raise NotACall(f"no tool {name!r} is offered")
    yield from reader.which(_SEPARATORS)
    return (yield from _json_behind(reader, start, name))


def _bare_name(reader: Reader, opener: bytes) -> Parsing[tuple[RawCall, ...]]:
    """Read a call whose markers are gone: the name, and then its arguments."""
    start = reader.pos
    yield from reader.expect(opener)
    tail = yield from reader.until(_AFTER_NAME, _MAX_TAIL)
    if not tail and (yield from begins_arguments(reader)):
        call = yield from bare_arguments(reader, opener.decode())
        reader.spans.append((start, reader.pos))
        return (yield from rest_of_row(reader, (call,)))
    name = opener.decode() + tail.decode().removesuffix("json").strip()
    if name not in reader.tools.names and not name.startswith(_NAMESPACE):
        name = name.removeprefix(_FUNCTION)
    yield from reader.blanks()
    yield from reader.which(_SEPARATORS)
    yield from reader.blanks()
    here = yield from reader.byte()
    found = (yield from peek_tag(reader)) if here == b"<" else None
    tagged = found is not None and found.kind in (KEY, *PARAMETER_KINDS) and not found.closing
    fenced = here == FENCE[:1] and opener.startswith(_FUNCTION.encode())
    if not _TAIL.match(tail) or not (tagged or fenced or here == b"{"):
        raise reader.refuse("a name alone is no call")
    call = yield from called(reader, name)
    reader.spans.append((start, reader.pos))
    return (yield from rest_of_row(reader, (call,)))


def _json_behind(reader: Reader, start: int, name: str) -> Parsing[tuple[RawCall, ...]]:
    if (yield from reader.byte()) != b"{":
        raise reader.refuse("the arguments were expected")
    call = yield from called(reader, name)
    reader.spans.append((start, reader.pos))
    return (yield from rest_of_row(reader, (call,)))
