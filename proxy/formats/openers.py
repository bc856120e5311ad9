"""What may begin at a place in a text that is still being written."""

from __future__ import annotations

import re

from proxy.formats.grammar import Format, Grammar
from proxy.formats.markers import encoded
from proxy.formats.quotations import MARKS
from proxy.parsing.buffer import TextBuffer
from proxy.parsing.cursor import MAX_BLANKS
from proxy.parsing.markdown import Markdown

QUOTES = encoded(*MARKS)
_NOT_BLANK = re.compile(rb"[^ \t\r\n]")
_WORD_BYTE = re.compile(rb"[A-Za-z0-9_]")
_NOT_GLUED = (b" ", b"\t", b"`", *QUOTES)


def beginning(buffer: TextBuffer, grammar: Grammar, at: int) -> tuple[Format, ...]:
    """The formats that may begin here."""
    if buffer.end - at >= grammar.longest and not buffer.matches(grammar.openers, at):
        return ()
    return grammar.beginning(buffer.part(at, at + 2))


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
    here = buffer.part(at, end)
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
        return buffer.part(at, at + 1) in item.then
    return False if buffer.ended else None
