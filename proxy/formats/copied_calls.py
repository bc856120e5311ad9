"""What stands in the results of tools: a call that was copied from there is none (contract C3, F89).

    12→<tool_call>{"name": "now"}</tool_call>
    + "<tool_call>{\\"name\\": \\"now\\"}</tool_call>\\n"

A result may show a call with line numbers, as a diff, quoted, indented, escaped as JSON or as HTML: `shown_texts`
undoes the escapes, `line_prefixes` tells what stands before its lines. The whole of the call's markup must stand there.
"""

from __future__ import annotations

import re

from proxy.formats.line_prefixes import ShownLines
from proxy.formats.shown_texts import lines, readings

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
        self._plain: dict[int, tuple[ShownLines, ...]] = {}
        self._room = MAX_PLAIN

    def hold(self, call: str) -> bool:
        """True if the whole text of this call stands in one of the results, however that shows it."""
        if len(call) < MIN_COPIED or not self._results:
            return False
        if any(call in result for result in self._results):
            return True
        near = self._with_words(_words(call[:_MAX_BEGINNING]))
        if not near:
            return False
        # A carriage return alone may end a line for what shows it.
        forms = [_without_fence(lines(text)) for text in dict.fromkeys((call, call.replace("\r", "\n")))]
        if sum(map(len, forms[0])) < MIN_COPIED:
            return False
        return any(self._show(near, form) for form in forms)

    def _show(self, numbers: list[int], form: list[str]) -> bool:
        """Whether the results of these numbers show a call of these lines."""
        return any(shown.hold(form) for number in numbers for shown in self._shown(number))

    def _with_words(self, words: list[str]) -> list[int]:
        """The results, by number, in which all these words stand."""
        return [number for number, result in enumerate(self._results) if all(word in result for word in words)]

    def _shown(self, number: int) -> tuple[ShownLines, ...]:
        """A result in the forms in which it is searched."""
        if number not in self._plain:
            written = self._results[number][: self._room]
            self._room -= len(written)
            self._plain[number] = tuple(map(ShownLines, readings(written)))
        return self._plain[number]


def _words(text: str) -> list[str]:
    """The longest words of a text that are a part of it however it is shown: a fence's language is none."""
    form = "\n".join(_without_fence(lines(text)))
    return sorted((word for word in dict.fromkeys(_WORD.findall(text)) if word in form), key=len)[-_MAX_WORDS:]


def _without_fence(written: list[str]) -> list[str]:
    """The lines of a call without the fence around them."""
    if not written or _FENCE.fullmatch(written[0]) is None:
        return written
    end = -1 if _FENCE.fullmatch(written[-1]) else len(written)
    return written[1:end]
