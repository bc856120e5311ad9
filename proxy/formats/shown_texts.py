"""What a tool result shows, as it was before it was escaped, so that a call can be looked for in it.

    {"text": "12\\t<tool_call>\\n13\\t{\\"name\\": \\"now\\"}\\n14\\t</tool_call>"}

A result may be escaped as JSON, as HTML or by `cat -A`, several times, and may be a diff. Each of its readings has one
layer less than the one that it was made of. A call is only shown so if all of its lines were escaped alike, its tags
like its values: where tags stand as `<tool_call>`, an `&lt;` in a value is no `<`. So for a call that is found in a
reading it is looked up how the reading before shows its lines.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from proxy.formats.shown_escapes import (
    CARRIAGE_RETURN,
    CAT,
    COLOURS,
    DIFFS,
    HTML,
    JSON,
    Escaping,
    LineEnd,
    ShownCall,
)
from proxy.formats.shown_lines import Comparisons, ShownLines, Spans, only_closers

# Readings of one result, besides the sides of diffs.
MAX_LEVELS = 12
# What a text must hold to be escaped so.
_ESCAPINGS = (("\\", JSON), ("&", HTML), ("$\n", CAT), ("\r", CARRIAGE_RETURN), ("\x1b", COLOURS))


class Reading:
    """A text that a result may show: as it stands there, or as it was before it was escaped."""

    def __init__(self, text: str, comparisons: Comparisons) -> None:
        self.text = text
        self._lines = ShownLines(text, comparisons)
        # The readings of which this one is made, in which the same may be escaped in another order; none of the result.
        self._layers: list[_Layer] = []
        self.ends_at_carriage_returns = False

    def add(self, before: Reading, escaping: Escaping) -> None:
        """Say that this is an earlier reading without this layer of escapes."""
        self._layers.append(_Layer(before, escaping))
        self.ends_at_carriage_returns |= before.ends_at_carriage_returns or escaping is CARRIAGE_RETURN

    def shows(self, call: Sequence[str]) -> bool:
        """Whether a call of these lines stands in the text, all of it escaped alike."""
        tags_end_lines = len(call) > 1 and only_closers(call[-1])
        return any(self.is_escaped_alike(spans, tags_end_lines) for spans in self._lines.places(call))

    def is_escaped_alike(self, spans: Spans, tags_end_lines: bool) -> bool:
        """Whether these lines were escaped alike, in each of the layers."""
        if not self._layers:
            return True
        return any(layer.holds_all(spans, tags_end_lines) for layer in self._layers)

    def is_delimiter(self, position: int) -> bool:
        """Whether the quotation mark at this position delimited a string: it was not escaped when the rest was."""
        return any(layer.is_delimiter(position) for layer in self._layers)


class _Layer:
    """What was undone to make a reading of an earlier one."""

    def __init__(self, before: Reading, escaping: Escaping) -> None:
        self._before = before
        self._escaping = escaping

    def holds_all(self, spans: Spans, tags_end_lines: bool) -> bool:
        """Whether these lines were all escaped so, and alike in the layers before."""
        earlier = [self._escapes.span_before(*span) for span in spans]
        if self._escaping is COLOURS:
            # A colour before a line may have been escaped as the rest was, or be a part of it.
            begins = [self._escapes.begin_before(start) for start, _ in spans]
            earlier = [(begin, end) for begin, (_, end) in zip(begins, earlier, strict=True)]
        escaped = [found for span in earlier for found in self._escapes.inside(*span)]
        between = zip((end for _, end in earlier), (begin for begin, _ in earlier[1:]), strict=False)
        line_ends = frozenset(self._line_end(end, begin) for end, begin in between)
        before = self._before
        shown = ShownCall(before.text, tuple(earlier), tuple(escaped), line_ends, tags_end_lines, before.is_delimiter)
        if not self._escaping.is_consistent(shown):
            return False
        return before.is_escaped_alike(earlier, tags_end_lines)

    def is_delimiter(self, position: int) -> bool:
        """Whether the quotation mark at this position of the later text was not escaped as JSON."""
        if self._escaping is not JSON:
            return False
        return self._before.text[self._escapes.span_before(position, position + 1)[0]] != "\\"

    def _line_end(self, end: int, begin: int) -> LineEnd:
        """How a line ends between the end of its text and the beginning of the next one's."""
        if "\n" in self._before.text[end:begin]:
            return LineEnd.PLAIN
        if any("\n" in meant for _, _, meant in self._escapes.inside(end, begin)):
            return LineEnd.ESCAPED
        return LineEnd.OTHERWISE

    @cached_property
    def _escapes(self) -> _Escapes:
        """Where the escapes stood."""
        return _Escapes.find(self._before.text, self._escaping)


