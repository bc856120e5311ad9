"""What a chunk says, in whatever words (F25, F29, F42 to F44, F64)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.engine.engine import says_usage, with_thought_tokens
from proxy.engine.events import CallArguments, CallOpened, Chunk, Finished, Reasoning, Text, Usage
from proxy.engine.reading import CallDelta, read_choice
from proxy.engine.whole_messages import events_of
from proxy.errors import UnreadableReply
from proxy.json import Json, JsonObject
from tests.support.helpers import calls, chunk, delta, piece, says


def test_text_reasoning_and_finish() -> None:
    said = read_choice(delta(0, "stop", content="a", reasoning="b"))
    assert (said.text, said.reasoning, said.finish, said.calls) == ("a", "b", "stop", ())
    assert said.content(3) == [Reasoning(3, "b"), Text(3, "a")]
    assert not said.sign_of_life


def test_content_in_parts_is_their_text() -> None:
    parts: list[Any] = [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": []}, {"type": "text"}, "b"]
    assert read_choice(delta(content=[*parts, {"type": "text", "text": "c"}])).text == "abc"


def test_reasoning_in_content_parts_is_reasoning() -> None:
    """Mistral sends it so."""
    thoughts = [{"type": "thinking", "thinking": [{"type": "text", "text": "a"}, "b"]}, {"thinking": "c"}]
    said = read_choice(delta(content=[*thoughts, {"type": "reasoning", "text": "d"}, {"type": "text", "text": "e"}]))
    assert (said.reasoning, said.text) == ("abcd", "e")
    assert read_choice(delta(reasoning=[{"type": "text", "text": "a"}])).reasoning == "a"


def test_the_other_name_of_the_reasoning_counts_where_the_first_is_empty() -> None:
    """F73."""
    assert read_choice(delta(reasoning_content="a")).reasoning == "a"
    assert read_choice(delta(reasoning="", reasoning_content="a")).reasoning == "a"
    assert read_choice(delta(reasoning="b", reasoning_content="a")).reasoning == "b"


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"delta": None},
        {"delta": []},
        {"index": 0, "delta": {"content": [], "reasoning": 5}, "finish_reason": 0},
        {"delta": {"content": [None, {"type": "image"}], "reasoning": {}}},
        {"delta": {"content": [{"type": "image_url", "image_url": {"url": "a"}}, {"type": "foo", "id": "a"}]}},
        {"delta": {"content": [{"type": "thinking", "thinking": "", "signature": "a"}]}},
        {"delta": {"tool_calls": 5, "function_call": 5}, "message": "z"},
        {"delta": {"tool_calls": [None, 5, []], "function_call": {}}},
    ],
    ids=str,
)
def test_what_can_hold_no_text_is_not_said(entry: dict[str, Any]) -> None:
    said = read_choice(entry)
    assert (said.text, said.reasoning, said.finish, said.calls, said.content(0)) == ("", "", None, (), [])


@pytest.mark.parametrize(
    "entry",
    [
        {"delta": "text"},
        {"delta": ["text"]},
        *({"delta": {"content": content}} for content in ({}, {"text": "a"}, 5, False, [["a"]], [{"text": {"a": 1}}])),
        {"delta": {"content": [{"thinking": {"text": ["a"]}}]}},
        {"delta": {"content": "a", "reasoning": {"text": "a"}}},
        {"delta": {}, "finish_reason": {"type": "length"}},
        {"delta": {"tool_calls": "x"}},
        {"delta": {"tool_calls": {"index": 0, "function": {"name": "f", "arguments": "{}"}}}},
        {"delta": {"tool_calls": ["x"]}},
        {"delta": {"tool_calls": [{"index": 0, "function": "f", "arguments": "{}"}]}},
        {"delta": {"function_call": "f"}},
        {"message": {"tool_calls": "x"}},
    ],
    ids=str,
)
def test_what_may_hold_text_and_cannot_be_read_is_an_error(entry: dict[str, Any]) -> None:
    with pytest.raises(UnreadableReply):
        read_choice(entry)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"content": ""},
        {"content": None, "tool_calls": []},
        {"content": "", "reasoning": None, "refusal": None},
        {"tool_call_generating": True},
    ],
    ids=str,
)
def test_f64_a_delta_that_says_nothing(said: dict[str, Any]) -> None:
    assert read_choice(delta(**said)).sign_of_life
    assert read_choice({**delta(**said), "logprobs": None}).sign_of_life
    assert not read_choice({**delta(**said), "logprobs": {"content": [1]}}).sign_of_life
    assert not read_choice(delta(0, "stop", **said)).sign_of_life


@pytest.mark.parametrize("said", [{"role": "assistant"}, {"content": " "}, {"refusal": "no"}, {"more": [1]}], ids=str)
def test_f64_whatever_else_is_something(said: dict[str, Any]) -> None:
    assert not read_choice(delta(**said)).sign_of_life


def test_an_empty_list_of_calls_is_noted() -> None:
    assert read_choice(delta(tool_calls=[])).empty_calls
    assert not read_choice(delta(tool_calls=None)).empty_calls
    assert not read_choice(delta()).empty_calls


def test_a_whole_message_beside_the_delta_gives_its_calls() -> None:
    """F25: what was lost in the stream is there."""
    function = {"name": "f", "arguments": "{}"}
    entry = {**delta(content="a"), "message": {"content": "b", "tool_calls": [{"id": "x", "function": function}]}}
    said = read_choice(entry)
    assert said.text == "a"
    assert said.calls == (CallDelta(0, "x", "f", "{}", standard=True, complete=True),)


def read(entry: Any) -> CallDelta:
    """What one entry of `tool_calls` says."""
    (found,) = read_all(tool_calls=[entry])
    return found


def read_all(**said: Any) -> tuple[CallDelta, ...]:
    return read_choice({"delta": said}).calls


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
    assert said.standard is (number == index)
    assert read({"function": {"name": "f"}}).index is None


@pytest.mark.parametrize(("given", "id_"), [("x", "x"), ("", ""), (None, None), (5, "5"), (True, None), ({}, None)])
def test_f43_f44_ids_are_strings_or_missing(given: Json, id_: str | None) -> None:
    said = read({"id": given, "function": {"name": "f"}})
    assert said.id == id_
    assert said.standard is isinstance(given, str | None)


def test_a_huge_number_is_no_harm() -> None:
    assert read({"index": "9" * 10_000}).index is None


@pytest.mark.parametrize(("name", "bare"), [(" f\n", "f"), (None, ""), (5, ""), (["f"], ""), ("", "")])
def test_a_name_is_a_text_without_blanks_around_it(name: Json, bare: str) -> None:
    said = read({"function": {"name": name, "arguments": ""}})
    assert said.name == bare
    assert said.standard is (name in ("", None))


def test_another_type_than_function_is_not_standard() -> None:
    function = {"name": "f", "arguments": "{}"}
    assert read({"type": "function", "function": function}).standard
    assert not read({"type": "tool", "function": function}).standard


def test_the_legacy_form_counts_where_there_is_no_other() -> None:
    legacy: JsonObject = {"name": "f", "arguments": "{}"}
    (said,) = read_all(function_call=legacy)
    assert (said.name, said.fragment, said.index, said.id) == ("f", "{}", None, None)
    (said,) = read_all(function_call=legacy, tool_calls=[piece(0, "[]", name="g")])
    assert said.name == "g"
    assert read_all(function_call=5) == ()


def test_the_calls_of_a_whole_message_are_counted_by_their_place() -> None:
    message: Any = {"tool_calls": [{"index": 5, "function": {"name": "f"}}, 7, piece(9, "{}", name="g")]}
    found = read_choice({"delta": {}, "message": message}).calls
    assert [(said.index, said.name, said.complete) for said in found] == [(0, "f", True), (2, "g", True)]


def test_a_delta_as_it_stands() -> None:
    assert CallDelta(1, "x", "f", "{").events(2) == [CallOpened(2, 1, "x", "f"), CallArguments(2, 1, "{")]
    assert CallDelta(None, None, "", "}").events(2) == [CallArguments(2, 0, "}")]


def test_texts_of_all_choices_are_said() -> None:
    both = chunk(delta(content="a"), delta(1, reasoning="b", content="c"))
    assert events_of(both) == (Text(0, "a"), Reasoning(1, "b"), Text(1, "c"))


def test_calls_are_said() -> None:
    opened, arguments = events_of(calls(piece(0, "{}", "bash", "a")))
    assert isinstance(opened, CallOpened) and opened.name == "bash"
    assert isinstance(arguments, CallArguments) and arguments.fragment == "{}"


def test_the_finish_has_its_own_part_of_the_chunk_and_the_counts_are_said_once() -> None:
    entries = (delta(finish="stop"), delta(1, finish="length"))
    first, second, usage = events_of(chunk(*entries, usage={"completion_tokens": 3}))
    assert isinstance(first, Finished) and isinstance(second, Finished)
    assert first.source is not None and "usage" in first.source.body
    assert second.source is not None and "usage" not in second.source.body
    assert usage == Usage({"completion_tokens": 3})


def test_a_chunk_of_nothing_says_nothing() -> None:
    assert events_of(chunk()) == ()
    assert events_of(says("")) == ()


COUNTS = {"prompt_tokens": 1, "completion_tokens": 9, "total_tokens": 10}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"usage": COUNTS}, True),
        ({"usage": COUNTS, "choices": []}, True),
        ({"usage": {**COUNTS, "completion_tokens_details": None}}, True),
        ({"usage": {**COUNTS, "completion_tokens_details": {"reasoning_tokens": 0}}}, True),
        ({"usage": {**COUNTS, "completion_tokens_details": {"reasoning_tokens": 3}}}, False),
        ({"usage": COUNTS, "choices": [{}]}, False),
        ({"usage": {}}, False),
        ({"usage": None}, False),
        ({"usage": 7}, False),
        ({}, False),
    ],
)
def test_a_chunk_of_counts_among_which_are_none_of_thoughts(body: dict[str, Any], says: bool) -> None:
    assert says_usage(Chunk(body, b"")) is says


@pytest.mark.parametrize(
    ("usage", "tokens", "told"),
    [
        (COUNTS, 4, {"reasoning_tokens": 4}),
        (COUNTS, 12, {"reasoning_tokens": 9}),
        ({}, 12, {"reasoning_tokens": 12}),
        ({"completion_tokens": "9"}, 12, {"reasoning_tokens": 12}),
        ({"completion_tokens_details": {"audio_tokens": 1}}, 4, {"audio_tokens": 1, "reasoning_tokens": 4}),
        ({"completion_tokens_details": 7}, 4, {"reasoning_tokens": 4}),
    ],
)
def test_there_are_never_more_than_all_that_was_said(usage: dict[str, Any], tokens: int, told: Any) -> None:
    before = dict(usage)
    assert with_thought_tokens(usage, tokens) == {**usage, "completion_tokens_details": told}
    assert usage == before
