"""How many of a reply's tokens were thoughts, where a server counts them."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.engine.events import Chunk
from proxy.engine.thought_tokens import says_usage, with_thought_tokens

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
