"""Which of an answer's headers go down."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from proxy.upstream.client import UpstreamCall
from proxy.upstream.headers import ERROR, PASSED, REPLY, SHOWN_TO_PAGES, response_headers
from tests.support.socketless import answer_with

SAID = {
    **{"Content-Type": "text/plain", "X-Request-Id": "u", "Retry-After": "3", "Set-Cookie": "a=b"},
    **{"Connection": "close", "Server": "uvicorn", "Cache-Control": ""},
}


def call(headers: Mapping[str, str]) -> UpstreamCall:
    """An answer of which the head has come."""
    made = answer_with(200, b"", headers)
    made.receive()
    return made


@pytest.mark.parametrize(
    ("allowed", "names"),
    [
        (REPLY, ["X-Request-Id"]),
        (ERROR, ["Retry-After", "X-Request-Id"]),
        (PASSED, ["Content-Type", "Retry-After", "X-Request-Id"]),
        ((), []),
    ],
)
def test_only_those_that_are_allowed_go_down_and_none_that_is_empty(allowed: tuple[str, ...], names: list[str]) -> None:
    with call(SAID) as answer:
        assert response_headers(answer, allowed) == tuple((name, SAID[name]) for name in names)


def test_a_name_is_known_in_any_letter_case_and_leaves_in_ours() -> None:
    with call({"x-request-ID": "u"}) as answer:
        assert response_headers(answer, REPLY) == (("X-Request-Id", "u"),)


def test_before_the_head_has_come_there_are_none() -> None:
    with answer_with(200, b"", SAID) as answer:
        assert response_headers(answer, PASSED) == ()


@pytest.mark.parametrize("allowed", [REPLY, ERROR, PASSED, SHOWN_TO_PAGES])
def test_nothing_that_frames_a_body_or_opens_a_session_is_allowed(allowed: tuple[str, ...]) -> None:
    named = {name.lower() for name in allowed}
    assert not named & {"connection", "transfer-encoding", "content-length", "set-cookie", "keep-alive", "upgrade"}
