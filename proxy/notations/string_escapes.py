"""Decoding of JSON and Python string escapes as models write them (F30).

Raw control characters are accepted, and a backslash that escapes nothing is kept. A string whose backslashes can be
read in two ways, such as an unescaped path, is rejected (contract C9).
"""

from __future__ import annotations

import re
import sys

_SURE = ("\\", '"', "'", "/")
_LETTERS = {**{mark: mark for mark in _SURE}, "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_PYTHON_LETTERS = {**_LETTERS, "v": "\v", "a": "\a", "\n": ""}
_BARE_LINE_END = re.compile(r"(?<!\\)\n")
_OCTAL = re.compile(r"[0-7]{1,3}")
# Repetitions of one escape are one match, so that a long run of backslashes takes few steps. A repetition before a
# digit may be a longer escape, and is matched again. (Not `*+`, which has a bug before Python 3.11.5.)
_REPEATED = r"(?:\1(?![0-9a-fA-F])){0,1000}"
_ESCAPE = re.compile(rf"(\\(?:u[0-9a-fA-F]{{4}}|U000[0-9a-fA-F]{{5}}|U0010[0-9a-fA-F]{{4}}|.?)){_REPEATED}", re.DOTALL)
_PYTHON_ESCAPE = re.compile(
    rf"(\\(?:[0-7]{{1,3}}|x[0-9a-fA-F]{{2}}|u[0-9a-fA-F]{{4}}|U[0-9a-fA-F]{{8}}|.?)){_REPEATED}", re.DOTALL
)
# The start of a Windows path; the line end before it may be an escape.
_LETTER = r"(?:(?<!\w)|(?<=\\[nrt]))[A-Za-z]:"
_DRIVE = re.compile(rf"{_LETTER}\\")
# Such a path with single backslashes that are escapes too: `C:\new` (but not `if a:\n    b()`), `\\server\new`.
_DRIVE_PATH = re.compile(rf"{_LETTER}\\(?:[bfnrt][\w$]|[bft]\\\w)")
_SERVER_PATH = re.compile(r"""(?:^|(?<=[\s"'=(,])|(?<=\\[nrt]))\\\\[\w.$-]+\\(?=[\w$])""")
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def unescape(inside: str, *, python: bool = False) -> str:
    """Return the value of a string, given the text between its quotation marks. Unescaped marks in it are kept.

    A backslash that escapes nothing is kept: `\\033` and `\\app` are escapes in Python, but not in JSON. Raises
    ValueError if the backslashes can be read in two ways.
    """
    if "\\" not in inside:
        return _joined(inside)
    text, meanings = _decoded(inside, python=python)
    # Python joins lines after a backslash; a string that also has plain line ends may mean the backslash literally.
    if "" in meanings.values() and _BARE_LINE_END.search(inside):
        raise ValueError("a backslash at the end of a line can be read in two ways")
    # An escaped quotation mark, slash or backslash shows deliberate escaping. Otherwise, if one backslash escapes
    # nothing, as in an unescaped path, one that encodes a character may be literal too.
    deliberate = any(meaning in _SURE for meaning in meanings.values())
    literal = {meaning.startswith("\\") for meaning in meanings.values() if meaning not in _SURE}
    if literal == {True, False} and (not deliberate or _DRIVE.search(inside)):
        raise ValueError("backslashes that can be read in two ways")
    return _joined(text)


def unescaped(text: str) -> str:
    """Return a text with the escapes of JSON and Python decoded, even those that can be read in two ways."""
    return _joined(_decoded(text, python=True)[0]) if "\\" in text else text


def _decoded(text: str, *, python: bool) -> tuple[str, dict[str, str]]:
    """Return the text with its escapes decoded, and the value of each escape that occurs."""
    meanings: dict[str, str] = {}

    def decoded(match: re.Match[str]) -> str:
        written, escape = match.group(0, 1)
        if escape not in meanings:
            meanings[escape] = _meaning(escape[1:], python=python)
        return meanings[escape] * (len(written) // len(escape))

    return (_PYTHON_ESCAPE if python else _ESCAPE).sub(decoded, text), meanings


def _meaning(written: str, *, python: bool) -> str:
    """Decode an escape: the letter or number after the backslash."""
    letters = _PYTHON_LETTERS if python else _LETTERS
    if written in letters:
        return letters[written]
    if python and _OCTAL.fullmatch(written):
        return chr(int(written, 8))
    if len(written) > 1 and (code := int(written[1:], 16)) <= sys.maxunicode:
        return chr(code)
    return f"\\{written}"


def has_doubtful_path(written: str) -> bool:
    """Return whether a string may hold a Windows path with single backslashes that could also be escapes.

    A model that does not escape quotation marks may not escape the backslashes of a path either.
    """
    return bool(_DRIVE_PATH.search(written) or _SERVER_PATH.search(written))


def _joined(text: str) -> str:
    """Return the text with surrogate pairs from decoded escapes joined into characters."""
    if not _SURROGATES.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
