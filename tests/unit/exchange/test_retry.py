"""Which refusal lets a request go up a second time, and how."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from proxy.dialects.chat.request import ChatRequest, read_chat
from proxy.errors import ProxyError, UpstreamError, UpstreamRefused, UpstreamTimeout, UpstreamUnreachable, refusal
from proxy.exchange.plan import Plan
from proxy.exchange.retry import asks_for_proxy, healed_plan, second_plan
from proxy.healing.heal import HealPlan
from tests.support.scripted import WRITE_FILE, chat

NO_PARSER = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
NO_MATCH = "The model produced output that does not match the expected {} format"


def request(**more: Any) -> ChatRequest:
    body = chat(**more)
    return read_chat(json.dumps(body).encode(), body)


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
def test_a_server_that_cannot_find_calls_is_known_by_its_words(message: str, status: int, asks: bool) -> None:
    error = refused(message, status)
    assert asks_for_proxy(error) is asks
    again = second_plan(request(tools=[WRITE_FILE]), Plan(), error, "vllm")
    assert again == (Plan(parse="proxy", server_kind="vllm", second=True) if asks else None)


@pytest.mark.parametrize(
    ("more", "server"),
    [({}, "vllm"), ({"tools": [WRITE_FILE]}, "sglang"), ({"tools": [WRITE_FILE], "tool_choice": "required"}, "vllm")],
    ids=["no tools", "a server that would lose them", "a forced choice"],
)
def test_where_the_proxy_cannot_read_the_text_nothing_goes_up_again(more: dict[str, Any], server: str) -> None:
    assert second_plan(request(**more), Plan(), refused(NO_PARSER), server) is None


@pytest.mark.parametrize(
    "error",
    [UpstreamTimeout("silent"), UpstreamUnreachable("slow"), refused("no", 429), refused("no", 500), refused("no")],
)
def test_other_errors_are_the_clients(error: UpstreamError) -> None:
    assert second_plan(request(tools=[WRITE_FILE]), Plan(), error, "vllm") is None


def test_a_connection_that_was_refused_is_tried_once_more() -> None:
    error: ProxyError = UpstreamUnreachable("no", refused=True)
    assert isinstance(error, UpstreamError)
    again = second_plan(request(), Plan(), error, "")
    assert again == Plan(second=True)
    assert second_plan(request(), again, error, "") is None


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("Extra inputs are not permitted: 'store'", "store"),
        ("`store` is not supported", "store"),
        ('unknown field "store"', "store"),
        ("'store' must be a boolean", None),
        ("unknown field 'store' or 'user'", None),
        ("unknown field 'messages'", None),
        ("unknown field 'verbosity'", None),
    ],
)
def test_an_optional_field_that_is_refused_by_name_is_left_out(message: str, field: str | None) -> None:
    """One alone, which the request has, and without which it is the same request."""
    again = second_plan(request(store=True, user="u"), Plan(), refused(message), "")
    assert (again and again.without) == ((field,) if field else None)


OVERFLOW = (
    "This model's maximum context length is 1000 tokens. However, you requested 2100 tokens (100 in the messages, "
    "2000 in the completion). Please reduce the length of the messages or completion."
)


@pytest.mark.parametrize(("least", "most"), [(256, 900), (900, 900), (901, None)])
def test_what_is_left_of_the_context_is_asked_for_where_it_is_worth_it(least: int, most: int | None) -> None:
    again = second_plan(request(max_tokens=2000), Plan(), refused(OVERFLOW), "vllm", least)
    assert (again and again.max_tokens) == most


def test_a_request_without_a_limit_has_none_to_lower() -> None:
    assert second_plan(request(), Plan(), refused(OVERFLOW), "vllm") is None


def test_what_a_template_refuses_is_healed_three_times_at_most() -> None:
    late: Any = [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}, {"role": "user", "content": "c"}]
    asked = replace(request(), body={**chat(), "messages": late})
    error = refused("System message must be at the beginning.")
    plan = Plan(heal=HealPlan())
    healed = healed_plan(asked, plan, error)
    assert healed is not None and healed.learnt == ("late_system", "alternate") and healed.lessons == 1
    assert "late_system" in healed.heal.ids - plan.heal.ids
    for other in (replace(plan, lessons=3), replace(plan, guided="write_file")):
        assert healed_plan(asked, other, error) is None
    for unlike in (
        refused("System message must be at the beginning.", 429),
        refused(NO_MATCH.format("peg-native"), 500),
    ):
        assert healed_plan(asked, plan, unlike) is None
