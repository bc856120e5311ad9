"""Values that are passed many tokens at once: where that ends, and what is left to be read by itself."""

from __future__ import annotations

import json

import pytest

from proxy.limits import MAX_DEPTH
from proxy.parsing.buffer import TextBuffer
from proxy.parsing.cursor import MAX_VOID, Context, Cursor, NotACall, Parsing, StringGoesOn
from proxy.parsing.nested_values import pass_tokens
from tests.support.helpers import all_cuts, function, offered

TOOLS = offered(function("now"))
FAR = 1 << 30


def passed(text: bytes, depth: int = 1, *, strict: bool = False, most: int = FAR) -> tuple[bytes, int]:
    """What is left of a text, and the depth there."""
    pos, deeper = pass_tokens(TextBuffer(bytearray(text)), 0, depth, strict=strict, most=most)
    return text[pos:], deeper


@pytest.mark.parametrize(
    ("text", "left", "depth"),
    [
        (b'"a": [1, "b", {"c": ', b": ", 3),
        (b'"a": "b"', b': "b"', 1),
        (b'"a": "b', b': "b', 1),
        (b'"a": "b\\"", ', b", ", 1),
        (b'"a": "b\\\\", "c\\n\\"": {', b"", 2),
        (b'"a": "b\\', b': "b\\', 1),
        (b'"a": "C:\\", "b"]', b': "C:\\", "b"]', 1),
        (b'{"a": 1}, ]', b", ]", 1),
        (b"]", b"]", 1),
        (b"[[]]]", b"]]]", 3),
        (b"[x", b"x", 2),
        (b'"a" b', b'"a" b', 1),
        (b"'a': {", b"", 2),
        (b"", b"", 1),
    ],
)
def test_what_is_there_as_a_whole_is_passed(text: bytes, left: bytes, depth: int) -> None:
    assert passed(text) == (left, depth)


def test_a_line_end_in_a_string_is_left_where_none_may_stand() -> None:
    assert passed(b'"a\nb", [') == (b"", 2)
    assert passed(b'"a\nb", [', strict=True) == (b'"a\nb", [', 1)
    assert passed(b'"a\\n\nb", [', strict=True) == (b'"a\\n\nb", [', 1)


def test_nothing_is_passed_beyond_a_limit_or_too_deep() -> None:
    assert passed(b"[[" + b"]" * 2 + b", [", most=3) == (b"]], [", 3)
    assert passed(b"[" * 64, MAX_DEPTH - 20)[1] <= MAX_DEPTH
    assert passed(b"[", MAX_DEPTH) == (b"[", MAX_DEPTH)


VALUES = (
    {"a": [1, -2.5e3, True, None, "b", {"c": {"d": ["e", "f"]}}], "g": 'h\\i"j'},
    [[[]], {}, [{}], "", {"": []}],
    {"text": "x" * 200, "lines": ["a\nb", "{[\"'", "}]"]},
)


def read(text: str, pieces: list[str]) -> bytes:
    buffer = TextBuffer()
    cursor = Cursor(buffer, 0, Context(TOOLS))
    parsing: Parsing[bytes] = cursor.value()
    for piece in pieces:
        buffer.data += piece.encode()
        try:
            next(parsing)
        except StopIteration as done:
            assert isinstance(done.value, bytes)
            return done.value
    buffer.ended = True
    next(parsing)
    raise AssertionError(text)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("indent", [None, 2])
def test_a_value_ends_where_it_ends_at_every_cut(value: object, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    for pieces in all_cuts(f"{text} and more", 20):
        assert read(text, pieces).decode() == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": "b" c}', StringGoesOn),
        ('["a": x]', NotACall),
        ("[" * (MAX_DEPTH + 1), NotACall),
        ('{"a": ' * (MAX_DEPTH + 1), NotACall),
    ],
)
def test_what_is_no_value_is_refused_at_every_cut(text: str, why: type[NotACall]) -> None:
    for pieces in all_cuts(f"{text} and more", 20):
        with pytest.raises(why):
            read(text, pieces)


@pytest.mark.parametrize("unit", ['["a", ', "[1], ", '{"a": [2]}, ', '"' + "x" * 99 + '", '])
def test_void_text_ends_at_its_limit_at_every_cut(unit: str) -> None:
    text = "[" + unit * (MAX_VOID // len(unit) + 2)
    ends = set()
    for size in (len(text), 1000, 4096):
        buffer = TextBuffer()
        cursor = Cursor(buffer, 0, Context(TOOLS))
        cursor.reject("nothing")
        parsing = cursor.value()
        with pytest.raises(NotACall):
            for at in range(0, len(text), size):
                buffer.data += text[at : at + size].encode()
                next(parsing)
        ends.add(cursor.pos)
    assert len(ends) == 1
