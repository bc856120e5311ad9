"""The ways in which a tool escapes what it shows, and whether the lines of a call were all escaped so.

An escaping is undone wherever something looks like it. Of a call it was one only if nothing stands in its lines that
it would have escaped: `grep \\d` in a call whose quotation marks stand there without backslashes says `\\d`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property

# Characters before and behind a call in which the marks of its string are looked for.
MAX_STRING = 64 * 1024
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_MARKS = frozenset("\"'")
# What ends a line of a string and the string with it: `"<tool_call>\n",⏎`. The line that follows is the next one.
_STRING_END = r"""(?:\\r)?\\n(?=["'][ \t]{0,8}[^\w\s"'\\]{0,3}\r?(?:\n|\Z))"""
_JSON = re.compile(
    _STRING_END
    + r"""|\\(u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[nrtbf"'/\\])"""
)
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
# `cat -A`: `$` where a line ends, `^I` for a tab, `M-CM-<` for an `ü`.
_CAT = re.compile(r"(M-\^?[ -~](?:M-\^?[ -~])*)|\$(?=\n|\Z)|\^([@-_?])")
_CAT_BYTE = re.compile(r"M-(\^?)([ -~])")
_CAT_END = re.compile(r"(?:\^M)?\$(?:\n|\Z)")
_CARRIAGE_RETURN = re.compile(r"\r\n?")
_COLOUR = re.compile(r"\x1b\[[0-9;?]{0,32}[A-Za-z]")
# A line of a diff that only one side has, or both: a sign before the text, and perhaps numbers before that.
_NUMBER = r"[ \t]{0,16}[0-9]{1,7}[ \t:|]"


class LineEnd(Enum):
    """How a line of a call ends in an earlier text."""

    # Where a line of that text does.
    PLAIN = auto()
    ESCAPED = auto()
    # The text was escaped in another way, too: `\\n` while HTML is undone.
    OTHERWISE = auto()


@dataclass(frozen=True)
class ShownCall:
    """How a text shows the lines of a call: from where to where each stands, what was escaped in them, each from
    where to where and what it means, and how they end. `tags_end_lines`: a line holds nothing but closers, so that not
    all line ends are those of a value. `is_delimiter` says of a quotation mark in the text that it delimited a string
    when the text itself was made of an earlier one.
    """

    text: str
    lines: tuple[tuple[int, int], ...]
    escapes: tuple[tuple[int, int, str], ...]
    line_ends: frozenset[LineEnd]
    tags_end_lines: bool
    is_delimiter: Callable[[int], bool]

    @cached_property
    def escaped(self) -> frozenset[str]:
        """The characters of the lines that were escaped."""
        return frozenset("".join(meant for _, _, meant in self.escapes))

    @cached_property
    def plain(self) -> frozenset[str]:
        """The characters of the lines that stand there as they are."""
        found: set[str] = set()
        escapes = iter((*self.escapes, (len(self.text), len(self.text), "")))
        start, end, _ = next(escapes)
        for line_start, line_end in self.lines:
            at = line_start
            while start < line_end:
                found.update(self.text[at:start])
                at = end
                start, end, _ = next(escapes)
            found.update(self.text[at:line_end])
        return frozenset(found)

    @property
    def is_untouched(self) -> bool:
        """True if nothing of it is escaped."""
        return not self.escapes and LineEnd.ESCAPED not in self.line_ends

    @property
    def is_mixed(self) -> bool:
        """True if some of what was escaped also stands there as it is, or some of the line ends."""
        return len(self.line_ends) > 1 or not self.escaped.isdisjoint(self.plain)

    @property
    def begins_escaped(self) -> bool:
        """True if an escape stands before the first word of the call: the one of its first tag."""
        if not self.escapes:
            return False
        begin, _ = self.lines[0]
        return not any(map(str.isalnum, self.text[begin : self.escapes[0][0]]))

    def before(self, position: int) -> int:
        """Where the line begins in which this position is."""
        start = max(0, position - MAX_STRING)
        return max(start, self.text.rfind("\n", start, position) + 1)

    def behind(self, position: int) -> int:
        """Where the line ends in which this position is."""
        end = self.text.find("\n", position, position + MAX_STRING)
        return end if end >= 0 else position + MAX_STRING

    def is_between(self, mark: str) -> bool:
        """Whether the call stands in a string between two of these quotation marks."""
        begin, end = self.lines[0][0], self.lines[-1][1]
        opening = self.text.rfind(mark, self.before(begin), begin)
        closing = self.text.find(mark, end, self.behind(end))
        if opening < 0 or closing < 0:
            return False
        if not self.is_delimiter(opening):
            return True
        # A string in a string: `"['…']"`.
        (other,) = _MARKS - {mark}
        if self.text.find(other, closing, closing + MAX_STRING) < 0:
            return False
        return self.text.rfind(other, max(0, opening - MAX_STRING), opening) >= 0


class Escaping:
    """A way of escaping: what it writes, what that means, and whether all of a call was escaped so."""

    def __init__(
        self,
        pattern: re.Pattern[str],
        meant: Callable[[re.Match[str]], str],
        is_consistent: Callable[[ShownCall], bool],
    ) -> None:
        self.pattern = pattern
        self.meant = meant
        self.is_consistent = is_consistent


def _json_meant(found: re.Match[str]) -> str:
    escaped: str | None = found.group(1)
    if escaped is None:
        return ""
    if len(escaped) > 6:
        return chr(0x10000 + ((int(escaped[1:5], 16) & 0x3FF) << 10) + (int(escaped[7:], 16) & 0x3FF))
    if len(escaped) > 1:
        return chr(int(escaped[1:], 16))
    return _CONTROLS.get(escaped, escaped)


def _is_json(shown: ShownCall) -> bool:
    """Whether a call stands in a string of JSON or Python: one string, or one for each of its lines."""
    if shown.is_untouched:
        return True
    if shown.is_mixed or "\\" in shown.plain:
        return False
    marks = _MARKS & shown.plain
    if LineEnd.PLAIN in shown.line_ends:
        return any(_are_strings(shown, mark) for mark in _MARKS - marks)
    return _is_string(shown, marks)


def _is_string(shown: ShownCall, marks: frozenset[str]) -> bool:
    """Whether a call in which these quotation marks are not escaped stands in one string."""
    if marks == _MARKS:
        return False
    quoted_alike = not marks or '"' in shown.escaped
    if quoted_alike and shown.tags_end_lines and LineEnd.ESCAPED in shown.line_ends:
        return True
    return any(shown.is_between(mark) for mark in _MARKS - marks)


def _are_strings(shown: ShownCall, mark: str) -> bool:
    """Whether each line stands in a string of its own: `"<tool_call>\\n",`."""
    end = shown.lines[-1][1]
    if mark not in shown.text[end : shown.behind(end)]:
        return False
    if not all(re.match(rf"(?:(?:\\r)?\\n)?{mark}", shown.text[end : end + 8]) for _, end in shown.lines[:-1]):
        return False
    return all(mark in shown.text[shown.before(begin) : begin] for begin, _ in shown.lines)


def _entity_meant(found: re.Match[str]) -> str:
    return html.unescape(found.group())


def _is_html(shown: ShownCall) -> bool:
    """Whether a call is escaped as HTML: then no `<` and no `&` is left, and where no tag tells, no quotation mark."""
    if shown.is_untouched:
        return True
    if shown.is_mixed or not shown.plain.isdisjoint("<&"):
        return False
    return shown.begins_escaped or shown.plain.isdisjoint(_MARKS)


def _cat_meant(found: re.Match[str]) -> str:
    written, control = found.groups()
    if written:
        values = [ord(byte) ^ 64 if caret else ord(byte) for caret, byte in _CAT_BYTE.findall(written)]
        return bytes(value + 128 for value in values).decode("utf-8", "replace")
    return chr(ord(control) ^ 64) if control else ""


def _is_cat(shown: ShownCall) -> bool:
    """Whether `cat -A` shows a call: every line of the text ends with the sign."""
    if "\t" in shown.plain or not all(map(str.isascii, shown.plain)):
        return False
    return all(_CAT_END.match(shown.text, end) for _, end in shown.lines[:-1])


def _is_ended_alike(shown: ShownCall) -> bool:
    """Whether all lines of a call end with a carriage return, or none."""
    ends = [end for _, end in shown.lines[:-1]]
    begins = [begin for begin, _ in shown.lines[1:]]
    return len({"\r" in shown.text[end:begin] for end, begin in zip(ends, begins, strict=True)}) < 2


def _is_always(shown: ShownCall) -> bool:
    """Colours are in no call."""
    return True


class DiffSide(Escaping):
    """What one side of a diff has."""

    def __init__(self, gone: str, left: str, numbers: str) -> None:
        """`gone` is the sign of the lines that this side lacks, `left` that of those that the other one lacks."""
        pattern = re.compile(rf"^({numbers})(?:([{gone}][^\n]*\n?)|[ {left}])", re.M)
        super().__init__(pattern, _side_meant, self._is_signed)
        self._signed = re.compile(rf"{numbers}[ +-]")

    def _is_signed(self, shown: ShownCall) -> bool:
        """Whether each line of a call is one of the diff."""
        return all(self._signed.match(shown.text, shown.before(begin), begin) for begin, _ in shown.lines)


def _side_meant(found: re.Match[str]) -> str:
    """What is before the sign in a line that this side has."""
    return "" if found.group(2) else found.group(1)


class Diff:
    """How diffs are written: with such numbers before the sign of a line."""

    def __init__(self, numbers: str) -> None:
        self._removed, self._added = (re.compile(rf"^{numbers}[{sign}]", re.M) for sign in "-+")
        self.sides = (DiffSide("+", "-", numbers), DiffSide("-", "+", numbers))

    def is_in(self, text: str) -> bool:
        """Whether lines stand in a text that only the one side has, and some that only the other one has."""
        return self._removed.search(text) is not None and self._added.search(text) is not None


JSON = Escaping(_JSON, _json_meant, _is_json)
HTML = Escaping(_ENTITY, _entity_meant, _is_html)
CAT = Escaping(_CAT, _cat_meant, _is_cat)
CARRIAGE_RETURN = Escaping(_CARRIAGE_RETURN, lambda found: "\n", _is_ended_alike)
COLOURS = Escaping(_COLOUR, lambda found: "", _is_always)
DIFFS = (Diff(""), Diff(_NUMBER), Diff(_NUMBER * 2))
