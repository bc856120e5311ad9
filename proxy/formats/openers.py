"""What may begin at a place in a text that is still being written."""

from __future__ import annotations

import re

from proxy.formats.grammar import Format, Grammar
from proxy.formats.markers import encoded
from proxy.formats.quotations import MARKS
from proxy.parsing.buffer import MAX_MATCH, TextBuffer
from proxy.parsing.cursor import MAX_BLANKS
from proxy.parsing.markdown import Markdown

QUOTES = encoded(*MARKS)
_NOT_BLANK = re.compile(rb"[^ \t\r\n]")
_WORD_BYTE = re.compile(rb"[A-Za-z0-9_]")
_BACKTICKS, _NOT_BACKTICK = b"``", re.compile(b"[^`]")
_NOT_GLUED = (b" ", b"\t", b"`", *QUOTES)


def beginning(buffer: TextBuffer, grammar: Grammar, at: int) -> tuple[Format, ...]:
    """The formats that may begin here."""
    here = buffer.beginning(grammar.longest, at, 1)
    if here is None:
        return ()
    match = grammar.openers.match(here)
    if match is not None and len(here) == grammar.longest[here[0]]:
        return grammar.standing[match.group()]
    if match is None and here not in grammar.prefixes:
        return ()
    return grammar.beginning(here[:2])


def looked_for(buffer: TextBuffer, grammar: Grammar, at: int) -> int:
    """How far was looked at to find that something may begin here, and nothing did before: to the end of an opener that
    begins here, or began before and may not have ended here, and the byte behind it.
    """
    before = buffer.slice(at - MAX_MATCH, at)
    halves = [before[start:] for start in range(len(before)) if before[start:] in grammar.prefixes]
    here = grammar.longest.get(buffer.slice(at, at + 1)[0], 1)
    return at + 1 + max([here, *(grammar.longest[half[0]] - len(half) for half in halves)])


def nothing_begins(buffer: TextBuffer, at: int) -> bytes:
    """What is passed where no format begins: a byte, or the whole of a run of backticks."""
    passed = buffer.slice(at, at + 2)
    if passed != _BACKTICKS:
        return passed[:1]
    # Behind the first of a run none is the first thing of its line.
    return buffer.slice(at, buffer.search(_NOT_BACKTICK, at))


def may_follow(buffer: TextBuffer, item: Format, at: int) -> bool:
    """Whether a format may stand behind the byte that is before it."""
    if item.apart and _WORD_BYTE.match(buffer.near(at)[-1:]):
        return False
    return not item.glued or not buffer.behind(at, _NOT_GLUED)


def may_stand(buffer: TextBuffer, markdown: Markdown, item: Format, at: int) -> bool:
    """Whether a format may begin at such a place: in such a line, behind such a byte."""
    if item.line_start and not markdown.begins_line:
        return False
    return may_follow(buffer, item, at)


def begins_here(buffer: TextBuffer, item: Format, at: int) -> bool | None:
    """Whether the opener of a format stands here, and what can follow it; None if more text must tell."""
    end = at + len(item.opener)
    here = buffer.slice(at, end)
    if here == item.opener:
        return _follows(buffer, item, end)
    if buffer.ended:
        return False
    return None if item.opener.startswith(here) else False


def _follows(buffer: TextBuffer, item: Format, end: int) -> bool | None:
    """Whether what stands behind the opener can follow it; None while nothing but blanks does."""
    if not item.then:
        return True
    at = buffer.search(_NOT_BLANK, end)
    if at - end > MAX_BLANKS:
        return False
    if at < buffer.end:
        return buffer.slice(at, at + 1) in item.then
    return False if buffer.ended else None
