"""Errors of a model server become errors for the client."""

from __future__ import annotations

import pytest

from proxy.errors import UpstreamError, UpstreamRefused, refusal

REFUSALS: list[tuple[object, int, tuple[str, int, str]]] = [
    ({"message": "no", "type": "BadRequestError", "code": 400}, 0, ("no", 400, "BadRequestError")),
    ({"message": "no", "type": "BadRequestError", "code": 400}, 422, ("no", 422, "BadRequestError")),
    ({"message": "no", "type": "invalid_request_error"}, 0, ("no", 400, "invalid_request_error")),
    ({"message": "no", "type": "authentication_error"}, 0, ("no", 401, "authentication_error")),
    ({"message": "no", "type": "NotFoundError"}, 0, ("no", 404, "NotFoundError")),
    ({"message": "no", "type": "rate_limit_error"}, 0, ("no", 429, "rate_limit_error")),
    ({"message": "no", "type": "overloaded_error"}, 0, ("no", 503, "overloaded_error")),
    ({"message": "got exception", "type": "server_error", "code": 500}, 0, ("got exception", 500, "server_error")),
    ({"message": "no", "type": "server_error"}, 0, ("no", 502, "server_error")),
    ({"message": "no", "code": 200}, 0, ("no", 502, "upstream_error")),
    ({"message": "no", "code": "429", "type": 7}, 0, ("no", 502, "upstream_error")),
    ("Unauthorized", 401, ("Unauthorized", 401, "upstream_error")),
    ("Unauthorized", 0, ("Unauthorized", 502, "upstream_error")),
    ({}, 0, ("the model server reported an error", 502, "upstream_error")),
    ({"message": {"a": 1}, "type": ""}, 503, ("the model server reported an error", 503, "upstream_error")),
    (None, 0, ("the model server reported an error", 502, "upstream_error")),
    (7, 0, ("the model server reported an error", 502, "upstream_error")),
]


@pytest.mark.parametrize(("error", "status", "expected"), REFUSALS)
def test_an_upstream_error_keeps_its_message_and_gets_a_status(
    error: object, status: int, expected: tuple[str, int, str]
) -> None:
    """F65: an error event in a stream has no status."""
    refused = refusal(error, status=status)
    assert isinstance(refused, UpstreamError)
    assert (refused.message, refused.status, refused.kind) == expected


def test_an_upstream_error_keeps_its_body_and_headers() -> None:
    assert refusal({"message": "no", "type": "t"}, body=b"{}").body == b"{}"
    assert refusal({"message": "no"}, body=b"{}").body is None  # clients read more fields
    assert refusal({"type": "t"}, body=b"{}").body is None
    refused = UpstreamRefused("no", status=429, headers=(("Retry-After", "3"),))
    assert (refused.status, refused.kind, refused.body, refused.headers) == (
        429,
        "upstream_error",
        None,
        (("Retry-After", "3"),),
    )
