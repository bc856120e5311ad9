"""Comments in a YAML text, which its nodes know nothing of; and the dashes of lists, likewise."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

_LINE_ENDS = "\r\n\x85\u2028\u2029"
_COMMENT = re.compile(f"#[^{_LINE_ENDS}]*")
_LINE = re.compile(f"[^{_LINE_ENDS}]*")


def comments_in(text: str, start: int, end: int) -> list[str]:
    """The comments that begin between two places, without the blanks behind them."""
    found = []
    for gap in _gaps(text):
        comments = _COMMENT.finditer(text, gap.start, gap.stop)
        found += [comment[0].rstrip() for comment in comments if start <= comment.start() < end]
    return found


def dash_before(text: str, item: int) -> int:
    """Where the dash of a block list's item is, which begins at `item`."""
    dashes = (int(token.start_mark.index) for token in _tokens(text) if isinstance(token, yaml.BlockEntryToken))
    return max(dash for dash in dashes if dash < item)


def _gaps(text: str) -> Iterator[slice]:
    """The parts of a text between words: there a `#` begins a comment."""
    at = 0
    for token in _tokens(text):
        if isinstance(token, yaml.ScalarToken):  # nothing else can hold a `#`
            yield slice(at, token.start_mark.index)
            at = token.end_mark.index
            if token.style in ("|", ">"):
                # `|  # a comment` is the first line of a block of text.
                yield slice(token.start_mark.index, _line_end(text, token.start_mark.index))
    yield slice(at, len(text))


def _line_end(text: str, at: int) -> int:
    match = _LINE.match(text, at)
    return at if match is None else match.end()


def _tokens(text: str) -> Iterator[yaml.Token]:
    return iter(yaml.scan(text, Loader=yaml.SafeLoader))
