"""The body of a client's request, read and checked by us."""

from __future__ import annotations

import contextlib
import io
import json
import re
from typing import Any

import pytest
from gunicorn.http.errors import NoMoreData

from proxy.errors import BadRequest, BodyTooLarge
from proxy.web.admission import parse_body, read_body
from tests.support.work import over_soon

LIMIT = 100


def environ(body: bytes = b"", **more: Any) -> dict[str, Any]:
    return {"wsgi.input": io.BytesIO(body), **more}


def chunked(body: bytes) -> dict[str, Any]:
    return environ(body, **{"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"})


def test_a_body_that_is_refused_is_searched_once() -> None:
    """C7: after a number that no reader takes, a string that never ends."""
    raw = b"[" + b"1" * 5000 + b', "' + b'\\"' * 500_000
    with over_soon(), pytest.raises(BadRequest):
        parse_body(raw)


@pytest.mark.parametrize("size", [0, 1, LIMIT])
def test_a_body_is_read_whole_framed_either_way(size: int) -> None:
    body = b"x" * size
    assert read_body(environ(body, CONTENT_LENGTH=str(size)), LIMIT) == body
    assert read_body(chunked(body), LIMIT) == body


def test_without_a_length_or_chunks_there_is_no_body() -> None:
    assert read_body(environ(b"next request"), LIMIT) == b""
    assert read_body(environ(b"next request", CONTENT_LENGTH=""), LIMIT) == b""


def test_a_body_announced_too_large_is_refused_before_it_is_read() -> None:
    """K4."""
    whole = environ(b"x" * (LIMIT + 1), CONTENT_LENGTH=str(LIMIT + 1))
    with pytest.raises(BodyTooLarge, match=r"100 bytes \(max_body\)") as caught:
        read_body(whole, LIMIT)
    assert caught.value.status == 413 and whole["wsgi.input"].tell() == 0


def test_a_chunked_body_too_large_is_refused_and_not_cut() -> None:
    """K4, fact 8: werkzeug would truncate it silently."""
    endless = chunked(b"x" * 1_000_000)
    with pytest.raises(BodyTooLarge):
        read_body(endless, LIMIT)
    assert endless["wsgi.input"].tell() <= LIMIT + 1


@pytest.mark.parametrize("got", [0, 3, 79])
def test_a_short_body_is_told(got: int) -> None:
    """Fact 8, K4."""
    with pytest.raises(BadRequest, match=f"{got} bytes, and Content-Length says 80"):
        read_body(environ(b"x" * got, CONTENT_LENGTH="80"), LIMIT)


@pytest.mark.parametrize("error", [NoMoreData(b""), ConnectionResetError()])
def test_a_body_that_breaks_off_is_told(error: Exception) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise error

    for broken in ({"CONTENT_LENGTH": "5"}, {"wsgi.input_terminated": True}):
        with pytest.raises(BadRequest, match="incomplete"):
            read_body({"wsgi.input": Broken(), **broken}, LIMIT)


@pytest.mark.parametrize("coding", ["gzip", "br", "Deflate", "identity, gzip"])
def test_a_compressed_body_is_refused_before_it_is_read(coding: str) -> None:
    compressed = environ(b"\x1f\x8b", CONTENT_LENGTH="2", HTTP_CONTENT_ENCODING=coding)
    with pytest.raises(BadRequest) as caught:
        read_body(compressed, LIMIT)
    assert caught.value.status == 415 and compressed["wsgi.input"].tell() == 0


@pytest.mark.parametrize("coding", ["", "identity", " Identity "])
def test_a_body_that_says_that_it_is_not_compressed_is_taken(coding: str) -> None:
    assert read_body(environ(b"x", CONTENT_LENGTH="1", HTTP_CONTENT_ENCODING=coding), LIMIT) == b"x"


@pytest.mark.parametrize(
    "raw,place",
    [
        (b"", "line 1, column 1 (character 0)"),
        (b'{"a": 1,\n "b": }', "line 2, column 7 (character 15)"),
        (b'{"a": 1} x', "line 1, column 10 (character 9)"),
        (b"{'a': 1}", "line 1, column 2 (character 1)"),
        (b"[1]", "character 0"),
        (b'"text"', "character 0"),
        (b"null", "character 0"),
        (b'{"a": "\xff"}', "byte 7"),
    ],
)
def test_what_is_no_json_object_is_told_with_its_place(raw: bytes, place: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(place)) as caught:
        parse_body(raw)
    assert caught.value.status == 400


@pytest.mark.parametrize("word", [b"NaN", b"Infinity", b"-Infinity"])
def test_a_number_that_is_none_is_told_by_name(word: bytes) -> None:
    """K5."""
    with pytest.raises(BadRequest, match=word.decode()):
        parse_body(b'{"a": [%b]}' % word)


def nested(depth: int, kind: str = "list") -> bytes:
    opening, closing = {"list": (b"[", b"]"), "dict": (b'{"a":', b"}")}[kind]
    inner = b"1" if kind == "dict" else b""
    return b'{"a":' + opening * (depth - 1) + inner + closing * (depth - 1) + b"}"


@pytest.mark.parametrize("kind", ["list", "dict"])
def test_two_hundred_levels_are_taken_and_one_more_is_not(kind: str) -> None:
    assert parse_body(nested(200, kind))
    with pytest.raises(BadRequest, match="200 levels"):
        parse_body(nested(201, kind))


@pytest.mark.parametrize("depth", [1_000, 20_000, 500_000])
@pytest.mark.parametrize("kind", ["list", "dict"])
def test_a_depth_bomb_is_refused_quickly(depth: int, kind: str) -> None:
    """K5."""
    raw = nested(depth, kind)
    with over_soon(1), pytest.raises(BadRequest, match="200 levels"):
        parse_body(raw)


def test_brackets_in_strings_are_no_levels() -> None:
    assert parse_body(json.dumps({"a": "[" * 5000}).encode())


@pytest.mark.parametrize("raw", [b'{"a": 1e999}', b'{"a": "\\ud83d"}', b'{"a": 1, "a": 2}', b'\xef\xbb\xbf{"a": 1}'])
def test_odd_json_is_an_object_or_an_error_of_ours(raw: bytes) -> None:
    """K5."""
    with contextlib.suppress(BadRequest):
        assert "a" in parse_body(raw)


def test_a_huge_integer_is_an_error_of_ours() -> None:
    """K5: over 4,300 digits Python refuses them."""
    with pytest.raises(BadRequest):
        parse_body(b'{"a": %b}' % (b"9" * 5000))
