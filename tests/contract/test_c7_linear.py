"""Reading takes linear time (contract C7), whatever the text is.

CPU time is compared with tenfold slack between a text and one that is 16 times as long, so a busy machine passes and
quadratic work does not.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.notations.copies import Copies
from proxy.notations.front import Reader
from proxy.notations.tables import END_OF_TURN, TOKENS, WRAPPER_WORDS
from tests.support.helpers import call_json, function, offered

DATA = json.loads(Path(__file__).with_name("fuzz.json").read_text("utf-8"))

pytestmark = pytest.mark.once

# Length of the shorter text, and the factor of the longer one.
SIZE, TIMES = 500, 16
SLACK = 10
# Shorter times, in seconds, are not measured exactly.
SOON = 0.002
# A reply that is not streamed arrives whole.
WHOLE = sys.maxsize
CUTS = (64, WHOLE)

STRINGS = {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}}
TOOLS = offered(
    function("read", {"path": {"type": "string"}, "limit": {"type": "integer"}}, "path"),
    function("now"),
    function("search", {"options": STRINGS, "paths": {"type": "array", "items": {"type": "string"}}}),
)


def seconds(text: str, cut: int, *results: str) -> float:
    """Return the CPU time that reading a text in pieces of this length takes."""
    began = time.process_time()
    reader = Reader(TOOLS, Copies(TOOLS, results))
    for at in range(0, len(text), cut):
        reader.feed(text[at : at + cut])
    reader.finish()
    return time.process_time() - began


@dataclass(frozen=True, slots=True)
class Frame:
    """The text around the fragments, such as the start and end of a value."""

    head: str
    tail: str

    def around(self, parts: tuple[str, ...], size: int) -> str:
        """Repeat the parts in turn up to about this number of characters."""
        count = max(1, size * len(parts) // len("".join(parts)))
        return self.head + "".join(islice(cycle(parts), count)) + self.tail


def assert_linear(frame: Frame, *parts: str, cuts: tuple[int, ...] = CUTS) -> None:
    """Assert that TIMES as much text takes at most SLACK * TIMES as long at every cut."""
    few, many = (frame.around(parts, size) for size in (SIZE, SIZE * TIMES))
    for cut in cuts:
        most = SLACK * TIMES * max(SOON, seconds(few, cut))
        spent = seconds(many, cut)
        assert spent <= most, f"more than linear in pieces of {cut}: {spent:.2f} s"


READ = call_json("read", path="a")
OPENERS = [*(f"<{word}>" for word in WRAPPER_WORDS), *TOKENS]
CLOSERS = [closer for closers in TOKENS.values() for closer in closers]
# Fragments that may begin many readings or no reading.
FRAGMENTS = DATA["FRAGMENTS"]
FRAMES = {name: Frame(*each) for name, each in DATA["FRAMES"].items()}
# Fragments that are read quickly alone, and frames in which they may be read repeatedly.
PLACED = tuple(map(tuple, DATA["PLACED"]))
FILLERS = (" ", "\n", " \n", "a", "é", "🙂", "\\", ">", "```\n", "[TOOL_CALLS]now")


@pytest.mark.slow
@pytest.mark.parametrize("fragment", [*dict.fromkeys([*OPENERS, *CLOSERS, *END_OF_TURN, *FRAGMENTS])], ids=repr)
def test_a_repeated_fragment_is_read_in_linear_time(fragment: str) -> None:
    assert_linear(FRAMES["text"], fragment)


@pytest.mark.slow
@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("filler", FILLERS, ids=repr)
def test_a_repeated_fragment_in_a_value_is_read_in_linear_time(frame: str, filler: str) -> None:
    """Many patterns begin with whitespace."""
    assert_linear(FRAMES[frame], filler)


@pytest.mark.slow
@pytest.mark.parametrize("frame, fragment", PLACED)
def test_a_repeated_fragment_in_a_frame_is_read_in_linear_time(frame: str, fragment: str) -> None:
    assert_linear(FRAMES[frame], fragment, cuts=CUTS[: 1 + PLACED.index((frame, fragment)) % 2])


@pytest.mark.parametrize("opener", ["<parameter=zz>", "x <tool_call> "])
def test_unmatched_end_tags_are_read_in_linear_time(opener: str) -> None:
    head = FRAMES["function"].head
    few, many = (seconds(head + opener * count + "</function> x " * count, WHOLE) for count in (200, 200 * TIMES))
    assert many <= SLACK * TIMES / 4 * max(SOON, few)


@pytest.mark.slow
@settings(max_examples=80, derandomize=True)
@given(
    st.sampled_from([*FRAMES.values()]),
    st.lists(st.sampled_from([*FRAGMENTS, *OPENERS, *CLOSERS]), min_size=1, max_size=3),
)
def test_alternating_fragments_are_read_in_linear_time(frame: Frame, parts: list[str]) -> None:
    assert_linear(frame, *parts)


# Parts of tool results.
SHOWN = [
    *("a", " ", "\n", "\r\n", "  \n", "\t|", "\\", "\\n", "\\\\", "\\u00e9", "\\ud83d", "&", "&amp;", "&lt;", "&#38;"),
    *("1:", "12 ", "\n12:", "\n 9→", "a.py:1:", "a.py:", "a-1-", "x-", "\n> ", "+", "\n+a\n-b", "\n@@ -1,2 +1,2 @@"),
    *("\n```\n", "0123456", "deadbeef ", "deadbeef (a ", "(", "\n#", "<tool_call>", READ, "é", "\udc00", "|", "- "),
    *("$\n", "^I$\n", "M-CM-)$\n", "M-", "\x1b[0m", "\x1b[", "&#10;", "\n[12] ", "\nsrc/[id]/a b.tsx:12:", "\n12) "),
    *("<tool_call>\n", "12: <tool_call>\n", "<tool_call>\n12\n", f"<tool_call>\n{READ}\n", "<tool_call>|\n|\n"),
]
SOUGHT = {
    "in a line": f"<tool_call>{call_json('read', path='a/b')}</tool_call>",
    "in lines": f"<tool_call>\n{call_json('read', path='a/b')}\n</tool_call>",
    "in lines that are equal": "<tool_call>\n" * 9 + f"{call_json('read', path='a/b')}\n</tool_call>",
}


@pytest.mark.parametrize("fragment", SHOWN, ids=repr)
@pytest.mark.parametrize("call", SOUGHT)
def test_a_result_is_searched_for_a_copy_in_linear_time(call: str, fragment: str) -> None:
    few, many = (fragment * (size // len(fragment)) + "\n<tool_call>" for size in (SIZE, SIZE * TIMES))
    most = SLACK * TIMES * max(SOON, seconds(SOUGHT[call], WHOLE, few))
    assert seconds(SOUGHT[call], WHOLE, many) <= most


# The number of calls in a reply for which results are searched.
MANY = 64
CALLS = [f"<tool_call>\n{call_json('read', path=f'a/b{number}')}\n</tool_call>\n" for number in range(MANY)]


@pytest.mark.parametrize("line", ["{}\t<tool_call>", "{}: </tool_call>", "  <tool_call>", "<tool_call> name {}"])
def test_a_result_with_many_tags_is_searched_for_many_calls_in_linear_time(line: str) -> None:
    """A result is indexed once for all calls."""
    lines = [line.format(number) for number in range(4000)]
    result = "\n".join([*lines, "<tool_call>", "name read arguments path", "</tool_call>"])
    one, all_of_them = seconds(CALLS[0], WHOLE, result), seconds("".join(CALLS), WHOLE, result)
    assert all_of_them <= SLACK * MANY * max(SOON, one) / 4


def test_a_result_with_similar_lines_is_searched_for_many_calls_in_linear_time() -> None:
    """The result contains the lines of each call many times in another order."""
    result = ""
    for call in CALLS:
        first, inner, last, _ = call.split("\n")
        result += "\n".join([first, inner, "x", last, first, "x", inner, last, ""]) * 50
    few, many = (seconds("".join(CALLS[:count]), WHOLE, result) for count in (MANY // 8, MANY))
    assert many <= SLACK * 8 * max(SOON, few)
