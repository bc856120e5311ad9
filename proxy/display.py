"""Shortening and escaping text for display on one line.

Other modules format differently: fields of the access log (`web/record.py`: words or JSON), values in the audit
(`server/audit_log.py`: with their length if they are cut), lines of the log (`server/logging_setup.py`: keys masked).
"""

from __future__ import annotations

import json


def cut(text: str, most: int) -> str:
    """Return the text, cut to `most` characters; a cut text ends with three dots."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def escaped(text: str, keep: str = "") -> str:
    """Return the text with each unprintable character as a JSON escape: `\\u202e`.

    Characters in `keep` stay. JSON keeps its value: such characters occur only in its strings.
    """
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign in keep else json.dumps(sign)[1:-1] for sign in text)
