"""What the first choice says, in whatever order a server gives them."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.dialects.first_choice import first_choice

NO: Any = {"refusal": "No"}
OTHER: Any = {"refusal": "Never"}


@pytest.mark.parametrize(
    ("choices", "wanted"),
    [
        ([{"index": 1, "delta": OTHER}, {"index": 0, "delta": NO}], NO),
        ([{"index": 1, "delta": OTHER}], {}),
        ([{"delta": NO}], NO),
        ([{"index": 0, "delta": {}, "message": NO}], NO),
        ([{"index": 1, "message": NO}, {"index": 0, "message": OTHER}], NO),
        ([7, {"index": 0, "delta": None}], {}),
        ([], {}),
        (None, {}),
    ],
)
def test_the_choices_of_a_chunk_have_numbers_and_those_of_an_answer_places(choices: Any, wanted: Any) -> None:
    assert first_choice({"choices": choices}) == wanted
