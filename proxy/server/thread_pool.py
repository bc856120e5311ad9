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

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

# A thread ends that has been idle for so many seconds, if so many others are.
IDLE_SECONDS = 1.0
STAYING = 8


class Work(NamedTuple):
    """What is to be answered, and until when it waits for its turn (`time.monotonic`): from its very beginning on."""

    what: Any
    until: float


class ThreadPool:
    """At most `most` threads; work beyond that waits for one, in its order. `answer` is called with each piece of work
    and its turn, which it gives back where it waits, and may not raise; `refuse`, with the error, for one whose thread
    cannot be started.
    """

    def __init__(
        self,
        most: int,
        turns: Any,
        answer: Callable[[Any, Any], None],
        refuse: Callable[[Any, RuntimeError], None],
    ) -> None:
        self._most = most
        self._turns = turns
        self._answer = answer
        self._refuse = refuse
        self._count = 0
        # Threads that have work, and do not stand in line yet.
        self._beginning = 0
        self._lock = threading.Lock()
        self._idle: list[_PoolThread] = []
        self._waiting: deque[Work] = deque()
        self._is_shut_down = False

    def start(self, what: Any) -> None:
        """Have a thread answer it."""
        with self._lock:
            self._waiting.append(Work(what, self._turns.until()))
        self._begin_next()

    def _begin_next(self) -> None:
        """Let a thread begin with the work that waits first, if it may begin."""
        while self._waiting:
            with self._lock:
                work = self._take_next()
            if work is None:
                return
            try:
                _PoolThread(self, work).start()
            except RuntimeError as error:
                with self._lock:
                    self._count -= 1
                    self._beginning -= 1
                self._refuse(work.what, error)
            else:
                return

    def _take_next(self) -> Work | None:
        """Wake an idle thread for the work that waits first, if it may begin; without one return the work, for which a
        thread is to be started.
        """
        if not self._may_begin():
            return None
        if not self._idle and self._count >= self._most:
            return None
        self._beginning += 1
        work = self._waiting.popleft()
        if self._idle:
            self._idle.pop().wake(work)
            return None
        self._count += 1
        return work

    def _may_begin(self) -> bool:
        """True if nobody is in line for the turn, or the first one has waited for long enough; at the end all may."""
        if not self._waiting:
            return False
        if self._is_shut_down:
            return True
        if not self._beginning and not self._turns.in_line:
            return True
        return time.monotonic() > self._waiting[0].until

    def do(self, work: Work) -> None:
        """Do a piece of work, on its thread."""
        with self._lock:
            self._beginning -= 1
        turn = self._turns.turn(self._begin_next)
        turn.take(work.until)
        try:
            self._answer(work.what, turn)
        finally:
            turn.give_back()

    def take_work(self, thread: _PoolThread) -> bool:
        """Give a thread the work that waits, if that may begin; without any it is idle. False if it is to end."""
        with self._lock:
            if self._is_shut_down and not self._waiting:
                return False
            self._idle.append(thread)
            self._take_next()
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
            while self._idle and self._waiting:
                self._take_next()
            for thread in self._idle:
                thread.wake(None)
            self._idle.clear()


class _PoolThread(threading.Thread):
    """One thread: it does its work, and waits for more."""

    def __init__(self, pool: ThreadPool, work: Work) -> None:
        super().__init__(name="request")
        self._pool = pool
        self._work: Work | None = work
        self._woken = threading.Lock()
        self._woken.acquire()

    def wake(self, work: Work | None) -> None:
        """Go on with this work; None is the end."""
        self._work = work
        self._woken.release()

    def run(self) -> None:
        """Do work until the pool ends."""
        while self._work is not None:
            work, self._work = self._work, None
            self._pool.do(work)
            del work
            if not self._pool.take_work(self):
                return
            if not self._woken.acquire(timeout=IDLE_SECONDS):
                if self._pool.let_end(self):
                    return
                self._woken.acquire()
