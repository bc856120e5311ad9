"""What servers taught by refusing requests, as all workers share it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from proxy.healing.heal import IDS
from proxy.worker.lessons import Lessons
from proxy.worker.shared_memory import SIZE, Memory


def test_before_anything_was_learnt_no_model_needs_anything() -> None:
    assert Lessons(Memory()).of("m") == frozenset()


def test_a_lesson_is_kept_once() -> None:
    lessons = Lessons(Memory())
    assert lessons.add("m", ("one_call", "pictures"))
    assert not lessons.add("m", ("pictures",))
    assert not lessons.add("m", ())
    assert lessons.add("m", ("pictures", "alternate"))
    assert lessons.of("m") == {"one_call", "pictures", "alternate"}


def test_so_many_models_are_remembered_and_those_may_still_learn() -> None:
    lessons = Lessons(Memory())
    learnt = [lessons.add(str(number), ("pictures",)) for number in range(300)]
    assert learnt == [True] * 256 + [False] * 44
    assert lessons.of("299") == frozenset()
    assert lessons.add("0", ("one_call",)) and lessons.of("0") == {"one_call", "pictures"}


@contextmanager
def shared() -> Iterator[int]:
    descriptor = os.memfd_create("test")
    os.ftruncate(descriptor, SIZE)
    yield descriptor
    os.close(descriptor)


def test_workers_share_what_was_learnt_until_the_rules_change() -> None:
    with shared() as descriptor:
        one, other = Memory(descriptor), Memory(descriptor)
        mine, yours = Lessons(one), Lessons(other)
        assert mine.of("m") == set()
        assert mine.add("m", ("one_call",)) and yours.add("m", ("pictures",)) and yours.add("n", ("alternate",))
        assert mine.of("m") == {"one_call", "pictures"} and mine.of("n") == {"alternate"}
        assert not mine.add("m", ("pictures",)), "it was known"
        with one.locked():
            one.publish(b"", "r.yaml")
        assert yours.of("m") == set() and yours.add("m", ("one_call",)) and mine.of("m") == {"one_call"}


def test_lessons_have_an_end() -> None:
    lessons = Lessons(Memory())
    kept = [lessons.add(f"model-{number}-{'x' * 200}", IDS) for number in range(100)]
    assert kept[0] and not kept[-1]
    assert lessons.of(f"model-0-{'x' * 200}") == {*IDS}
