"""The fields of a response that repeat the request's: all of them are there, whatever the request says."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.dialects.responses.output import echo


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("instructions", "rules"),
        ("tools", [{"type": "function", "name": "run"}]),
        ("tool_choice", {"type": "function", "name": "run"}),
        ("parallel_tool_calls", False),
        ("temperature", 0),
        ("max_output_tokens", 5),
        ("metadata", {"a": "b"}),
        ("user", ""),
    ],
)
def test_what_the_request_says_is_repeated(name: str, value: Any) -> None:
    """Also what is 0, false or empty."""
    assert echo({name: value}) == {**echo({}), name: value}


@pytest.mark.parametrize(
    "body", [{"temperature": None, "tools": None, "text": None, "reasoning": None}, {"input": "Hi"}]
)
def test_null_and_what_is_no_such_field_say_nothing(body: dict[str, Any]) -> None:
    assert echo(body) == echo({})


@pytest.mark.parametrize("name", ["store", "background", "previous_response_id", "truncation", "service_tier"])
def test_what_the_proxy_decides_is_not_the_requests(name: str) -> None:
    assert echo({name: "other"}) == echo({})


def test_the_form_of_the_text_is_text_unless_another_one_is_asked_for() -> None:
    assert echo({})["text"] == {"format": {"type": "text"}}
    assert echo({"text": {"verbosity": "low", "format": None}})["text"] == {
        "format": {"type": "text"},
        "verbosity": "low",
    }
    assert echo({"text": {"format": {"type": "json_object"}}})["text"] == {"format": {"type": "json_object"}}


@pytest.mark.parametrize(
    ("given", "effort"), [({"effort": "high", "summary": "auto"}, "high"), ({}, None), ("high", None)]
)
def test_of_the_reasoning_the_effort_alone_is_repeated(given: Any, effort: str | None) -> None:
    assert echo({"reasoning": given})["reasoning"] == {"effort": effort, "summary": None}


def test_no_request_changes_what_another_one_is_told() -> None:
    before = echo({})
    echo({"text": {"format": {"type": "json_object"}}, "metadata": {"a": "b"}})
    assert echo({}) == before
