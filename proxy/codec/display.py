"""Texts as people are shown them: short, and on one line.

Other modules have ways of their own: a client's words in an error of a dialect (`dialects/translation.py`: ASCII), the
fields of the access log (`web/record.py`: words or JSON), values in the audit (`worker/audit_log.py`: with their
length where they are cut), lines of the log (`worker/logging_setup.py`: without keys).
"""

from __future__ import annotations

import json


def cut(text: str, most: int) -> str:
    """The text, or its beginning with three dots, of `most` characters in all."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def printable(text: str, mark: str) -> str:
    """The text on one line: `mark` for each character that a terminal would act on, or not show."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else mark for letter in text)


def escaped(text: str, keep: str = "") -> str:
    """Return the text with each character that a terminal would act on, or not show, as JSON escapes it: `\\u202e`.

    Characters in `keep` stay. JSON stays the same JSON: such characters are in its strings only.
    """
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign in keep else json.dumps(sign)[1:-1] for sign in text)
