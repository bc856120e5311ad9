"""Errors about requests that exceed the context, in each server's own words (F85, F95)."""

from __future__ import annotations

import json

import pytest

from proxy.upstream.context_overflow import Overflow, read_overflow
from tests.support.rows import rows


@rows(__file__, "message,limit,prompt,requested,least")
def test_the_limits_are_read_from_each_servers_message(
    message: str, *, limit: int, prompt: int | None, requested: int | None, least: bool
) -> None:
    assert read_overflow(message) == Overflow(limit, prompt, requested, least=least)


def test_llama_cpp_reports_the_limits_in_separate_fields() -> None:
    error = {"code": 400, "message": "the request exceeds the available context size, try increasing it"}
    body = json.dumps({"error": {**error, "type": "exceed_context_size_error", "n_prompt_tokens": 9000, "n_ctx": 4096}})
    assert read_overflow(error["message"], body.encode()) == Overflow(4096, 9000, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "message",
    ["", "no such model", "maximum context length is 8192 tokens", "request has 12 input tokens", "x" * 9000],
)
def test_other_errors_are_not_a_context_overflow(message: str) -> None:
    assert read_overflow(message) is None
    assert read_overflow(message, b'{"error": {"message": "no"}}') is None
