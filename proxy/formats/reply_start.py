"""What counts only as the first thing of a reply: what servers leave of a call when they strip special tokens, bare
names before JSON, wrappers whose first bytes were cut off (section 4 of the formats; F8, F11, F18).

All of it is weak evidence: the row must be the whole reply.

    functions.read:0{"path": "a.py"}                            Kimi without its markers
    read{"path": "a.py"}                                        a name before JSON
    call>{"name": "read", "arguments": {"path": "a.py"}}        a wrapper whose first bytes are missing
    >>>read
    {"path": "a.py"}                                            functionary 3.2
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from proxy.formats.bare_calls import bare_arguments, begins_arguments
from proxy.formats.glm_pairs import KEY
from proxy.formats.harmony import STRIPPED_HEADERS, header, stripped_header
from proxy.formats.markers import BEFORE_TEXT, CUT_OPENERS, SEPARATORS, encoded
from proxy.formats.name_then_arguments import called
from proxy.formats.unwrapped import rest_of_calls
from proxy.formats.wrappers import FENCE, FormatParser
from proxy.formats.xml_calls import PARAMETER_KINDS
from proxy.formats.xml_tags import tag_or_none
from proxy.parsing.cursor import MAX_KEY, Cursor, Literals, NotACall, Parsing, RawCall, Rejection
from proxy.tools.toolset import ToolSet

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


class ReplyStart:
    """The parser for the beginning of a reply: one of these, or what counts only there.

    `residues`: the latter count. `parsers` are their names, the bytes of which one must follow if any, and the parsers
    themselves, by opener.
    """

    def __init__(self, parsers: Mapping[bytes, tuple[str, bytes, FormatParser]], *, residues: bool) -> None:
        self._parsers = parsers
        self._known = tuple(parsers)
        self._residues = residues

    def __call__(self, cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
        """Read what begins the reply, as a parser does."""
        yield from cursor.blanks()
        leaked = yield from cursor.which(_TOKENS)
        if leaked is not None:
            while (yield from cursor.which((leaked,))):
                pass
            return ()  # what leaked there is no text
        opener = yield from cursor.peek(self._openers(cursor.context.tools))
        if opener is None:
            raise NotACall("no call begins so")
        cursor.context = replace(cursor.context, first=True)
        if opener not in self._parsers:
            return (yield from _residue(cursor, opener))
        name, then, parse = self._parsers[opener]
        cursor.evidence.tell_format(name)
        if then and (yield from cursor.ahead(_behind(cursor, opener))) not in then:
            raise NotACall("no call begins so")
        return (yield from parse(cursor))

    def opens(self, reply: bytes, tools: ToolSet) -> bool:
        """True if a reply that is all here, without the blanks before it, begins with what is read here."""
        return any(literals.match(reply, True) for literals in (_TOKENS, self._openers(tools)))

    def may_begin(self, here: bytes, tools: ToolSet) -> bool:
        """False if nothing that is read here begins with these bytes, of which more may come."""
        if here[:1].isspace():
            return True
        return any(literals.match(here, False) != b"" for literals in (_TOKENS, self._openers(tools)))

    def _openers(self, tools: ToolSet) -> Literals:
        """What may begin a reply that offers these tools."""
        return _openers(self._known, tools.names if self._residues else None)


def _residue(cursor: Cursor, opener: bytes) -> Parsing[tuple[RawCall, ...]]:
    """Read what is left of a call whose markers are gone, and what follows it."""
    if opener in _HEADERS:
        return (yield from header(cursor))
    if opener in STRIPPED_HEADERS:
        return (yield from stripped_header(cursor))
    if opener in _LEADS:
        yield from cursor.expect(opener)
        return (yield from rest_of_calls(cursor, ()))
    return (yield from _bare_name(cursor, opener))


def _behind(cursor: Cursor, opener: bytes) -> Parsing[bytes]:
    """The first byte behind the opener, blanks aside."""
    yield from cursor.expect(opener)
    yield from cursor.blanks()
    return (yield from cursor.byte())


@lru_cache(maxsize=64)
def _openers(parsers: tuple[bytes, ...], names: tuple[str, ...] | None) -> Literals:
    if names is None:
        return Literals(parsers)
    # The name may be said twice: `read.read(path="a.py")`.
    prefixed = (f"{prefix}{name}" for name in names for prefix in ("", _NAMESPACE, _FUNCTION, f"{name}."))
    return Literals({*parsers, *_HEADERS, *STRIPPED_HEADERS, *_LEADS, *encoded(*prefixed)})


def functionary(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read functionary 3.2's `>>>NAME`, a line end and JSON, and what follows it."""
    start = cursor.pos
    yield from cursor.expect(b">>>")
    name = (yield from cursor.until(_LINE_END, MAX_KEY)).decode("utf-8", "replace")
    if cursor.context.tools.resolve(name) is None:
        raise NotACall(Rejection.NOT_OFFERED, f"no tool {name!r} is offered")
    yield from cursor.blanks()
    return (yield from _json_behind(cursor, start, name))


