"""The ways in which a tool escapes what it shows, and whether the lines of a call were all escaped so.

An escaping is undone wherever something looks like it. Of a call it was one only if nothing stands in its lines that
it would have escaped: `grep \\d` in a call whose quotation marks stand there without backslashes says `\\d`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import dataclass
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
# What stands before the text in a line of a diff that only the one side has, or both: perhaps numbers, and a sign.
_NUMBERS = r"^((?:[ \t]{0,16}[0-9]{1,7}[ \t:|]){0,2})"
_OLD, _NEW = (re.compile(rf"{_NUMBERS}(?:([{gone}][^\n]*\n?)|[ {left}])", re.M) for gone, left in ("+-", "-+"))
_REMOVED, _ADDED = (re.compile(rf"{_NUMBERS}[{sign}]", re.M) for sign in "-+")
_SIGNED = re.compile(rf"{_NUMBERS}[ +-]")


@dataclass(frozen=True)
class ShownCall:
    """How a text shows the lines of a call: from where to where each stands, and what was escaped in them, each from
    where to where and what it means.
    """

    text: str
    lines: tuple[tuple[int, int], ...]
    escapes: tuple[tuple[int, int, str], ...]

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

    @cached_property
    def line_ends(self) -> frozenset[bool]:
        """Whether the lines end where the text's lines do: of each but the last."""
        ends = [end for _, end in self.lines[:-1]]
        begins = [begin for begin, _ in self.lines[1:]]
        return frozenset("\n" in self.text[end:begin] for end, begin in zip(ends, begins, strict=True))

    @property
    def is_untouched(self) -> bool:
        """True if nothing of it is escaped."""
        return not self.escapes and False not in self.line_ends

    @property
    def is_mixed(self) -> bool:
        """True if some of what was escaped also stands there as it is, or some of the line ends."""
        return len(self.line_ends) > 1 or not self.escaped.isdisjoint(self.plain)

    def before(self, position: int) -> str:
        """What stands before this position in its line."""
        start = max(0, position - MAX_STRING)
        return self.text[self.text.rfind("\n", start, position) + 1 or start : position]

    def behind(self, position: int) -> str:
        """What stands behind this position in its line."""
        end = self.text.find("\n", position, position + MAX_STRING)
        return self.text[position : end if end >= 0 else position + MAX_STRING]


@dataclass(frozen=True)
class Escaping:
    """A way of escaping: what it writes, what that means, and whether all of a call was escaped so."""

    pattern: re.Pattern[str]
    meant: Callable[[re.Match[str]], str]
    is_consistent: Callable[[ShownCall], bool]


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
    if True in shown.line_ends:
        return any(_are_strings(shown, mark) for mark in _MARKS - marks)
    if marks == _MARKS:
        return False
    if '"' in shown.escaped or (not marks and shown.line_ends):
        return True
    begin, end = shown.lines[0][0], shown.lines[-1][1]
    before, behind = shown.before(begin), shown.behind(end)
    return any(mark in before and mark in behind for mark in _MARKS - marks)


def _are_strings(shown: ShownCall, mark: str) -> bool:
    """Whether each line stands in a string of its own: `"<tool_call>\\n",`."""
    for number, (begin, end) in enumerate(shown.lines):
        behind = shown.behind(end)
        if mark not in shown.before(begin) or mark not in behind:
            return False
        is_last = number == len(shown.lines) - 1
        if not is_last and not re.match(rf"(?:(?:\\r)?\\n)?{mark}", behind):
            return False
    return True


def _entity_meant(found: re.Match[str]) -> str:
    return html.unescape(found.group())


def _is_html(shown: ShownCall) -> bool:
    """Whether a call is escaped as HTML: then no `<` and no `&` is left."""
    if shown.is_untouched:
        return True
    return not shown.is_mixed and shown.plain.isdisjoint("<&")


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
    """Whether all lines of a call end with a carriage return alone, or all with a line end."""
    return not shown.is_mixed


def _is_always(shown: ShownCall) -> bool:
    """Colours are in no call."""
    return True


def _side_meant(found: re.Match[str]) -> str:
    """What is before the sign in a line that this side has."""
    return "" if found.group(2) else found.group(1)


def is_diff(text: str) -> bool:
    """Whether lines stand in a text that only the one side of a diff has, and some that only the other one has."""
    return _REMOVED.search(text) is not None and _ADDED.search(text) is not None


def _is_signed(shown: ShownCall) -> bool:
    """Whether each line of a call is one of a diff."""
    return all(_SIGNED.match(shown.before(begin)) for begin, _ in shown.lines)


JSON = Escaping(_JSON, _json_meant, _is_json)
HTML = Escaping(_ENTITY, _entity_meant, _is_html)
CAT = Escaping(_CAT, _cat_meant, _is_cat)
CARRIAGE_RETURN = Escaping(_CARRIAGE_RETURN, lambda found: "\n", _is_ended_alike)
COLOURS = Escaping(_COLOUR, lambda found: "", _is_always)
OLD_SIDE = Escaping(_OLD, _side_meant, _is_signed)
NEW_SIDE = Escaping(_NEW, _side_meant, _is_signed)