@dataclass(slots=True)
class _Escapes:
    """The escapes of a text in order: where each stood, and where in the text without them what it means stands."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    meant_at: list[int] = field(default_factory=list)
    meant: list[str] = field(default_factory=list)

    @classmethod
    def find(cls, text: str, escaping: Escaping) -> _Escapes:
        """The escapes of this kind in a text."""
        found = cls()
        # How much shorter the text without escapes is up to here.
        shorter = 0
        for escape in escaping.pattern.finditer(text):
            start, end = escape.span()
            meant = escaping.meant(escape)
            found.starts.append(start)
            found.ends.append(end)
            found.meant_at.append(start - shorter)
            found.meant.append(meant)
            shorter += end - start - len(meant)
        return found

    def span_before(self, start: int, end: int) -> tuple[int, int]:
        """Where in the text with its escapes this part of the one without them stands."""
        first = self._position_before(start)
        if start == end:
            return first, first
        number = bisect_right(self.meant_at, end - 1) - 1
        if number >= 0 and end - 1 < self.meant_at[number] + len(self.meant[number]):
            return first, self.ends[number]
        return first, self._position_before(end - 1) + 1

    def begin_before(self, start: int) -> int:
        """Where this position is, with escapes before it that mean nothing."""
        number = bisect_left(self.meant_at, start)
        if number < len(self.meant_at) and self.meant_at[number] == start:
            return self.starts[number]
        return self._position_before(start)

    def _position_before(self, position: int) -> int:
        number = bisect_right(self.meant_at, position) - 1
        if number < 0:
            return position
        behind = position - self.meant_at[number] - len(self.meant[number])
        return self.starts[number] if behind < 0 else self.ends[number] + behind

    def inside(self, start: int, end: int) -> Iterator[tuple[int, int, str]]:
        """The escapes in a part of the text: from where to where, and what it means."""
        for number in range(bisect_left(self.starts, start), bisect_left(self.starts, end)):
            yield self.starts[number], self.ends[number], self.meant[number]


def readings(result: str, comparisons: Comparisons) -> tuple[Reading, ...]:
    """The texts that a result may show."""
    found = {result: Reading(result, comparisons)}
    for level in _levels(found, comparisons):
        # A diff may be escaped as a whole, and in a string of a call may stand what looks like a line of one.
        for side in [side for diff in DIFFS if diff.is_in(level.text) for side in diff.sides]:
            text = side.pattern.sub(side.meant, level.text)
            found.setdefault(text, Reading(text, comparisons)).add(level, side)
    return tuple(found.values())


def _levels(found: dict[str, Reading], comparisons: Comparisons) -> list[Reading]:
    """The text as it stands there, and as it was before each time that it was escaped."""
    waiting = [*found.values()]
    for level in waiting:
        for needed, escaping in _ESCAPINGS:
            if needed not in level.text:
                continue
            text = escaping.pattern.sub(escaping.meant, level.text)
            if text not in found:
                if len(found) == MAX_LEVELS:
                    continue
                found[text] = Reading(text, comparisons)
                waiting.append(found[text])
            if text != level.text:
                found[text].add(level, escaping)
    return waiting