def tool_calls_word(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read what a detokeniser leaves of Mistral's marker, and the name and the JSON glued to it (F14)."""
    start = cursor.pos
    yield from cursor.expect(b"TOOL_CALLS")
    name = (yield from cursor.until(_AFTER_GLUED, MAX_KEY)).decode("utf-8", "replace")
    if cursor.context.tools.resolve(name) is None:
        raise NotACall(Rejection.NOT_OFFERED, f"no tool {name!r} is offered")
    yield from cursor.which(_SEPARATORS)
    return (yield from _json_behind(cursor, start, name))


def _bare_name(cursor: Cursor, opener: bytes) -> Parsing[tuple[RawCall, ...]]:
    """Read a call whose markers are gone: the name, and then its arguments.

        read(path="a.py")
        functions.read:0{"path": "a.py"}
        functionread json```json{"path": "a.py"}
    """
    start = cursor.pos
    yield from cursor.expect(opener)
    tail = yield from cursor.until(_AFTER_NAME, _MAX_TAIL)
    if not tail and (yield from begins_arguments(cursor)):
        call = yield from bare_arguments(cursor, opener.decode())
        cursor.evidence.add_span(start, cursor.pos)
        return (yield from rest_of_calls(cursor, (call,)))
    name = opener.decode() + tail.decode().removesuffix("json").strip()
    if name not in cursor.context.tools.names and not name.startswith(_NAMESPACE):
        name = name.removeprefix(_FUNCTION)
    yield from cursor.blanks()
    yield from cursor.which(_SEPARATORS)
    yield from cursor.blanks()
    may_be_fenced = opener.startswith(_FUNCTION.encode())
    if not (yield from _arguments_begin(cursor, may_be_fenced)) or not _TAIL.match(tail):
        raise cursor.refuse("a name alone is no call")
    call = yield from called(cursor, name)
    cursor.evidence.add_span(start, cursor.pos)
    return (yield from rest_of_calls(cursor, (call,)))


def _arguments_begin(cursor: Cursor, may_be_fenced: bool) -> Parsing[bool]:
    """Whether JSON, the tag of a parameter, or a fence if there may be one, stands here; nothing is read."""
    here = yield from cursor.byte()
    if here == b"{":
        return True
    if here == FENCE[:1]:
        return may_be_fenced
    if here != b"<":
        return False
    return (yield from tag_or_none(cursor)).opens((KEY, *PARAMETER_KINDS))


def _json_behind(cursor: Cursor, start: int, name: str) -> Parsing[tuple[RawCall, ...]]:
    if (yield from cursor.byte()) != b"{":
        raise cursor.refuse("the arguments were expected")
    call = yield from called(cursor, name)
    cursor.evidence.add_span(start, cursor.pos)
    return (yield from rest_of_calls(cursor, (call,)))
