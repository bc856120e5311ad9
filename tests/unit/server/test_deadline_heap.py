"""The heap of deadlines: what is due comes, at the moment that was said last, and what is gone takes no room."""

from __future__ import annotations

import random

from proxy.server.deadline_heap import NEVER, DeadlineHeap


def test_what_is_due_comes_once_and_the_earliest_first() -> None:
    heap = DeadlineHeap()
    for name, moment in (("b", 2.0), ("a", 1.0), ("c", 3.0)):
        heap.set(name, moment)
    assert heap.first() == 1.0
    assert heap.take(0.9) == []
    assert heap.take(2.0) == ["a", "b"]
    assert heap.take(2.0) == []
    assert len(heap) == 1


def test_a_later_moment_replaces_an_earlier_one_without_a_new_entry() -> None:
    heap = DeadlineHeap()
    for moment in range(1, 1000):
        heap.set("a", float(moment))
    assert heap.first() == 1.0  # nothing is due before; that is all it says
    assert heap.take(500.0) == [] and heap.first() == 999.0
    assert heap.take(999.0) == ["a"]


def test_an_earlier_moment_replaces_a_later_one() -> None:
    heap = DeadlineHeap()
    heap.set("a", 9.0)
    heap.set("a", 2.0)
    assert heap.take(2.0) == ["a"]
    assert heap.take(99.0) == []


def test_what_is_never_due_or_not_any_more_does_not_come() -> None:
    heap = DeadlineHeap()
    heap.set("a", NEVER)
    heap.set("b", 1.0)
    heap.discard("b")
    heap.discard("nobody")
    heap.set("c", 1.0)
    heap.set("c", NEVER)
    assert heap.take(5.0) == [] and heap.first() == NEVER
    heap.set("c", 6.0)
    heap.set("a", 6.0)
    assert sorted(heap.take(6.0)) == ["a", "c"]


def test_the_same_moment_said_again_after_a_discard_comes_once() -> None:
    heap = DeadlineHeap()
    heap.set("a", 1.0)
    heap.discard("a")
    heap.set("a", 1.0)
    assert heap.take(1.0) == ["a"]
    heap.set("a", 1.0)
    assert heap.take(1.0) == ["a"]


def test_what_is_gone_takes_no_room() -> None:
    heap = DeadlineHeap()
    for number in range(10_000):
        heap.set(number, 600.0)
        heap.discard(number)
    assert len(heap) == 0 and len(heap._heap) < 600


def test_it_does_what_a_plain_table_does() -> None:
    moments = random.Random(4)
    heap, table = DeadlineHeap(), dict[int, float]()
    now = 0.0
    for _ in range(20_000):
        thing, kind = moments.randrange(50), moments.random()
        if kind < 0.6:
            table[thing] = now + moments.uniform(0.0, 10.0)
            heap.set(thing, table[thing])
        elif kind < 0.7:
            table.pop(thing, None)
            heap.discard(thing)
        else:
            now += moments.random()
            assert heap.first() <= min(table.values(), default=NEVER)
            due = {each for each, moment in table.items() if moment <= now}
            assert set(heap.take(now)) == due
            for each in due:
                del table[each]
        assert len(heap) == len(table)
