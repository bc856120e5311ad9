"""What a text consists of: prose and calls; and a parser at work on what may be one.

    Look: <tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>

is `TextSpan(0, 6)` and `CallSpan(6, 73, (RawCall(read, …),), "<tool_call>")`; were `read` not offered, it would be text
and a `RejectedSpan(6, …, "<tool_call>", "no tool 'read' is offered")` for those who ask why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from proxy.formats.grammar import Format, Grammar
from proxy.formats.openers import QUOTES, beginning
from proxy.formats.quotations import MAX_BEHIND, Quotation, blanks_behind, quotation
from proxy.formats.thought_marks import ThoughtMark
from proxy.formats.unreadable_calls import readable
from proxy.formats.unwrapped import rest_of_calls
from proxy.parsing.buffer import TextBuffer
from proxy.parsing.cursor import Context, Cursor, Evidence, KeptText, NotACall, Parsing, RawCall, Rejection
from proxy.parsing.markdown import Markdown
from proxy.tools.toolset import ToolSet


@dataclass(frozen=True, slots=True)
class TextSpan:
    """The text between two byte offsets of the reply is no call."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class CallSpan:
    """The text between two byte offsets is these calls; none for blanks and tokens that are dropped.

    `weak` if they were taken because the reply ended with them (contract C3).
    """

    start: int
    end: int
    calls: tuple[RawCall, ...]
    format: str
    weak: bool = False


Piece: TypeAlias = TextSpan | CallSpan | ThoughtMark


def parted(found: CallSpan, kept_text: Iterable[KeptText]) -> Iterator[TextSpan | CallSpan]:
    """What was found, without what in it stays text."""
    start, taken = found.start, 0
    for kept in kept_text:
        # Some of it may have been let go before.
        begin, end, before = max(kept.start, start), max(kept.end, start), kept.calls_before
        if begin > start or before > taken:
            yield replace(found, start=start, end=begin, calls=found.calls[taken:before])
        yield TextSpan(begin, end)
        start, taken = end, before
    if start < found.end or taken < len(found.calls) or not taken:
        yield replace(found, start=start, calls=found.calls[taken:])


@dataclass(frozen=True, slots=True)
class RejectedSpan:
    """What began like a call at a byte offset and was none, and why."""

    start: int
    end: int
    format: str
    why: str


class QuotationBefore:
    """The quotations that are open where the text ends that Markdown was followed in; `found` once it was looked."""

    __slots__ = ("_markdown", "found")

    def __init__(self, markdown: Markdown) -> None:
        self._markdown = markdown
        self.found: Quotation | None = None

    @property
    def quotation(self) -> Quotation:
        """What was found, or is now."""
        if self.found is None:
            self.found = quotation(self._markdown.before.decode("utf-8", "replace"))
        return self.found

    def is_open(self) -> bool:
        """Whether there is one."""
        return bool(self.quotation)


