"""One more try for a reply that says nothing: when, and how the two become one (F63, F72)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.codec.json_text import JsonObject
from proxy.dialects.chat.request import read_chat
from proxy.engine.events import Chunk, Event, Finished, Reasoning, Text
from proxy.exchange.joined_reply import EarlierTry, envelope_of, summed
from proxy.exchange.plan import SILENT, Why, reasons_to_ask_again
from tests.unit.exchange.test_reply_content import STOP, said

TOOLS: list[Any] = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
BROKEN = Text(0, '<tool_call>{"name": "read', broken="read")


def reasons(*, broken: bool = True, **fields: Any) -> frozenset[Why]:
    body = {"model": "m", "messages": [{"role": "user", "content": "Q"}], "tools": TOOLS, **fields}
    return reasons_to_ask_again(read_chat(b"", body), broken=broken)


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": []},
        {"tool_choice": "none"},
        {"n": 2},
        {"continue_final_message": True},
        {"add_generation_prompt": False},
        {"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]},
    ],
    ids=["no tools", "none to be called", "two choices", "goes on", "no prompt", "begun by the client"],
)
def test_where_two_replies_could_not_be_one_nothing_is_asked_again(fields: dict[str, Any]) -> None:
    assert reasons(**fields) == frozenset()


@pytest.mark.parametrize("fields", [{"n": 1}, {"n": None}, {"messages": []}, {"messages": ["odd"]}])
def test_what_says_nothing_else_is_asked_again(fields: dict[str, Any]) -> None:
    assert reasons(**fields) == {*SILENT, Why.BROKEN}


def test_where_the_reply_is_to_be_json_what_looks_broken_may_be_it() -> None:
    assert reasons(response_format={"type": "json_object"}) == SILENT


@pytest.mark.parametrize(("reason", "why"), [("stop", Why.BROKEN), ("length", None), ("tool_calls", None)])
def test_a_broken_call_is_asked_for_again_if_the_model_ended_by_itself(reason: str, why: Why | None) -> None:
    assert said(BROKEN, Finished(0, reason, None)).why_again(9, BROKEN) is why


@pytest.mark.parametrize(("usage", "tokens"), [({}, 0), ({"completion_tokens": 7}, 7), ({"completion_tokens": "7"}, 0)])
def test_the_tokens_of_a_try_are_those_that_the_server_counts(usage: JsonObject, tokens: int) -> None:
    assert EarlierTry(usage).tokens == tokens


def test_what_has_left_gives_its_envelope_to_the_rest() -> None:
    """Both are one reply: one id, one role, one sum."""
    first: JsonObject = {"id": "a", "created": 1, "model": "m", "object": "chunk", "choices": []}
    earlier = EarlierTry({"completion_tokens": 2}, envelope_of(first))
    chunk: JsonObject = {
        **{"id": "b", "created": 2, "model": "m", "object": "chunk", "usage": {"completion_tokens": 3}},
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hi"}}],
    }
    assert earlier.joined(chunk) == {
        **{"id": "a", "created": 1, "model": "m", "object": "chunk", "usage": {"completion_tokens": 5}},
        "choices": [{"index": 0, "delta": {"content": "Hi"}}],
    }


def test_where_nothing_has_left_the_second_reply_has_its_own_envelope() -> None:
    chunk: JsonObject = {"id": "b", "choices": [{"index": 0, "delta": {"role": "assistant"}}]}
    assert EarlierTry({"completion_tokens": 2}).joined(chunk) is None


@pytest.mark.parametrize("finish", [None, Finished(0, "length", None), Finished(0, "tool_calls", None)])
def test_without_a_natural_end_nothing_is_asked_again(finish: Finished | None) -> None:
    assert said(*([finish] if finish else [])).why_again(0) is None


def test_of_several_choices_none_is_asked_again() -> None:
    assert said(STOP, Finished(1, "stop", None)).why_again(0) is None


@pytest.mark.parametrize("matched,why", [("END", None), (151645, Why.EMPTY), (None, Why.EMPTY)])
@pytest.mark.parametrize("name", ["stop_reason", "matched_stop"])
def test_a_stop_sequence_is_none_of_the_models_own_ends(name: str, matched: object, why: Why | None) -> None:
    source = Chunk({"choices": [{"index": 0, "finish_reason": "stop", name: matched}]}, b"")  # type: ignore[dict-item]
    assert said(Finished(0, "stop", source)).why_again(0) is why


@pytest.mark.parametrize(
    "events,tokens,why",
    [
        ([], 0, Why.EMPTY),
        ([], 1, Why.EMPTY),
        ([], 2, Why.SWALLOWED),
        ([Text(0, "\n\n")], 3, Why.EMPTY),
        ([Text(0, "\n\n")], 4, Why.SWALLOWED),
        ([Reasoning(0, "a")], 40, Why.THOUGHT),
        ([Text(0, "a")], 40, None),
    ],
)
def test_tokens_without_a_word_were_swallowed(events: list[Event], tokens: int, why: Why | None) -> None:
    """A blank takes one token at the most, and the end of the turn one."""
    assert said(*events, STOP).why_again(tokens) is why


def test_counts_are_summed_also_inside() -> None:
    one: JsonObject = {"prompt_tokens": 1, "details": {"cached": 1, "audio": None}, "cost": 0.5, "mine": 1}
    other: JsonObject = {"prompt_tokens": 2, "details": {"cached": 3, "audio": 1}, "cost": 0.25, "other": None}
    assert summed(one, other) == {
        **{"prompt_tokens": 3, "details": {"cached": 4, "audio": 1}, "cost": 0.75},
        **{"mine": 1, "other": None},
    }


def test_a_chunk_in_which_nothing_differs_stays_as_it_is() -> None:
    body = {"id": "a", "choices": [{"index": 0, "delta": {"content": "b"}}]}
    assert EarlierTry({"prompt_tokens": 1}, {"id": "a"}).joined(body) is None  # type: ignore[arg-type]
