"""What a message says, as a template can read it: text, parts, pictures, or nothing (F83)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proxy.codec.json_text import JsonObject
from proxy.healing import contents
from proxy.healing.contents import EMPTY_ANSWER
from tests.healing.shapes import PICTURE, call, calls, result, said, user

Step = Callable[[JsonObject], JsonObject]
TEXT = {"type": "text", "text": "a"}
TOLD = {"type": "text", "text": "[Here was a picture, which this model cannot read.]"}


def healed(step: Step, *messages: dict[str, Any]) -> list[Any]:
    """What a healing makes of a conversation; of what it made it makes nothing else."""
    once = step({"messages": [*messages]})
    assert step(once) is once
    found = once["messages"]
    assert isinstance(found, list)
    return found


def content(step: Step, given: Any) -> Any:
    """What becomes of the content of a user's message."""
    (message,) = healed(step, user(given))
    assert message["role"] == "user"
    return message["content"]


@pytest.mark.parametrize(
    ("step", "alone", "beside"),
    [(contents.fill_content, "", None), (contents.fill_content_beside_calls, None, "")],
    ids=["alone", "beside calls"],
)
def test_no_content_is_an_empty_text(step: Step, alone: str | None, beside: str | None) -> None:
    without = {key: value for key, value in calls().items() if key != "content"}
    found = healed(step, user(None), result(text=None) | {"content": None}, calls(content=None), without)
    assert [message.get("content") for message in found] == [alone, alone, beside, beside]


def test_what_has_no_role_is_left_alone() -> None:
    assert healed(contents.fill_content, {"content": None}) == [{"content": None}]


@pytest.mark.parametrize(
    ("given", "told"),
    [({"found": 1}, '{"found": 1}'), (7, "7"), (1.5, "1.5"), (False, "false"), ("7", "7"), ([], []), (None, None)],
)
def test_an_object_or_a_number_is_its_json(given: Any, told: Any) -> None:
    assert content(contents.write_content, given) == told


@pytest.mark.parametrize(
    ("part", "known"),
    [
        ("a", TEXT),
        ({"text": "a"}, TEXT),
        ({"type": "input_text", "text": "a"}, TEXT),
        ({"type": "output_text", "text": "a", "annotations": []}, {**TEXT, "annotations": []}),
        ({"type": "summary_text", "text": "a"}, TEXT),
        (TEXT, TEXT),
        (PICTURE, PICTURE),
        ({"type": "refusal", "text": "a"}, {"type": "refusal", "text": "a"}),
        ({"type": "input_text"}, {"type": "input_text"}),
        ({"text": 7}, {"text": 7}),
        (7, 7),
    ],
)
def test_a_part_of_text_says_so(part: Any, known: Any) -> None:
    assert content(contents.name_parts, [part]) == [known]
    assert content(contents.name_parts, part) == part


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([TEXT], "a"),
        ([], ""),
        ([TEXT, PICTURE], [TEXT, PICTURE]),
        ([{"type": "input_text", "text": "a"}], [{"type": "input_text", "text": "a"}]),
        ("a", "a"),
        (None, None),
    ],
)
def test_only_texts_are_one_text(given: Any, told: Any) -> None:
    assert content(contents.flatten_texts, given) == told


def test_of_several_texts_each_is_there_in_its_order() -> None:
    told = content(contents.flatten_texts, [TEXT, {"type": "text", "text": "b"}])
    assert told.startswith("a") and told.endswith("b") and len(told) > 2


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([PICTURE], TOLD["text"]),
        ([TEXT, {"type": "input_audio"}, {"type": "x"}], [TEXT, {**TOLD}, {"type": "x"}]),
        ([TEXT], [TEXT]),
        ("a", "a"),
    ],
)
def test_a_picture_is_told_in_words(given: Any, told: Any) -> None:
    found = content(contents.tell_pictures, given)
    if isinstance(told, list) and len(told) == 3:
        assert "a recording" in found[1]["text"]
        found[1] = {**TOLD}
    assert found == told


@pytest.mark.parametrize("text", ["I look", [TEXT], [PICTURE]])
def test_a_text_beside_calls_is_a_turn_of_its_own(text: Any) -> None:
    found = healed(contents.part_text_from_calls, user(), calls(content=text), result())
    assert found == [user(), said(text), calls(), result()]


@pytest.mark.parametrize("given", [calls(), calls(content=[]), said("I look")])
def test_where_there_is_none_or_are_no_calls_nothing_is_parted(given: dict[str, Any]) -> None:
    assert healed(contents.part_text_from_calls, user(), given, result()) == [user(), given, result()]


@pytest.mark.parametrize(
    ("given", "thought"),
    [
        (calls(), ""),
        (calls(reasoning="hm"), "hm"),
        (calls(thinking="hm"), "hm"),
        (calls(reasoning_content="known", reasoning="other"), "known"),
        (calls(reasoning_content=""), ""),
        (said(reasoning="hm"), None),
    ],
)
def test_the_reasoning_before_a_call_goes_back_by_one_name(given: dict[str, Any], thought: str | None) -> None:
    (found,) = healed(contents.give_reasoning_back, given)
    assert found.get("reasoning_content") == thought
    assert found["content"] == given["content"]


@pytest.mark.parametrize("empty", ["", [], [{"type": "text", "text": ""}]])
def test_an_answer_of_nothing_says_so(empty: Any) -> None:
    assert healed(contents.fill_answers, said(empty)) == [said(EMPTY_ANSWER)]


@pytest.mark.parametrize("given", [calls(), user(""), said("a"), said([PICTURE])])
def test_what_is_no_empty_answer_is_left_alone(given: dict[str, Any]) -> None:
    assert healed(contents.fill_answers, given) == [given]


def test_calls_and_results_are_spelled_out_as_text() -> None:
    first = calls(call(arguments='{"path": "a"}'), call(2, name="say \"x\"", arguments=""), content="I look")
    told, answer = healed(contents.spell_out_calls, first, result(text="found"))
    assert "tool_calls" not in told and told["role"] == "assistant"
    assert told["content"].startswith("I look")
    assert '<tool_call>\n{"name": "read_file", "arguments": {"path": "a"}}\n</tool_call>' in told["content"]
    assert told["content"].endswith('<tool_call>\n{"name": "say \\"x\\"", "arguments": {}}\n</tool_call>')
    assert answer == {"role": "user", "content": "<tool_response>\nfound\n</tool_response>"}


def test_of_a_result_with_a_picture_both_are_told() -> None:
    (answer,) = healed(contents.spell_out_calls, result(text=[TEXT, PICTURE]))
    text, picture = answer["content"]
    assert (text["text"], picture) == ("<tool_response>\na\n</tool_response>", PICTURE)


def test_a_conversation_that_lacks_all_of_this_is_the_very_same() -> None:
    body: JsonObject = {"messages": [user("a"), said("b")]}
    steps = (contents.fill_content, contents.write_content, contents.name_parts, contents.flatten_texts)
    more = (contents.tell_pictures, contents.part_text_from_calls, contents.fill_answers, contents.spell_out_calls)
    for step in (*steps, *more, contents.give_reasoning_back, contents.fill_content_beside_calls):
        assert step(body) is body
