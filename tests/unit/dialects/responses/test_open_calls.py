"""Calls and their outputs are paired by their place, whatever the ids, and however many there are (F48, C7)."""

from __future__ import annotations

import pytest

from proxy.dialects.responses.open_calls import OpenCalls


def test_an_output_is_of_the_newest_turn_with_its_id() -> None:
    calls = OpenCalls()
    assert [calls.add("c", "run", turn) for turn in range(3)] == ["c", "c_2", "c_3"]
    assert [calls.answered("c", "") for _ in range(4)] == ["c_3", "c_2", "c", ""]


@pytest.mark.parametrize("asked", [("c", ""), ("", "run")], ids=["by id", "by name"])
def test_the_outputs_of_one_turn_come_in_the_order_of_its_calls(asked: tuple[str, str]) -> None:
    calls = OpenCalls()
    assert [calls.add("c", "run", turn) for turn in (1, 3, 3, 3)] == ["c", "c_2", "c_3", "c_4"]
    assert calls.answered(*asked) == "c_2"
    assert calls.add("c", "run", 5) == "c_5"
    assert [calls.answered(*asked) for _ in range(5)] == ["c_5", "c_3", "c_4", "c", ""]


def test_an_output_without_an_id_is_of_the_newest_turn_with_its_name() -> None:
    calls = OpenCalls()
    ids = [calls.add(f"c{turn}", name, turn) for turn, name in enumerate(("run", "read", "run"))]
    assert ids == ["c0", "c1", "c2"]
    assert calls.answered("c2", "") == "c2"
    assert [calls.answered("", "run"), calls.answered("", "run"), calls.answered("", "read")] == ["c0", "", "c1"]


def test_an_id_that_stands_for_another_call_already_is_not_given_twice() -> None:
    calls = OpenCalls()
    assert [calls.add(id_, "run", 1) for id_ in ("c_2", "c", "c", "c_2", "", "")] == [
        *("c_2", "c", "c_3", "c_2_2", "call_4", "call_5")
    ]
    assert calls.answered("", "other") == ""


@pytest.mark.parametrize("turns", [1, 50_000])
def test_very_many_calls_of_one_id_and_outputs_of_none(turns: int) -> None:
    """Were each step to look at all of them, this would take minutes."""
    calls = OpenCalls()
    ids = [calls.add("c", "run", number % turns) for number in range(50_000)]
    assert (len(set(ids)), ids[-1]) == (50_000, "c_50000")
    assert {calls.answered("other", "run") for _ in range(50_000)} == {""}
    wanted = ids if turns == 1 else ids[::-1]
    assert [calls.answered("c", "") for _ in range(50_000)] == wanted
