"""Calls whose name stands in the header of a message: gpt-oss (harmony, F11), Muse, Beam.

Harmony's recipient may stand in the role or in the channel: `<|start|>assistant to=functions.NAME<|channel|>commentary
json<|message|>{…}<|call|>`. The commentary channel calls; a recipient in another one is none (F11), but for the
analysis channel where the header asks for JSON: `<|channel|>analysis to=functions.NAME <|constrain|>json<|message|>`.
Muse has no channels; what goes to `self` or to `user` is no call, whatever it shows.
"""

from __future__ import annotations

import re

from ..literals import dump
from ..reader import Literals, NotACall, Parsing, RawCall, Reader
from ..tools import Tool
from .bodies import element
from .named import called
from .row import closed, rest_of_row
from .tagged import parameters
from .tags import peek_tag
from .tokens import WRAPPER_KINDS

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


def header(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read the header that stands here, and the call behind it; weak evidence if the message's token is missing."""
    start = reader.pos
    written = _HEADER.match((yield from _header(reader)))
    recipient = _RECIPIENT.search(written.group()) if written else None
    if written is None or recipient is None:
        raise reader.refuse("the message goes to no tool")
    name = recipient.group(1)
    if not _calls(written, name):
        yield from _skip(reader)
    tool = reader.tool(name)
    yield from reader.blanks()
    found = yield from peek_tag(reader)
    if found is not None and found.kind in WRAPPER_KINDS:
        calls = yield from element(reader)
    elif found is not None and found.kind == "parameter":
        calls = (RawCall(tool, name, dump((yield from parameters(reader, tool)))),)
    else:
        closers = _MESSAGE_ENDS if written["ends"] else ()
        calls = ((yield from _json_call(reader, tool, name, closers)),)
        reader.weak = reader.weak or not written["ends"]
    reader.spans.append((start, reader.pos))
    return (yield from closed(reader, calls))


def _calls(written: re.Match[str], name: str) -> bool:
    """Whether a message with this header calls the recipient that it names."""
    channels = set(_CHANNEL.findall(written["channels"]))
    if not channels:
        return name not in _NO_TOOLS
    if not name.startswith(_FUNCTIONS):
        return False
    # JSON is asked for where a function is called; what is thought aloud has no such token.
    return channels == {_COMMENTARY} or (channels == {_ANALYSIS} and written["constrained"] is not None)


def stripped_header(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read a header whose special tokens the server stripped: `commentary to=functions.NAME json{…}` (F11)."""
    start = reader.pos
    if (yield from reader.which(STRIPPED_HEADERS)) is None:
        raise NotACall("a header was expected")
    text = yield from _header(reader)
    name = text.removesuffix("<|message|>").strip().removesuffix("json").removesuffix("<|constrain|>").strip()
    if not name.startswith(_FUNCTIONS):
        raise NotACall("the message goes to no tool")
    call = yield from _json_call(reader, reader.tool(name), name, ())
    reader.spans.append((start, reader.pos))
    return (yield from rest_of_row(reader, (call,)))


def _json_call(reader: Reader, tool: Tool, name: str, closers: tuple[bytes, ...]) -> Parsing[RawCall]:
    yield from reader.blanks()
    if (yield from reader.peek(_CALL)):
        return RawCall(tool, name, "{}")
    if (yield from reader.byte()) != b"{":
        raise reader.refuse("the arguments were expected")
    return (yield from called(reader, name if tool.name else "", closers=closers))


def _header(reader: Reader) -> Parsing[str]:
    """Read up to the message, its token and all if it is there."""
    start, parts = reader.pos, ""
    while True:
        token = yield from reader.which(_TOKENS)
        if token is None and (yield from reader.which(_MESSAGE)):
            return f"{parts}<|message|>"
        words = yield from reader.until(_WORDS, _MAX_HEADER)
        if not token and not words:
            return parts
        if reader.pos - start > _MAX_HEADER:
            raise NotACall("no header is that long")
        parts += (token or b"").decode() + words.decode("utf-8", "replace")


def _skip(reader: Reader) -> Parsing[None]:
    """Read a message to its end: nothing in it is a call."""
    reader.annul(why="the message goes to no tool, or stands in a channel that calls none")
    while not reader.at_end():
        yield from reader.until(re.compile(rb"<"))
        if (yield from reader.peek(_MESSAGE_ENDS)):
            break
        reader.pos += 1
    raise NotACall(reader.why)


