"""The reader: every verb gives the same at every cut, waits only while it must, and never reads anything twice."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import pytest

from proxy.limits import MAX_DEPTH
from proxy.parsing.buffer import TextBuffer
from proxy.parsing.cursor import MAX_BLANKS, MAX_KEY, MAX_VOID, Context, Cursor, Literals, NotACall, Parsing, Truncated
from tests.support.helpers import all_cuts, offered

Verb = Callable[[Cursor], Parsing[object]]
NO = "no call"
VOID = "void"
COMMA = re.compile(rb",")


def drive(verb: Verb, cut: list[bytes]) -> tuple[object, int]:
    """What the verb gives over a text that comes in these pieces and then ends, and how far it read."""
    window = TextBuffer()
    reader = Cursor(window, 0, Context(offered()))
    parsing = verb(reader)
    try:
        for part in cut:
            window.data += part
            next(parsing)
        window.ended = True
        next(parsing)
    except StopIteration as done:
        return VOID if reader.void else done.value, reader.pos
    except NotACall:
        return NO, -1
    raise AssertionError("it waits although no more text comes")


def which(*literals: bytes) -> Verb:
    return lambda reader: reader.which(literals)


CASES: dict[str, tuple[Verb, bytes, tuple[object, int]]] = {
    "which: the longest wins": (which(b"a", b"abc"), b"abcd", (b"abc", 3)),
    "which: the shorter if the longer does not come": (which(b"a", b"abc"), b"abd", (b"a", 1)),
    "which: the shorter at the end": (which(b"a", b"abc"), b"ab", (b"a", 1)),
    "which: none": (which(b"a", b"b"), b"c", (None, 0)),
    "which: none at the end": (which(b"ab"), b"a", (None, 0)),
    "which: nothing there": (which(b"ab"), b"", (None, 0)),
    "expect": (lambda reader: reader.expect(b"ab"), b"abc", (None, 2)),
    "expect: something else": (lambda reader: reader.expect(b"ab"), b"ac", (NO, -1)),
    "expect: half of it": (lambda reader: reader.expect(b"ab"), b"a", (NO, -1)),
    "blanks": (lambda reader: reader.blanks(), b" \t\r\n x", (None, 5)),
    "blanks: none": (lambda reader: reader.blanks(), b"x", (None, 0)),
    "blanks: to the end": (lambda reader: reader.blanks(), b"  ", (None, 2)),
    "blanks: as many as may be": (lambda reader: reader.blanks(), b" " * MAX_BLANKS + b"x", (None, MAX_BLANKS)),
    "blanks: one more": (lambda reader: reader.blanks(), b" " * (MAX_BLANKS + 1) + b"x", (NO, -1)),
    "until": (lambda reader: reader.until(COMMA), b"ab,c", (b"ab", 2)),
    "until: at once": (lambda reader: reader.until(COMMA), b",c", (b"", 0)),
    "until: never": (lambda reader: reader.until(COMMA), b"abc", (NO, -1)),
    "until: within the limit": (lambda reader: reader.until(COMMA, 2), b"ab,c", (b"ab", 2)),
    "until: over the limit": (lambda reader: reader.until(COMMA, 2), b"abc,", (NO, -1)),
    "find": (lambda reader: reader.find(b"</a>"), b"x</</a>y", ((3, b"</a>"), 7)),
    "find: at once": (lambda reader: reader.find(b"</a>"), b"</a>", ((0, b"</a>"), 4)),
    "find: never": (lambda reader: reader.find(b"</a>"), b"x</a", (NO, -1)),
    "find: one of several": (lambda reader: reader.find(b"</a>", b"</b>"), b"x</</b></a>", ((3, b"</b>"), 7)),
    "past": (lambda reader: reader.past(b"-->"), b"a -- -->b", (b"-->", 8)),
    "past: never": (lambda reader: reader.past(b"-->"), b"a --", (b"", 4)),
    "past: nothing there": (lambda reader: reader.past(b"-->"), b"", (b"", 0)),
    "peek": (lambda reader: reader.peek((b"a", b"abc")), b"abcd", (b"abc", 0)),
    "peek: none": (lambda reader: reader.peek((b"abc",)), b"abd", (None, 0)),
    "ahead": (lambda reader: reader.ahead(reader.until(COMMA)), b"ab,", (b"ab", 0)),
    "ahead: of no call": (lambda reader: reader.ahead(reader.until(COMMA)), b"ab", (NO, -1)),
    "maybe": (lambda reader: reader.maybe(reader.until(COMMA)), b"ab,", (b"ab", 2)),
    "maybe: nothing given": (lambda reader: reader.maybe(reader.blanks()), b" x", (None, 0)),
    "maybe: of no call": (lambda reader: reader.maybe(reader.until(COMMA)), b"ab", (None, 0)),
    "maybe: what is empty is nothing": (lambda reader: reader.maybe(reader.until(COMMA)), b",", (None, 0)),
    "byte": (lambda reader: reader.byte(), b"ab", (b"a", 0)),
    "byte: at the end": (lambda reader: reader.byte(), b"", (b"", 0)),
    "string": (lambda reader: reader.string(), b'"a" b', (b'"a"', 3)),
    "string: empty": (lambda reader: reader.string(), b'""', (b'""', 2)),
    "string: escapes": (lambda reader: reader.string(), rb'"\"\\" b', (rb'"\"\\"', 6)),
    "string: UTF-8": (lambda reader: reader.string(), '"ï🙂"'.encode(), ('"ï🙂"'.encode(), 8)),
    "string: single marks": (lambda reader: reader.string(), b"'a\"' b", (b"'a\"'", 4)),
    "string: over a line": (lambda reader: reader.string(), b'"a\nb"', (b'"a\nb"', 5)),
    "string: over a line, strictly": (lambda reader: reader.string(9), b'"a\nb"', (NO, -1)),
    "string: over the limit, or void": (lambda reader: reader.string(3, or_void=True), b'"abcd" x', (VOID, 6)),
    "string: none": (lambda reader: reader.string(), b"a", (NO, -1)),
    "string: open": (lambda reader: reader.string(), b'"a', (NO, -1)),
    "string: open after a backslash": (lambda reader: reader.string(), b'"a\\', (NO, -1)),
    "string: over the limit": (lambda reader: reader.string(3), b'"abcd"', (NO, -1)),
    "value: string": (lambda reader: reader.value(), b'"a,}",', (b'"a,}"', 5)),
    "value: number": (lambda reader: reader.value(), b"-1.5e3,", (b"-1.5e3", 6)),
    "value: literal": (lambda reader: reader.value(), b"true}", (b"true", 4)),
    "value: number before a blank": (lambda reader: reader.value(), b"1 ]", (b"1", 1)),
    "value: number at the end": (lambda reader: reader.value(), b"12", (NO, -1)),
    "value: object": (lambda reader: reader.value(), b'{"a": {"b": "}"}} x', (b'{"a": {"b": "}"}}', 17)),
    "value: array": (lambda reader: reader.value(), b'[1, ["]"], {}] x', (b'[1, ["]"], {}]', 14)),
    "value: Python's": (
        lambda reader: reader.value(),
        b"{'a': [True, None, '}']} x",
        (b"{'a': [True, None, '}']}", 24),
    ),
    "value: a word": (lambda reader: reader.value(), b"ls", (NO, -1)),
    "value: a word inside": (lambda reader: reader.value(), b'{"a": xy}', (NO, -1)),
    "value: nothing there": (lambda reader: reader.value(), b"", (NO, -1)),
    "value: open": (lambda reader: reader.value(), b'{"a": [1}', (NO, -1)),
    "value: as deep as may be": (
        lambda reader: reader.value(),
        b"[" * MAX_DEPTH + b"]" * MAX_DEPTH,
        (b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, 2 * MAX_DEPTH),
    ),
    "value: deeper": (lambda reader: reader.value(), b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), (NO, -1)),
}


@pytest.mark.parametrize("name", CASES)
def test_each_verb_gives_the_same_at_every_cut(name: str) -> None:
    verb, data, expected = CASES[name]
    for cut in all_cuts(data, 20 if len(data) > 100 else 200):
        assert drive(verb, cut) == expected


AT_ONCE: list[tuple[Verb, bytes]] = [
    (which(b"a", b"abc"), b"ax"),
    (which(b"abc"), b"x"),
    (lambda reader: reader.blanks(), b" x"),
    (lambda reader: reader.until(COMMA), b"a,"),
    (lambda reader: reader.string(), b'"a"'),
    (lambda reader: reader.value(), b'{"a": 1}'),
    (lambda reader: reader.find(b"</a>"), b"</a>"),
]


@pytest.mark.parametrize(("verb", "data"), AT_ONCE)
def test_what_is_decided_is_not_waited_for(verb: Verb, data: bytes) -> None:
    window = TextBuffer(bytearray(data))
    with pytest.raises(StopIteration):
        next(verb(Cursor(window, 0, Context(offered()))))


HOPELESS: list[tuple[str, Verb, bytes]] = [
    ("blanks", lambda reader: reader.blanks(), b" " * (MAX_BLANKS + 1)),
    ("until", lambda reader: reader.until(COMMA, 32), b"x" * 40),
    ("string", lambda reader: reader.string(MAX_KEY), b'"' + b"x" * (MAX_KEY + 1)),
    ("escapes", lambda reader: reader.string(MAX_KEY), b'"' + b"\\n" * MAX_KEY),
    ("value", lambda reader: reader.value(), b"[" * (MAX_DEPTH + 1)),
]


@pytest.mark.parametrize(("name", "verb", "data"), HOPELESS)
def test_what_is_over_its_limit_is_given_up_before_it_ends(name: str, verb: Verb, data: bytes) -> None:
    """C2: held is only what can still become a call."""
    with pytest.raises(NotACall):
        next(verb(Cursor(TextBuffer(bytearray(data)), 0, Context(offered()))))


def test_an_offered_tool_that_was_named_is_remembered() -> None:
    reader = Cursor(TextBuffer(), 0, Context(offered()))
    assert reader.tool("Bash").name == "bash"
    assert reader.evidence.named
    assert not reader.void


def test_a_tool_that_was_not_offered_makes_the_reading_void() -> None:
    """C3: nothing will come of it, whatever is named later."""
    reader = Cursor(TextBuffer(bytearray(b"abc")), 0, Context(offered()))
    reader.tool("unknown")
    assert reader.void
    assert not reader.evidence.named
    reader.tool("bash")
    assert reader.void
    assert reader.text(0, 3) == ""


def test_a_reason_makes_the_reading_void_and_the_first_one_stays() -> None:
    reader = Cursor(TextBuffer(bytearray(b"abc")), 0, Context(offered()))
    reader.reject_if(False, "one")
    assert not reader.void and reader.text(0, 3) == "abc"
    reader.reject_if(why="two")
    reader.reject_if(why="three")
    assert (reader.void, reader.evidence.why) == (True, "two")


def test_what_is_void_is_read_on_only_so_far() -> None:
    """C7: something that never ends must not hide every later call."""
    reader = Cursor(TextBuffer(bytearray(b"x" * (2 * MAX_VOID))), 0, Context(offered()))
    reader.reject_if()
    with pytest.raises(NotACall):
        next(reader.until(COMMA))
    assert reader.pos == MAX_VOID


def test_what_is_only_looked_at_is_not_settled() -> None:
    """What is read on while void is let go, but not what may be read again."""
    window = TextBuffer(bytearray(b"ab"))
    reader = Cursor(window, 0, Context(offered()))
    parsing = reader.ahead(reader.until(COMMA))
    next(parsing)
    assert (reader.pos, reader.settled) == (2, 0)
    window.data += b","
    with pytest.raises(StopIteration):
        next(parsing)
    assert (reader.pos, reader.settled) == (0, 0)


def test_only_a_text_that_ends_is_truncated() -> None:
    """F10: what breaks off there was meant."""
    window = TextBuffer(bytearray(b"ab"), ended=True)
    reader = Cursor(window, 0, Context(offered()))
    assert not isinstance(reader.refuse("this"), Truncated)
    with pytest.raises(NotACall) as at_letters:
        next(reader.expect(b"x"))
    assert not isinstance(at_letters.value, Truncated)
    reader.pos = 2
    assert isinstance(reader.refuse("this"), Truncated)
    with pytest.raises(Truncated):
        next(reader.expect(b"x"))
    for verb in (reader.until(COMMA), reader.find(b"x"), reader.string(), reader.value()):
        reader.pos = 2
        with pytest.raises(Truncated):
            next(verb)


@pytest.mark.parametrize("ended", [False, True])
def test_the_longest_literal_is_found_as_soon_as_it_can_be_told(ended: bool) -> None:
    texts = (b"a", b"ab", b"abcd", b"<|x|>", b"<|x", b"b", b"\xef\xbd\x9c")
    table = Literals(texts)
    assert table.longest == 5
    for length in range(6):
        for letters in itertools.product(b"abcdx", repeat=min(length, 5)):
            here = bytes(letters)
            longest = max((text for text in texts if here.startswith(text)), key=len, default=b"")
            waits = not ended and (not here or any(text.startswith(here) and text != here for text in texts))
            assert table.match(here, ended) == (None if waits else longest)
    for here, found in ((b"<|x|", None), (b"<|x|>", b"<|x|>"), (b"<|x,", b"<|x"), (b"\xef\xbd", None)):
        assert table.match(here, False) == found
    assert Literals(()).match(b"a", ended) == b""


def test_the_end_is_only_the_end_when_no_more_comes() -> None:
    window = TextBuffer(bytearray(b"ab"))
    reader = Cursor(window, 2, Context(offered()))
    assert not reader.at_end()
    window.ended = True
    assert reader.at_end()
    assert not reader.stopped
    window.stopped = True
    assert reader.stopped
    assert reader.text(0, 1) == "a"


def test_a_text_with_half_a_surrogate_pair_can_be_read() -> None:
    data = "\ud83d".encode("utf-8", "surrogatepass")
    assert Cursor(TextBuffer(bytearray(data)), 0, Context(offered())).text(0, 3) == "\ud83d"


@pytest.mark.parametrize(
    ("verb", "unit"),
    [
        (lambda reader: reader.until(COMMA), b"x"),
        (lambda reader: reader.find(b"</a>"), b"<"),
        (lambda reader: reader.string(), b"x"),
        (lambda reader: reader.value(), b"[ "),
    ],
)
def test_a_search_goes_on_where_it_stopped(verb: Verb, unit: bytes) -> None:
    """C7: what was searched once is not searched again, however the text is cut."""
    window = TextBuffer(bytearray(b'"' if unit == b"x" else b"["))
    reader = Cursor(window, 0, Context(offered()))
    parsing = verb(reader)
    for _ in range(90):
        window.data += unit
        next(parsing)
        assert len(window.data) - reader.pos < 8


def in_string(*texts: bytes, verb: Verb = lambda reader: reader.string()) -> bool:
    """Whether a verb waits in a string when these texts have come."""
    window = TextBuffer()
    reader = Cursor(window, 0, Context(offered()))
    parsing = verb(reader)
    for text in texts:
        window.data += text
        next(parsing)
    return reader.in_string


def test_a_string_is_known_while_it_goes_on() -> None:
    assert in_string(b'"ab')
    assert in_string(b'"ab', b"\\n", b"c")
    assert in_string(b'{"a": "b', verb=lambda reader: reader.value())
    assert not in_string(b'"ab\\')
    assert not in_string(b"'ab")
    assert not in_string(b'{"a": ', verb=lambda reader: reader.value())
    assert not in_string(b'{"a": "b"', verb=lambda reader: reader.value())


def test_a_string_with_a_limit_or_that_is_only_looked_at_or_void_is_none() -> None:
    assert not in_string(b'"ab', verb=lambda reader: reader.string(10))
    assert not in_string(b'"ab', verb=lambda reader: reader.maybe(reader.string()))
    assert not in_string(b'"ab', verb=lambda reader: reader.ahead(reader.string()))
    window = TextBuffer(bytearray(b'"ab'))
    reader = Cursor(window, 0, Context(offered()))
    next(reader.string())
    assert reader.in_string
    reader.reject("it is none")
    assert not reader.in_string
