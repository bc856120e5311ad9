"""What a tool result shows, brought to a form in which a call can be looked for: escapes undone, line by line.

    {"text": "12\\t<tool_call>\\n13\\t{\\"name\\": \\"now\\"}\\n14\\t</tool_call>"}

A text that was escaped as a whole has its line ends escaped too, so what is a line depends on how often it is
unescaped; each of these readings is a text of its own. Within the lines nothing is left of any escape.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

# Readings of one result, besides the sides of diffs.
MAX_LEVELS = 12
# A backslash and what it stands for, and an entity. How many backslashes stand there, or `amp;`, is how often the text
# was escaped, which says nothing here. A line that ends with a backslash ends all the same.
_ESCAPED = re.compile(r"(?<!\\)\\+(u[0-9a-fA-F]{4}|[^\\\n])?")
_ESCAPED_ONCE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.S)
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t"}
_ENTITY = re.compile(r"&(?:amp;|#38;|#[xX]26;)*(#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_SURROGATE = re.compile("[\ud800-\udfff]")
_COLOUR = re.compile(r"\x1b\[[0-9;?]{0,32}[A-Za-z]")
# `cat -A`: `$` where a line ends, `^I` for a tab, `M-CM-<` for an `ü`.
_CAT_END = re.compile(r"\$(?=\n|\Z)")
_CAT_CONTROL = re.compile(r"\^([@-_?])")
_CAT_BYTES = re.compile(r"M-\^?[ -~](?:M-\^?[ -~])*")
_CAT_BYTE = re.compile(r"M-(\^?)([ -~])")
# What stands before the text in a line of a diff that only the one side has, or both: perhaps numbers, and a sign.
_NUMBERS = r"^((?:[ \t]*[0-9]{1,7}[ \t:|]){0,2})"
_OLD, _NEW = (re.compile(rf"{_NUMBERS}[{sign}][^\n]*", re.M) for sign in "-+")
_OLD_SIGN, _NEW_SIGN = (re.compile(rf"{_NUMBERS}[ {sign}]", re.M) for sign in "-+")


def readings(result: str) -> tuple[str, ...]:
    """The texts that a result may show, each as lines with a line end before the first and behind the last one."""
    levels = _levels(result)
    # A diff may be escaped as a whole, and in a string of a call may stand what looks like a line of one.
    texts = [*levels, *(side for level in levels for side in _sides(level))]
    return tuple(dict.fromkeys("\n".join(["", *lines(text), ""]) for text in texts))


def lines(text: str) -> list[str]:
    """The lines in which something stands, without escapes and without the blanks around them."""
    text = _unescaped(text.replace("\r\n", "\n")).replace("\r", "")
    return [line for line in map(str.strip, text.split("\n")) if line]


def _levels(text: str) -> list[str]:
    """The text as it stands there, and as it was before each time that it was escaped."""
    found = [text]
    for level in found:
        for earlier in _earlier(level):
            if len(found) < MAX_LEVELS and earlier not in found:
                found.append(earlier)
    return found


def _earlier(text: str) -> Iterator[str]:
    """The text as it was before it was escaped as JSON, as HTML or as `cat -A` does, or its line ends were changed."""
    if "\\" in text:
        yield _ESCAPED_ONCE.sub(_character, text)
    if "&" in text:
        yield _ENTITY.sub(_of_entity, text)
    if "$\n" in text:
        yield _without_cat(text)
    if "\r" in text:
        yield text.replace("\r", "\n")


def _unescaped(text: str) -> str:
    """The text as it was before it was escaped, however often, in the same lines."""
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    if "\\" in text:
        text = _ESCAPED.sub(_in_line, text)
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _ENTITY.sub(_entity_in_line, text) if "&" in text else text


def _character(found: re.Match[str]) -> str:
    """What a backslash and what is behind it stand for."""
    escaped = found.group(1) or ""
    if len(escaped) > 1:
        return chr(int(escaped[1:], 16))
    return _CONTROLS.get(escaped, escaped)


def _in_line(found: re.Match[str]) -> str:
    return _no_line_end(_character(found))


def _of_entity(found: re.Match[str]) -> str:
    return html.unescape(f"&{found.group(1)};")


def _entity_in_line(found: re.Match[str]) -> str:
    return _no_line_end(_of_entity(found))


def _no_line_end(character: str) -> str:
    """A line end that is escaped ends no line."""
    return " " if character in "\r\n" else character


def _without_cat(text: str) -> str:
    """The text that `cat -A` shows so."""
    text = _CAT_BYTES.sub(_of_bytes, _CAT_END.sub("", text))
    return _CAT_CONTROL.sub(_control, text)


def _control(found: re.Match[str]) -> str:
    return chr(ord(found.group(1)) ^ 64)


def _of_bytes(found: re.Match[str]) -> str:
    values = [ord(character) ^ 64 if caret else ord(character) for caret, character in _CAT_BYTE.findall(found.group())]
    return bytes(value + 128 for value in values).decode("utf-8", "replace")


def _sides(text: str) -> tuple[str, ...]:
    """What a diff leaves of a text, and what it made of it."""
    if not _OLD.search(text) or not _NEW.search(text):
        return ()
    return _OLD_SIGN.sub(r"\1", _NEW.sub("", text)), _NEW_SIGN.sub(r"\1", _OLD.sub("", text))
