"""Where the lines of a call stand in a text that a tool shows: below each other, behind prefixes of the same shape.

    12 | <tool_call>        |
    13 | {"name": "now"}    |
    14 | </tool_call>       |

The lines must be the call's own, blank for blank; only what stands around all of them alike is no part of them:
`line_prefixes` says what may stand before them, and behind each the same may stand, such as the edge of a frame. In the
first one's line other text may stand before it, and in the last one's other text behind it.

The call's rarest line is looked for first, so that a text which shows no such call costs a search or two. What it costs
to compare lines has a bound for all of a reply: a text that repeats itself so often holds anything.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from heapq import nlargest
from itertools import accumulate, islice

from proxy.formats.line_prefixes import CountedUp, PrefixRule, SameForm

# Characters of a prefix, and of the blanks and the edge of a frame behind a line.
MAX_PREFIX = 400
MAX_EDGE = 300
# Characters of lines that are compared for all calls of a reply.
MOST_COMPARED = 4 * 1024 * 1024
# What it costs to compare lines, however short they are, in characters.
_EACH_LINE = 16
_EACH_PLACE = 256
# Lines of a call that are looked for, of which the rarest is taken.
_MAX_SOUGHT = 4
# Places in the line of a call's last line that are tried.
_MAX_PLACES = 8
_EDGE = re.compile(r"(?:[^\w\s]{1,4}(?: [^\w\s]{1,2})?)?")
# A line in which nothing but end tags, tokens and brackets stands is no part of a text that the call holds.
_CLOSERS = re.compile(r"(?:(?:\]<\]minimax\[>\[)?</[^<>\n]{1,80}>|<[|｜][^<>\n]{1,80}[|｜]>|[]})`~ \t])+")
_JSON = re.compile(r"[{[].*[]}]")
# What ends another call before the first line.
_CALL_ENDS = (">", "]", "}")

# Where the lines of a call stand in a text, each from its beginning to its end; empty lines are left out.
Spans = list[tuple[int, int]]


class Comparisons:
    """What was compared for the calls of one reply, over all texts."""

    def __init__(self) -> None:
        self._left = MOST_COMPARED

    @property
    def over(self) -> bool:
        """True if so much was compared that nothing more is."""
        return self._left < 0

    def add(self, characters: int) -> None:
        """Count what is compared now."""
        self._left -= characters


class ShownLines:
    """A text in which calls are looked for, by its lines."""

    def __init__(self, text: str, comparisons: Comparisons) -> None:
        self._text = text
        self._comparisons = comparisons
        self._lines: list[str] = []
        self._starts: list[int] = []
        self._counts: dict[str, int] = {}

    def places(self, call: Sequence[str]) -> Iterator[Spans]:
        """The places where these lines stand below each other, until too much was compared."""
        if len(call) == 1:
            yield from self._in_line(call[0])
            return
        sought = self._rarest(call)
        if not sought:
            return
        self._index()
        number = call.index(sought)
        shown = [(number, call)]
        if ends_in_markup(call[-1]):
            # A tool may show an empty line behind each; where all line ends are those of a value, it has them itself.
            shown.append((2 * number, [each for line in call for each in (line, "")][:-1]))
        for at in self._numbers(sought):
            self._comparisons.add(_EACH_PLACE)
            if self._comparisons.over:
                return
            for before, lines in shown:
                yield from self._around(at - before, lines)

    def _in_line(self, line: str) -> Iterator[Spans]:
        """The places where a call stands that is one line."""
        at = self._text.find(line)
        while at >= 0:
            self._comparisons.add(_EACH_PLACE + len(line))
            if self._comparisons.over:
                return
            yield [(at, at + len(line))]
            at = self._text.find(line, at + 1)

    def _rarest(self, call: Sequence[str]) -> str:
        """The line of a call that stands in the text least often; none if one does not stand there at all."""
        longest = nlargest(_MAX_SOUGHT, dict.fromkeys(call), key=len)
        sought = dict.fromkeys([*filter(None, longest), call[-1], call[0]])
        for line in sought:
            if line not in self._counts:
                self._counts[line] = self._text.count(line)
            if not self._counts[line]:
                return ""
        return min(sought, key=lambda line: self._counts[line])

    def _index(self) -> None:
        """Find the lines of the text, once."""
        if self._lines:
            return
        self._lines = self._text.split("\n")
        self._starts = [0, *accumulate(len(line) + 1 for line in self._lines)]

    def _numbers(self, sought: str) -> Iterator[int]:
        """The numbers of the lines in which this stands."""
        at = self._text.find(sought)
        while at >= 0:
            number = bisect_right(self._starts, at) - 1
            yield number
            at = self._text.find(sought, self._starts[number + 1])

    def _around(self, number: int, call: Sequence[str]) -> Iterator[Spans]:
        """The place of a call whose first line would stand in the line of this number, if it stands there."""
        if not 0 <= number <= len(self._lines) - len(call):
            return
        first = self._lines[number]
        at = first.rfind(call[0])
        if at < 0:
            return
        end = at + len(call[0])
        if len(first) - end > MAX_EDGE:
            return
        edge = _Edge.read(first, end)
        if edge is None:
            return
        loose = only_closers(call[-1])
        # The first line of what a tool shows may have lost its blanks.
        stripped = loose and not number and not at
        begin = self._starts[number]
        for before in self._before_first(number, at, call, edge):
            for shape in (SameForm(before, loose=loose, stripped=stripped), CountedUp(before, loose=loose)):
                rest = self._follow(number + 1, call[1:], edge, shape)
                if rest is not None:
                    yield [(begin + at, begin + end), *rest]

    def _before_first(self, number: int, at: int, call: Sequence[str], edge: _Edge) -> Iterator[str]:
        """What may be the prefix of the first line, which is the one of this number, with the call at this place.

        All that stands before the call; or, where another call ends there, as much as before the second line:

            7 | b<|"|>}<tool_call|><|tool_call>call:write{text:<|"|>c
            8 | d<|"|>}<tool_call|>
        """
        first = self._lines[number]
        before = first[max(0, at - MAX_PREFIX) : at]
        yield before
        if not before.endswith(_CALL_ENDS):
            return
        second, line = self._lines[number + 1], call[1]
        found = _before_last(second, line) if len(call) == 2 else edge.before(second, line)
        for prefix in islice(found, _MAX_PLACES):
            # The number in it may have got a digit more.
            for length in (len(prefix), len(prefix) - 1):
                if 0 < length < at:
                    yield first[:length]

    def _follow(self, number: int, call: Sequence[str], edge: _Edge, shape: PrefixRule) -> Spans | None:
        """Where these lines stand from the line of this number on; None if they do not."""
        spans = []
        last = len(call) - 1
        for place, line in enumerate(call):
            shown = self._lines[number + place]
            self._comparisons.add(len(line) + _EACH_LINE)
            if not line:
                if not edge.is_empty(shown, shape):
                    return None
                continue
            prefixes = _before_last(shown, line) if place == last else edge.before(shown, line)
            whole_words = (each for each in prefixes if not _ends_in_a_word(each, line))
            prefix = next(filter(shape.takes, whole_words), None)
            if prefix is None:
                return None
            start = self._starts[number + place] + len(prefix)
            spans.append((start, start + len(line)))
        return spans


class _Edge:
    """What stands behind each line but the last: the same blanks and signs, or the edge of a frame in one column."""

    def __init__(self, written: str, width: int) -> None:
        self._written = written
        self._mark = written.strip()
        # `| a   |`, `| abc |`
        self._aligned = bool(self._mark) and written[0] == " " and written.endswith(self._mark)
        # How long the lines are; longer ones are those that do not fit into the frame.
        self._width = width

    @classmethod
    def read(cls, first: str, end: int) -> _Edge | None:
        """What stands behind the first line, which ends here; None if that is other text."""
        behind = first[end:]
        if _EDGE.fullmatch(behind.strip()) is None:
            return None
        return cls(behind, len(first))

    def before(self, shown: str, line: str) -> Iterator[str]:
        """What stands before a line of the call, if this shows it."""
        if len(shown) > len(line) + MAX_PREFIX + MAX_EDGE:
            return
        if shown.endswith(f"{line}{self._written}"):
            yield shown[: len(shown) - len(line) - len(self._written)]
        elif self._aligned and shown.endswith(f" {self._mark}"):
            yield from self._before_aligned(shown, line.rstrip(" "))

    def _before_aligned(self, shown: str, line: str) -> Iterator[str]:
        text = shown.removesuffix(self._mark).rstrip(" ")
        if not text.endswith(line):
            return
        fits = len(shown) - len(self._mark) - len(text) > 1
        if fits and len(self._written) - len(self._mark) == 1:
            # The first line did not fit.
            self._width = min(self._width, len(shown))
        if len(shown) == self._width or (not fits and len(shown) > self._width):
            yield text[: len(text) - len(line)]

    def is_empty(self, shown: str, shape: PrefixRule) -> bool:
        """Whether this shows an empty line."""
        if len(shown) > MAX_PREFIX + MAX_EDGE:
            return False
        prefix = shown.removesuffix(self._mark if self._aligned else self._written).rstrip()
        return not prefix or shape.takes_empty(prefix)


def only_closers(line: str) -> bool:
    """Whether nothing but end tags, tokens and brackets stands in a line of a call."""
    return _CLOSERS.fullmatch(line) is not None


def ends_in_markup(line: str) -> bool:
    """Whether the last line of a call is no part of a text that the call holds: closers, or all of its JSON."""
    return only_closers(line) or _JSON.fullmatch(line) is not None


def _ends_in_a_word(prefix: str, line: str) -> bool:
    """Whether what stands before a line would end in the middle of a word of it: `1m` before `two` in `1mtwo`."""
    return prefix[-1:].isalnum() and line[0].isalnum()


def _before_last(shown: str, line: str) -> Iterator[str]:
    """What may stand before the last line of the call, behind which other text may stand."""
    at = shown.find(line)
    for _ in range(_MAX_PLACES):
        if not 0 <= at <= MAX_PREFIX:
            return
        yield shown[:at]
        at = shown.find(line, at + 1)
