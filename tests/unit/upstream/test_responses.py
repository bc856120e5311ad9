"""Answers that are read whole, and what an answer that is no success means."""

from __future__ import annotations

import pytest

from proxy.errors import UpstreamBroken
from proxy.upstream.responses import read_body


def test_gather_joins_the_parts_and_pauses_where_there_is_none() -> None:
    whole = read_body([b"one", None, b"two", None])
    assert [next(whole), next(whole)] == [None, None]
    with pytest.raises(StopIteration) as done:
        next(whole)
    assert done.value.value == b"onetwo"


def test_gather_refuses_what_is_over_the_limit() -> None:
    """C7."""
    with pytest.raises(UpstreamBroken, match="5 bytes"):
        next(read_body([b"123", b"456"], 5))


def test_gather_cuts_what_is_over_the_limit_if_it_only_wants_to_quote() -> None:
    parts = iter([b"123", b"456", b"789"])
    with pytest.raises(StopIteration) as done:
        next(read_body(parts, 5, strict=False))
    assert done.value.value == b"12345"
    assert next(parts) == b"789", "what is not wanted is not read either"
