"""The threads that answer requests: as many as are needed at once, the one that was busy last first.

Python's own pool wakes a thread in vain for each piece of work (whoever has taken one lets its queue go once more), and
goes through all idle threads in turn, so that none finds anything of its own in the processor's caches. Here an idle
thread waits on a lock of its own, and the one that became idle last is woken. Those that nobody has needed for a
while end: what they take, some 20 kB each, is otherwise that of the busiest moment that the worker has had.

Work is done in turn (turns.py). What could only stand in line for that has no thread yet: 50 requests that come at once
took an eighth more of the processor where each had one from the beginning.

gunicorn's configuration loads it by its path, so it imports nothing of the package.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

# A thread ends that has been idle for so many seconds, if so many others are.
IDLE_SECONDS = 1.0
STAYING = 8

# A piece of work is called with its turn, which is taken, and gives it back where it waits.
Work = Callable[[Any], None]


class ThreadPool:
    """At most `most` threads; work beyond that waits for one, in its order. No work may raise."""

    def __init__(self, most: int, turns: Any) -> None:
        self._most = most
        self._turns = turns
        self._count = 0
        # Threads that have work, and do not stand in line yet.
        self._beginning = 0
        self._lock = threading.Lock()
        self._idle: list[_PoolThread] = []
        self._waiting: deque[Work] = deque()
        self._is_shut_down = False

    def start(self, work: Work) -> None:
        """Have a thread do the work. Raises RuntimeError if no thread can be started."""
        with self._lock:
            self._waiting.append(work)
            thread = self._begin_next()
        try:
            self._run(thread)
        except RuntimeError:
            with self._lock:
                if work not in self._waiting:
                    return  # another thread has it meanwhile
                self._waiting.remove(work)
            raise

    def _begin_next(self) -> _PoolThread | None:
        """Let a thread begin with the work that waits first, unless another is in line for its turn, which none is for
        long; return the thread if it is to be started.
        """
        if not self._waiting or self._beginning or self._turns.in_line:
            return None
        if self._idle:
            self._beginning += 1
            self._idle.pop().wake(self._waiting.popleft())
            return None
        if self._count >= self._most:
            return None
        self._beginning += 1
        self._count += 1
        return _PoolThread(self, self._waiting.popleft())

    def _run(self, thread: _PoolThread | None) -> None:
        """Start a thread. Raises RuntimeError if that cannot be; then its work waits again."""
        if thread is None or thread.work is None:
            return
        work = thread.work
        try:
            thread.start()
        except RuntimeError:
            with self._lock:
                self._beginning -= 1
                self._count -= 1
                self._waiting.appendleft(work)
            raise

    def take_turn(self) -> Any:
        """Wait for the turn of a piece of work that has begun, but not for long."""
        with self._lock:
            self._beginning -= 1
        turn = self._turns.turn(self._begin_more)
        turn.take()
        return turn

    def _begin_more(self) -> None:
        """Somebody stands in line no more: the next work may begin."""
        if not self._waiting:
            return
        with self._lock:
            thread = self._begin_next()
        with contextlib.suppress(RuntimeError):  # its work is that of the next thread that has nothing to do
            self._run(thread)

    def take_work(self, thread: _PoolThread) -> bool:
        """Give a thread the work that waits, if that may begin; without any it is idle. False if it is to end."""
        with self._lock:
            if self._is_shut_down:
                return self._ends_with(thread)
            self._idle.append(thread)
            self._begin_next()
        return True

    def _ends_with(self, thread: _PoolThread) -> bool:
        """The pool ends, but not before its work is done."""
        if not self._waiting:
            return False
        self._beginning += 1
        thread.wake(self._waiting.popleft())
        return True

    def let_end(self, thread: _PoolThread) -> bool:
        """True if a thread that has been idle for long may end; then nothing comes for it any more."""
        with self._lock:
            if thread not in self._idle or len(self._idle) <= STAYING:
                return False
            self._idle.remove(thread)
            self._count -= 1
            return True

    def shutdown(self, wait: bool = True) -> None:
        """End the idle threads, and each other one when its work is done; nothing is waited for, whatever `wait` says:
        gunicorn gives it.
        """
        with self._lock:
            self._is_shut_down = True
            for thread in self._idle:
                thread.wake(None)
            self._idle.clear()


class _PoolThread(threading.Thread):
    """One thread: it does its `work`, and waits for more; None is the end."""

    def __init__(self, pool: ThreadPool, work: Work) -> None:
        super().__init__(name="request")
        self._pool = pool
        self.work: Work | None = work
        self._woken = threading.Lock()
        self._woken.acquire()

    def wake(self, work: Work | None) -> None:
        """Go on with this work."""
        self.work = work
        self._woken.release()

    def run(self) -> None:
        """Do work until the pool ends."""
        while self.work is not None:
            work, self.work = self.work, None
            turn = self._pool.take_turn()
            work(turn)
            turn.give_back()
            del work, turn
            if not self._pool.take_work(self):
                return
            if not self._woken.acquire(timeout=IDLE_SECONDS):
                if self._pool.let_end(self):
                    return
                self._woken.acquire()
