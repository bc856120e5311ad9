"""Report on a text: its calls, and why the rest is not a call."""

from __future__ import annotations

from collections.abc import Iterator

from proxy.codec.json_text import dump
from proxy.notations.front import Reader
from proxy.notations.source import Rejection
from proxy.tools.toolset import ToolSet

_SHOWN = 60
# Reasons of structured calls; those of text are in `Rejection`.
_STRUCTURED = {
    "no_name": "a structured call that can be told by nothing; it went out as text",
    "unreadable_arguments": "a structured call whose arguments are no object; it went out as text",
    "half_call": "a structured call that had begun at the client and could not be finished",
}


def reasons() -> dict[str, str]:
    """Return the sentence for each reason by which rejected calls are counted."""
    return {**{rejection.label: rejection.sentence for rejection in Rejection}, **_STRUCTURED}


def printable(text: str, keep: str = "") -> str:
    """Return `text` with control, format and lone surrogate characters escaped, except those in `keep`."""
    return "".join(
        sign if sign.isprintable() or sign in keep else sign.encode("unicode_escape").decode("ascii") for sign in text
    )


def explained(text: str, tools: ToolSet, *, stopped: bool, off: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield lines about a text: its calls and the rows that read them, rejected text, and the content that is left.

    `off` names the rows that read nothing.
    """
    reader = Reader(tools, off=off)
    pieces = (*reader.feed(text), *reader.finish(stopped=stopped))
    number, start, content = 0, 0, ""
    for piece in pieces:
        for call in piece.calls or ():
            number += 1
            written = "" if call.written == call.name else f", written {call.written!r}"
            evidence = "weak" if call.weak else "strong"
            yield f"call {number}: {call.name}{written} ({evidence} evidence, {piece.row}, {_line(text, start)})"
            yield f"  {dump(call.arguments)}"
        content += piece.text if piece.is_prose else ""
        start += len(piece.text)
    if not number:
        yield "no call"
    yield from _rejected(reader, text)
    if not content:
        yield "no content"
        return
    yield "content:"
    yield content


def written_calls(text: str, tools: ToolSet, *, stopped: bool) -> Iterator[str]:
    """Yield the source text of each call in a text."""
    reader = Reader(tools)
    pieces = (*reader.feed(text), *reader.finish(stopped=stopped))
    for piece in pieces:
        yield from (piece.text.strip() for _ in piece.calls or ())


def rejected(text: str, tools: ToolSet, *, stopped: bool, off: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield one line for each place of a text that looked like a call and was rejected."""
    reader = Reader(tools, off=off)
    reader.feed(text)
    reader.finish(stopped=stopped)
    yield from _rejected(reader, text)


def _rejected(reader: Reader, text: str) -> Iterator[str]:
    for refused in sorted(set(reader.refused), key=lambda each: each.start):
        shown = text[refused.start : refused.start + _SHOWN].split("\n", maxsplit=1)[0]
        yield f"refused at {_line(text, refused.start)}: {shown!r}, read by {refused.row}: {refused.why}"


def _line(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1}"
