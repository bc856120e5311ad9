"""Counters and rates in the memory that workers share, seen by one of them."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import random
from collections import deque
from collections.abc import Iterator

import pytest

from proxy.worker.shared_counters import MAX_COUNTERS, MAX_HELD, MAX_NAME, SIZE, SharedCounters, SharedLock, lock
from tests.support.work import over_soon


@pytest.fixture(name="fd")
def _fd() -> Iterator[int]:
    """What gunicorn's master makes."""
    descriptor = os.memfd_create("test")
    os.ftruncate(descriptor, SIZE)
    yield descriptor
    os.close(descriptor)


@pytest.fixture(name="counters")
def _counters(fd: int) -> SharedCounters:
    return SharedCounters(mmap.mmap(fd, SIZE), 0, fd)


def alone() -> SharedCounters:
    """A memory without a master."""
    return SharedCounters(mmap.mmap(-1, SIZE), 0)


def test_counters_begin_at_nothing_and_add_up() -> None:
    counters = alone()
    assert counters.values() == {}
    counters.add({"a": 1, "b": 0.25})
    counters.add({"b": 0.5})
    assert counters.values() == {"a": 1, "b": 0.75}


def test_counters_are_bounded_and_what_is_over_is_left_out() -> None:
    counters = alone()
    counters.add({f"n{number}": 1 for number in range(MAX_COUNTERS + 10)})
    counters.add({"x" * (MAX_NAME + 1): 1, "n0": 1})
    values = counters.values()
    assert len(values) == MAX_COUNTERS and values["n0"] == 2 and f"n{MAX_COUNTERS}" not in values


def test_a_minute_takes_as_many_as_it_may_and_says_how_long_to_wait() -> None:
    counters = alone()
    assert [counters.rate_limit("key", 3, at) for at in (100.0, 100.9, 120.0)] == [0, 0, 0]
    assert counters.rate_limit("key", 3, 130.0) == 31  # the first two leave the window then
    assert counters.rate_limit("key", 3, 160.0) == 1
    assert [counters.rate_limit("key", 3, 161.0) for _ in range(3)] == [0, 0, 20]
    assert counters.rate_limit("other", 3, 161.0) == 0
    assert counters.rate_limit("key", 1, 161.0) == 61  # the limit was lowered


def test_what_was_refused_does_not_count() -> None:
    counters = alone()
    assert counters.rate_limit("key", 1, 0.0) == 0
    assert [counters.rate_limit("key", 1, at) > 0 for at in range(1, 61)] == [True] * 60
    assert counters.rate_limit("key", 1, 61.0) == 0


def test_there_are_never_more_than_so_many_in_any_minute() -> None:
    rng = random.Random(1)
    counters, now, let_in = alone(), 1000.0, deque[float]()
    for _ in range(5000):
        now += rng.choice((0, 0.1, 1, 7))
        wait = counters.rate_limit("key", 10, now)
        while let_in and let_in[0] <= now - 60:
            let_in.popleft()
        if wait == 0:
            let_in.append(now)
        else:
            assert counters.rate_limit("key", 10, now + wait - 1.001) > 0  # it does not say too much either
        assert len(let_in) <= 10


def test_who_waits_as_long_as_was_said_is_let_in() -> None:
    counters = alone()
    for _ in range(5):
        assert counters.rate_limit("key", 5, 10.4) == 0
    wait = counters.rate_limit("key", 5, 33.7)
    assert counters.rate_limit("key", 5, 33.7 + wait) == 0


def test_names_that_come_and_go_push_out_the_idle_ones_only() -> None:
    """Over all reloads there may be more keys than there is room for, but not in one minute."""
    counters = alone()
    for minute in range(8):
        now = 1000.0 + 61 * minute
        names = [f"name {minute} {number}" for number in range(1000)]
        assert [counters.rate_limit(name, 1, now) for name in ["busy", *names]] == [0] * 1001
        assert all(counters.rate_limit(name, 1, now + 60) for name in ["busy", *names])


def test_what_finds_no_room_in_a_row_is_written_into_no_other() -> None:
    counters = alone()
    assert all(counters.acquire_slots(f"key {number}", 1) for number in range(MAX_HELD))
    counters.acquire_slots("streams", 1)
    counters.acquire_slots("streams", 1)
    assert counters.held("streams") == 2 and counters.held(f"key {MAX_HELD - 1}") == 1
    next_row = counters._row_at(1)
    assert bytes(counters._map[next_row : next_row + 64]) == bytes(64)


def test_what_is_given_back_too_often_is_nothing_and_harms_no_other_count() -> None:
    counters = alone()
    for _ in range(2):
        counters.acquire_slots("streams", -1)
        assert counters.held("streams") == 0 and counters.acquire_slots("key", 1)
    counters.acquire_slots("streams", 1)
    assert counters.held("streams") == 1 and counters.held("key") == 2


def test_a_deadlock_that_the_kernel_only_sees_is_waited_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that wait for each other, each in another thread than the one that holds a lock."""
    answers: list[int] = [errno.EDEADLK, errno.EDEADLK, 0]

    def lockf(*_: object) -> None:
        number = answers.pop(0)
        if number:
            raise OSError(number, "")

    monkeypatch.setattr(fcntl, "lockf", lockf)
    lock(0, 1)
    assert answers == []
    answers.append(errno.EBADF)
    with pytest.raises(OSError):
        lock(0, 1)


def test_a_lock_is_one_threads_and_one_processes_and_free_behind_an_error(
    fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int] = []

    def lockf(_: int, how: int, *__: int) -> None:
        if how == fcntl.LOCK_EX and held == [fcntl.LOCK_EX]:
            raise OSError(errno.EBADF, "")
        held[:] = [how]

    monkeypatch.setattr(fcntl, "lockf", lockf)
    one = SharedLock(fd, 1)
    with pytest.raises(KeyError), one:
        assert held == [fcntl.LOCK_EX]
        raise KeyError
    assert held == [fcntl.LOCK_UN]
    held[:] = [fcntl.LOCK_EX]
    for _ in range(2):  # the second one does not wait for a thread that has failed
        with pytest.raises(OSError), one:
            pass
    with SharedLock(None, 1):
        assert held == [fcntl.LOCK_EX]  # a memory of this process alone has no file to lock


def test_a_turn_is_cheap() -> None:
    """Held with tenfold room: it is taken for every request."""
    counters = alone()
    with over_soon(1):
        for _ in range(1000):
            counters.add({"a": 1, "b": 1, "c": 1})
