"""The text formats in which models write tool calls, and the one scanner that finds them.

A format is a line in the tables of `wrappers.py` or `row.py`, or a small parser of its own that they name; the scanner
knows none of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from .row import END_OF_TURN, STARTS, end_of_turn, row, to_the_end, until_thought
from .wrappers import WRAPPERS, Body, wrapped


@dataclass(frozen=True, slots=True)
class Format:
    """What begins with `opener`, at the start of a line only if `line_start`; `parse` reads it, opener and all.

    `then` holds the bytes of which one must follow, blanks aside; empty if any may. `in_code`: it counts in code too.
    """

    name: str
    opener: bytes
    line_start: bool
    parse: Body
    then: bytes = b""
    in_code: bool = False


_STRONG = tuple(Format(item.opener.decode(), item.opener, False, wrapped(item)) for item in WRAPPERS)
_WEAK = tuple(Format("row", start.opener, start.line_start, row, start.then) for start in STARTS)
_ENDS = tuple(Format("end_of_turn", token, False, end_of_turn, in_code=True) for token in END_OF_TURN)
# What is no call whatever it holds: the model's reasoning where a server leaves it in the text, and the JSON that the
# client asked for.
_THINKING = Format("thinking", b"<think>", True, until_thought)
_JSON = tuple(Format("json", opener, True, to_the_end) for opener in (b"{", b"["))


@dataclass(frozen=True, slots=True)
class Grammar:
    """The formats that count in one reply, and patterns of the bytes that one of them can begin with.

    `in_code` is that for code, and finds what can end the code too.
    """

    by_first_byte: Mapping[int, tuple[Format, ...]]
    first_byte: re.Pattern[bytes]
    in_code: re.Pattern[bytes]


@cache
def grammar(*, json_reply: bool, raw_text: bool) -> Grammar:
    """The formats for a reply.

    `json_reply`: the client asked for JSON (`response_format`), so weak evidence never counts (contract C3).
    `raw_text`: the proxy alone parses, so the text holds the model's own end-of-turn token.
    """
    return _grammar((*_STRONG, _THINKING, *(_JSON if json_reply else _WEAK), *(_ENDS if raw_text else ())))


def _grammar(formats: Iterable[Format]) -> Grammar:
    table: dict[int, tuple[Format, ...]] = {}
    in_code = set(b"`~\n")
    for item in formats:
        table[item.opener[0]] = (*table.get(item.opener[0], ()), item)
        in_code |= {item.opener[0]} if item.in_code else set()
    return Grammar(table, _one_of(table), _one_of(in_code))


def _one_of(values: Iterable[int]) -> re.Pattern[bytes]:
    return re.compile(b"[%b]" % re.escape(bytes(values)))
