"""The memory that workers share: whole at every moment, whoever writes or dies, and one writer at a time."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from proxy.worker.shared_memory import Memory
from tests.support.scripted import PATIENCE
from tests.support.worker_state import published_rules
from tests.unit.worker.test_shared_memory import (
    _fd,  # noqa: F401
    published,
)

# Publishes texts of one repeated letter each, as fast as it can, until it is killed.
WRITER = """
import itertools, sys
from proxy.worker.shared_memory import Memory
memory = Memory(int(sys.argv[1]))
print("ready", flush=True)
for number in itertools.count():
    letter = bytes([97 + number % 26])
    with memory.locked():
        memory.publish(letter * (200_000 + number % 7), "/" + letter.decode())
        memory.fail(letter.decode() * 5000)
"""


# Counts one.
COUNTER = """
import sys
from proxy.worker.shared_memory import Memory
Memory(int(sys.argv[1])).counters.add({"a": 1})
"""


@contextmanager
def writing(fd: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", WRITER, str(fd)]
    with subprocess.Popen(command, pass_fds=[fd], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


def test_numbers_and_rules_do_not_wait_for_each_other(fd: int) -> None:
    """A reload that reads a slow file holds up no request that counts."""
    with Memory(fd).locked():
        command = [sys.executable, "-c", COUNTER, str(fd)]
        assert subprocess.run(command, pass_fds=[fd], timeout=120, check=False).returncode == 0


@pytest.mark.slow
def test_a_reader_never_sees_half_of_anything_while_others_write(fd: int) -> None:
    memory, seen = Memory(fd), set[bytes]()
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(writing(fd))
        began = time.monotonic()
        while time.monotonic() < began + 2 or (len(seen) <= 5 and time.monotonic() < began + PATIENCE):
            number, text, source = published_rules(memory)
            if number:
                assert text == text[:1] * len(text) and len(text) >= 200_000
                assert source == "/" + text[:1].decode()
                seen.add(text[:1])
            error = memory.error()
            assert error == error[:1] * 5000 or error == ""
    assert len(seen) > 5


@pytest.mark.slow
def test_a_writer_that_is_killed_leaves_what_was_there_and_the_turn(fd: int) -> None:
    memory = Memory(fd)
    for number in range(20):
        with writing(fd) as process:
            time.sleep(0.005 * (number % 4) + 0.01)
            process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE)
        number_, text, source = published_rules(memory)
        assert number_ > 0 and text == text[:1] * len(text) and source == "/" + text[:1].decode()
        published(memory, b"mine")
        assert published_rules(memory)[:2] == (number_ + 1, b"mine")


def test_one_thread_and_one_process_has_its_turn_at_a_time(fd: int) -> None:
    memory, inside, most = Memory(fd), 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(20):
            with memory.locked():
                inside += 1
                most = max(most, inside)
                time.sleep(0.0005)
                inside -= 1

    def other_can() -> bool:
        code = f"import fcntl; fcntl.lockf({fd}, fcntl.LOCK_EX | fcntl.LOCK_NB)"
        other = subprocess.run([sys.executable, "-c", code], pass_fds=[fd], capture_output=True, check=False)
        assert other.returncode == 0 or b"BlockingIOError" in other.stderr
        return other.returncode == 0

    with memory.locked():
        assert not other_can()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert other_can()
