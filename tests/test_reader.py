"""The reader: every verb gives the same at every cut, waits only while it must, and never reads anything twice."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from proxy.limits import MAX_DEPTH
from proxy.reader import MAX_BLANKS, MAX_KEY, NotACall, Parsing, Reader, Window

from .helpers import all_cuts, offered

Verb = Callable[[Reader], Parsing[object]]
NO = "no call"
COMMA = re.compile(rb",")


def drive(verb: Verb, cut: list[bytes]) -> tuple[object, int]:
    """What the verb gives over a text that comes in these pieces and then ends, and how far it read."""
    window = Window()
    reader = Reader(window, 0, offered())
    parsing = verb(reader)
    try:
        for part in cut:
            window.data += part
            next(parsing)
        window.ended = True
        next(parsing)
    except StopIteration as done:
        return done.value, reader.pos
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
    "find": (lambda reader: reader.find(b"</a>"), b"x</</a>y", (3, 7)),
    "find: at once": (lambda reader: reader.find(b"</a>"), b"</a>", (0, 4)),
    "find: never": (lambda reader: reader.find(b"</a>"), b"x</a", (NO, -1)),
    "byte": (lambda reader: reader.byte(), b"ab", (b"a", 0)),
    "byte: at the end": (lambda reader: reader.byte(), b"", (b"", 0)),
    "string": (lambda reader: reader.string(), b'"a" b', (b'"a"', 3)),
    "string: empty": (lambda reader: reader.string(), b'""', (b'""', 2)),
    "string: escapes": (lambda reader: reader.string(), rb'"\"\\" b', (rb'"\"\\"', 6)),
    "string: UTF-8": (lambda reader: reader.string(), '"ï🙂"'.encode(), ('"ï🙂"'.encode(), 8)),
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
    window = Window(bytearray(data))
    with pytest.raises(StopIteration):
        next(verb(Reader(window, 0, offered())))


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
        next(verb(Reader(Window(bytearray(data)), 0, offered())))


def test_an_offered_tool_that_was_named_is_remembered() -> None:
    reader = Reader(Window(), 0, offered())
    assert reader.tool("Bash").name == "bash"
    assert reader.named
    assert not reader.void


def test_a_tool_that_was_not_offered_makes_the_reading_void() -> None:
    """C3: nothing will come of it, whatever is named later."""
    reader = Reader(Window(bytearray(b"abc")), 0, offered())
    reader.tool("unknown")
    assert reader.void
    assert not reader.named
    reader.tool("bash")
    assert reader.void
    assert reader.text(0, 3) == ""


def test_the_end_is_only_the_end_when_no_more_comes() -> None:
    window = Window(bytearray(b"ab"))
    reader = Reader(window, 2, offered())
    assert not reader.at_end()
    window.ended = True
    assert reader.at_end()
    assert not reader.stopped
    window.stopped = True
    assert reader.stopped
    assert reader.text(0, 1) == "a"


def test_a_text_with_half_a_surrogate_pair_can_be_read() -> None:
    data = "\ud83d".encode("utf-8", "surrogatepass")
    assert Reader(Window(bytearray(data)), 0, offered()).text(0, 3) == "\ud83d"


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
    window = Window(bytearray(b'"' if unit == b"x" else b"["))
    reader = Reader(window, 0, offered())
    parsing = verb(reader)
    for _ in range(90):
        window.data += unit
        next(parsing)
        assert len(window.data) - reader.pos < 8
