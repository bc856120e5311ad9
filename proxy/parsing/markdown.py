"""Where in Markdown a position is: in plain prose, in an inline code span, or in a fenced block.

What a model shows in code is an example, never a call (contract C3, F88). The rules are CommonMark's, as far as they
can be told from the text before a position: a span opens with a run of backticks and closes with a run of the same
length or at the end of its paragraph; a fence is a run of three or more at the start of a line.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(rb"`+|~+|\n|[^`~\n]+")
_MARK = re.compile(rb"[`~\n]")
# What may stand before a block in its line: quotes and list items hold blocks of their own.
_CONTAINERS = re.compile(rb"[ \t]*(?:(?:[-*+>]|[0-9]{1,9}[.)])[ \t]*)*")
_QUOTE = re.compile(rb"[ \t]*(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)*>")
_MIN_FENCE = 3
_MAX_HEAD = 32
# Bytes before a position that are kept.
MAX_BEFORE = 4096
# A closing fence is indented no further than this beyond the opening one.
_MAX_INDENT = 3
_ITEM = re.compile(rb"[ \t]*(?:[-*+]|[0-9]{1,9}[.)])[ \t]+")
_BEFORE_TEXT = b" \t-*+0123456789"
_LEADING = re.compile(rb"[ \t]*")


class Markdown:
    """Fed with the bytes of the text in any cut; says what the next byte is in.

    A code span is followed twice, to the end of its paragraph and to the end of its line: a stray backtick in one line
    must not take the next line's opening one for its own end. What is code either way is code.
    """

    def __init__(self) -> None:
        self.line_start = True
        # The last bytes that were fed, at least so many as anyone asks for.
        self._tail = bytearray()
        # The first bytes of the line, and what they were before a run took their place.
        self._head = b""
        self._before_run = b""
        # Whether indented code may stand in this line, and the column at which the text of the list item begins.
        self._behind_gap = False
        self._item = 0
        self._escaped = False
        # The run of backticks or tildes that stands directly before the next byte.
        self._mark = b""
        self._run = 0
        self._run_escaped = False
        self._run_head: bytes | None = None
        self._span = 0
        self._line_span = 0
        self._fence_mark = b""
        self._fence = 0
        self._fence_indent = 0
        self._fence_ends = False
        self._info = False
        self._blank_line = True

    @property
    def in_code(self) -> bool:
        """True if the next byte is in a code span or in a fenced block.

        A run of backticks that stands directly before the next byte is taken for complete.
        """
        ticks = self._ticks() if self._mark == b"`" and self._run else 0
        if self._fence:
            # A run of backticks behind the info string would make a span of what looked like a fence.
            span = self._info and ticks and self._fence_mark == b"`"
            return not span or ticks != self._fence
        if ticks >= _MIN_FENCE and self._begins_block():
            return True
        if not ticks:
            return bool(self._span or self._line_span)
        return bool(self._toggled(self._span, ticks) or self._toggled(self._line_span, ticks))

    @property
    def quoted(self) -> bool:
        """True if the line is a part of a block quote."""
        return _QUOTE.match(self._head) is not None

    @property
    def indented(self) -> bool:
        """True if the line begins as indented code does."""
        return _indent(self._head) > _MAX_INDENT

    @property
    def indented_code(self) -> bool:
        """True if the line is indented code behind a blank line. What begins the text is none, whatever its indent."""
        return self._indents_code and not self._fence

    @property
    def before(self) -> bytes:
        """The last bytes that were fed, a bounded number of them."""
        return bytes(self._tail[-MAX_BEFORE:])

    def feed(self, data: bytes | bytearray) -> None:
        """Go on over these bytes."""
        self._tail += data[-MAX_BEFORE:]
        if len(self._tail) > 2 * MAX_BEFORE:
            del self._tail[:-MAX_BEFORE]
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
                self._begin_run(token)
            else:
                self._plain(token)

    def _plain(self, token: bytes | bytearray) -> None:
        if not token:
            return
        if len(self._head) < _MAX_HEAD:
            self._head += bytes(token[: _MAX_HEAD - len(self._head)])
        slashes = len(token) - len(token.rstrip(b"\\"))
        odd = slashes % 2 == 1
        self._escaped = odd != self._escaped if slashes == len(token) else odd
        if not token.isspace():
            self.line_start = self._blank_line = self._fence_ends = False

    def _begin_run(self, token: bytes) -> None:
        self._mark, self._run = token[:1], len(token)
        self._run_escaped, self._escaped = self._escaped, False
        self._run_head = self._head if len(self._head) < _MAX_HEAD else None
        self.line_start = self._blank_line = False
        self._before_run = self._before_run or self._head + self._mark
        self._head = b"x" * _MAX_HEAD

    def _begins_block(self) -> bool:
        """True if nothing but the marks of quotes and lists stands before the run in its line."""
        return self._run_head is not None and _CONTAINERS.fullmatch(self._run_head) is not None

    def _ticks(self) -> int:
        """The length of the run; one less if a backslash takes its first backtick away."""
        in_span = self._span or self._line_span
        return self._run - (1 if self._run_escaped and not in_span and not self._fence else 0)

    def _end_line(self) -> None:
        if self._fence_ends:
            self._fence = 0
        if self._blank_line or self._behind_gap or (self._before_run or self._head)[:1] in _BEFORE_TEXT:
            self._end_of_block()
        if self._blank_line:
            self._span = 0
        self._line_span = 0
        self._fence_ends = self._info = self._escaped = False
        self.line_start = self._blank_line = True
        self._head = self._before_run = b""

    def _end_of_block(self) -> None:
        """See whether indented code may follow this line. In a list item all its text is indented."""
        if self._blank_line or self._indents_code:
            self._behind_gap = self._behind_gap or not self._fence
            return
        if not self._fence:
            item = _ITEM.match(self._before_run or self._head)
            if item:
                self._item = len(item.group().expandtabs(4))
            elif self._behind_gap and self._item:
                self._item = min(self._item, self._indentation)
        self._behind_gap = False

    @property
    def _indents_code(self) -> bool:
        """True if the line would be indented code in no fence."""
        return self._behind_gap and self._indentation > self._item + _MAX_INDENT

    @property
    def _indentation(self) -> int:
        """The columns of blanks at the beginning of the line."""
        blanks = _LEADING.match(self._before_run or self._head)
        return _indent(blanks.group()) if blanks else 0

    def _end_run(self) -> None:
        length = self._ticks()
        ticks, block = self._mark == b"`", self._begins_block()
        self._run = 0
        if self._fence and self._info and ticks and self._fence_mark == b"`":
            # An info string holds no backtick: this was a code span that began the line.
            self._span = self._line_span = self._fence
            self._fence = 0
        if self._fence:
            self._fence_ends = block and self._closes(length)
        elif block and length >= _MIN_FENCE:
            self._fence_mark, self._fence, self._info = self._mark, length, True
            self._fence_indent = _indent(self._run_head or b"")
            self._span = self._line_span = 0
        elif ticks and length:
            self._span = self._toggled(self._span, length)
            self._line_span = self._toggled(self._line_span, length)

    def _closes(self, length: int) -> bool:
        """True if the run can end the open fence."""
        head = self._run_head or b""
        alike = self._mark == self._fence_mark and length >= self._fence
        return alike and not head.strip(b" \t>") and _indent(head) <= self._fence_indent + _MAX_INDENT

    @staticmethod
    def _toggled(span: int, length: int) -> int:
        """The open span behind a run: closed by one of its own length, opened where none is."""
        return 0 if span == length else span or length


def _indent(head: bytes) -> int:
    """The columns before the first mark of a line; what stands for a quote or a list item counts as blank."""
    return len(head.expandtabs(4))
