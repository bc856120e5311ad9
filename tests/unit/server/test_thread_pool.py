"""The threads of a worker: no more than may be, work in its order, and none is left at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from proxy.server import thread_pool
from proxy.server.thread_pool import STAYING, ThreadPool
from tests.support.scripted import PATIENCE


@pytest.fixture
def pools() -> Iterator[Callable[[int], ThreadPool]]:
    """Makes pools, which are shut down at the end."""
    made: list[ThreadPool] = []

    def pool(most: int) -> ThreadPool:
        made.append(ThreadPool(most))
        return made[-1]

    yield pool
    for each in made:
        each.shutdown(wait=False)


class Work:
    """A piece of work that goes on until it is let go; `thread` does it."""

    def __init__(self) -> None:
        self.thread: threading.Thread | None = None
        self._begun, self._gate = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.thread = threading.current_thread()
        self._begun.set()
        assert self._gate.wait(PATIENCE)

    def begun(self, seconds: float = PATIENCE) -> bool:
        return self._begun.wait(seconds)

    def let_go(self) -> None:
        self._gate.set()


def test_each_piece_of_work_has_a_thread_of_its_own_while_there_are_some(pools: Callable[[int], ThreadPool]) -> None:
    pool, works = pools(3), [Work() for _ in range(3)]
    for work in works:
        pool.start(work)
    assert all(work.begun() for work in works)
    assert len({work.thread for work in works}) == 3
    for work in works:
        work.let_go()


def test_what_is_beyond_them_waits_and_is_done_in_its_order(pools: Callable[[int], ThreadPool]) -> None:
    pool, first, last = pools(1), Work(), Work()
    order: list[int] = []
    pool.start(first)
    for number in range(20):
        pool.start(lambda number=number: order.append(number))  # type: ignore[misc]
    pool.start(last)
    assert first.begun() and not last.begun(0)
    first.let_go()
    assert last.begun()
    assert (order, last.thread) == ([*range(20)], first.thread)
    last.let_go()


def test_a_thread_does_one_piece_of_work_after_the_other(pools: Callable[[int], ThreadPool]) -> None:
    pool, threads = pools(2), set[threading.Thread]()
    for _ in range(200):
        work = Work()
        pool.start(work)
        assert work.begun() and work.thread is not None
        work.let_go()
        threads.add(work.thread)
    assert len(threads) <= 2


def test_the_end_of_the_pool_is_that_of_its_threads_behind_their_work(pools: Callable[[int], ThreadPool]) -> None:
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


def test_an_idle_thread_ends_with_the_pool(pools: Callable[[int], ThreadPool]) -> None:
    pool, work = pools(1), Work()
    pool.start(work)
    assert work.begun() and work.thread is not None
    work.let_go()
    pool.shutdown(wait=False)
    work.thread.join(PATIENCE)
    assert not work.thread.is_alive()


def test_a_thread_that_cannot_be_started_is_told_and_takes_no_place(
    pools: Callable[[int], ThreadPool], monkeypatch: pytest.MonkeyPatch
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
    pools: Callable[[int], ThreadPool], monkeypatch: pytest.MonkeyPatch
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
