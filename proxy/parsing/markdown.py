"""Where in Markdown a position is: in plain prose, in an inline code span, or in a fenced block.

What a model shows in code is an example, never a call (contract C3, F88). The rules are CommonMark's, as far as they
can be told from the text before a position: a span opens with a run of backticks and closes with a run of the same
length or at the end of its paragraph; a fence is a run of three or more at the start of a line.

    A call looks like this:

    ```json
    {"name": "read", "arguments": {"path": "a"}}
    ```

    and `<tool_call>` begins one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from proxy.transitions import next_state

_TOKEN = re.compile(rb"`++|~++|\n++[^`~\n]*+|[^`~\n]++")
_MARK = re.compile(rb"[`~\n]")
# What may stand before a block in its line: quotes and list items hold blocks of their own.
_CONTAINERS = re.compile(rb"[ \t]*(?:(?:[-*+>]|[0-9]{1,9}[.)])[ \t]*)*")
_QUOTE = re.compile(rb"[ \t]*(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)*>")
_MIN_FENCE = 3
_MAX_HEAD = 32
# Bytes before a position that are kept.
MAX_BEFORE = 4096
# In bytes of this length it is worth to look whether they repeat themselves: by so many at their end.
_LONG, _END = 512, 32
# How often a piece is gone over to see that it changes nothing any more.
_MOST_STATES = 8
# A closing fence is indented no further than this beyond the opening one.
_MAX_INDENT = 3
_ITEM = re.compile(rb"[ \t]*(?:[-*+]|[0-9]{1,9}[.)])[ \t]+")
_BEFORE_TEXT = b" \t-*+0123456789"
_LEADING = re.compile(rb"[ \t]*")


class Fence(Enum):
    """Where in a fenced block the next byte is."""

    # In none.
    NONE = auto()
    # In the line that opens it, behind the run: ```python
    INFO = auto()
    # Behind that line.
    INSIDE = auto()
    # Behind a run that closes it, as long as nothing but blanks follows in its line.
    CLOSING = auto()


class FenceStep(Enum):
    """What comes of a fenced block."""

    # The run that opens it.
    OPEN = auto()
    # A backtick in its info string: it was a code span that begins the line.
    REVOKE = auto()
    # A run that may close it.
    CLOSE = auto()
    # Another run, or text behind the one that may close it.
    SAY = auto()
    # The end of the line that opens it, or closes it.
    END_LINE = auto()


FENCES: dict[Fence, dict[FenceStep, Fence]] = {
    Fence.NONE: {
        FenceStep.OPEN: Fence.INFO,
    },
    Fence.INFO: {
        FenceStep.REVOKE: Fence.NONE,
        FenceStep.END_LINE: Fence.INSIDE,
    },
    Fence.INSIDE: {
        FenceStep.CLOSE: Fence.CLOSING,
        FenceStep.SAY: Fence.INSIDE,
    },
    Fence.CLOSING: {
        FenceStep.CLOSE: Fence.CLOSING,
        FenceStep.SAY: Fence.INSIDE,
        FenceStep.END_LINE: Fence.NONE,
    },
}
# Asked for with every chunk of prose: a global name is found faster than a member of an enum.
_NONE, _INFO, _CLOSING = Fence.NONE, Fence.INFO, Fence.CLOSING


@dataclass(slots=True)
class _Run:
    """A run of backticks or tildes that stands directly before the next byte, which may be one more of them.

    `escaped` if a backslash stands before it; `head` is its line up to it, None if that is long.
    """

    mark: bytes
    length: int
    escaped: bool
    head: bytes | None

    @property
    def begins_block(self) -> bool:
        """True if nothing but the marks of quotes and lists stands before the run in its line."""
        if self.head is None:
            return False
        return _CONTAINERS.fullmatch(self.head) is not None


class Markdown:
    """Fed with the bytes of the text in any cut; says what the next byte is in.

    A code span is followed twice, to the end of its paragraph and to the end of its line: a stray backtick in one line
    must not take the next line's opening one for its own end. What is code either way is code.
    """

    def __init__(self) -> None:
        # True while the line is blank so far.
        self.line_start = True
        # The last bytes that were fed, at least so many as anyone asks for.
        self._tail = bytearray()
        # The first bytes of the line, and what they were before a run took their place.
        self._head = b""
        self._before_run = b""
        # Whether indented code may stand in this line, and the column at which the text of the list item begins.
        self._behind_gap = False
        self._item = 0
        # Whether a backslash stands directly before the next byte and takes its meaning away.
        self._escaped = False
        self._run: _Run | None = None
        # The lengths of the runs that opened the span that goes on, 0 if none does: one that ends with its paragraph,
        # and one that ends with its line.
        self._span = 0
        self._line_span = 0
        # The block that is open, and the run that opened it: its mark, its length, and its column.
        self._fence = _NONE
        self._fence_mark = b""
        self._fence_length = 0
        self._fence_indent = 0

    def _move(self, step: FenceStep) -> None:
        self._fence = next_state(FENCES, self._fence, step)

    @property
    def in_code(self) -> bool:
        """True if the next byte is in a code span or in a fenced block.

        A run of backticks that stands directly before the next byte is taken for complete.
        """
        run = self._run
        if run is None or run.mark != b"`":
            if self._fenced:
                return True
            return self._in_span
        length = self._length(run)
        if self._fenced:
            # A run of backticks behind the info string makes a span of what looked like a fence.
            if not self._ends_info(run):
                return True
            return length != self._fence_length
        if length >= _MIN_FENCE and run.begins_block:
            return True
        return max(_toggled(self._span, length), _toggled(self._line_span, length)) > 0

    @property
    def _fenced(self) -> bool:
        """True in a fenced block, the lines of its runs included."""
        return self._fence is not _NONE

    @property
    def _in_span(self) -> bool:
        return max(self._span, self._line_span) > 0

    @property
    def quoted(self) -> bool:
        """True if the line is a part of a block quote."""
        return _QUOTE.match(self._head) is not None

    @property
    def begins_line(self) -> bool:
        """True if what comes next is the first thing of a line that is no indented code."""
        return self.line_start and not self.indented

    @property
    def indented(self) -> bool:
        """True if the line begins as indented code does."""
        return _indent(self._head) > _MAX_INDENT

    @property
    def indented_code(self) -> bool:
        """True if the line is indented code behind a blank line. What begins the text is none, whatever its indent."""
        if self._fenced:
            return False
        return self._indents_code

    @property
    def before(self) -> bytes:
        """The last bytes that were fed, a bounded number of them."""
        return bytes(self._tail[-MAX_BEFORE:])

    @property
    def state(self) -> object:
        """All that is known but the last bytes: where it is the same, the same follows from the same text."""
        run = self._run
        return (
            run and (run.mark, run.length, run.escaped, run.head),
            *(self.line_start, self._head, self._before_run, self._behind_gap, self._item, self._escaped),
            *(self._span, self._line_span),
            *(self._fence, self._fence_mark, self._fence_length, self._fence_indent),
        )

    def pass_repeated(self, data: bytes | bytearray) -> None:
        """Go on over bytes that lead to the state that is: the last of them are kept, and no more."""
        self._tail += data[-MAX_BEFORE:]
        if len(self._tail) > 2 * MAX_BEFORE:
            del self._tail[:-MAX_BEFORE]

    def feed(self, data: bytes | bytearray) -> None:
        """Go on over these bytes."""
        if len(data) >= _LONG:
            data = self._past_repeats(data)
        self._tail += data[-MAX_BEFORE:]
        if len(self._tail) > 2 * MAX_BEFORE:
            del self._tail[:-MAX_BEFORE]
        if self._run is None and not _MARK.search(data):
            self._plain(data)
            return
        for match in _TOKEN.finditer(data):
            token = match.group()
            if self._run is not None:
                if token[:1] == self._run.mark:
                    self._run.length += len(token)
                    continue
                self._end_run(self._run)
            if token[:1] == b"\n":
                self._end_line()
                if len(token) > 1:
                    self._begin_line(token)
            elif token[:1] in b"`~":
                self._begin_run(token)
            else:
                self._plain(token)

    def _past_repeats(self, data: bytes | bytearray) -> bytes | bytearray:
        """Go on over bytes that are one piece, again and again, up to where they change nothing any more; what is left.

        All that repeats itself behind that is passed.
        """
        length = _period(data)
        states: list[object] = []
        at = 0
        while length and len(states) < _MOST_STATES:
            if self.state in states:
                cycle = (len(states) - states.index(self.state)) * length
                end = at + (len(data) - at) // cycle * cycle
                self.pass_repeated(data[at:end])
                return data[end:]
            states.append(self.state)
            self.feed(data[at : at + length])
            at += length
        return data[at:]

    def _begin_line(self, token: bytes) -> None:
        """Take what stands behind a line end: more of them, and the beginning of a line."""
        rest = token.lstrip(b"\n")
        if len(token) - len(rest) > 1:
            # A second blank line, and each one behind it, says no more than the first.
            self._end_line()
        self._plain(rest)

    def _plain(self, token: bytes | bytearray) -> None:
        if not token:
            return
        if len(self._head) < _MAX_HEAD:
            self._head += bytes(token[: _MAX_HEAD - len(self._head)])
        slashes = len(token) - len(token.rstrip(b"\\"))
        odd = slashes % 2 == 1
        if slashes == len(token):
            # Nothing but backslashes: they go on what stood before.
            self._escaped = odd != self._escaped
        else:
            self._escaped = odd
        if not token.isspace():
            self.line_start = False
            if self._fence is _CLOSING:
                self._move(FenceStep.SAY)

    def _begin_run(self, token: bytes) -> None:
        head = self._head if len(self._head) < _MAX_HEAD else None
        self._run = _Run(token[:1], len(token), self._escaped, head)
        self._escaped = self.line_start = False
        if not self._before_run:
            self._before_run = self._head + token[:1]
        self._head = b"x" * _MAX_HEAD

    def _end_run(self, run: _Run) -> None:
        self._run = None
        length = self._length(run)
        if self._ends_info(run):
            # An info string holds no backtick: this was a code span that began the line.
            self._span = self._line_span = self._fence_length
            self._move(FenceStep.REVOKE)
        if self._fence is _INFO:
            return
        if self._fenced:
            self._move(FenceStep.CLOSE if self._closes(run, length) else FenceStep.SAY)
        elif length >= _MIN_FENCE and run.begins_block:
            self._open_fence(run, length)
        elif run.mark == b"`" and length:
            self._span = _toggled(self._span, length)
            self._line_span = _toggled(self._line_span, length)

    def _open_fence(self, run: _Run, length: int) -> None:
        self._move(FenceStep.OPEN)
        self._fence_mark, self._fence_length = run.mark, length
        self._fence_indent = _indent(run.head or b"")
        self._span = self._line_span = 0

    def _closes(self, run: _Run, length: int) -> bool:
        """True if a run can end the open fence: alike, as long, and not indented much further than the opening one."""
        if run.mark != self._fence_mark:
            return False
        if length < self._fence_length:
            return False
        if run.head is None or run.head.strip(b" \t>"):
            return False
        return _indent(run.head) <= self._fence_indent + _MAX_INDENT

    def _ends_info(self, run: _Run) -> bool:
        """True for backticks in the info string of a fence of backticks."""
        if self._fence is not _INFO:
            return False
        return run.mark == b"`" == self._fence_mark

    def _length(self, run: _Run) -> int:
        """The length of a run; one less if a backslash takes its first mark away, which it does not in code."""
        if not run.escaped:
            return run.length
        if self._in_span or self._fenced:
            return run.length
        return run.length - 1

    def _end_line(self) -> None:
        if self._fence is _INFO or self._fence is _CLOSING:
            self._move(FenceStep.END_LINE)
        if self.line_start:
            if self._fence is _NONE:
                self._behind_gap = True
            self._span = 0
        elif self._behind_gap or self._line[:1] in _BEFORE_TEXT:
            self._end_of_block()
        self._line_span = 0
        self._escaped = False
        self.line_start = True
        self._head = self._before_run = b""

    def _end_of_block(self) -> None:
        """See whether indented code may follow this line of text. In a list item all its text is indented."""
        if self._indents_code:
            self._behind_gap |= not self._fenced
            return
        if not self._fenced:
            item = _ITEM.match(self._line)
            if item is not None:
                self._item = len(item.group().expandtabs(4))
            elif self._behind_gap:
                # Text of the item, or of none any more, that stands further to the left.
                self._item = min(self._item, self._indentation)
        self._behind_gap = False

    @property
    def _indents_code(self) -> bool:
        """True if the line would be indented code in no fence."""
        if not self._behind_gap:
            return False
        return self._indentation > self._item + _MAX_INDENT

    @property
    def _line(self) -> bytes:
        """How the line begins."""
        return self._before_run or self._head

    @property
    def _indentation(self) -> int:
        """The columns of blanks at the beginning of the line."""
        blanks = _LEADING.match(self._line)
        return _indent(blanks.group()) if blanks else 0


def _period(data: bytes | bytearray) -> int:
    """The length of the piece that these bytes are, again and again, a part of it at the end; 0 if they are none."""
    before = data.rfind(data[-_END:], 0, -1)
    length = len(data) - _END - before
    if before < 0 or length * _MOST_STATES > len(data):
        return 0
    return length if data.startswith(data[length:]) else 0


def _toggled(span: int, length: int) -> int:
    """The open span behind a run: closed by one of its own length, opened where none is."""
    if span == 0:
        return length
    return 0 if span == length else span


def _indent(head: bytes) -> int:
    """The columns before the first mark of a line; what stands for a quote or a list item counts as blank."""
    return len(head.expandtabs(4))
