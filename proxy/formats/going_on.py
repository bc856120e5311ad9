"""Whether a string of JSON arguments goes on behind the closers of their call.

    {"path": "a", "content": "X = "\\"}}</tool_call>"", "mode": 1}}
    </tool_call>

Where the quotation marks in strings have no backslash, or lines end in strings, marks and brackets do not tell whether
`"}}</tool_call>` is the end of the call or of a text that shows one. Nor do they where a required key is missing, which
may stand behind it. What follows does: the rest of the line has no quotation mark, and, if a key is missing, no other
closer follows without its opener. All other calls wait for nothing.
"""

from __future__ import annotations

import re

from ..events import load_json
from ..reader import Literals, NotACall, Parsing, Reader
from ..shapes import faults
from ..tools import Tool
from .ends import CALL_KINDS, blanks, leftover
from .tags import peek_tag
from .tokens import MARKER_OPENERS, WRAPPER_KINDS
from .values import arguments

TWO_READINGS = "where its last string ends can be read in two ways"
_ENDS_IN_STRING = re.compile(rb"[\"'][\s\]}]*\Z")
_BRACKETS = Literals((b"}", b"]"))
_FENCE = (b"```",)
_SPACES = (b" ", b"\t")
_LINE_ENDS = (b"\r", b"\n")
_NEXT_MESSAGE = (b"<|start|>", b"<|channel|>")
_MAX_CLOSERS = 8


def goes_on(reader: Reader, tool: Tool, value: bytes, closers: tuple[bytes, ...]) -> Parsing[bool]:
    """Whether the text that was read as the arguments, up to here, may be more; nothing is read."""
    if not _ENDS_IN_STRING.search(value):
        return False
    try:
        load_json(value.decode("utf-8", "surrogatepass"))
        legal = True
    except ValueError:
        legal = False
    # The end of a fence stands on a line of its own, where the template writes it.
    in_line = closers == _FENCE and (yield from reader.byte()) not in _LINE_ENDS
    lacks = in_line or _lacks(value, tool, legal)
    if legal and not lacks:
        return False
    return bool((yield from reader.ahead(reader.maybe(_goes_on(reader, lacks, closers)))))


def _goes_on(reader: Reader, lacks: bool, closers: tuple[bytes, ...]) -> Parsing[bool]:
    yield from _past_closers(reader)
    if (yield from _call_begins(reader)):
        return False
    start = reader.pos
    yield from reader.past(b"\n")
    if '"' in reader.text(start, reader.pos):
        return True
    if not reader.enclosures or not lacks:
        return False
    wrapper = reader.enclosures[-1]
    _, found = yield from reader.find(wrapper.opener, *(wrapper.closers if closers == _FENCE else closers))
    return found != wrapper.opener


def _past_closers(reader: Reader) -> Parsing[None]:
    """Read the brackets and the closers that stand here, and the spaces behind them."""
    yield from reader.maybe(blanks(reader))
    while (yield from reader.which(_BRACKETS)):
        yield from reader.maybe(blanks(reader))
    for _ in range(_MAX_CLOSERS):
        if not (yield from reader.maybe(_closer(reader))):
            break
    while (yield from reader.which(_SPACES)):
        pass


def _closer(reader: Reader) -> Parsing[bool]:
    """Read a closer, on this line or another."""
    yield from reader.blanks()
    return bool((yield from reader.which(_FENCE))) or (yield from leftover(reader))


def _call_begins(reader: Reader) -> Parsing[bool]:
    """Whether the next call stands here."""
    if (yield from reader.peek(MARKER_OPENERS)) or (yield from reader.peek(_NEXT_MESSAGE)):
        return True
    if (yield from reader.byte()) not in (b"<", b"]"):
        return False
    found = yield from peek_tag(reader)
    if found is None or found.closing:
        return False
    return found.kind in CALL_KINDS | WRAPPER_KINDS or found.marked


def _lacks(value: bytes, tool: Tool, legal: bool) -> bool:
    """Whether something is missing in the arguments: of legal ones a required key, whatever its spelling."""
    try:
        given = load_json(arguments(value, tool))
    except (NotACall, ValueError):
        return False
    if not isinstance(given, dict):
        return False
    if not legal:
        return faults(given, tool.shape) > 0
    return not tool.required <= {tool.meant(key, ()) for key in given}
