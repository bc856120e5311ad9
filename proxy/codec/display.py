"""Texts as people are shown them: short, and on one line.

Others are shown in ways of their own: a client's words in an error of a dialect (`dialects/validation.py`: ASCII), the
fields of the access log (`web/access_log.py`: words or JSON), values in the audit (`worker/audit_log.py`: with their
length where they are cut), lines of the log (`worker/logging_setup.py`: escaped, and without keys).
"""

from __future__ import annotations


def cut(text: str, most: int) -> str:
    """The text, or its beginning with three dots, of `most` characters in all."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def printable(text: str, mark: str) -> str:
    """The text on one line: `mark` for each character that a terminal would act on, or not show."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else mark for letter in text)
