"""Calls whose name stands in the header of a message: gpt-oss (harmony, F11), Muse, Beam.

Harmony's recipient may stand in the role or in the channel: `<|start|>assistant to=functions.NAME<|channel|>commentary
json<|message|>{…}<|call|>`. The commentary channel calls; a recipient in another one is none (F11), but for the
analysis channel where the header asks for JSON: `<|channel|>analysis to=functions.NAME <|constrain|>json<|message|>`.

    <|channel|>commentary to=functions.read <|constrain|>json<|message|>{"path": "a.py"}<|call|>
    assistantcommentary to=functions.read json{"path": "a.py"}

The second is what a server leaves that strips special tokens. Muse has no channels; what goes to `self` or to `user` is
no call, whatever it shows.
"""

from __future__ import annotations

import re

from proxy.codec.json_text import dump
from proxy.formats.markers import WRAPPER_KINDS
from proxy.formats.name_then_arguments import called
from proxy.formats.unreadable_calls import readable
from proxy.formats.unwrapped import closed, rest_of_calls
from proxy.formats.wrappers import read_wrapper
from proxy.formats.xml_calls import parameters
from proxy.formats.xml_tags import tag_or_none
from proxy.parsing.cursor import Cursor, Literals, NotACall, Parsing, RawCall
from proxy.tools.toolset import Tool

_MAX_HEADER = 240
_WORDS = re.compile(rb"[<{\r\n]")
_TOKENS = Literals((b"<|start|>", b"<|channel|>", b"<|constrain|>"))
_MESSAGE = (b"<|message|>",)
_HEADER = re.compile(
    r"(?:<\|start\|>)?(?:assistant)?\s*(?:to=(?P<role>[^\s<]+))?\s*"
    r"(?P<channels>(?:<\|channel\|>\s*\w+\s*(?:to=[^\s<]+)?\s*)*)(?P<constrained><\|constrain\|>)?\w*\s*(?P<ends><\|message\|>)?\Z"
)
_RECIPIENT = re.compile(r"to=([^\s<]+)")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")
_FUNCTIONS = "functions."
_COMMENTARY, _ANALYSIS = "commentary", "analysis"
_NO_TOOLS = frozenset(("self", "user", "all", "commentary"))
_MESSAGE_ENDS = (b"<|eom|>", b"<|eot|>", b"<|end|>", b"<|call|>", b"<|return|>", b"<|start|>")
_CALL = (b"<|call|>",)
STRIPPED_HEADERS = (b"assistantcommentary to=", b"commentary to=")


def header(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read the header that stands here, and the call behind it; weak evidence if the message's token is missing."""
    start = cursor.pos
    written = _HEADER.match((yield from _header(cursor)))
    recipient = _RECIPIENT.search(written.group()) if written else None
    if written is None or recipient is None:
        raise cursor.refuse("the message goes to no tool")
    name = recipient.group(1)
    if not _calls(written, name):
        yield from _skip(cursor)
    message = _message(cursor, name, whole_header=written["ends"] is not None)
    calls = yield from readable(cursor, message, strong=True)
    cursor.evidence.add_span(start, cursor.pos)
    return (yield from closed(cursor, calls))


def _message(cursor: Cursor, name: str, *, whole_header: bool) -> Parsing[tuple[RawCall, ...]]:
    """Read the message to a tool: calls in a wrapper, parameters in tags (Muse), or the JSON of its arguments."""
    tool = cursor.tool(name)
    yield from cursor.blanks()
    tag = yield from tag_or_none(cursor)
    if tag.kind in WRAPPER_KINDS:
        return (yield from read_wrapper(cursor))
    if tag.kind == "parameter":
        return (RawCall(tool, name, dump((yield from parameters(cursor, tool)))),)
    if whole_header:
        return ((yield from _json_call(cursor, tool, name, _MESSAGE_ENDS)),)
    call = yield from _json_call(cursor, tool, name, ())
    cursor.evidence.weaken()
    return (call,)


def _calls(written: re.Match[str], name: str) -> bool:
    """Whether a message with this header calls the recipient that it names."""
    channels = set(_CHANNEL.findall(written["channels"]))
    if not channels:
        return name not in _NO_TOOLS
    if not name.startswith(_FUNCTIONS):
        return False
    if channels == {_ANALYSIS}:
        # JSON is asked for where a function is called; what is thought aloud has no such token.
        return written["constrained"] is not None
    return channels == {_COMMENTARY}


def stripped_header(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read a header whose special tokens the server stripped: `commentary to=functions.NAME json{…}` (F11)."""
    start = cursor.pos
    if (yield from cursor.which(STRIPPED_HEADERS)) is None:
        raise NotACall("a header was expected")
    text = yield from _header(cursor)
    name = text.removesuffix("<|message|>").strip().removesuffix("json").removesuffix("<|constrain|>").strip()
    if not name.startswith(_FUNCTIONS):
        raise NotACall("the message goes to no tool")
    call = yield from _json_call(cursor, cursor.tool(name), name, ())
    cursor.evidence.add_span(start, cursor.pos)
    return (yield from rest_of_calls(cursor, (call,)))


def _json_call(cursor: Cursor, tool: Tool, name: str, closers: tuple[bytes, ...]) -> Parsing[RawCall]:
    yield from cursor.blanks()
    if (yield from cursor.peek(_CALL)):
        return RawCall(tool, name, "{}")
    if (yield from cursor.byte()) != b"{":
        raise cursor.refuse("the arguments were expected")
    return (yield from called(cursor, name if tool.name else "", closers=closers))


def _header(cursor: Cursor) -> Parsing[str]:
    """Read up to the message, its token and all if it is there."""
    start, parts = cursor.pos, ""
    while True:
        token = yield from cursor.which(_TOKENS)
        if token is None and (yield from cursor.which(_MESSAGE)):
            return f"{parts}<|message|>"
        words = yield from cursor.until(_WORDS, _MAX_HEADER)
        if not token and not words:
            return parts
        if cursor.pos - start > _MAX_HEADER:
            raise NotACall("no header is that long")
        parts += (token or b"").decode() + words.decode("utf-8", "replace")


def _skip(cursor: Cursor) -> Parsing[None]:
    """Read a message to its end: nothing in it is a call."""
    cursor.reject("the message goes to no tool, or stands in a channel that calls none")
    while not cursor.at_end():
        yield from cursor.until(re.compile(rb"<"))
        if (yield from cursor.peek(_MESSAGE_ENDS)):
            break
        cursor.pos += 1
    raise cursor.rejected()


