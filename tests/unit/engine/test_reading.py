"""Parsing of chunks in every variant that servers send (F25, F29, F42 to F44, F64)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.engine.engine import says_usage, with_thought_tokens
from proxy.engine.events import Chunk
from proxy.engine.reading import CallDelta, read_choice
from proxy.json import Json
from tests.support.helpers import delta
from tests.support.rows import rows


def test_reasoning_in_content_parts_is_reasoning() -> None:
    """Mistral sends reasoning in content parts."""
    thoughts = [{"type": "thinking", "thinking": [{"type": "text", "text": "a"}, "b"]}, {"thinking": "c"}]
    said = read_choice(delta(content=[*thoughts, {"type": "reasoning", "text": "d"}, {"type": "text", "text": "e"}]))
    assert (said.reasoning, said.text) == ("abcd", "e")
    assert read_choice(delta(reasoning=[{"type": "text", "text": "a"}])).reasoning == "a"


def read(entry: Any) -> CallDelta:
    """Parse one entry of `tool_calls`."""
    (found,) = read_all(tool_calls=[entry])
    return found


def read_all(**said: Any) -> tuple[CallDelta, ...]:
    return read_choice({"delta": said}).calls


@pytest.mark.parametrize(
    ("index", "number"),
    [(0, 0), (7, 7), ("3", 3), (None, None), (-1, None), (True, None), (1.5, None), ("x", None), ("²", None)],
)
def test_f42_an_invalid_index_counts_as_missing(index: Json, number: int | None) -> None:
    said = read({"index": index, "function": {"name": "f"}})
    assert said.index == number
    assert said.standard is (number == index)
    assert read({"function": {"name": "f"}}).index is None


@pytest.mark.parametrize(("given", "id_"), [("x", "x"), ("", ""), (None, None), (5, "5"), (True, None), ({}, None)])
def test_f43_f44_ids_are_strings_or_missing(given: Json, id_: str | None) -> None:
    said = read({"id": given, "function": {"name": "f"}})
    assert said.id == id_
    assert said.standard is isinstance(given, str | None)


def test_a_huge_index_counts_as_missing() -> None:
    assert read({"index": "9" * 10_000}).index is None


COUNTS = {"prompt_tokens": 1, "completion_tokens": 9, "total_tokens": 10}


@rows(__file__, "body,says")
def test_a_usage_chunk_without_reasoning_tokens_is_recognized(body: dict[str, Any], says: bool) -> None:
    assert says_usage(Chunk(body, b"")) is says


@rows(__file__, "usage,tokens,details")
def test_reasoning_tokens_never_exceed_completion_tokens(usage: dict[str, Any], tokens: int, details: Any) -> None:
    before = dict(usage)
    assert with_thought_tokens(usage, tokens) == {**usage, "completion_tokens_details": details}
    assert usage == before
