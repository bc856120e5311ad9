"""The threads of a worker: no more than may be, work in its order, and none is left at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from proxy.server import thread_pool
from proxy.server.thread_pool import STAYING, ThreadPool
from tests.support.scripted import PATIENCE


class NoTurns:
    """Turns for which nobody stands in line."""

    in_line = 0

    def turn(self, on_taken: Callable[[], None]) -> Any:
        return SimpleNamespace(take=on_taken, give_back=lambda: None)


class Line(NoTurns):
    """Turns for which all stand in line until they are let go; `come`: one more stands there."""

    def __init__(self) -> None:
        self._gates: list[threading.Event] = []
        self.come = threading.Semaphore(0)

    @property
    def in_line(self) -> int:  # type: ignore[override]
        return len(self._gates)

    def turn(self, on_taken: Callable[[], None]) -> Any:
        def take() -> None:
            gate = threading.Event()
            self._gates.append(gate)
            self.come.release()
            assert gate.wait(PATIENCE)
            on_taken()

        return SimpleNamespace(take=take, give_back=lambda: None)

    def let_go(self) -> None:
        """The first one has its turn."""
        self._gates.pop(0).set()


@pytest.fixture
def pools() -> Iterator[Callable[..., ThreadPool]]:
    """Makes pools, which are shut down at the end."""
    made: list[ThreadPool] = []

    def pool(most: int, turns: NoTurns | None = None) -> ThreadPool:
        made.append(ThreadPool(most, turns or NoTurns()))
        return made[-1]

    yield pool
    for each in made:
        each.shutdown(wait=False)


class Work:
    """A piece of work that goes on until it is let go; `thread` does it."""

    def __init__(self) -> None:
        self.thread: threading.Thread | None = None
        self._begun, self._gate = threading.Event(), threading.Event()

    def __call__(self, turn: object) -> None:
        self.thread = threading.current_thread()
        self._begun.set()
        assert self._gate.wait(PATIENCE)

    def begun(self, seconds: float = PATIENCE) -> bool:
        return self._begun.wait(seconds)

    def let_go(self) -> None:
        self._gate.set()


def _note(order: list[int], number: int, turn: object) -> None:
    order.append(number)


def test_each_piece_of_work_has_a_thread_of_its_own_while_there_are_some(pools: Callable[..., ThreadPool]) -> None:
    pool, works = pools(3), [Work() for _ in range(3)]
    for work in works:
        pool.start(work)
    assert all(work.begun() for work in works)
    assert len({work.thread for work in works}) == 3
    for work in works:
        work.let_go()


def test_what_is_beyond_them_waits_and_is_done_in_its_order(pools: Callable[..., ThreadPool]) -> None:
    pool, first, last = pools(1), Work(), Work()
    order: list[int] = []
    pool.start(first)
    for number in range(20):
        pool.start(partial(_note, order, number))
    pool.start(last)
    assert first.begun() and not last.begun(0)
    first.let_go()
    assert last.begun()
    assert (order, last.thread) == ([*range(20)], first.thread)
    last.let_go()


def test_no_work_begins_while_another_stands_in_line(pools: Callable[..., ThreadPool]) -> None:
    """50 requests that come at once are on two threads, and not on 50 that wake each other."""
    line, works = Line(), [Work() for _ in range(5)]
    pool = pools(10, line)
    for work in works:
        pool.start(work)
    for number, work in enumerate(works, 1):
        assert line.come.acquire(timeout=PATIENCE)
        assert not line.come.acquire(blocking=False) and pool._count == number
        line.let_go()
        assert work.begun()
    for work in works:
        work.let_go()


def test_a_request_that_goes_on_is_in_line_too_and_comes_first(pools: Callable[..., ThreadPool]) -> None:
    line, resumed, other = Line(), threading.Event(), Work()
    pool = pools(10, line)

    def wait_for_the_upstream(turn: Any) -> None:
        assert resumed.wait(PATIENCE)
        turn.take()

    pool.start(wait_for_the_upstream)
    assert line.come.acquire(timeout=PATIENCE)
    line.let_go()
    resumed.set()
    assert line.come.acquire(timeout=PATIENCE)
    pool.start(other)
    assert pool._count == 1
    line.let_go()
    assert line.come.acquire(timeout=PATIENCE)
    line.let_go()
    assert other.begun()
    other.let_go()


def test_work_whose_thread_cannot_be_started_is_that_of_the_next_one_with_nothing_to_do(
    pools: Callable[..., ThreadPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    line, first, second = Line(), Work(), Work()
    pool = pools(10, line)
    pool.start(first)
    pool.start(second)
    assert line.come.acquire(timeout=PATIENCE)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        line.let_go()
        assert first.begun()
    first.let_go()
    assert line.come.acquire(timeout=PATIENCE)
    line.let_go()
    assert second.begun() and second.thread is first.thread
    second.let_go()


def test_a_thread_does_one_piece_of_work_after_the_other(pools: Callable[..., ThreadPool]) -> None:
    pool, threads = pools(2), set[threading.Thread]()
    for _ in range(200):
        work = Work()
        pool.start(work)
        assert work.begun() and work.thread is not None
        work.let_go()
        threads.add(work.thread)
    assert len(threads) <= 2


def test_the_end_of_the_pool_is_that_of_its_threads_behind_their_work(pools: Callable[..., ThreadPool]) -> None:
    pool, busy, waiting = pools(1), Work(), Work()
    pool.start(busy)
    pool.start(waiting)
    assert busy.begun() and busy.thread is not None
    pool.shutdown(wait=False)
    busy.let_go()
    assert waiting.begun()
    waiting.let_go()
    busy.thread.join(PATIENCE)
    assert not busy.thread.is_alive()


def test_an_idle_thread_ends_with_the_pool(pools: Callable[..., ThreadPool]) -> None:
    pool, work = pools(1), Work()
    pool.start(work)
    assert work.begun() and work.thread is not None
    work.let_go()
    pool.shutdown(wait=False)
    work.thread.join(PATIENCE)
    assert not work.thread.is_alive()


def test_a_thread_that_cannot_be_started_is_told_and_takes_no_place(
    pools: Callable[..., ThreadPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, work = pools(1), Work()

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            pool.start(work)
    pool.start(work)
    assert work.begun()
    work.let_go()


def test_threads_that_nobody_has_needed_for_a_while_end_but_for_some(
    pools: Callable[..., ThreadPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, let_end = threading.Semaphore(0), ThreadPool.let_end

    def told(pool: ThreadPool, thread: Any) -> bool:
        may = let_end(pool, thread)
        if may:
            ended.release()
        return may

    monkeypatch.setattr(thread_pool, "IDLE_SECONDS", 0.01)
    monkeypatch.setattr(ThreadPool, "let_end", told)
    pool, works = pools(3 * STAYING), [Work() for _ in range(3 * STAYING)]
    for work in works:
        pool.start(work)
    assert all(work.begun() for work in works)
    for work in works:
        work.let_go()
    assert all(ended.acquire(timeout=PATIENCE) for _ in range(2 * STAYING))
    assert not ended.acquire(blocking=False)
    # Those that have ended have made room for others.
    more = [Work() for _ in range(3 * STAYING)]
    for work in more:
        pool.start(work)
    assert all(work.begun() for work in more)
    for work in more:
        work.let_go()
