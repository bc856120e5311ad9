"""Calls and their results in a history: each result behind its call and under its id (F48 to F50, F81)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.codec.json_text import JsonObject
from proxy.healing import results
from proxy.healing.heal import IDS, heal
from proxy.healing.results import NO_RESULT, ORPHAN
from tests.healing.shapes import PICTURE, call, calls, result, said, tool, user


def healed(step: Any, *messages: dict[str, Any]) -> list[Any]:
    """What a healing makes of a conversation; of what it made it makes nothing else."""
    once = step({"messages": [*messages]})
    assert step(once) is once
    return list(once["messages"])


def ids(messages: list[Any]) -> list[tuple[list[str], str]]:
    """The ids of each message: of its calls, and of the call that it answers."""
    return [([each["id"] for each in m.get("tool_calls", ())], m.get("tool_call_id", "")) for m in messages]


def texts(messages: list[Any]) -> list[Any]:
    return [message["content"] for message in messages]


PAIRED = {
    "by id": (["a", "b"], ["b", "a"], ["b", "a"]),
    "by an id whose signs were changed": (["call_a-1", "b"], ["CALLa1", "b"], ["call_a-1", "b"]),
    "a number for an id": (["1", "2"], [1, 2], ["1", "2"]),
    "by position": (["a", "b"], ["x", ""], ["a", "b"]),
    "by position what is left": (["a", "b"], ["b", "x"], ["b", "a"]),
    "the very id before one with other signs": (["a_1", "a1"], ["a1", "a_1"], ["a1", "a_1"]),
    "fewer results than calls": (["a", "b"], ["x"], ["x"]),
    "more results than calls": (["a"], ["x", "y"], ["x", "y"]),
}


@pytest.mark.parametrize(("made", "given", "told"), PAIRED.values(), ids=PAIRED)
def test_a_result_has_the_id_of_its_call(made: list[str], given: list[Any], told: list[str]) -> None:
    answers = [result(text=f"of {each}", tool_call_id=each) for each in given]
    _, first, *rest = healed(results.identify_calls, user(), calls(*(call(id=each) for each in made)), *answers)
    assert [each["id"] for each in first["tool_calls"]] == made
    assert [(each["tool_call_id"], each["content"]) for each in rest] == [*zip(told, texts(answers), strict=True)]


def test_a_result_of_an_earlier_call_is_no_later_ones_by_its_place() -> None:
    first = [user(), calls(call(id="a")), result(tool_call_id="a")]
    second = [calls(call(id="b")), result(text="again", tool_call_id="a")]
    assert ids(healed(results.identify_calls, *first, *second))[-2:] == [(["b"], ""), ([], "a")]


def test_a_call_without_an_id_or_with_one_that_is_known_gets_a_new_one() -> None:
    turn = [calls(call(id=""), call(id="a")), result(tool_call_id="without"), result(tool_call_id="a")]
    seen: set[str] = set()
    for made, _ in ids(healed(results.identify_calls, user(), *turn, *turn)):
        assert "" not in made and not seen & {*made}
        seen |= {*made}
    assert len(seen) == 4 and {"a", "call_1"} <= seen


TURN = [calls(call(1), call(2)), result(1, "one"), result(2, "two")]


@pytest.mark.parametrize(
    ("behind", "told"),
    [
        ([result(2, "two"), result(1, "one")], ["one", "two"]),
        ([user("so"), result(1, "one"), result(2, "two")], ["one", "two", "so"]),
        ([result(1, "one"), user("so"), result(1, "again")], ["one", "so", "again"]),
        ([result(3, "nobody's"), result(2, "two")], ["two", "nobody's"]),
    ],
    ids=["in another order", "behind something else", "twice", "beside one of nobody"],
)
def test_results_follow_their_calls_in_their_order(behind: list[Any], told: list[str]) -> None:
    assert texts(healed(results.order_results, user(), TURN[0], *behind))[2:] == told


def test_results_that_are_in_order_are_left_alone() -> None:
    body: JsonObject = {"messages": [user(), *TURN, said(), user()]}
    for step in (results.identify_calls, results.order_results, results.complete_results, results.tell_orphans):
        assert step(body) is body


@pytest.mark.parametrize(
    ("behind", "told"),
    [
        ([], [NO_RESULT, NO_RESULT]),
        ([result(2, "two")], [NO_RESULT, "two"]),
        ([user("stop")], [NO_RESULT, NO_RESULT, "stop"]),
    ],
    ids=["none", "one of two", "the user came between"],
)
def test_a_call_that_was_interrupted_has_a_result_that_says_so(behind: list[Any], told: list[str]) -> None:
    found = healed(results.complete_results, user(), TURN[0], *behind)
    assert texts(found)[2:] == told
    assert [message["tool_call_id"] for message in found[2:4]] == ["abcdefgh1", "abcdefgh2"]


def test_a_result_without_a_call_is_told_by_the_user() -> None:
    *before, told = healed(results.tell_orphans, user(), *TURN, result(3, "found"))
    assert before == [user(), *TURN]
    assert told["role"] == "user" and "tool_call_id" not in told
    assert told["content"].startswith(ORPHAN) and told["content"].endswith("found")


def test_of_a_result_without_a_call_no_part_is_lost() -> None:
    *_, told = healed(results.tell_orphans, user(), *TURN, result(3, [PICTURE]))
    assert [part for part in told["content"] if part["type"] != "text"] == [PICTURE]
    assert told["content"][0]["text"].startswith(ORPHAN)


def test_a_result_before_all_calls_is_one_too() -> None:
    assert [each["role"] for each in healed(results.tell_orphans, result(1), *TURN)][:2] == ["user", "assistant"]


def test_several_calls_of_a_turn_become_turns_of_one() -> None:
    first = calls(call(1), call(2), content="I look")
    told = healed(results.split_calls, user(), first, result(2, "two"), result(1, "one"), user("so"))
    assert texts(told) == [user()["content"], "I look", "one", "", "two", "so"]
    assert ids(told)[1:5] == [(["abcdefgh1"], ""), ([], "abcdefgh1"), (["abcdefgh2"], ""), ([], "abcdefgh2")]


def test_a_turn_of_one_call_is_left_alone() -> None:
    body: JsonObject = {"messages": [user(), calls(), result()]}
    assert results.split_calls(body) is body


def test_ids_in_the_style_of_mistral_are_nine_letters_and_digits() -> None:
    turn = [calls(call(id="call_1"), call(id="abcdefgh1")), result(tool_call_id="call_1"), result(1)]
    (made, _), *rest = ids(healed(results.mistral_ids, *turn))
    assert [len(each) for each in made] == [9, 9] and all(map(str.isalnum, made))
    assert made[1] == "abcdefgh1"
    assert [given for _, given in rest] == made


def test_ids_in_the_style_of_kimi_count_all_calls_of_the_conversation() -> None:
    turns = [calls(call(id="a"), call(id="b", name="now")), result(tool_call_id="b"), calls(call(id="c"))]
    found = ids(healed(results.kimi_ids, user(), *turns, result(tool_call_id="c")))
    assert found[1:] == [
        (["functions.read_file:0", "functions.now:1"], ""),
        ([], "functions.now:1"),
        (["functions.read_file:2"], ""),
        ([], "functions.read_file:2"),
    ]


def test_a_result_of_no_call_keeps_its_id_in_any_style() -> None:
    for step in (results.mistral_ids, results.kimi_ids):
        assert ids(healed(step, user(), result(tool_call_id="nobody's")))[-1] == ([], "nobody's")


@pytest.mark.parametrize("given", ["call1", "call_1", "CALL-1"])
@pytest.mark.parametrize("plan", [{"call_ids"}, {*IDS}], ids=["alone", "all"])
def test_an_id_that_is_made_is_no_results_own(given: str, plan: set[str]) -> None:
    """Two results of nobody's call, and a call without an id: the second time they must not be a pair either."""
    answers = [result(text=text, tool_call_id=given) for text in ("mkp1", "mkp2")]
    once = heal({"tools": [tool()], "messages": [calls(call(id="")), *answers]}, plan).body
    assert heal(once, plan).body == once
    told = json.dumps(once)
    assert "mkp1" in told and "mkp2" in told


def test_calls_of_one_id_in_a_turn_have_the_results_in_their_order() -> None:
    """F48: in the second turn, too."""
    same = [calls(call(id="same"), call(id="same")), *(result(text=text, tool_call_id="same") for text in "ab")]
    found = healed(results.identify_calls, user(), *same, *same)
    made = [each["id"] for message in found for each in message.get("tool_calls", ())]
    assert len(set(made)) == 4
    told = [(message["tool_call_id"], message["content"]) for message in found if message["role"] == "tool"]
    assert told == [*zip(made, "abab", strict=True)]


def test_an_id_of_the_style_behind_one_that_was_made_is_none_twice() -> None:
    """F50."""
    given = ("call_1", "functions.read_file:0")
    answers = [result(tool_call_id=each) for each in given]
    (made, _), *rest = ids(healed(results.kimi_ids, calls(*(call(id=each) for each in given)), *answers))
    assert made == ["functions.read_file:0", "functions.read_file:1"]
    assert [answered for _, answered in rest] == made
