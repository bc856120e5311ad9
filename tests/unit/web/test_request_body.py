"""Reading and validation of request bodies."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest

from proxy.errors import BadRequest
from proxy.web.admission import parse_body, read_body
from tests.support.rows import rows
from tests.support.work import over_soon

LIMIT = 100


def environ(body: bytes = b"", **more: Any) -> dict[str, Any]:
    return {"wsgi.input": io.BytesIO(body), **more}


def test_an_invalid_body_is_searched_once() -> None:
    """C7: the body is an unreadable number followed by an unclosed string."""
    raw = b"[" + b"1" * 5000 + b', "' + b'\\"' * 500_000
    with over_soon(), pytest.raises(BadRequest):
        parse_body(raw)


@pytest.mark.parametrize("coding", ["", "identity", " Identity "])
def test_a_body_with_identity_encoding_is_accepted(coding: str) -> None:
    assert read_body(environ(b"x", CONTENT_LENGTH="1", HTTP_CONTENT_ENCODING=coding), LIMIT) == b"x"


@rows(__file__, "raw,place")
def test_a_body_that_is_not_a_json_object_is_refused_with_the_position(raw: str, place: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(place)) as caught:
        parse_body(raw.encode("latin-1"))
    assert caught.value.status == 400


def nested(depth: int, kind: str = "list") -> bytes:
    opening, closing = {"list": (b"[", b"]"), "dict": (b'{"a":', b"}")}[kind]
    inner = b"1" if kind == "dict" else b""
    return b'{"a":' + opening * (depth - 1) + inner + closing * (depth - 1) + b"}"


@pytest.mark.parametrize("kind", ["list", "dict"])
def test_two_hundred_levels_are_accepted_and_one_more_is_refused(kind: str) -> None:
    assert parse_body(nested(200, kind))
    with pytest.raises(BadRequest, match="200 levels"):
        parse_body(nested(201, kind))


def test_brackets_in_strings_are_not_counted() -> None:
    assert parse_body(json.dumps({"a": "[" * 5000}).encode())
