"""The escapes of strings, in JSON and in Python, as models write them (F30).

Raw control characters are taken, and a backslash that escapes nothing stays. Where backslashes can be read in two ways,
as in a path that stands in a string as it is, there is no reading (contract C9).
"""

from __future__ import annotations

import re
import sys
from enum import Enum, auto

_SURE = ("\\", '"', "'", "/")
_LETTERS = {**{mark: mark for mark in _SURE}, "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_PYTHON_LETTERS = {**_LETTERS, "v": "\v", "a": "\a", "\n": ""}
_BARE_LINE_END = re.compile(r"(?<!\\)\n")
_OCTAL = re.compile(r"[0-7]{1,3}")
# Repetitions of one escape are one match, so that a long text of backslashes is read in a few steps. A repetition
# before a digit may be a longer escape, and is matched again. (Not `*+`: Python before 3.11.5 loses its place there.)
_REPEATED = r"(?:\1(?![0-9a-fA-F])){0,1000}"
_ESCAPE = re.compile(
    rf"(\\(?:u[0-9a-fA-F]{{4}}|U000[0-9a-fA-F]{{5}}|U0010[0-9a-fA-F]{{4}}|.?)){_REPEATED}", re.DOTALL
)
_PYTHON_ESCAPE = re.compile(
    rf"(\\(?:[0-7]{{1,3}}|x[0-9a-fA-F]{{2}}|u[0-9a-fA-F]{{4}}|U[0-9a-fA-F]{{8}}|.?)){_REPEATED}", re.DOTALL
)
# The beginning of a path on Windows; the line end before it may be an escape.
_LETTER = r"(?:(?<!\w)|(?<=\\[nrt]))[A-Za-z]:"
_DRIVE = re.compile(rf"{_LETTER}\\")
# Such a path with single backslashes that are escapes too: `C:\new` (but not `if a:\n    b()`), `\\server\new`.
_DRIVE_PATH = re.compile(rf"{_LETTER}\\(?:[bfnrt][\w$]|[bft]\\\w)")
_SERVER_PATH = re.compile(r"""(?:^|(?<=[\s"'=(,])|(?<=\\[nrt]))\\\\[\w.$-]+\\(?=[\w$])""")
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def unescape(inside: str, *, python: bool = False) -> str:
    """Return the value of a string from the text between its marks; marks without a backslash are kept.

    What escapes nothing stays as it is: in JSON `\\033` and `\\app` are no escapes, as they are in Python. Raises
    ValueError if the backslashes can be read in two ways.
    """
    if "\\" not in inside:
        return _joined(inside)
    meanings: dict[str, str] = {}

    def decoded(match: re.Match[str]) -> str:
        written, escape = match.group(0, 1)
        meaning = meanings.get(escape)
        if meaning is None:
            meaning = meanings[escape] = _meaning(escape[1:], python=python)
        return meaning * (len(written) // len(escape))

    text = (_PYTHON_ESCAPE if python else _ESCAPE).sub(decoded, inside)
    # Python joins lines after a backslash; who writes line ends without one may mean it as it stands.
    if "" in meanings.values() and _BARE_LINE_END.search(inside):
        raise ValueError("a backslash at the end of a line can be read in two ways")
    _check_escapes({_kind_of_escape(meaning) for meaning in meanings.values()}, inside)
    return _joined(text)


def unescaped(text: str) -> str:
    """Return a text without its escapes, in JSON or in Python, also where they can be read in two ways."""
    return _joined(_PYTHON_ESCAPE.sub(lambda found: _repeated(found, python=True), text)) if "\\" in text else text


def _repeated(found: re.Match[str], *, python: bool) -> str:
    """Return what an escape means, as often as it stands there."""
    written, escape = found.group(0, 1)
    return _meaning(escape[1:], python=python) * (len(written) // len(escape))


def _meaning(written: str, *, python: bool) -> str:
    """Decode an escape: the letter or number after the backslash."""
    letters = _PYTHON_LETTERS if python else _LETTERS
    if written in letters:
        return letters[written]
    if python and _OCTAL.fullmatch(written):
        return chr(int(written, 8))
    if len(written) > 1:
        return _character(written)
    return f"\\{written}"


def _character(escape: str) -> str:
    """The character of `u00e9`; the escape itself if there is none of that number."""
    code = int(escape[1:], 16)
    if code > sys.maxunicode:
        return f"\\{escape}"
    return chr(code)


class _Escape(Enum):
    """The meanings of a backslash in a string."""

    # It stands before a mark or another backslash: whoever wrote it knew how to escape.
    SURE = auto()
    # It stands for a character, unless it is that of a path: `\\new`.
    CHARACTER = auto()
    # It escapes nothing, and stays: `\\d`.
    NOTHING = auto()


def _kind_of_escape(part: str) -> _Escape:
    """The kind of an escape, by what it stands for."""
    if part in _SURE:
        return _Escape.SURE
    if part.startswith("\\"):
        return _Escape.NOTHING
    return _Escape.CHARACTER


def _check_escapes(kinds: set[_Escape], written: str) -> None:
    """ValueError if the backslashes of a string can be read in two ways: where one escapes nothing, as in a path that
    stands in it as it is, another one may not either.
    """
    if not kinds >= {_Escape.CHARACTER, _Escape.NOTHING}:
        return
    if _Escape.SURE not in kinds or _DRIVE.search(written):
        raise ValueError("backslashes that can be read in two ways")


def has_doubtful_path(written: str) -> bool:
    """True if a path on Windows may stand in a string with single backslashes, and these may be escapes as well.

    Whoever wrote no backslash before the string's own marks may have written none before those of the path either.
    """
    return bool(_DRIVE_PATH.search(written) or _SERVER_PATH.search(written))


def _joined(text: str) -> str:
    """Return the text with surrogate pairs, which escapes leave, as the characters that they encode."""
    if not _SURROGATES.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
