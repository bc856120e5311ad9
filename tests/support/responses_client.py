"""Helpers of Responses tests, which build requests and read answers."""

from __future__ import annotations

from typing import Any

from werkzeug.test import TestResponse

from tests.support.responses_checker import check_response, check_stream
from tests.support.scripted import WRITE_FILE

RESPONSES = "/v1/responses"
INPUT_TOKENS = "/v1/responses/input_tokens"
# WRITE_FILE in the form of this API.
TOOL: dict[str, Any] = {"type": "function", **WRITE_FILE["function"]}


def ask(given: object = "Hi", **more: Any) -> dict[str, Any]:
    """Return a Responses request; by default it asks for a stream and offers no tools."""
    return {"model": "tiny", "input": given, "stream": True, "max_output_tokens": 5, **more}


def response_of(response: TestResponse, *, status: int = 200) -> dict[str, Any]:
    """Return the last response that a strict client reads. The answer's status must be `status`."""
    assert response.status_code == status, response.data
    if response.headers["Content-Type"].startswith("text/event-stream"):
        return check_stream(response.data)
    assert response.headers["Content-Type"] == "application/json"
    return check_response(response.data)
