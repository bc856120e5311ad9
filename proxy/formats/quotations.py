"""Quotations around a call in a wrapper: `<code>`, `<pre>`, docstrings, table cells, quotation marks (contract C3).

    Write "<tool_call>{"name": "now"}</tool_call>" and wait.
    <pre><tool_call>{"name": "now"}</tool_call></pre>

A quotation must have begun before the call, in its paragraph (for `<pre>` and docstrings: anywhere before it), and must
end directly behind it: a stray mark alone makes no call a quotation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from proxy.formats.markers import WRAPPER_KINDS
from proxy.formats.terminators import CALL_KINDS, LEFTOVERS
from proxy.parsing.cursor import MAX_BLANKS

MARKS = {
    **{'"': '"', "'": "'", "“": "”", "”": "”", "„": "“”", "‘": "’", "’": "’", "‚": "‘’"},
    **{"«": "»", "»": "«", "‹": "›", "›": "‹", "「": "」", "『": "』"},
}
# Characters before a call in which a quotation mark may have begun a quotation around it.
MAX_SENTENCE = 1024
# Bytes behind a call that tell whether it is quoted.
MAX_BEHIND = MAX_BLANKS + 96
_PRE = re.compile(r"<(/?)pre\b[^<>]{0,200}>", re.I)
_CODE = re.compile(r"<(/?)code\b[^<>]{0,200}>", re.I)
_DOCSTRING = re.compile(r"\"{3}|'{3}")
_PARAGRAPH_END = re.compile(r"\n[ \t]*\r?\n")
_MARK = re.compile(f"[{''.join({*MARKS, *''.join(MARKS.values())})}]")
# Directly before a mark that begins a quotation; behind anything else one may end it.
_BEFORE_OPENER = re.compile(r"[\s(\[{<>=:|—–-]\Z")
_IN_WORD = re.compile(r"\w\Z")
_END_TAG = re.compile(r"</(pre|code)>", re.I)
# What is no text behind a call; in a string of code a line end is written with a backslash.
_PASSED = (
    *(token.decode() for token in LEFTOVERS),
    *(f"</{kind}>" for kind in sorted(WRAPPER_KINDS | CALL_KINDS)),
    *("\\n", "\\r", "\\t"),
)
_BEHIND_CALL = re.compile(rf"(?:\s|{'|'.join(map(re.escape, sorted(_PASSED, key=len, reverse=True)))})*")
_KNOWN = tuple(token.lower() for token in (*_PASSED, "</pre>", "</code>"))
_EITHER = "\"'"


@dataclass(frozen=True, slots=True)
class Quotation:
    """What would end the quotations that are open before a call.

    `marks` are quotation marks; `tags` HTML elements; `docstrings` their marks; `cell`: the line is a row of a table.
    """

    marks: str = ""
    tags: frozenset[str] = frozenset()
    docstrings: str = ""
    cell: bool = False

    def __bool__(self) -> bool:
        return any((self.marks, self.tags, self.docstrings, self.cell))

    def ends(self, behind: str, *, complete: bool) -> bool | None:
        """Whether it ends directly behind the call, at what stands there; None while more text must tell, unless this
        is `complete`.
        """
        gap = _gap(behind)
        rest = behind[len(gap) :]
        if not complete and _may_go_on(rest):
            return None
        tag = _END_TAG.match(rest)
        if tag is not None:
            return self._ends_at_tag(tag.group(1).lower(), gap)
        if rest[:3] in (mark * 3 for mark in self.docstrings):
            return True
        if not rest:
            return False
        if _PARAGRAPH_END.search(gap):
            return False
        if rest[0] == "|" and "\n" not in gap:
            return self.cell
        return self._ends_at_mark(rest)

    def _ends_at_tag(self, name: str, gap: str) -> bool:
        """Whether an end tag of HTML behind this gap is that of an element that is open."""
        if name not in self.tags:
            return False
        if "pre" in self.tags:
            return True
        return not _PARAGRAPH_END.search(gap)

    def _ends_at_mark(self, rest: str) -> bool:
        """Whether a quotation mark stands here, and ends the quotation: before a word it begins another one."""
        if rest[0] in _EITHER and rest[1:2].isalnum():
            return False
        return rest[0] in self.marks


def _gap(behind: str) -> str:
    """Blanks, and tokens that are no text, directly behind a call."""
    passed = _BEHIND_CALL.match(behind)
    return passed.group() if passed else ""


def blanks_behind(behind: bytes) -> int:
    """How many bytes of what stands behind a call are blanks, or tokens that are no text there."""
    return len(_gap(behind.decode("utf-8", "replace")).encode())


def _may_go_on(rest: str) -> bool:
    """Whether more text could make this a token, a tag or a docstring's mark, or what begins a word."""
    if rest in ("", '"', "'", '""', "''"):
        return True
    return any(len(rest) < len(known) and known.startswith(rest.lower()) for known in _KNOWN)


def quotation(before: str) -> Quotation:
    """The quotations that are open at the end of this text."""
    pre = _is_open(_PRE, before)
    ends = [0, *(match.end() for match in _PARAGRAPH_END.finditer(before))]
    paragraph = before[ends[-1] :]
    code = _is_open(_CODE, before if pre else paragraph)
    tags = frozenset(name for name, is_open in (("pre", pre), ("code", code)) if is_open)
    line = paragraph.rpartition("\n")[2]
    return Quotation(_open_marks(paragraph[-MAX_SENTENCE:]), tags, _open_docstring(before), "|" in line)


def _is_open(tags: re.Pattern[str], text: str) -> bool:
    # The slash of each tag, if it is an end tag.
    slashes = tags.findall(text)
    return slashes[-1:] == [""]


def _open_docstring(text: str) -> str:
    """The mark of a docstring that is open."""
    open_mark = ""
    for match in _DOCSTRING.finditer(text):
        mark = match.group()[0]
        if not open_mark:
            open_mark = mark
        elif mark == open_mark:
            open_mark = ""
    return open_mark


def _open_marks(paragraph: str) -> str:
    """The marks that would end the quotations that are open."""
    ends: dict[str, None] = {}
    for match in _MARK.finditer(paragraph):
        mark, before = match.group(), paragraph[: match.start()][-1:]
        if mark in ends and not _begins_again(mark, before):
            ends = {end: None for end in ends if end not in _closed_by(mark)}
        elif not _is_apostrophe(mark, before):
            ends.update(dict.fromkeys(MARKS.get(mark, "")))
    # Directly before the call a mark begins a quotation whatever stood before it.
    ends.update(dict.fromkeys(MARKS.get(paragraph[-1:], "")))
    return "".join(ends)


def _begins_again(mark: str, before: str) -> bool:
    """Whether a mark that could end a quotation begins one: `say "a" or "b"`."""
    if mark not in _EITHER:
        return False
    if not before:
        return True
    return _BEFORE_OPENER.match(before) is not None


def _is_apostrophe(mark: str, before: str) -> bool:
    """Whether a straight mark stands in a word, or behind one: `it's`."""
    if mark not in _EITHER:
        return False
    return _IN_WORD.match(before) is not None


def _closed_by(mark: str) -> str:
    """All the ends that one of them stands for: `„` may end with either of two."""
    return "".join(closers for closers in MARKS.values() if mark in closers)
