"""The decision whether and how a request is sent again (F63, F72, F85)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.dialects.chat.request import ChatRequest, read_chat
from proxy.errors import UpstreamError, UpstreamRefused, refusal
from proxy.exchange.plan import Ended, Next, Plan, Retries, next_plan, parser_failed
from tests.support.rows import rows
from tests.support.scripted import WRITE_FILE, chat

NO_PARSER = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
NO_MATCH = "The model produced output that does not match the expected {} format"


def request(**more: Any) -> ChatRequest:
    body = chat(**more)
    return read_chat(json.dumps(body).encode(), body)


def after(
    ended: Ended, plan: Plan | None = None, asked: ChatRequest | None = None, kind: str = "vllm", **allowed: Any
) -> Next:
    """Return the decision after an attempt, by default for a request that offers a tool."""
    asked = request(tools=[WRITE_FILE]) if asked is None else asked
    return next_plan(asked, plan or Plan(), ended, Retries(**allowed), lambda: kind)


def second_plan(asked: ChatRequest, plan: Plan, error: UpstreamError, kind: str) -> Plan | None:
    return after(Ended(error), plan, asked, kind, auto=True).plan


def refused(message: str, status: int = 400) -> UpstreamRefused:
    return refusal({"message": message}, status=status)


@pytest.mark.parametrize(
    ("message", "status", "asks"),
    [
        (NO_PARSER, 400, True),
        (NO_PARSER, 500, False),
        ("Failed to parse input at pos 3: <tool", 500, True),
        ("Unexpected empty grammar stack after accepting piece: x", 500, True),
        (NO_MATCH.format("peg-native"), 500, True),
        (NO_MATCH.format("peg-gemma4"), 503, True),
        (NO_MATCH.format("peg-native"), 400, False),
        (NO_MATCH.format("Content-only"), 500, False),
        ("out of memory", 500, False),
        ("x" * 5000 + "Failed to parse input", 500, False),
    ],
)
def test_a_server_that_cannot_parse_calls_is_known_by_its_message(message: str, status: int, asks: bool) -> None:
    error = refused(message, status)
    assert parser_failed(error) is asks
    again = second_plan(request(tools=[WRITE_FILE]), Plan(), error, "vllm")
    assert again == (Plan(parse="proxy", server_kind="vllm", second=True) if asks else None)


@pytest.mark.parametrize(
    ("more", "server"),
    [({}, "vllm"), ({"tools": [WRITE_FILE]}, "sglang"), ({"tools": [WRITE_FILE], "tool_choice": "required"}, "vllm")],
    ids=["no tools", "a server that would lose them", "a forced choice"],
)
def test_a_request_is_not_retried_if_the_proxy_cannot_parse_the_text(more: dict[str, Any], server: str) -> None:
    assert second_plan(request(**more), Plan(), refused(NO_PARSER), server) is None


@rows(__file__, "message,field")
def test_an_optional_field_that_is_refused_by_name_is_omitted(message: str, field: str | None) -> None:
    """Only a single field of the request that does not change its meaning is omitted."""
    again = second_plan(request(store=True, user="u"), Plan(), refused(message), "")
    assert (again and again.without) == ((field,) if field else None)
