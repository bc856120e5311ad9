"""A call that cannot be read, and with which a reply ends: it may be asked for once more, if the rules say so.

    I list them.
    <tool_call>
    {"name": "bash", "arguments": {"command": "ls "a" b"}}
    </tool_call>

Only what its own markup tells counts: it begins a line, names one tool, which is offered, and nothing but its closers
and blanks stands behind it. What may be such a call waits until something else comes, or the reply ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from proxy.formats.markers import MARKERS, WEAK_MARKERS, WRAPPER_TAGS
from proxy.formats.spans import CallSpan, Candidate, Piece, TextSpan
from proxy.formats.thought_marks import ThoughtMark
from proxy.formats.xml_tags import SEPARATOR
from proxy.parsing.buffer import TextBuffer
from proxy.parsing.cursor import NotACall, Rejection, Truncated
from proxy.parsing.markdown import Markdown
from proxy.transitions import next_state

# The beginnings of calls that say so themselves, each with what closes it, or the beginning of that.
_CLOSERS: dict[str, tuple[str, ...]] = {
    **{tag: (f"</{tag.removeprefix(SEPARATOR)[1:].rstrip('>')}",) for tag in WRAPPER_TAGS},
    **{marker.opener: marker.closers for marker in MARKERS if marker.opener not in WEAK_MARKERS},
    **dict.fromkeys(("<function=", "<function name=", "<functionname="), ("</function",)),
    "<invoke name=": ("</invoke",),
    **dict.fromkeys(("<|channel|>commentary", "<|channel|>analysis to=", "<|start|>assistant"), ()),
}
_OPENERS = sorted(_CLOSERS, key=len, reverse=True)
# So many bytes of a candidate show its opener, and the blanks before it.
_HEAD = 128
# What may stand behind a call's last word: blanks, brackets, and tags and tokens that close something.
_CLOSER = re.compile(r"(?:</[^<>\n]{1,60}>|<[|｜][^<>\n]{1,60}>|<[^<>\n]{1,60}[|｜]>|\[/\w{1,30}\])\Z")
_BEHIND = re.compile(r"(?>(?:[\s\]}]|</[^<>\n]{1,60}>|<[|｜][^<>\n]{1,60}>|<[^<>\n]{1,60}[|｜]>|\[/\w{1,30}\])*)")
_BEGUN = re.compile(r"(?:<[^<>\n]{0,60}|\[/?\w{0,30})?\Z")
_BRACKETS = " \t\r\n]}"
_MAX_CLOSER = 64
_MAX_CLOSERS = 16
# More than so many characters are no closers.
_MOST_BEHIND = 512
# What was refused for one of these was to be a call.
_MEANT = frozenset((Rejection.BROKEN, Rejection.CUT_OFF))


class Waiting(Enum):
    """What becomes of the text from where a broken call was seen."""

    # None was seen.
    NOTHING = auto()
    # It waits: the reply may end with the call.
    WAITING = auto()
    # Something else came behind it, so it has left, and nothing of this reply waits any more.
    OVER = auto()


class WaitingStep(Enum):
    """What happens to that text."""

    # A broken call is seen.
    SEE = auto()
    # What waits leaves.
    GIVE_UP = auto()


WAITINGS: dict[Waiting, dict[WaitingStep, Waiting]] = {
    Waiting.NOTHING: {WaitingStep.SEE: Waiting.WAITING},
    Waiting.WAITING: {WaitingStep.GIVE_UP: Waiting.OVER},
    Waiting.OVER: {},
}
# Asked for with every chunk: a global name is found faster than a member of an enum.
_WAITING = Waiting.WAITING


@dataclass(slots=True)
class BrokenCall:
    """A call that cannot be read: where it begins, where what it is made of ends (-1 while that is not known), what
    closes it, the tool that it names, and whether the text ends in the middle of it.
    """

    start: int
    closers: tuple[str, ...]
    tool: str
    end: int = -1
    is_cut: bool = False


class BrokenCalls:
    """Watches the pieces of a reply's text for the broken call that ends it; the scanner, if it is told to, says what
    it comes past. `state` says whether text waits.
    """

    def __init__(self) -> None:
        self.state = Waiting.NOTHING
        self._call: BrokenCall | None = None
        self._kept: list[Piece] = []
        self._line_at = -1

    def _move(self, step: WaitingStep) -> None:
        self.state = next_state(WAITINGS, self.state, step)

    @property
    def waits(self) -> bool:
        """True while text waits."""
        return self.state is _WAITING

    def begin(self, at: int, markdown: Markdown, *, first: bool) -> None:
        """A candidate begins here, as the `first` thing of the reply, or of what follows its reasoning, if it does."""
        if markdown.quoted or markdown.in_code or markdown.indented_code:
            return
        if first or markdown.begins_line:
            self._line_at = at

    def see(self, candidate: Candidate, buffer: TextBuffer) -> None:
        """A candidate of which nothing will come is still read, in a text that has not all left."""
        if self.state is not Waiting.NOTHING or candidate.start != self._line_at:
            return
        if candidate.start < buffer.base:
            # Its beginning has left: what stands at the front now is inside of it.
            return
        head = buffer.slice(candidate.start, candidate.start + _HEAD)
        opener = _opener_of(head.decode("utf-8", "replace").lstrip())
        tool = candidate.evidence.tool
        if opener and tool and _is_meant(candidate, None):
            self._call = BrokenCall(candidate.start, _CLOSERS[opener], tool)
            self._move(WaitingStep.SEE)

    def refuse(self, candidate: Candidate, buffer: TextBuffer, refusal: NotACall, end: int) -> None:
        """A candidate is no call; it was read up to `end`."""
        self.see(candidate, buffer)
        call = self._call
        if call is None or call.start != candidate.start:
            return
        if candidate.evidence.tool != call.tool or not _is_meant(candidate, refusal):
            self._call = None
            return
        call.end = end
        call.is_cut = isinstance(refusal, Truncated)

    def pass_on(self, pieces: Iterable[Piece], text: Callable[[int, int], str]) -> Iterator[Piece]:
        """The pieces that leave now. `text` gives that between two positions, as far as it has come and not left."""
        for piece in pieces:
            if self._keeps(piece):
                self._kept.append(piece)
                continue
            if self._kept:
                yield from self.give_up()
            yield piece
        if self.state is _WAITING and not self._may_end(text):
            yield from self.give_up()

    def give_up(self) -> Iterable[Piece]:
        """Give the pieces that wait, as they are; from now on nothing of this reply waits."""
        if self.state is not _WAITING:
            return ()
        self._move(WaitingStep.GIVE_UP)
        kept, self._kept = self._kept, []
        return kept

    def ending(self, text: Callable[[int, int], str]) -> str:
        """The tool of the broken call with which the reply has ended by itself; "" if it has not."""
        call = self._call
        if call is None or call.end < 0 or not self._kept:
            return ""
        return call.tool if _is_all_of(text(call.start, self._kept[-1].end), call) else ""

    def _keeps(self, piece: Piece) -> bool:
        if self._call is None or self.state is not _WAITING:
            return False
        if isinstance(piece, ThoughtMark):
            return False
        if isinstance(piece, CallSpan) and piece.calls:
            return False
        return piece.end > self._call.start

    def _may_end(self, text: Callable[[int, int], str]) -> bool:
        """True as long as nothing but closers and blanks stands behind the broken call. `text` gives what stands
        between two positions of the reply.
        """
        call = self._call
        if call is None:
            return False
        if call.end < 0 or call.is_cut:
            return True
        behind = text(call.end, call.end + _MOST_BEHIND)
        closers = _BEHIND.match(behind)
        assert closers is not None, "it may match nothing"
        return len(behind) < _MOST_BEHIND and _BEGUN.match(behind, closers.end()) is not None


class _Unwatched(BrokenCalls):
    """For texts whose broken calls leave as they come."""

    def begin(self, at: int, markdown: Markdown, *, first: bool) -> None:
        """Nothing is kept of it."""

    def see(self, candidate: Candidate, buffer: TextBuffer) -> None:
        """Nothing is kept of it."""

    def refuse(self, candidate: Candidate, buffer: TextBuffer, refusal: NotACall, end: int) -> None:
        """Nothing is kept of it."""


UNWATCHED = _Unwatched()


def text_of(pieces: Iterable[Piece], text: Callable[[int, int], str]) -> str:
    """The text of the pieces, without tokens that are dropped."""
    return "".join(text(piece.start, piece.end) for piece in pieces if isinstance(piece, TextSpan))


def _opener_of(head: str) -> str:
    """The opener that stands here; "" if none does."""
    return next((opener for opener in _OPENERS if head.startswith(opener)), "")


def _is_meant(candidate: Candidate, refusal: NotACall | None) -> bool:
    """Whether it was to be a call, and not quoted, copied, or the definition of a tool."""
    evidence = candidate.evidence
    if evidence.why and evidence.rejection not in _MEANT:
        return False
    return refusal is None or refusal.rejection in _MEANT


def _is_all_of(text: str, call: BrokenCall) -> bool:
    """Whether a text from the beginning of the call to the end of the reply is nothing but the call."""
    core = _without_closers(text)
    if any(closer in core for closer in call.closers):
        # It may be over there, and what follows be said of it.
        return False
    if call.is_cut:
        return True
    behind = text[len(core) :]
    if call.closers:
        return any(closer in behind for closer in call.closers)
    return behind.strip() != ""


def _without_closers(text: str) -> str:
    """The text without the closers, brackets and blanks at its end."""
    for _ in range(_MAX_CLOSERS):
        text = text.rstrip(_BRACKETS)
        closer = _CLOSER.search(text, max(0, len(text) - _MAX_CLOSER))
        if closer is None:
            break
        text = text[: closer.start()]
    return text
