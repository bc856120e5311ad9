"""Where in Markdown a position is: in plain prose, in an inline code span, or in a fenced block.

What a model shows in code is an example, never a call (contract C3, F88). The rules are CommonMark's, as far as they
can be told from the text before a position: a span opens with a run of backticks and closes with a run of the same
length or at the end of its paragraph; a fence is a run of three or more at the start of a line.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(rb"`+|~+|\n|[^`~\n]+")
_MARK = re.compile(rb"[`~\n]")
_MIN_FENCE = 3


class Markdown:
    """Fed with the bytes of the text in any cut; says what the next byte is in."""

    def __init__(self) -> None:
        self.line_start = True
        # The run of backticks or tildes that stands directly before the next byte.
        self._mark = b""
        self._run = 0
        self._run_at_start = False
        self._span = 0
        self._fence_mark = b""
        self._fence = 0
        self._fence_ends = False
        self._info = False
        self._blank_line = True

    @property
    def in_code(self) -> bool:
        """True if the next byte is in a code span or in a fenced block.

        A run of backticks that stands directly before the next byte is taken for complete.
        """
        ticks = self._run if self._mark == b"`" else 0
        if self._fence:
            # A run of backticks behind the info string would make a span of what looked like a fence.
            span = self._info and ticks and self._fence_mark == b"`"
            return not span or ticks != self._fence
        if self._run_at_start and ticks >= _MIN_FENCE:
            return True
        return (ticks != self._span) if ticks else bool(self._span)

    def feed(self, data: bytes | bytearray) -> None:
        """Go on over these bytes."""
        if not self._run and not _MARK.search(data):
            self._plain(data)
            return
        for match in _TOKEN.finditer(data):
            token = match.group()
            if self._run and token[:1] == self._mark:
                self._run += len(token)
                continue
            if self._run:
                self._end_run()
            if token == b"\n":
                self._end_line()
            elif token[:1] in b"`~":
                self._mark, self._run = token[:1], len(token)
                self._run_at_start = self.line_start
                self.line_start = self._blank_line = False
            else:
                self._plain(token)

    def _plain(self, token: bytes | bytearray) -> None:
        if token and not token.isspace():
            self.line_start = self._blank_line = self._fence_ends = False

    def _end_line(self) -> None:
        if self._fence_ends:
            self._fence = 0
        if self._blank_line:
            self._span = 0
        self._fence_ends = self._info = False
        self.line_start = self._blank_line = True

    def _end_run(self) -> None:
        length, self._run = self._run, 0
        ticks = self._mark == b"`"
        fence = self._run_at_start and length >= _MIN_FENCE
        if self._fence and self._info and ticks and self._fence_mark == b"`":
            # An info string holds no backtick: this was a code span that began the line.
            self._span, self._fence = self._fence, 0
        if self._fence:
            self._fence_ends = fence and self._mark == self._fence_mark and length >= self._fence
        elif fence:
            self._fence_mark, self._fence, self._info, self._span = self._mark, length, True, 0
        elif ticks:
            self._span = 0 if self._span == length else self._span or length
