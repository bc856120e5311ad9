"""Errors in the Responses format: code, status and message."""

from __future__ import annotations

import json

import pytest

from proxy.dialects.responses.errors import error_body, error_code, error_status, failure
from proxy.errors import BadRequest, InternalError, ProxyError, Unavailable, UpstreamBroken, UpstreamRefused, refusal
from proxy.json import JsonObject

JINJA = "While executing CallExpression at line 9: Error: Jinja Exception: Conversation roles must alternate"
# Server messages in OpenAI's error format.
TOO_LONG: JsonObject = {"message": "Too long.", "type": "invalid_request_error", "code": "context_length_exceeded"}
FULL = "This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens."


def refused(status: int, message: str = "no", **more: str) -> UpstreamRefused:
    return UpstreamRefused(message, status=status, headers=tuple(more.items()))


CASES: list[tuple[ProxyError, str, int]] = [
    (refused(400), "invalid_prompt", 400),
    (refused(422), "invalid_prompt", 422),
    (refused(404), "", 404),
    (refused(429), "rate_limit_exceeded", 429),
    (refused(503), "server_is_overloaded", 503),
    (refused(529), "server_is_overloaded", 529),
    (refused(500), "server_error", 500),
    (refused(500, JINJA), "invalid_prompt", 400),
    (refused(500, "the chat template raised an error"), "invalid_prompt", 400),
    (refused(500, "x" * 5000 + JINJA), "server_error", 500),
    (refused(400, FULL), "context_length_exceeded", 400),
    (refused(500, FULL), "context_length_exceeded", 400),
    (Unavailable("full"), "server_is_overloaded", 503),
    (UpstreamBroken("it broke off"), "server_error", 502),
    (UpstreamBroken(JINJA), "server_error", 502),
    (BadRequest("no", "tools"), "", 400),
    (InternalError("no"), "server_error", 500),
    (refused(401), "", 401),
    (refusal(TOO_LONG, status=400), "context_length_exceeded", 400),
    (refusal(TOO_LONG), "context_length_exceeded", 400),
    (refusal({**TOO_LONG, "code": ["x"]}, status=400), "invalid_prompt", 400),
]


@pytest.mark.parametrize(("error", "code", "status"), CASES, ids=str)
def test_each_error_has_its_code_and_status(error: ProxyError, code: str, status: int) -> None:
    assert (error_code(error), error_status(error)) == (code, status)
    assert failure(error)["code"] == (code or "server_error")
    assert json.loads(error_body(error))["error"]["code"] == (code or None)


def test_the_message_names_the_wait() -> None:
    """Codex reads "try again in 7s"."""
    error = refused(429, "slow down.", **{"Retry-After": "7"})
    assert failure(error)["message"] == "slow down. Please try again in 7s."
    assert failure(refused(429, "try again in 9s", **{"Retry-After": "7"}))["message"] == "try again in 9s"


@pytest.mark.parametrize("wait", ["²", "٣", "-1", "1.5", "9" * 10, "Wed, 21 Oct 2026 07:28:00 GMT", ""])
def test_an_invalid_wait_is_not_in_the_message(wait: str) -> None:
    assert failure(refused(429, "slow down.", **{"Retry-After": wait}))["message"] == "slow down."
