"""The numbers that all workers share: right whoever counts, dies or comes late, and bounded."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator

import pytest

from proxy.worker.shared_counters import MAX_COUNTERS, MAX_NAME, MAX_ROWS, SIZE, SharedCounters, lock

# A worker: does what is told on its standard input, and says when it is done.
WORKER = """
import mmap, sys
from proxy.worker.shared_counters import SIZE, SharedCounters
fd = int(sys.argv[1])
tally = SharedCounters(mmap.mmap(fd, SIZE), 0, fd)
for line in sys.stdin:
    print(eval(line), flush=True)
"""


@pytest.fixture
def fd() -> Iterator[int]:
    """What gunicorn's master makes."""
    descriptor = os.memfd_create("test")
    os.ftruncate(descriptor, SIZE)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def tally(fd: int) -> SharedCounters:
    return SharedCounters(mmap.mmap(fd, SIZE), 0, fd)


class Worker:
    """Another process with the same memory."""

    def __init__(self, fd: int) -> None:
        command = [sys.executable, "-c", WORKER, str(fd)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, pass_fds=[fd], stdin=pipe, stdout=pipe, text=True)

    def do(self, what: str) -> str:
        """What it answers."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        """As the kernel does when memory is short."""
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def worker(fd: int) -> Iterator[Worker]:
    made = Worker(fd)
    yield made
    made.kill()


@pytest.fixture
def second(fd: int) -> Iterator[Worker]:
    made = Worker(fd)
    yield made
    made.kill()


def alone() -> SharedCounters:
    """A memory without a master."""
    return SharedCounters(mmap.mmap(-1, SIZE), 0)


def test_counters_begin_at_nothing_and_add_up() -> None:
    tally = alone()
    assert tally.values() == {}
    tally.add({"a": 1, "b": 0.25})
    tally.add({"b": 0.5})
    assert tally.values() == {"a": 1, "b": 0.75}


def test_every_worker_counts_into_the_same_and_sees_what_the_others_made(tally: SharedCounters, worker: Worker) -> None:
    tally.add({"mine": 1})
    assert worker.do('tally.add({"theirs": 2, "mine": 2})') == "None"
    tally.add({"theirs": 1, "new": 1})
    assert tally.values() == {"mine": 3, "theirs": 3, "new": 1}
    assert worker.do("sorted(tally.values().items())") == "[('mine', 3.0), ('new', 1.0), ('theirs', 3.0)]"


def test_what_a_worker_counted_stays_when_it_dies(tally: SharedCounters, worker: Worker) -> None:
    worker.do('tally.add({"a": 5})')
    worker.kill()
    assert tally.values() == {"a": 5}


def test_no_count_is_lost_between_threads_and_workers(tally: SharedCounters, worker: Worker, second: Worker) -> None:
    def count() -> None:
        for number in range(500):
            tally.add({"a": 1, f"b{number % 50}": 1})

    loop = '[tally.add({"a": 1, f"b{n % 50}": 1}) for n in range(1000)] and "done"'
    threads = [threading.Thread(target=count) for _ in range(4)]
    threads += [threading.Thread(target=each.do, args=(loop,)) for each in (worker, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = tally.values()
    assert values.pop("a") == 4000
    assert len(values) == 50 and set(values.values()) == {80}


def test_counters_are_bounded_and_what_is_over_is_left_out() -> None:
    tally = alone()
    tally.add({f"n{number}": 1 for number in range(MAX_COUNTERS + 10)})
    tally.add({"x" * (MAX_NAME + 1): 1, "n0": 1})
    values = tally.values()
    assert len(values) == MAX_COUNTERS and values["n0"] == 2 and f"n{MAX_COUNTERS}" not in values


def test_a_name_may_be_as_long_as_there_is_room_for(tally: SharedCounters, worker: Worker) -> None:
    name = "ä" * (MAX_NAME // 2)
    tally.add({name: 1})
    assert worker.do(f"tally.values() == {{{name!r}: 1.0}}") == "True"


def test_the_names_of_a_group_are_bounded_for_all_workers_together(tally: SharedCounters, worker: Worker) -> None:
    assert tally.admit("model\x1fa", 3) and worker.do('tally.admit("model\\x1fb", 3)') == "True"
    assert tally.admit("model\x1fc", 3) and tally.admit("fix\x1fd", 3)
    assert not tally.admit("model\x1fd", 3) and worker.do('tally.admit("model\\x1fd", 3)') == "False"
    assert tally.admit("model\x1fb", 3) and worker.do('tally.admit("model\\x1fc", 3)') == "True"
    assert not tally.admit("long\x1f" + "x" * MAX_NAME, 3)


def test_what_is_under_way_is_the_sum_of_all_workers(tally: SharedCounters, worker: Worker) -> None:
    assert tally.held("streams") == 0
    assert tally.hold("streams", 2) and worker.do('tally.hold("streams", 3)') == "True"
    assert tally.held("streams") == 5 and worker.do('tally.held("streams")') == "5"
    assert tally.hold("streams", -1) and tally.held("streams") == 4
    assert tally.held("others") == 0


def test_what_a_dead_worker_had_under_way_is_not_counted(tally: SharedCounters, worker: Worker, second: Worker) -> None:
    tally.hold("streams", 1)
    worker.do('tally.hold("streams", 3)')
    assert second.do('tally.held("streams")') == "4"
    worker.kill()
    assert tally.held("streams") == 1 and second.do('tally.held("streams")') == "1"
    assert second.do('tally.hold("streams", 2)') == "True"  # in the row of the dead one
    assert tally.held("streams") == 3


def test_no_more_than_the_limit_is_let_in_whichever_worker_it_comes_to(tally: SharedCounters, worker: Worker) -> None:
    assert tally.hold("key a", 1, 3) and worker.do('tally.hold("key a", 1, 3)') == "True"
    assert tally.hold("key a", 1, 3)
    assert not tally.hold("key a", 1, 3) and worker.do('tally.hold("key a", 1, 3)') == "False"
    assert tally.hold("key b", 1, 3)
    tally.hold("key a", -1)
    assert worker.do('tally.hold("key a", 1, 3)') == "True" and not tally.hold("key a", 1, 3)
    worker.kill()
    assert tally.hold("key a", 1, 3)


def test_threads_and_workers_at_once_stay_under_the_limit(tally: SharedCounters, worker: Worker) -> None:
    let_in: deque[bool] = deque()
    threads = [threading.Thread(target=lambda: let_in.append(tally.hold("key", 1, 20))) for _ in range(30)]
    asked = '[tally.hold("key", 1, 20) for _ in "x" * 30]'
    loop = threading.Thread(target=lambda: let_in.extend(eval(worker.do(asked))))
    for thread in (*threads, loop):
        thread.start()
    for thread in (*threads, loop):
        thread.join()
    assert sum(let_in) == 20 == tally.held("key")


def test_a_worker_without_a_row_counts_for_itself(tally: SharedCounters, worker: Worker) -> None:
    assert worker.do(f"[tally._lock_row(row) for row in range({MAX_ROWS})] and 1") == "1"
    assert tally.hold("a", 1, 2) and tally.hold("a", 1, 2) and not tally.hold("a", 1, 2)
    assert tally.held("a") == 2


def test_a_minute_takes_as_many_as_it_may_and_says_how_long_to_wait() -> None:
    tally = alone()
    assert [tally.wait("key", 3, at) for at in (100.0, 100.9, 120.0)] == [0, 0, 0]
    assert tally.wait("key", 3, 130.0) == 31  # the first two leave the window then
    assert tally.wait("key", 3, 160.0) == 1
    assert [tally.wait("key", 3, 161.0) for _ in range(3)] == [0, 0, 20]
    assert tally.wait("other", 3, 161.0) == 0
    assert tally.wait("key", 1, 161.0) == 61  # the limit was lowered


def test_what_was_refused_does_not_count() -> None:
    tally = alone()
    assert tally.wait("key", 1, 0.0) == 0
    assert [tally.wait("key", 1, at) > 0 for at in range(1, 61)] == [True] * 60
    assert tally.wait("key", 1, 61.0) == 0


def test_there_are_never_more_than_so_many_in_any_minute() -> None:
    rng = random.Random(1)
    tally, now, let_in = alone(), 1000.0, deque[float]()
    for _ in range(5000):
        now += rng.choice((0, 0.1, 1, 7))
        wait = tally.wait("key", 10, now)
        while let_in and let_in[0] <= now - 60:
            let_in.popleft()
        if wait == 0:
            let_in.append(now)
        else:
            assert tally.wait("key", 10, now + wait - 1.001) > 0  # it does not say too much either
        assert len(let_in) <= 10


def test_who_waits_as_long_as_was_said_is_let_in() -> None:
    tally = alone()
    for _ in range(5):
        assert tally.wait("key", 5, 10.4) == 0
    wait = tally.wait("key", 5, 33.7)
    assert tally.wait("key", 5, 33.7 + wait) == 0


def test_all_workers_share_the_minute(tally: SharedCounters, worker: Worker) -> None:
    assert [worker.do('tally.wait("key", 5)') for _ in range(3)] == ["0.0"] * 3
    assert [tally.wait("key", 5) for _ in range(2)] == [0, 0]
    assert 1 <= tally.wait("key", 5) <= 61 and float(worker.do('tally.wait("key", 5)')) > 0


def test_names_that_come_and_go_push_out_the_idle_ones_only() -> None:
    """Over all reloads there may be more keys than there is room for, but not in one minute."""
    tally = alone()
    for minute in range(8):
        now = 1000.0 + 61 * minute
        names = [f"name {minute} {number}" for number in range(1000)]
        assert [tally.wait(name, 1, now) for name in ["busy", *names]] == [0] * 1001
        assert all(tally.wait(name, 1, now + 60) for name in ["busy", *names])


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


def test_a_turn_is_cheap() -> None:
    """Held with tenfold room: it is taken for every request."""
    tally, began = alone(), time.process_time()
    for _ in range(1000):
        tally.add({"a": 1, "b": 1, "c": 1})
    assert time.process_time() - began < 1
