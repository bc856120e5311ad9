"""The threads of a worker: no more than may be, work in its order, and none is left at the end."""

from __future__ import annotations

import math
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

    def __init__(self) -> None:
        self.given_back = 0
        # What waits from now on is overdue at once.
        self.is_late = False

    def until(self) -> float:
        return -math.inf if self.is_late else math.inf

    def turn(self, out_of_line: Callable[[], None]) -> Any:
        return SimpleNamespace(take=lambda until=None: out_of_line(), give_back=self._give_back)

    def _give_back(self) -> None:
        self.given_back += 1


class Line(NoTurns):
    """Turns for which all stand in line until they are let go; `come`: one more stands there."""

    def __init__(self) -> None:
        super().__init__()
        self._gates: list[threading.Event] = []
        self.come = threading.Semaphore(0)

    @property
    def in_line(self) -> int:  # type: ignore[override]
        return len(self._gates)

    def turn(self, out_of_line: Callable[[], None]) -> Any:
        def take(until: float = math.inf) -> None:
            gate = threading.Event()
            self._gates.append(gate)
            self.come.release()
            assert until < 0 or gate.wait(PATIENCE)
            out_of_line()

        return SimpleNamespace(take=take, give_back=self._give_back)

    def let_go(self) -> None:
        """The first one has its turn."""
        self._gates.pop(0).set()


def _may_not_be(work: object, error: RuntimeError) -> None:
    raise error


@pytest.fixture
def pools() -> Iterator[Callable[..., ThreadPool]]:
    """Makes pools, which are shut down at the end."""
    made: list[ThreadPool] = []

    def pool(
        most: int, turns: NoTurns | None = None, refuse: Callable[[Any, RuntimeError], None] = _may_not_be
    ) -> ThreadPool:
        made.append(ThreadPool(most, turns or NoTurns(), lambda work, turn: work(turn), refuse))
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


def start_behind(line: Line, pool: ThreadPool, works: list[Work], *, late: bool = False) -> None:
    """Start the first piece of work, and once it stands in line the others, which are overdue if `late`."""
    pool.start(works[0])
    assert line.come.acquire(timeout=PATIENCE)
    line.is_late = late
    for work in works[1:]:
        pool.start(work)


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
    start_behind(line, pool, works)
    for number, work in enumerate(works, 1):
        assert not line.come.acquire(blocking=False) and pool._count == number
        line.let_go()
        assert work.begun()
        assert work is works[-1] or line.come.acquire(timeout=PATIENCE)
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


def test_work_that_has_waited_for_long_enough_begins_whoever_stands_in_line(pools: Callable[..., ThreadPool]) -> None:
    """Where requests that go on always stand in line, a new one would never begin."""
    line, works = Line(), [Work() for _ in range(3)]
    start_behind(line, pools(10, line), works, late=True)
    assert all(work.begun() for work in works[1:])
    line.let_go()
    assert works[0].begun()
    for work in works:
        work.let_go()


def test_a_thread_that_cannot_be_started_leaves_nothing_that_waits(
    pools: Callable[..., ThreadPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    line, works, refused = Line(), [Work() for _ in range(4)], list[object]()
    pool = pools(10, line, lambda what, error: refused.append(what))
    start_behind(line, pool, works)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", cannot_start)
        line.let_go()
        assert works[0].begun()
    assert refused == works[1:] and (pool._count, pool._beginning) == (1, 0)
    works[0].let_go()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_turn_is_given_back_also_by_what_breaks(pools: Callable[..., ThreadPool]) -> None:
    turns = NoTurns()
    pool = pools(1, turns)

    def broken(turn: object) -> None:
        raise RuntimeError("a defect")

    pool.start(broken)
    for thread in threading.enumerate():
        if thread.name == "request":
            thread.join(PATIENCE)
    assert turns.given_back == 1


def test_what_waits_at_the_end_of_the_pool_is_done_by_threads_that_are_idle(
    pools: Callable[..., ThreadPool],
) -> None:
    line, first, second = Line(), Work(), Work()
    pool = pools(4, line)
    pool.start(first)
    assert line.come.acquire(timeout=PATIENCE)
    line.let_go()
    assert first.begun() and first.thread is not None
    line._gates.append(threading.Event())  # a helper of the pump's
    pool.start(second)
    first.let_go()
    pool.shutdown(wait=False)
    assert line.come.acquire(timeout=PATIENCE)
    line._gates.pop().set()
    assert second.begun()
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


def test_work_whose_thread_cannot_be_started_is_refused_and_takes_no_place(
    pools: Callable[..., ThreadPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[tuple[object, str]] = []
    pool, work = pools(1, None, lambda what, error: refused.append((what, str(error)))), Work()

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", cannot_start)
        pool.start(work)
    assert refused == [(work, "can't start new thread")]
    pool.start(work)
    assert work.begun()
    work.let_go()


def cannot_start(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


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
