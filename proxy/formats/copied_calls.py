"""What stands in the results of tools: a call that was copied from there is none (contract C3, F89).

    12→<tool_call>{"name": "now"}</tool_call>
    + "<tool_call>{\\"name\\": \\"now\\"}</tool_call>\\n"

A result may show a call with line numbers, as a diff, quoted, indented, escaped as JSON or as HTML: `shown_texts`
undoes the escapes, `shown_lines` finds the lines. The whole of the call must stand there, its tags and its values, and
all of it must be shown alike: what differs by a blank, a backslash or an entity is a call of the model's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from proxy.formats.shown_lines import Comparisons, only_closers
from proxy.formats.shown_texts import Reading, readings

# A call of this length that stands in a tool result was copied from there.
MIN_COPIED = 24
# Characters of all results, the newest first, that are brought to that form; beyond them a copy is only found verbatim.
MAX_PLAIN = 1024 * 1024
# Characters at the beginning of a call in which words are looked for, by which results are chosen.
_MAX_BEGINNING = 2048
_MAX_WORDS = 8
# Nothing escapes or parts a word, so each one of a call stands in any text that shows the call. What a backslash or an
# ampersand begins may be written otherwise.
_WORD = re.compile(r"(?<![\\&#A-Za-z0-9_])[A-Za-z_]{4,}")
# What begins or ends a fence. The model may write one around a call that was shown without it.
_FENCE = re.compile(r"(?:`{3,16}|~{3,16})\w{0,32}")


class Copies:
    """The texts of tool results, and whether a call was copied from one of them."""

    def __init__(self, results: tuple[str, ...] = ()) -> None:
        self._results = results
        self._readings: dict[int, tuple[Reading, ...]] = {}
        self._room = MAX_PLAIN
        self._comparisons = Comparisons()

    def hold(self, call: str) -> bool:
        """True if the whole text of this call stands in one of the results, however that shows it."""
        if len(call) < MIN_COPIED or not self._results:
            return False
        if any(call in result for result in self._results):
            return True
        near = self._with_words(_words(call[:_MAX_BEGINNING]))
        if not near:
            return False
        shown = self._read_all(near)
        if _shows(shown, call):
            return True
        # What ends lines at carriage returns ends those of the call there, too.
        broken = [reading for reading in shown if reading.ends_at_carriage_returns]
        if _shows(broken, call.replace("\r", "\n")):
            return True
        return self._comparisons.over

    def _with_words(self, words: list[str]) -> list[int]:
        """The results, by number, in which all these words stand."""
        return [number for number, result in enumerate(self._results) if all(word in result for word in words)]

    def _read_all(self, numbers: list[int]) -> list[Reading]:
        """The results of these numbers in the forms in which they are searched."""
        return [reading for number in numbers for reading in self._read(number)]

    def _read(self, number: int) -> tuple[Reading, ...]:
        """A result in the forms in which it is searched."""
        if number not in self._readings:
            written = self._results[number][: self._room]
            self._room -= len(written)
            self._readings[number] = readings(written, self._comparisons)
        return self._readings[number]


def _words(text: str) -> list[str]:
    """The longest words of a text that are a part of it however it is shown: a fence's language is none."""
    form = "\n".join(_without_fence(text.split("\n")))
    return sorted(dict.fromkeys(_WORD.findall(form)), key=len)[-_MAX_WORDS:]


def _shows(shown: list[Reading], call: str) -> bool:
    """Whether one of these texts shows the lines of a call."""
    return any(reading.shows(form) for form in _forms(call) for reading in shown)


def _forms(call: str) -> Iterator[tuple[str, ...]]:
    """The lines of a call, without the fence around it and the indentation of all of it."""
    if call.count("\r\n") == call.count("\n"):
        call = call.replace("\r\n", "\n")
    form = _without_fence(call.strip().split("\n"))
    if sum(len(line.strip()) for line in form) < MIN_COPIED:
        return
    yield tuple(form)
    indentation = _indentation(form)
    if indentation:
        yield tuple(line.removeprefix(indentation) for line in form)


def _without_fence(written: list[str]) -> list[str]:
    """The lines of a call without the fence around them, and without the blanks before the first one."""
    if _FENCE.fullmatch(written[0].strip()) is None:
        return written
    end = -1 if _FENCE.fullmatch(written[-1].strip()) else len(written)
    return "\n".join(written[1:end]).strip().split("\n")


def _indentation(form: list[str]) -> str:
    """The blanks before all lines of a call but the first, whose own are not known.

    Where the last one ends a value, they are the value's: `x = 1⏎    y = 2</parameter></function>`.
    """
    if not only_closers(form[-1]):
        return ""
    lines = [line for line in form[1:] if line.strip()]
    return min((line[: len(line) - len(line.lstrip())] for line in lines), key=len, default="")
