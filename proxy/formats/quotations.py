"""Quotations around a call in a wrapper: `<code>`, `<pre>`, docstrings, table cells, quotation marks (contract C3).

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
        return bool(self.marks or self.tags or self.docstrings or self.cell)

    def ends(self, behind: str, *, complete: bool) -> bool | None:
        """Whether it ends directly behind the call, at what stands there; None while more text must tell, unless this
        is `complete`.
        """
        passed = _BEHIND_CALL.match(behind)
        gap = passed.group() if passed else ""
        rest = behind[len(gap) :]
        if not complete and _may_go_on(rest):
            return None
        tag = _END_TAG.match(rest)
        if tag is not None:
            return tag.group(1).lower() in self.tags and ("pre" in self.tags or not _PARAGRAPH_END.search(gap))
        if rest[:3] in (mark * 3 for mark in self.docstrings):
            return True
        if _PARAGRAPH_END.search(gap) or not rest:
            return False
        if self.cell and rest[0] == "|" and "\n" not in gap:
            return True
        # Before a word it begins another quotation.
        return rest[0] in self.marks and not (rest[0] in _EITHER and rest[1:2].isalnum())


def blanks_behind(behind: bytes) -> int:
    """How many bytes of what stands behind a call are blanks, or tokens that are no text there."""
    passed = _BEHIND_CALL.match(behind.decode("utf-8", "replace"))
    return len(passed.group().encode()) if passed else 0


def _may_go_on(rest: str) -> bool:
    """Whether more text could make this a token, a tag or a docstring's mark, or what begins a word."""
    if rest in ("", '"', "'", '""', "''"):
        return True
    return any(len(rest) < len(known) and known.startswith(rest.lower()) for known in _KNOWN)


def quotation(before: str) -> Quotation:
    """The quotations that are open at the end of this text."""
    pre = _is_open(_PRE, before)
    ends = [found.end() for found in _PARAGRAPH_END.finditer(before)]
    paragraph = before[ends[-1] :] if ends else before
    code = _is_open(_CODE, before if pre else paragraph)
    tags = frozenset(name for name, is_open in (("pre", pre), ("code", code)) if is_open)
    line = paragraph.rpartition("\n")[2]
    return Quotation(_open_marks(paragraph[-MAX_SENTENCE:]), tags, _open_docstring(before), "|" in line)


def _is_open(tags: re.Pattern[str], text: str) -> bool:
    found = tags.findall(text)
    return bool(found) and not found[-1]


def _open_docstring(text: str) -> str:
    """The mark of a docstring that is open."""
    open_mark = ""
    for found in _DOCSTRING.finditer(text):
        mark = found.group()[0]
        open_mark = mark if not open_mark else "" if mark == open_mark else open_mark
    return open_mark


def _open_marks(paragraph: str) -> str:
    """The marks that would end the quotations that are open."""
    ends: dict[str, None] = {}
    for found in _MARK.finditer(paragraph):
        mark, before = found.group(), paragraph[: found.start()][-1:]
        begins = mark in MARKS and (not before or _BEFORE_OPENER.match(before) is not None)
        if mark in ends and not (begins and mark in _EITHER):
            ends = {end: None for end in ends if end not in _closed_by(mark)}
        elif mark in MARKS and not (mark in _EITHER and _IN_WORD.match(before)):
            ends.update(dict.fromkeys(MARKS[mark]))
    # Directly before the call a mark begins a quotation whatever stood before it.
    ends.update(dict.fromkeys(MARKS.get(paragraph[-1:], "")))
    return "".join(ends)


def _closed_by(mark: str) -> str:
    """All the ends that one of them stands for: `„` may end with either of two."""
    return "".join(closers for closers in MARKS.values() if mark in closers)
