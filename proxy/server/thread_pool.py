"""The threads that answer requests: as many as are needed at once, the one that was busy last first.

Python's own pool wakes a thread in vain for each piece of work (whoever has taken one lets its queue go once more), and
goes through all idle threads in turn, so that none finds anything of its own in the processor's caches. Here an idle
thread waits on a lock of its own, and the one that became idle last is woken. Those that nobody has needed for a
while end: what they take, some 20 kB each, is otherwise that of the busiest moment that the worker has had.

gunicorn's configuration loads it by its path, so it imports nothing of the package.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

# A thread ends that has been idle for so many seconds, if so many others are.
IDLE_SECONDS = 1.0
STAYING = 8


class ThreadPool:
    """At most `most` threads; work beyond that waits for one, in its order. No work may raise."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._lock = threading.Lock()
        self._idle: list[_PoolThread] = []
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_shut_down = False

    def start(self, work: Callable[[], None]) -> None:
        """Have a thread do the work. Raises RuntimeError if no thread can be started."""
        with self._lock:
            if self._idle:
                self._idle.pop().wake(work)
                return
            if self._count >= self._most:
                self._waiting.append(work)
                return
            self._count += 1
        try:
            _PoolThread(self, work).start()
        except BaseException:
            with self._lock:
                self._count -= 1
            raise

    def take_work(self, thread: _PoolThread) -> bool:
        """Give a thread the work that waits; without any it is idle. False if it is to end."""
        with self._lock:
            if self._waiting:
                thread.wake(self._waiting.popleft())
            elif self._is_shut_down:
                return False
            else:
                self._idle.append(thread)
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
    """One thread: it does its work, and waits for more."""

    def __init__(self, pool: ThreadPool, work: Callable[[], None]) -> None:
        super().__init__(name="request")
        self._pool = pool
        self._work: Callable[[], None] | None = work
        self._woken = threading.Lock()
        self._woken.acquire()

    def wake(self, work: Callable[[], None] | None) -> None:
        """Go on with this work; None is the end."""
        self._work = work
        self._woken.release()

    def run(self) -> None:
        """Do work until the pool ends."""
        while self._work is not None:
            work, self._work = self._work, None
            work()
            del work
            if not self._pool.take_work(self):
                return
            if not self._woken.acquire(timeout=IDLE_SECONDS):
                if self._pool.let_end(self):
                    return
                self._woken.acquire()
