"""Chunks of structured calls that wait, and leave as they came or written anew (contracts C1, C5)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from proxy.call_chunks import MAX_WAITING, MAX_WAITING_BYTES

from .bad_server import ROLE, bytes_of, is_untouched, streamed, wire
from .helpers import calls, chunk, delta, ends, piece, says
from .test_failures_damage import TOOLS

pytestmark = pytest.mark.once

A, B = '{"path": "a"}', '{"path": "b"}'
CUTS = (
    (A,),
    ("", A),
    ('{"path": ', '"a"}'),
    ('{"path": "a', '"}'),
    ('{"path": "', "a", '"}'),
    ('{"path": "a"', "}"),
    ("{", '"path": "a"}'),
    (A, ""),
)


def turns(first: tuple[str, ...], second: tuple[str, ...]) -> list[list[dict[str, Any]]]:
    """The pieces of two calls in every order that keeps their own."""
    found = []
    total = len(first) + len(second)
    for places in itertools.combinations(range(total), len(first)):
        if places[0] != 0:
            continue
        parts = (list(first), list(second))
        names: list[tuple[str, ...]] = [("read", "i0"), ("read", "i1")]
        pieces: list[dict[str, Any]] = []
        for place in range(total):
            index = int(place not in places)
            pieces.append(piece(index, parts[index].pop(0), *names[index]))
            names[index] = ()
        found.append(pieces)
    return found


@pytest.mark.parametrize("first", CUTS)
@pytest.mark.parametrize("second", CUTS)
def test_two_calls_in_turns_leave_whole_and_once(first: tuple[str, ...], second: tuple[str, ...]) -> None:
    """F47: whichever waits for the other."""
    other = tuple(part.replace('"a"', '"b"') if part != "a" else "b" for part in second)
    other = tuple(part.replace('"a', '"b') for part in other)
    for pieces in turns(first, other):
        apart = [*map(calls, pieces), ends("tool_calls")]
        last = chunk(delta(finish="tool_calls", tool_calls=[pieces[-1]]))
        for chunks in (apart, [*map(calls, pieces[:-1]), last]):
            got = streamed(*chunks, cuts=0, tools=TOOLS)
            assert (got.calls, got.ids, got.error) == ([("read", A), ("read", "".join(other))], ("i0", "i1"), "")


@pytest.mark.parametrize("cut", CUTS)
def test_one_call_leaves_as_the_very_bytes_that_came_if_no_other_event_parts_it(cut: tuple[str, ...]) -> None:
    """C1: what waits leaves as it came."""
    pieces = [piece(0, cut[0], "read", "a"), *(piece(0, part) for part in cut[1:])]
    if cut == ('{"path": "a"', "}"):
        # The mark waits for what follows it when a part of its chunk has left.
        assert streamed(*map(calls, pieces), ends("tool_calls"), cuts=0, tools=TOOLS).calls == [("read", A)]
        return
    assert is_untouched(*map(calls, pieces), ends("tool_calls"), tools=TOOLS)


def test_calls_and_text_in_turns_keep_their_order() -> None:
    got = streamed(calls(piece(0, A, "read", "a")), says("and"), calls(piece(1, B, "read", "b")), ends(), tools=TOOLS)
    assert (got.calls, got.text) == ([("read", A), ("read", B)], "and")
    data = bytes_of(calls(piece(0, A, "read", "a")), says("and so on"), ends("tool_calls"), tools=TOOLS)
    assert data == wire([ROLE, calls(piece(0, A, "read", "a")), says("and so on"), ends("tool_calls")])


def test_no_more_chunks_and_bytes_wait_than_may() -> None:
    """C7: beyond that they are written anew, with what else they say."""
    many = [calls(piece(0, "", "read", "a")), *(calls(piece(0, " ")) for _ in range(MAX_WAITING)), calls(piece(0, A))]
    large = chunk({**delta(tool_calls=[piece(0, "{", "read", "a")]), "logprobs": "x" * MAX_WAITING_BYTES})
    for chunks in (many[: MAX_WAITING // 2] + many[-1:], [large, calls(piece(0, A[1:]))]):
        got = streamed(*chunks, ends("tool_calls"), cuts=0, tools=TOOLS)
        assert [values for _, values in got.values] == [{"path": "a"}]
