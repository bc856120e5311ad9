"""Events whose text only waits with that of a call, and what is taken of them; `tests/unit/exchange` has the property
that it changes nothing.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from proxy.engine.events import Chunk
from proxy.engine.held_lane import HeldLane, HeldShape, held_shape
from tests.support.helpers import calls, chunk, delta, ends, new_engine, piece, says

ONE = says("one")


def shape_of(learned: Chunk = ONE) -> HeldShape:
    shape = held_shape(learned, 0)
    assert shape is not None
    return shape


def test_what_differs_by_its_text_alone_is_of_the_shape() -> None:
    shape = shape_of()
    assert shape.fits(says("two").raw)
    assert not shape.fits(says("two", choice=1).raw)


@pytest.mark.parametrize(
    "more",
    [
        chunk(delta(content="one", reasoning="so")),
        chunk(delta(content="one", finish="stop")),
        chunk(delta(content="one", refusal="no")),
        chunk(delta(content="one"), usage={"completion_tokens": 1}),
        chunk(delta(content="one"), x_extra=1),
        chunk({**delta(content="one"), "logprobs": {"content": [{"token": "one"}]}}),
        calls(piece(0, "{}")),
        ends(),
        says('"'),
        says("\\"),
    ],
)
def test_what_says_more_than_a_text_or_has_no_plain_one_teaches_nothing(more: Chunk) -> None:
    assert held_shape(more, 0) is None


def test_events_are_taken_while_there_is_room_and_given_as_chunks() -> None:
    shape = shape_of()
    raws = [says(text).raw for text in ("two", "caf", " end")]
    lane = HeldLane(shape, len("twocaf end"))
    assert not lane.take(b"") and not lane.take(says("</").raw) and not lane.take(ends().raw)
    assert lane.take(raws[0]) and lane.take(raws[1] + raws[2])
    assert lane.text_size == len("twocaf end")
    assert not lane.take(says("x").raw)
    numbers = itertools.count(7)
    given = [*lane.chunks(lambda raw: next(numbers))]
    assert [(each.raw, each.sequence, text) for each, text in given] == [
        (raws[0], 7, "two"),
        (raws[1], 8, "caf"),
        (raws[2], 9, " end"),
    ]


def test_escapes_are_undone() -> None:
    lane = HeldLane(shape_of(), 10_000)
    text = 'a\\n\\"b\\" \\\\ \\u00e4'
    assert lane.take(says(text).raw)
    [(_, given)] = lane.chunks(len)
    assert given == text


def begun(*texts: str, **task: Any) -> Any:
    engine = new_engine(**task)
    for text in ('<tool_call>{"name": "bash", "arguments": {"command": "', *texts):
        assert not engine.feed(says(text))
    return engine


def test_the_lane_is_open_while_a_call_is_held() -> None:
    engine = begun("l")
    lane = engine.held_lane()
    assert lane is not None and lane.take(says("s").raw)
    assert engine.hold(lane, [*lane.chunks(lambda raw: 9)]) == ()
    assert engine.held_lane() is not None
    [_, arguments, *_] = engine.feed(says('"}}</tool_call>'))
    assert arguments.fragment == '{"command": "ls"}'


def test_it_has_no_more_room_than_the_call() -> None:
    """C7."""
    lane = begun("l", max_held=200).held_lane()
    assert lane is not None and lane.room < 200


def test_another_choice_closes_it() -> None:
    engine = begun("l")
    engine.feed(says("x", choice=1))
    assert engine.held_lane() is None


def test_a_call_that_is_complete_leaves_though_it_came_by_the_lane() -> None:
    engine = begun("l")
    lane = engine.held_lane()
    assert lane is not None
    [_, arguments, *_] = engine.hold(lane, [(ONE, '"}}</tool_call>')])
    assert arguments.fragment == '{"command": "l"}'
