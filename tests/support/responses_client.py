"""What tests of the Responses front share: requests, and what is read of answers."""

from __future__ import annotations

from typing import Any

from werkzeug.test import TestResponse

from tests.support.responses_checker import check_response, check_stream
from tests.support.scripted import WRITE_FILE

RESPONSES = "/v1/responses"
INPUT_TOKENS = "/v1/responses/input_tokens"
# The same tool as WRITE_FILE, as this API has it.
TOOL: dict[str, Any] = {"type": "function", **WRITE_FILE["function"]}


def ask(given: object = "Hi", **more: Any) -> dict[str, Any]:
    """A Responses request; by default it asks for a stream and offers no tools."""
    return {"model": "tiny", "input": given, "stream": True, "max_output_tokens": 5, **more}


def response_of(response: TestResponse, *, status: int = 200) -> dict[str, Any]:
    """The last response that a strict client reads from an answer of this status."""
    assert response.status_code == status, response.data
    if response.headers["Content-Type"].startswith("text/event-stream"):
        return check_stream(response.data)
    assert response.headers["Content-Type"] == "application/json"
    return check_response(response.data)
