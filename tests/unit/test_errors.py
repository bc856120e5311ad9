"""The error tree: what the client is told of each, and how an upstream's own error is taken over."""

from __future__ import annotations

import pytest

from proxy import errors
from proxy.errors import (
    BadRequest,
    BodyTooLarge,
    ClientGone,
    InternalError,
    LimitExceeded,
    MethodNotAllowed,
    NotFound,
    ProxyError,
    RulesError,
    UpstreamBroken,
    UpstreamError,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnreachable,
    refusal,
)

TREE: list[tuple[type[ProxyError], type[ProxyError], int, str]] = [
    (BadRequest, ProxyError, 400, "invalid_request_error"),
    (NotFound, BadRequest, 404, "not_found_error"),
    (MethodNotAllowed, BadRequest, 405, "invalid_request_error"),
    (BodyTooLarge, BadRequest, 413, "invalid_request_error"),
    (UpstreamUnreachable, UpstreamError, 502, "upstream_error"),
    (UpstreamTimeout, UpstreamError, 504, "timeout_error"),
    (UpstreamBroken, UpstreamError, 502, "upstream_error"),
    (ClientGone, ProxyError, 499, "server_error"),
    (RulesError, ProxyError, 500, "server_error"),
    (InternalError, ProxyError, 500, "server_error"),
]


@pytest.mark.parametrize(("kind", "parent", "status", "name"), TREE)
def test_each_error_has_its_place_status_kind_and_message(
    kind: type[ProxyError], parent: type[ProxyError], status: int, name: str
) -> None:
    error = kind("what went wrong")
    assert isinstance(error, parent)
    assert (error.status, error.kind, error.message, str(error)) == (status, name, "what went wrong", "what went wrong")


def test_every_error_of_the_module_belongs_to_the_tree() -> None:
    found = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert all(issubclass(kind, ProxyError) for kind in found)
    assert {kind for kind, _, _, _ in TREE} < set(found)


def test_only_an_unreachable_upstream_says_when_to_try_again() -> None:
    assert UpstreamUnreachable("no").retry_after == "5"
    assert UpstreamUnreachable("no", refused=True).refused
    assert not UpstreamUnreachable("no").refused
    assert UpstreamBroken("no").retry_after is None


def test_a_limit_is_named_with_its_value() -> None:
    error = LimitExceeded("max_event", 16)
    assert (error.limit, error.message) == ("max_event", "the model server sent more than is allowed: max_event is 16")


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
def test_an_upstream_error_keeps_its_words_and_gets_a_status(
    error: object, status: int, expected: tuple[str, int, str]
) -> None:
    """F65: an error event in a stream has no status of its own."""
    refused = refusal(error, status=status)
    assert isinstance(refused, UpstreamError)
    assert (refused.message, refused.status, refused.kind) == expected


def test_an_upstream_error_keeps_its_body_and_headers() -> None:
    assert refusal({"message": "no", "type": "t"}, body=b"{}").body == b"{}"
    assert refusal({"message": "no"}, body=b"{}").body is None  # clients read more than that
    assert refusal({"type": "t"}, body=b"{}").body is None
    refused = UpstreamRefused("no", status=429, headers=(("Retry-After", "3"),))
    assert (refused.status, refused.kind, refused.body, refused.headers) == (
        429,
        "upstream_error",
        None,
        (("Retry-After", "3"),),
    )
