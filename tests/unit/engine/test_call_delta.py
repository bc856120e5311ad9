"""What servers say of a call, in whatever words (F25, F29, F42 to F44, F64)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.codec.json_text import Json, JsonObject
from proxy.engine.call_delta import CallDelta, call_events, read_deltas, read_message_calls, read_responses_event
from proxy.engine.events import CallArguments, CallOpened
from tests.support.helpers import piece


def read(entry: Any) -> CallDelta:
    """What one entry of `tool_calls` says."""
    (found,) = read_deltas({"tool_calls": [entry]})
    return found


def test_the_words_of_chat_completions_are_standard() -> None:
    assert read(piece(1, '{"a"', name="f", id="x")) == CallDelta(1, "x", "f", '{"a"', standard=True)
    assert read(piece(1, ": 1}")) == CallDelta(1, None, "", ": 1}", standard=True)
    assert read({"index": 0, "id": None, "function": {"name": None, "arguments": ""}}) == CallDelta(0, standard=True)


@pytest.mark.parametrize("name", ["arguments", "parsed_arguments", "args", "input"])
@pytest.mark.parametrize("inside", [True, False])
def test_f25_the_arguments_under_other_names(name: str, inside: bool) -> None:
    """In `function` or beside it; an empty one does not hide a later one."""
    function: dict[str, Any] = {"name": "f", "arguments": ""}
    entry = {"index": 0, "function": {**function, name: '{"a": 1}'} if inside else function}
    said = read(entry if inside else {**entry, name: '{"a": 1}'})
    assert (said.name, said.fragment) == ("f", '{"a": 1}')
    assert said.standard is (name == "arguments" and inside)


@pytest.mark.parametrize("inside", [True, False])
def test_f29_an_object_means_its_json(inside: bool) -> None:
    values = {"a": [1, "größe", {"b": None}]}
    entry = {"function": {"name": "f", "arguments": values}} if inside else {"name": "f", "arguments": values}
    said = read(entry)
    assert (said.name, said.fragment, said.standard) == ("f", '{"a":[1,"größe",{"b":null}]}', False)


def test_f26_null_and_nothing_are_no_fragment() -> None:
    for entry in ({"function": {"name": "f", "arguments": None}}, {"function": {"name": "f"}}, {"name": "f"}):
        assert read(entry).fragment == ""
    assert read({"function": {"name": "f", "arguments": {}}}).fragment == "{}"


@pytest.mark.parametrize(
    ("index", "number"),
    [(0, 0), (7, 7), ("3", 3), (None, None), (-1, None), (True, None), (1.5, None), ("x", None), ("²", None)],
)
def test_f42_an_index_that_is_none_is_missing(index: Json, number: int | None) -> None:
    said = read({"index": index, "function": {"name": "f"}})
    assert said.index == number
    assert said.standard is (index is None or isinstance(index, int))
    assert read({"function": {"name": "f"}}).index is None


@pytest.mark.parametrize(("given", "id_"), [("x", "x"), ("", ""), (None, None), (5, "5"), (True, None), ({}, None)])
def test_f43_f44_ids_are_strings_or_missing(given: Json, id_: str | None) -> None:
    said = read({"id": given, "function": {"name": "f"}})
    assert said.id == id_
    assert said.standard is isinstance(given, str | None)


def test_a_huge_number_is_no_harm() -> None:
    assert read({"index": "9" * 10_000}).index == 999_999_999


@pytest.mark.parametrize(("name", "bare"), [(" f\n", "f"), (None, ""), (5, ""), (["f"], ""), ("", "")])
def test_a_name_is_a_text_without_blanks_around_it(name: Json, bare: str) -> None:
    said = read({"function": {"name": name, "arguments": ""}})
    assert said.name == bare
    assert said.standard is (name in ("", None))


def test_another_type_than_function_is_not_standard() -> None:
    function = {"name": "f", "arguments": "{}"}
    assert read({"type": "function", "function": function}).standard
    assert not read({"type": "tool", "function": function}).standard


@pytest.mark.parametrize("calls", [None, {}, 5, [], [None, 5, []]], ids=str)
def test_what_is_no_list_of_objects_says_nothing(calls: Json) -> None:
    assert [*read_deltas({"tool_calls": calls})] == []
    assert [*read_message_calls({"tool_calls": calls})] == []


def test_the_legacy_form_counts_where_there_is_no_other() -> None:
    legacy: JsonObject = {"name": "f", "arguments": "{}"}
    (said,) = read_deltas({"function_call": legacy})
    assert (said.name, said.fragment, said.index, said.id) == ("f", "{}", None, None)
    (said,) = read_deltas({"function_call": legacy, "tool_calls": [piece(0, "[]", name="g")]})
    assert said.name == "g"
    assert [*read_deltas({"function_call": 5})] == []


def test_the_calls_of_a_whole_message_are_counted_by_their_place() -> None:
    found = [
        *read_message_calls({"tool_calls": [{"index": 5, "function": {"name": "f"}}, 7, piece(9, "{}", name="g")]})
    ]
    assert [(said.index, said.name, said.complete) for said in found] == [(0, "f", True), (2, "g", True)]


def test_the_events_of_the_responses_api_on_a_chat_stream() -> None:
    event = "response.function_call_arguments."
    assert read_responses_event({"type": f"{event}delta", "delta": '{"a"', "item_id": "x"}) == CallDelta(
        None, "x", "", '{"a"'
    )
    done: JsonObject = {"type": f"{event}done", "arguments": '{"a": 1}', "call_id": "y", "item_id": "x", "name": "f"}
    assert read_responses_event(done) == CallDelta(None, "y", "f", '{"a": 1}', complete=True)


@pytest.mark.parametrize("body", [{}, {"type": None}, {"type": ["x"]}, {"type": "response.completed"}], ids=str)
def test_every_other_body_is_none_of_them(body: dict[str, Any]) -> None:
    assert read_responses_event(body) is None


def test_a_delta_as_it_stands() -> None:
    assert call_events(2, CallDelta(1, "x", "f", "{")) == (CallOpened(2, 1, "x", "f"), CallArguments(2, 1, "{"))
    assert call_events(2, CallDelta(None, None, "", "}")) == (CallArguments(2, 0, "}"),)
