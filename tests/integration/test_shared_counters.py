"""The numbers that all workers share: right whoever counts, dies or comes late, and bounded."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator

import pytest

from proxy.worker.shared_counters import MAX_HELD, MAX_NAME, MAX_ROWS, SharedCounters
from tests.unit.worker.test_shared_counters import _counters, _fd  # noqa: F401

# A worker: does what is told on its standard input, and says when it is done.
WORKER = """
import mmap, sys
from proxy.worker.shared_counters import SIZE, SharedCounters
fd = int(sys.argv[1])
counters = SharedCounters(mmap.mmap(fd, SIZE), 0, fd)
for line in sys.stdin:
    print(eval(line), flush=True)
"""


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


def test_every_worker_counts_into_the_same_and_sees_what_the_others_made(
    counters: SharedCounters, worker: Worker
) -> None:
    counters.add({"mine": 1})
    assert worker.do('counters.add({"theirs": 2, "mine": 2})') == "None"
    counters.add({"theirs": 1, "new": 1})
    assert counters.values() == {"mine": 3, "theirs": 3, "new": 1}
    assert worker.do("sorted(counters.values().items())") == "[('mine', 3.0), ('new', 1.0), ('theirs', 3.0)]"


def test_what_a_worker_counted_stays_when_it_dies_and_who_takes_its_row_counts_on(
    counters: SharedCounters, worker: Worker, second: Worker
) -> None:
    worker.do('counters.add({"a": 5})')
    assert worker.do("counters._row") == "0" and not counters._lock_row(0)
    worker.kill()
    assert counters.values() == {"a": 5}
    second.do('counters.add({"a": 1, "b": 0.5})')
    assert counters._lock_row(1) and counters.values() == {"a": 6, "b": 0.5}  # there was no need for a second row
    counters.add({"b": 1})
    assert (second.do("counters._row"), counters._row) == ("0", 1)
    assert second.do("sorted(counters.values().items())") == "[('a', 6.0), ('b', 1.5)]"


def test_nobody_waits_to_count(counters: SharedCounters, worker: Worker) -> None:
    counters.add({"a": 1})
    assert worker.do('counters.add({"a": 1})') == "None"
    assert worker.do("counters._lock.__enter__()") == "None"  # it keeps what all share
    counters.add({"a": 1})
    assert worker.do('counters._lock.__exit__() or counters.values()["a"]') == "3.0"


def test_no_count_is_lost_between_threads_and_workers(counters: SharedCounters, worker: Worker, second: Worker) -> None:
    def count() -> None:
        for number in range(500):
            counters.add({"a": 1, f"b{number % 50}": 1})

    loop = '[counters.add({"a": 1, f"b{n % 50}": 1}) for n in range(1000)] and "done"'
    threads = [threading.Thread(target=count) for _ in range(4)]
    threads += [threading.Thread(target=each.do, args=(loop,)) for each in (worker, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = counters.values()
    assert values.pop("a") == 4000
    assert len(values) == 50 and set(values.values()) == {80}


def test_a_name_may_be_as_long_as_there_is_room_for(counters: SharedCounters, worker: Worker) -> None:
    name = "ä" * (MAX_NAME // 2)
    counters.add({name: 1})
    assert worker.do(f"counters.values() == {{{name!r}: 1.0}}") == "True"


def test_the_names_of_a_group_are_bounded_for_all_workers_together(counters: SharedCounters, worker: Worker) -> None:
    def there(name: str) -> str:
        return worker.do(f"counters.register_label({name!r}, 3)")

    assert counters.register_label("model\x1fa", 3) and there("model\x1fb") == "True"
    assert counters.register_label("model\x1fc", 3) and counters.register_label("fix\x1fd", 3)
    assert not counters.register_label("model\x1fd", 3) and there("model\x1fd") == "False"
    assert counters.register_label("model\x1fb", 3) and there("model\x1fc") == "True"
    assert not counters.register_label("long\x1f" + "x" * MAX_NAME, 3)


def test_what_is_under_way_is_the_sum_of_all_workers(counters: SharedCounters, worker: Worker) -> None:
    assert counters.held("streams") == 0
    assert counters.acquire_slots("streams", 2) and worker.do('counters.acquire_slots("streams", 3)') == "True"
    assert counters.held("streams") == 5 and worker.do('counters.held("streams")') == "5"
    assert counters.acquire_slots("streams", -1) and counters.held("streams") == 4
    assert counters.held("others") == 0


def test_what_a_dead_worker_had_under_way_is_not_counted(
    counters: SharedCounters, worker: Worker, second: Worker
) -> None:
    counters.acquire_slots("streams", 1)
    worker.do('counters.acquire_slots("streams", 3)')
    assert second.do('counters.held("streams")') == "4"
    worker.kill()
    assert counters.held("streams") == 1 and second.do('counters.held("streams")') == "1"
    assert second.do('counters.acquire_slots("streams", 2)') == "True"  # in the row of the dead one
    assert counters.held("streams") == 3


def test_what_has_no_limit_is_counted_though_others_hold_the_lock(counters: SharedCounters, worker: Worker) -> None:
    assert counters.acquire_slots("key a", 1, 9) and counters.acquire_slots("key b", 2, 9)
    counters.acquire_slots("streams", 1)
    assert worker.do('counters.acquire_slots("key a", 1, 9) and counters._lock.__enter__()') == "None"
    counters.acquire_slots("streams", 2)
    counters.acquire_slots("streams", -1)
    assert worker.do("counters._lock.__exit__()") == "None"
    assert worker.do('[counters.held(name) for name in ("streams", "key a", "key b")]') == "[2, 2, 2]"
    # Its place in the row is another one now, and then it is nothing.
    assert counters.acquire_slots("key a", -1) and counters.acquire_slots("key c", 4, 9)
    counters.acquire_slots("streams", -1)
    assert worker.do('[counters.held(name) for name in ("streams", "key a", "key b", "key c")]') == "[1, 1, 2, 4]"
    counters.acquire_slots("streams", -1)
    assert counters.acquire_slots("key c", -1)
    assert worker.do('[counters.held(name) for name in ("streams", "key a", "key b", "key c")]') == "[0, 1, 2, 3]"


def test_what_comes_last_into_a_row_is_counted(counters: SharedCounters, worker: Worker) -> None:
    assert all(counters.acquire_slots(f"key {number}", 1) for number in range(MAX_HELD - 1))
    counters.acquire_slots("streams", 1)
    counters.acquire_slots("streams", 1)
    assert worker.do('counters.held("streams")') == "2"


@pytest.mark.slow
def test_who_counts_without_a_lock_shows_no_number_that_never_was(counters: SharedCounters, worker: Worker) -> None:
    counters.acquire_slots("streams", 5)
    end = threading.Event()

    def count() -> None:
        while not end.is_set():
            counters.acquire_slots("streams", 1)
            counters.acquire_slots("streams", -1)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        seen = worker.do('{counters.held("streams") for _ in range(200_000)}')
    finally:
        end.set()
        thread.join()
    assert set(eval(seen)) <= {5, 6}


def test_a_worker_that_finds_its_row_late_has_all_in_it(
    counters: SharedCounters, worker: Worker, second: Worker
) -> None:
    assert worker.do(f"[counters._lock_row(row) for row in range({MAX_ROWS})] and 1") == "1"
    counters.acquire_slots("streams", 2)
    counters.acquire_slots("streams", 1)
    assert counters.held("streams") == 3 and second.do('counters.held("streams")') == "0"
    worker.kill()
    counters.add({"a": 1})
    assert second.do('counters.held("streams")') == "3"
    counters.acquire_slots("streams", 1)
    assert second.do('counters.held("streams")') == "4"


def test_a_worker_that_finds_its_row_late_counts_in_it(counters: SharedCounters, worker: Worker) -> None:
    assert worker.do(f"[counters._lock_row(row) for row in range({MAX_ROWS})] and 1") == "1"
    counters.add({"a": 1})
    worker.kill()
    counters.acquire_slots("streams", 1)
    counters.add({"a": 2})
    assert counters.values() == {"a": 3} and counters._row is not None
    assert counters._values(counters._row)[0] == 2


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads that are made to give way within each step."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
def test_threads_that_count_without_a_limit_lose_nothing(counters: SharedCounters, worker: Worker) -> None:
    def count() -> None:
        for number in range(5000):
            counters.acquire_slots("streams", 1)
            if number % 20 == 0:
                counters.acquire_slots("key", 1)
                counters.acquire_slots("key", -1)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert worker.do('counters.held("streams"), counters.held("key")') == "(20000, 0)"


def test_no_more_than_the_limit_is_let_in_whichever_worker_it_comes_to(
    counters: SharedCounters, worker: Worker
) -> None:
    assert counters.acquire_slots("key a", 1, 3) and worker.do('counters.acquire_slots("key a", 1, 3)') == "True"
    assert counters.acquire_slots("key a", 1, 3)
    assert not counters.acquire_slots("key a", 1, 3) and worker.do('counters.acquire_slots("key a", 1, 3)') == "False"
    assert counters.acquire_slots("key b", 1, 3)
    counters.acquire_slots("key a", -1)
    assert worker.do('counters.acquire_slots("key a", 1, 3)') == "True" and not counters.acquire_slots("key a", 1, 3)
    worker.kill()
    assert counters.acquire_slots("key a", 1, 3)


def test_threads_and_workers_at_once_stay_under_the_limit(counters: SharedCounters, worker: Worker) -> None:
    let_in: deque[bool] = deque()
    threads = [threading.Thread(target=lambda: let_in.append(counters.acquire_slots("key", 1, 20))) for _ in range(30)]
    asked = '[counters.acquire_slots("key", 1, 20) for _ in "x" * 30]'
    loop = threading.Thread(target=lambda: let_in.extend(eval(worker.do(asked))))
    for thread in (*threads, loop):
        thread.start()
    for thread in (*threads, loop):
        thread.join()
    assert sum(let_in) == 20 == counters.held("key")


def test_a_worker_without_a_row_counts_for_itself(counters: SharedCounters, worker: Worker) -> None:
    assert worker.do(f"[counters._lock_row(row) for row in range({MAX_ROWS})] and 1") == "1"
    assert [counters.acquire_slots("a", 1, 2) for _ in range(3)] == [True, True, False]
    assert counters.held("a") == 2
    counters.add({"a": 1, "b": 2})
    assert worker.do('counters.add({"b": 1}) or counters.values() == {"a": 1, "b": 3}') == "True"


def test_all_workers_share_the_minute(counters: SharedCounters, worker: Worker) -> None:
    assert [worker.do('counters.rate_limit("key", 5)') for _ in range(3)] == ["0.0"] * 3
    assert [counters.rate_limit("key", 5) for _ in range(2)] == [0, 0]
    assert 1 <= counters.rate_limit("key", 5) <= 61 and float(worker.do('counters.rate_limit("key", 5)')) > 0