class Candidate:
    """A parser at work on a span that may become calls.

    `start` is where it begins, `seen` up to where the Markdown around it was followed; `calls` what was read, once it
    is complete, `before` the quotations that are open before it, and `decided` whether what stands behind it does not
    matter any more.

    Nothing in it refers to it: its text, which may be long, is given back as soon as the candidate is.
    """

    def __init__(
        self,
        item: Format,
        buffer: TextBuffer,
        start: int,
        tools: ToolSet,
        markdown: Markdown,
        *,
        may_go_back: bool = True,
    ) -> None:
        self.item = item
        self.start = self.seen = start
        self.before = QuotationBefore(markdown)
        context = Context(tools, may_go_back=may_go_back, in_quotation=self.before.is_open)
        self.cursor = Cursor(buffer, start, context)
        self.calls: tuple[RawCall, ...] | None = None
        self.decided = False
        self._buffer, self._markdown = buffer, markdown
        self._next: Candidate | None = None
        self._parsing: Parsing[tuple[RawCall, ...]] = readable(self.cursor, item.parse(self.cursor))

    @property
    def evidence(self) -> Evidence:
        """What its parser saw."""
        return self.cursor.evidence

    @property
    def format(self) -> str:
        """The name of its format."""
        return self.evidence.format or self.item.name

    @property
    def confident(self) -> bool:
        """True while it has named an offered tool, and may become a call."""
        return self.evidence.named and not self.cursor.void

    @property
    def in_string(self) -> bool:
        """True while it reads a string of a call that has named its tool: what only goes on that decides nothing."""
        return self.confident and self.cursor.in_string

    @property
    def looks_like_a_call(self) -> bool:
        """True if it began with an opener, or something in it did; the first thing of a reply may be anything."""
        if self.item.opener:
            return True
        if self.evidence.named:
            return True
        return self.evidence.format != ""

    def only_last(self) -> None:
        """Let the calls count only if the reply ends with them: they stand where code would."""
        self._parsing = _only_last(self.cursor, self._parsing)

    def go_on(self) -> tuple[RawCall, ...] | None:
        """The calls, or None while more text is needed; NotACall if it is none."""
        if self.calls is None:
            try:
                next(self._parsing)
            except StopIteration as done:
                self.calls = done.value
        return self.calls

    def is_quoted(self, limit: int, grammar: Grammar) -> bool | None:
        """Whether the calls that were read stand in a quotation that ends behind them; None while more text must tell.

        `grammar` says what may begin there: one quotation may show several calls.
        """
        if not self._is_undecided:
            return False
        if self.evidence.weak:
            return self._is_quoted_at_the_end
        around = self.before.quotation
        while around:
            joined = self._join_next(limit)
            if not joined:
                return joined
            behind = self._buffer.slice(self.cursor.pos, self.cursor.pos + MAX_BEHIND)
            complete = self._buffer.ended or len(behind) == MAX_BEHIND
            ends = around.ends(behind.decode("utf-8", "replace"), complete=complete)
            if ends is not False:
                return ends
            at = self.cursor.pos + blanks_behind(behind)
            begins = self._begin_next(at, beginning(self._buffer, grammar, at))
            if not begins:
                return begins
        return False

    @property
    def _is_undecided(self) -> bool:
        """Whether there are calls, and what stands around them may still take them away."""
        if self.decided:
            return False
        if self.cursor.void:
            return False
        return bool(self.calls)

    @property
    def _is_quoted_at_the_end(self) -> bool:
        """The same where nothing follows: the mark that would end the quotation never came."""
        if not self.item.strong:
            return False
        return self._buffer.behind(self.start, QUOTES)

    def _begin_next(self, at: int, formats: Iterable[Format]) -> bool | None:
        """Whether another wrapper begins at a position behind the calls: it counts together with them."""
        for item in formats:
            if not item.strong:
                continue
            here = self._buffer.slice(at, at + len(item.opener))
            if here == item.opener:
                self._next = Candidate(item, self._buffer, at, self.cursor.context.tools, self._markdown)
                self._next.before.found = self.before.found
                return True
            if item.opener.startswith(here) and not self._buffer.ended:
                return None
        return False

    def _join_next(self, limit: int) -> bool | None:
        """Take the call behind these along, if there is one; None while more text is needed. What is none, or may be
        weak, or ends beyond the limit of bytes is left for itself.
        """
        if self._next is None:
            return True
        other = self._next.cursor
        try:
            calls = self._next.go_on()
            if calls is None:
                return None
        except NotACall:
            calls = ()
        self._next = None
        if not calls:
            return False
        if other.void or other.evidence.weak:
            return False
        if other.pos - self.start > limit:
            return False
        self.calls = (*(self.calls or ()), *calls)
        self.cursor.pos = other.pos
        self.evidence.add_spans_of(other.evidence)
        return True


def begun(
    item: Format, buffer: TextBuffer, start: int, tools: ToolSet, markdown: Markdown, *, may_go_back: bool
) -> Candidate:
    """A candidate as what stands before it lets it be; `markdown` is that."""
    candidate = Candidate(item, buffer, start, tools, markdown, may_go_back=may_go_back)
    if item.opener and _is_quoted(item, buffer, start, markdown):
        candidate.cursor.reject(Rejection.QUOTED)
    if item.strong and markdown.indented_code:
        candidate.only_last()
    return candidate


def _is_quoted(item: Format, buffer: TextBuffer, at: int, markdown: Markdown) -> bool:
    """Whether no call can begin here: in a quoted line; what needs weak evidence behind a quotation mark either."""
    if markdown.quoted:
        return True
    if item.strong:
        return False
    return buffer.behind(at, QUOTES)


def _only_last(cursor: Cursor, parsing: Parsing[tuple[RawCall, ...]]) -> Parsing[tuple[RawCall, ...]]:
    calls = yield from parsing
    return (yield from rest_of_calls(cursor, calls))
