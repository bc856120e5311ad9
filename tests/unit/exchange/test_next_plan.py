"""Whether and how a request is sent again: one decision (F63, F72, F85)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from proxy.dialects.chat.request import ChatRequest, read_chat
from proxy.errors import (
    ClientGone,
    ProxyError,
    UpstreamError,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnreachable,
    refusal,
)
from proxy.exchange.plan import SILENT, Ended, Next, Plan, Retries, Why, next_plan, parser_failed
from proxy.healing.heal import HealPlan
from tests.support.scripted import WRITE_FILE, chat

NO_PARSER = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
NO_MATCH = "The model produced output that does not match the expected {} format"


def request(**more: Any) -> ChatRequest:
    body = chat(**more)
    return read_chat(json.dumps(body).encode(), body)


def after(
    ended: Ended, plan: Plan | None = None, asked: ChatRequest | None = None, kind: str = "vllm", **allowed: Any
) -> Next:
    """What follows a try, by default of a request that offers a tool."""
    asked = request(tools=[WRITE_FILE]) if asked is None else asked
    return next_plan(asked, plan or Plan(), ended, Retries(**allowed), lambda: kind)


def second_plan(asked: ChatRequest, plan: Plan, error: UpstreamError, kind: str) -> Plan | None:
    return after(Ended(error), plan, asked, kind, auto=True).plan


def healed_plan(asked: ChatRequest, plan: Plan, error: UpstreamError) -> Plan | None:
    return after(Ended(error), plan, asked).plan


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
    assert parser_failed(error) is asks
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


@pytest.mark.parametrize(("prompt", "most"), [(100, 900), (744, 256), (745, None)])
def test_what_is_left_of_the_context_is_asked_for_where_it_is_worth_it(prompt: int, most: int | None) -> None:
    words = OVERFLOW.replace("100 in", f"{prompt} in").replace("2100", str(2000 + prompt))
    again = second_plan(request(max_tokens=2000), Plan(), refused(words), "vllm")
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


def test_a_server_without_a_parser_is_remembered() -> None:
    assert after(Ended(refused(NO_PARSER)), auto=True).parser_failed


@pytest.mark.parametrize(
    ("allowed", "error"),
    [
        ({}, refused(NO_PARSER)),
        ({"auto": True}, ClientGone("gone")),
        ({"auto": True}, refused("no such model", 404)),
    ],
    ids=["the rules say who parses", "not the server's", "another refusal"],
)
def test_where_nothing_is_learnt_there_is_no_second_plan(allowed: dict[str, Any], error: ProxyError) -> None:
    assert after(Ended(error), **allowed) == Next()


@pytest.mark.parametrize("why", [*Why, None])
def test_without_leave_nothing_is_asked_again(why: Why | None) -> None:
    assert after(Ended(why=why), auto=True) == Next()


PARSED = Plan("proxy", server_kind="vllm")
BOTH = Plan("proxy", server_kind="vllm", again=Why.SWALLOWED)
EVERY = frozenset(Why)


@pytest.mark.parametrize(
    ("why", "plan", "auto", "following"),
    [
        (Why.EMPTY, Plan(), True, Plan(again=Why.EMPTY)),
        (Why.THOUGHT, Plan(), True, Plan(again=Why.THOUGHT)),
        (Why.SWALLOWED, Plan(), True, BOTH),
        (Why.SWALLOWED, PARSED, True, Plan("server", server_kind="vllm", again=Why.SWALLOWED)),
        (Why.SWALLOWED, Plan(), False, Plan(again=Why.SWALLOWED)),
        (Why.EMPTY, Plan(again=Why.EMPTY), True, None),
    ],
    ids=["empty", "thought", "by the proxy", "by the server", "the rules say who parses", "twice is enough"],
)
def test_a_reply_that_says_nothing_is_asked_for_once_more(
    why: Why, plan: Plan, auto: bool, following: Plan | None
) -> None:
    assert after(Ended(why=why), plan, auto=auto, again=SILENT) == Next(following)


@pytest.mark.parametrize(
    ("kind", "any_guides", "guided"),
    [("vllm", False, "write_file"), ("me", False, None), ("me", True, "write_file")],
)
def test_a_broken_call_is_asked_for_in_an_answer_that_is_whole(kind: str, any_guides: bool, guided: str | None) -> None:
    ended = Ended(why=Why.BROKEN, broken="write_file")
    again = after(ended, kind=kind, again=EVERY, any_guides=any_guides).plan
    assert (again and (again.guided, again.transport, again.second, again.server_kind)) == (
        guided and (guided, "whole", True, kind)
    )


@pytest.mark.parametrize("kept", [True, False])
def test_only_where_its_end_was_kept_back_a_second_reply_is_followed_by_a_third(kept: bool) -> None:
    """What has left cannot be taken back; for the next request it is remembered."""
    ended = Ended(why=Why.SWALLOWED, withheld=kept)
    following = after(ended, Plan(again=Why.EMPTY), auto=True, again=SILENT)
    assert following == (Next(BOTH) if kept else Next(parser_failed=True))


@pytest.mark.parametrize(
    ("plan", "calls", "failed"),
    [
        (Plan(parse="proxy", again=Why.SWALLOWED), 1, True),
        (Plan(parse="proxy", again=Why.SWALLOWED), 0, False),
        (Plan(parse="proxy", again=Why.EMPTY), 1, False),
        (Plan(parse="server", again=Why.SWALLOWED), 1, False),
        (Plan(parse="proxy"), 1, False),
    ],
    ids=["found here", "none there", "it was empty", "found by the server", "a first try"],
)
def test_calls_that_only_the_proxy_finds_show_that_the_server_cannot(plan: Plan, calls: int, failed: bool) -> None:
    assert after(Ended(calls=calls), plan, auto=True) == Next(parser_failed=failed)
