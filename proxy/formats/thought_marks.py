"""Where thoughts begin and end in the text of a reply, for those who tell them from it.

The scanner knows the markers anyway, for nothing in a thought is a call; here it is decided which of them are marks: an
opener only at the beginning of a segment (of the reply, behind a thought, behind a call), a closer only behind its
opener, or where the prompt has opened the thought, or may have.

    <think>So I look.</think>It is done. The tag <think> is no mark here.

In a thought Markdown is not kept strictly, and the thought must end all the same: code hides its end only where that
stands between quotation marks, or a tag in the midst of a line.

    <think>Run `ls and see.
    </think>It is done.
    <think>It looks for `</think>`.</think>It is done.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from proxy.formats.markers import encoded
from proxy.formats.reasoning import REASONING_MARKERS, SHARED_CLOSERS, ReasoningMarkers, Section, Thoughts
from proxy.parsing.buffer import TextBuffer
from proxy.parsing.cursor import MAX_BLANKS
from proxy.parsing.markdown import Markdown
from proxy.transitions import next_state

# So many bytes of one reply are read once more because a thought ended in what was no call.
MAX_BACK = 1024 * 1024
_QUOTES = (b'"', b"'")
_BEFORE_QUOTE = b" \t\r\n([{=,:"
_TAG = b"</"
_IN_LINE = re.compile(rb"[^ \t\r]")


@dataclass(frozen=True, slots=True)
class ThoughtMark:
    """The text between two byte offsets is a mark: behind it stands a thought, or text.

    `stray`: it closes what the text before it did not open; that text has been a thought.
    """

    start: int
    end: int
    thinking: bool
    stray: bool = False


class Inside(Enum):
    """What the text is in."""

    # Nothing: it is the answer.
    NOTHING = auto()
    # A thought that the prompt began.
    PROMPTED = auto()
    # A thought that the reply began.
    THOUGHT = auto()
    # An answer with marks around it.
    SHOWN = auto()
    # What looks like a thought, and is text.
    TEXT = auto()


class MarkStep(Enum):
    """The mark that is come past."""

    # The opener of a thought, where a segment begins.
    BEGIN_THOUGHT = auto()
    # The opener of an answer, where a segment begins.
    BEGIN_ANSWER = auto()
    # An opener in the midst of text.
    MENTION = auto()
    # A closer.
    CLOSE = auto()
    # None: the server tells thoughts apart.
    TELL_APART = auto()


_ENDS = {MarkStep.CLOSE: Inside.NOTHING, MarkStep.TELL_APART: Inside.NOTHING}
_ANYTHING = {
    **_ENDS,
    MarkStep.BEGIN_THOUGHT: Inside.THOUGHT,
    MarkStep.BEGIN_ANSWER: Inside.SHOWN,
    MarkStep.MENTION: Inside.TEXT,
}
# In a thought that the reply began nothing counts but its closers; the prompt's opener may be said once more.
INSIDES: dict[Inside, dict[MarkStep, Inside]] = {
    Inside.NOTHING: _ANYTHING,
    Inside.PROMPTED: _ANYTHING,
    Inside.THOUGHT: _ENDS,
    Inside.SHOWN: _ANYTHING,
    Inside.TEXT: _ANYTHING,
}


class ThoughtMarks:
    """The marks of one reply; without `thoughts` there are none. `fresh`: a segment begins here, blanks aside."""

    def __init__(self, thoughts: Thoughts | None) -> None:
        self._unknown = thoughts is not None and thoughts.unknown
        self._inside = Inside.PROMPTED if thoughts and thoughts.begun else Inside.NOTHING
        self._closers, self._sections = _tables(thoughts.markers if thoughts else ())
        self._opener = thoughts.begun if thoughts else ""
        self._back = MAX_BACK
        self.fresh = True
        # Nothing but blanks stands behind the mark that ended a thought.
        self.behind = False
        # The mark that was found last and not taken yet.
        self.found: ThoughtMark | None = None

    def _move(self, step: MarkStep) -> None:
        self._inside = next_state(INSIDES, self._inside, step)

    @property
    def prompted(self) -> bool:
        """True in a thought that the reply itself did not open."""
        return self._inside is Inside.PROMPTED

    @property
    def state(self) -> object:
        """All that the marks that come depend on."""
        return self._inside, self._opener, self._unknown, self._back, self.fresh, self.behind

    @property
    def _thinking(self) -> bool:
        return self._inside in (Inside.PROMPTED, Inside.THOUGHT)

    @property
    def closer(self) -> str:
        """What would end the thought that is open; "" if none is."""
        if not self._thinking:
            return ""
        return self._closers[self._opener][0].decode()

    def passed(self, text: bytes) -> None:
        """Take text that is no mark; behind text it says nothing new."""
        if text.strip():
            self.fresh = self.behind = False

    def called(self) -> None:
        """A call was taken: what follows begins a segment."""
        self.fresh, self.behind = True, False
        self._unknown = False

    def reasoning_is_separate(self) -> None:
        """The server tells thoughts apart: there are none in the text."""
        self._move(MarkStep.TELL_APART)
        self._unknown = False
        self._sections = {}

    def take(self) -> ThoughtMark:
        """The mark that was found, once."""
        found, self.found = self.found, None
        assert found is not None
        return found

    def first_closer(self, text: bytes) -> int:
        """Where the thought ends, or may end behind it, in a text that was taken for a call; -1 if it does not."""
        if not self._thinking:
            return -1
        closers = self._closers[self._opener]
        places = [at for closer in closers if (at := text.find(closer)) >= 0]
        at = min(places or [_half(text, closer) for closer in closers])
        # What stands behind it is read once more.
        self._back -= len(text) - at
        return at if at < len(text) and self._back > 0 else -1

    def ends_here(self, closer: bytes, buffer: TextBuffer, markdown: Markdown, at: int) -> bool | None:
        """Whether a closer ends anything where it stands, and is not only shown there; None if more text must tell."""
        in_code = markdown.in_code
        if not self._thinking:
            return not in_code
        end = at + len(closer)
        quote = _opening_quote(buffer.near(at), in_code=in_code)
        if quote:
            behind = buffer.slice(end, end + 1)
            if not behind and not buffer.ended:
                return None
            if behind == quote:
                return False
        if not in_code or markdown.line_start or not closer.startswith(_TAG):
            return True
        return _ends_line(buffer, end)

    def opened(self, mode: str, start: int, end: int) -> None:
        """An opener stands here; `mode` is its text."""
        section = self._sections.get(mode)
        if section is None:
            return
        if not self.fresh:
            self._move(MarkStep.MENTION)
            return
        self.behind = False
        self._opener = mode
        thinking = section is Section.THOUGHT
        self._move(MarkStep.BEGIN_THOUGHT if thinking else MarkStep.BEGIN_ANSWER)
        self._unknown = False
        self.found = ThoughtMark(start, end, thinking)

    def closed(self, closer: bytes, start: int, end: int) -> int:
        """A closer stands here; gives the place where the reading goes on."""
        inside = self._inside
        self._move(MarkStep.CLOSE)
        if inside is Inside.TEXT:
            return end
        stray = inside is Inside.NOTHING
        if stray and not self._unknown:
            return end
        if closer in SHARED_CLOSERS:
            end = start
        self._unknown = False
        self.fresh = self.behind = True
        self.found = ThoughtMark(start, end, thinking=False, stray=stray)
        return end


def _tables(markers: tuple[ReasoningMarkers, ...]) -> tuple[dict[str, tuple[bytes, ...]], dict[str, Section]]:
    """The closers, and what is marked, by opener."""
    if markers is REASONING_MARKERS:
        return _USUAL
    return _made_tables(markers)


def _made_tables(markers: tuple[ReasoningMarkers, ...]) -> tuple[dict[str, tuple[bytes, ...]], dict[str, Section]]:
    closers = {thought.opener: encoded(*thought.closers) for thought in markers}
    return closers, {thought.opener: thought.section for thought in markers}


# Each reply has some scanners.
_USUAL = _made_tables(REASONING_MARKERS)


def _opening_quote(near: bytes, *, in_code: bool) -> bytes:
    """The mark that opens code or a quotation directly before a position; b"" if none does."""
    mark = near[-1:]
    if mark == b"`" and in_code:
        return mark
    if mark in _QUOTES and near[-2:-1] in _BEFORE_QUOTE:
        return mark
    return b""


def _ends_line(buffer: TextBuffer, at: int) -> bool | None:
    """Whether nothing but blanks stands from a position to the end of the line; None if more text must tell."""
    behind = buffer.search(_IN_LINE, at)
    if behind == buffer.end and behind - at <= MAX_BLANKS:
        return True if buffer.ended else None
    return buffer.slice(behind, behind + 1) in (b"", b"\n")


def _half(text: bytes, closer: bytes) -> int:
    """Where a closer begins of which the text has only the beginning; its end if none does."""
    sizes = range(min(len(text), len(closer) - 1), 0, -1)
    return len(text) - next((size for size in sizes if text.endswith(closer[:size])), 0)
