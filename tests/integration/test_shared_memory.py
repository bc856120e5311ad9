"""The memory that workers share: whole at every moment, whoever writes or dies, and one writer at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from proxy.config.yaml_nodes import MAX_BYTES
from proxy.worker.shared_memory import SIZE, Memory, Published, open_memory
from tests.support.scripted import PATIENCE
from tests.support.worker_state import published_rules

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
Memory(int(sys.argv[1])).tally.add({"a": 1})
"""


@pytest.fixture
def fd() -> Iterator[int]:
    """What gunicorn's master makes."""
    descriptor = os.memfd_create("test")
    os.ftruncate(descriptor, SIZE)
    yield descriptor
    os.close(descriptor)


@contextmanager
def writing(fd: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", WRITER, str(fd)]
    with subprocess.Popen(command, pass_fds=[fd], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


def published(memory: Memory, text: bytes, source: str = "/r.yaml") -> None:
    with memory.locked():
        memory.publish(text, source)


def test_at_first_nothing_was_published() -> None:
    memory = Memory()
    assert (memory.generation(), published_rules(memory)) == (0, (0, b"", ""))
    assert (memory.error(), memory.reload_requested()) == ("", 0)


def test_each_process_sees_what_another_published(fd: int) -> None:
    mine, other = Memory(fd), Memory(fd)
    for number, text in enumerate((b"one", b"two", b"", b"three\0four"), start=1):
        published(mine, text, f"/{number}")
        assert other.generation() == number
        assert published_rules(other) == (number, text, f"/{number}")


def test_an_error_leaves_the_rules_and_better_rules_end_the_error(fd: int) -> None:
    mine, other = Memory(fd), Memory(fd)
    published(mine, b"good")
    with mine.locked():
        mine.fail("line 3 is none")
    assert (other.generation(), published_rules(other)[1], other.error()) == (1, b"good", "line 3 is none")
    published(other, b"better")
    assert mine.error() == ""


def test_there_is_room_for_the_longest_files_and_paths_and_for_no_more() -> None:
    memory, path = Memory(), "/" + "p" * 4095
    keys = [path.encode() + b"\0" + b"k" * MAX_BYTES, path.encode() + b"\0" + b"u" * 4096, b""]
    with memory.locked():
        memory.publish(b"x" * MAX_BYTES, path, keys)
    assert memory.published() == Published(1, b"x" * MAX_BYTES, path, tuple(keys))
    with pytest.raises(ValueError, match="bytes"):
        published(memory, b"x" * MAX_BYTES * 3)
    assert memory.published().keys == tuple(keys)


def test_rules_and_keys_are_published_as_one(fd: int) -> None:
    mine, other = Memory(fd), Memory(fd)
    assert other.published() == Published()
    with mine.locked():
        mine.publish(b"rules", "/r", (b"/k\0one", b"", b"/a\0two"))
    assert other.published() == Published(1, b"rules", "/r", (b"/k\0one", b"", b"/a\0two"))
    published(other, b"more")
    assert mine.published() == Published(2, b"more", "/r.yaml")


def test_numbers_and_rules_do_not_wait_for_each_other(fd: int) -> None:
    """A reload that reads a slow file holds up no request that counts."""
    with Memory(fd).locked():
        command = [sys.executable, "-c", COUNTER, str(fd)]
        assert subprocess.run(command, pass_fds=[fd], timeout=120, check=False).returncode == 0


def test_a_path_that_is_no_text_and_an_endless_message_are_kept_as_far_as_they_go() -> None:
    memory = Memory()
    published(memory, b"x", os.fsdecode(b"/\xff"))
    with memory.locked():
        memory.fail("\N{EURO SIGN}" * 9000)
    assert published_rules(memory)[2] == os.fsdecode(b"/\xff")
    assert memory.error() == "\N{EURO SIGN}" * (8 * 1024 // 3)


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


def test_only_the_own_masters_memory_is_taken(fd: int) -> None:
    published(Memory(fd), b"theirs")
    assert published_rules(open_memory(f"{os.getppid()}:{fd}"))[1] == b"theirs"
    for told in ("", "x", f"{os.getppid() + 1}:{fd}", f"{os.getppid()}:", f"{os.getppid()}:x", f"{os.getpid()}:{fd}"):
        assert open_memory(told).generation() == 0
