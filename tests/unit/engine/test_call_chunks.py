"""Chunks of structured calls that wait, and leave as they came or written anew (contracts C1, C5)."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from proxy.engine.call_chunks import MAX_WAITING, MAX_WAITING_BYTES
from proxy.engine.events import Chunk
from proxy.engine.pending_call import MAX_NEAR
from tests.failures.test_failures_damage import TOOLS
from tests.support.client_view import ROLE, bytes_of, is_untouched, streamed, wire
from tests.support.helpers import bodies, calls, chunk, delta, ends, new_engine, piece, says, view

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
    assert is_untouched(*map(calls, pieces), ends("tool_calls"), tools=TOOLS)


# Clean calls: every kind of value, escapes, marks with a backslash, blanks.
CLEAN: tuple[tuple[str, dict[str, Any]], ...] = (
    ("read", {"path": "a"}),
    ("read", {"path": ""}),
    ("write", {"path": "a b", "content": 'say "hi"\n', "mode": "x"}),
    ("write", {"content": "C:\\new \u00fc \U0001f642", "path": "}"}),
    ("bash", {"command": "ls", "timeout": 10}),
    ("bash", {"timeout": 10, "command": "ls"}),
    ("edit", {"path": "a", "old": "b", "new": "", "all": True}),
    ("edits", {"path": "a", "edits": [{"old": "b", "new": "c"}]}),
    ("edits", {"edits": [{"old": "b", "new": "c"}], "path": "a"}),
    ("tag", {"tags": ["a", "b"]}),
)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "values"), CLEAN, ids=str)
@pytest.mark.parametrize("indent", [None, 1])
def test_a_clean_call_leaves_as_the_very_bytes_at_every_cut(name: str, values: Any, indent: int | None) -> None:
    """C1: in two pieces at every place, in three, and in many."""
    text = json.dumps(values, indent=indent, ensure_ascii=indent is None)
    places = [*range(len(text) + 1)]
    cuts: list[tuple[str, ...]] = [(text[:at], text[at:]) for at in places]
    widths = zip(places, itertools.cycle((1, 2, 5)), strict=False)
    cuts += [(text[:at], text[at : at + width], text[at + width :]) for at, width in widths]
    for cut in (*cuts, tuple(text[at : at + 3] for at in range(0, len(text), 3))):
        pieces = [piece(0, "", name, "a"), *(piece(0, part) for part in cut)]
        assert is_untouched(*map(calls, pieces), ends("tool_calls"), tools=TOOLS), cut
        joined = [piece(0, cut[0], name, "a"), *(piece(0, part) for part in cut[1:])]
        assert is_untouched(*map(calls, joined), ends("tool_calls"), tools=TOOLS), cut


def told(*tokens: str) -> Chunk:
    """What vLLM sends, asked for `logprobs`, of tokens that its parser reads and says nothing of yet."""
    return chunk({**delta(), "logprobs": {"content": [{"token": token} for token in tokens]}})


@pytest.mark.parametrize("cut", CUTS)
def test_what_else_is_told_between_the_pieces_of_a_call_keeps_its_place(cut: tuple[str, ...]) -> None:
    """C1: the tokens of a call, and its pieces, in the order of the model."""
    pieces = [calls(piece(0, ..., "read", "a")), *(calls(piece(0, part)) for part in cut)]
    for count in (1, 2, MAX_WAITING):
        for at in range(len(pieces) + 1):
            between = [told(f"{number}") for number in range(count)]
            chunks = [told("before"), *pieces[:at], *between, *pieces[at:], ends("tool_calls")]
            if count + len(pieces) < MAX_WAITING:
                assert is_untouched(*chunks, tools=TOOLS), (cut, at)
            assert _tokens(bytes_of(*chunks, tools=TOOLS)) == ["before", *map(str, range(count))]


@pytest.mark.parametrize("at", range(3))
def test_what_else_is_told_of_a_repaired_call_keeps_its_order(at: int) -> None:
    pieces = [calls(piece(0, ..., "Read", "a")), calls(piece(0, '{"path": ')), calls(piece(0, '"a"}'))]
    chunks = [*pieces[:at], told("one"), told("two"), *pieces[at:], told("three"), ends("tool_calls")]
    assert _tokens(bytes_of(*chunks, tools=TOOLS)) == ["one", "two", "three"]
    assert streamed(*chunks, tools=TOOLS).calls == [("read", A)]


def _tokens(data: bytes) -> list[str]:
    """The tokens whose probability is told, in their order."""
    entries = [entry for body in bodies(data)[:-1] for entry in body["choices"]]
    return [each["token"] for entry in entries for each in (entry.get("logprobs") or {}).get("content", ())]


def test_what_waits_for_a_long_value_leaves_without_it() -> None:
    """C2: the end of a string does not wait for an array behind it, but for a few characters of it."""
    engine = new_engine(TOOLS)
    begun = '{"path": "a.txt", "edits": [{"old": "'
    given = view([*engine.feed(calls(piece(0, begun, "edits", "a"))), *engine.feed(calls(piece(0, "x" * MAX_NEAR)))])
    assert given[0].arguments == ['{"path": "a.txt"']
    rest = 'y", "new": "z"}]}'
    events = [*engine.feed(calls(piece(0, rest))), *engine.feed(ends("tool_calls")), *engine.finish(done=True)]
    assert events


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
