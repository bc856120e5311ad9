"""Openers of wrappers behind each other, of which nothing comes: they are passed without a parser for each.

    <tool_call><tools><|python_tag|><tool_code><function_calls><tool_call>…

What a candidate makes of them is known beforehand (`formats/wrappers.py`): one behind four others is nested too deep,
and half a tag, `<` that no `>` ends, is no body. Which opener begins the next candidate depends on where the last one
was refused, so they are counted here as they are there. What is passed ends where a candidate would have been refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from proxy.formats.markers import MARKER_BY_OPENER, MARKER_CLOSERS, WEAK_MARKERS, WRAPPER_TAGS, encoded
from proxy.formats.wrappers import MAX_NESTED, opens_wrapper
from proxy.formats.xml_tags import SEPARATOR, read_tag
from proxy.parsing.buffer import MAX_MATCH, TextBuffer
from proxy.parsing.cursor import MAX_BLANKS
from proxy.parsing.literal_table import branching
from proxy.parsing.markdown import Markdown

_BLANKS = b"[ \\t\\r\\n]{0,%d}+" % MAX_BLANKS
# What no `>` ends. Nothing that a wrapper may hold begins so: of all texts with a `<` in them the `>` comes first.
_NO_END = rb"[^<>\r\n]{0,40}+[<\r\n]"
# So much must have come behind a candidate that no longer text can stand there.
_MORE = b"(?=(?s:.{%d}))" % MAX_MATCH
# Candidates that are passed at once: text that repeats itself is found between them.
_MOST = 16


def opener_runs(openers: Iterable[bytes], firsts: Collection[bytes]) -> re.Pattern[bytes] | None:
    """A pattern of such openers, where these `openers` of all formats count, which begin with the `firsts`; None if no
    wrapper's is among them.
    """
    known = {*openers}
    whole = [opener for opener in _whole_openers() if _stands_alone(opener, known)]
    if not whole:
        return None
    halves = [half for half in _half_tags() if _stands_alone(half, known) and not _holds_any(half[1:], firsts)]
    # What is closed by a bracket ends at one, and is weak evidence where it stands alone.
    inner = {**dict.fromkeys(whole, b""), **dict.fromkeys(encoded(*WEAK_MARKERS), b"(?!%b\\])" % _BLANKS)}
    within = b"(?:%b%b)" % (_BLANKS, branching(inner))
    behind = b"(?:%b{%d}|(?>%b{0,%d})%b(?=<%b))" % (within, MAX_NESTED, within, MAX_NESTED - 1, _BLANKS, _NO_END)
    deep = branching(dict.fromkeys(whole, b"")) + behind
    # It is refused at its beginning, and its other bytes are prose.
    half = b"(?P<half>%b)(?=%b)" % (branching(dict.fromkeys(halves, b"")) if halves else b"(?!)", _NO_END)
    return re.compile(b"(?>(?:(?:%b|%b)%b){1,%d})" % (deep, half, _MORE, _MOST))


@dataclass(frozen=True, slots=True)
class OpenerRun:
    """Openers of which nothing comes: where they end, and whether a candidate was refused there, and not before."""

    end: int
    refused_there: bool


def opener_run(buffer: TextBuffer, runs: re.Pattern[bytes] | None, markdown: Markdown, at: int) -> OpenerRun | None:
    """The openers of which nothing comes that stand here; None if none do, or if they would be told of."""
    if runs is None:
        return None
    found = buffer.token(runs, at)
    if found is None or markdown.in_code or markdown.quoted:
        return None
    return OpenerRun(at + len(found.group()), found.group("half") is None)


def _whole_openers() -> Iterable[bytes]:
    """The openers of wrappers that need nothing behind them."""
    for opener in WRAPPER_TAGS:
        inside = opener.removeprefix(SEPARATOR)
        if inside.endswith(">"):
            found = read_tag(inside[1:-1])
            if found is not None and opens_wrapper(found) and not opener.encode().startswith(MARKER_CLOSERS):
                yield opener.encode()
    yield from (opener for opener in MARKER_BY_OPENER if opener not in encoded(*WEAK_MARKERS))


def _half_tags() -> Iterable[bytes]:
    """The openers that are the beginning of a tag."""
    return (opener.encode() for opener in WRAPPER_TAGS if not opener.endswith(">"))


def _stands_alone(opener: bytes, known: Collection[bytes]) -> bool:
    """Whether it counts, and is not the beginning of another one that does."""
    return [each for each in known if each.startswith(opener)] == [opener]


def _holds_any(text: bytes, firsts: Collection[bytes]) -> bool:
    """Whether one of these bytes stands in a text."""
    return any(first in text for first in firsts)
