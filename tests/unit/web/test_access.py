"""Targets that two readers may take for two things."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.errors import BadRequest
from proxy.web.admission import check_target


@pytest.mark.parametrize(
    "environ",
    [
        {"SERVER_PROTOCOL": "HTTP/1.1", "HTTP_HOST": "a", "RAW_URI": "/v1/models?a=http://b"},
        {"SERVER_PROTOCOL": "HTTP/1.0", "RAW_URI": "/"},
        {"SERVER_PROTOCOL": "HTTP/1.1", "HTTP_HOST": "a", "RAW_URI": "*", "REQUEST_METHOD": "OPTIONS"},
        {},
    ],
    ids=["a path", "an old client without a Host", "all of the server", "no gunicorn"],
)
def test_what_every_reader_takes_for_the_same_comes_in(environ: dict[str, Any]) -> None:
    check_target(environ)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"SERVER_PROTOCOL": "HTTP/1.1", "RAW_URI": "/"}, "no Host"),
        ({"SERVER_PROTOCOL": "HTTP/1.1", "HTTP_HOST": "", "RAW_URI": "/"}, "no Host"),
        ({"HTTP_HOST": "a", "RAW_URI": "http://b/v1/models"}, "must be a path"),
        ({"HTTP_HOST": "a", "RAW_URI": "b:443", "REQUEST_METHOD": "CONNECT"}, "must be a path"),
        ({"HTTP_HOST": "a", "RAW_URI": "*", "REQUEST_METHOD": "GET"}, "must be a path"),
    ],
)
def test_what_two_readers_may_take_for_two_things_does_not(environ: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        check_target(environ)
