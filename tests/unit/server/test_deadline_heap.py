"""The heap of deadlines: items are due at their latest deadline, and discarded items take no space."""

from __future__ import annotations

import random

from proxy.server.pump import NEVER, DeadlineHeap


def test_discarded_items_take_no_space() -> None:
    heap = DeadlineHeap()
    for number in range(10_000):
        heap.set(number, 600.0)
        heap.discard(number)
    assert len(heap) == 0 and len(heap._heap) < 600


def test_it_behaves_like_a_plain_table() -> None:
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
