"""What was published in the memory that workers share is read as it was."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from proxy.config.yaml_nodes import MAX_BYTES
from proxy.worker.shared_memory import SIZE, Memory, Published, open_memory
from tests.support.worker_state import published_rules


@pytest.fixture(name="fd")
def _fd() -> Iterator[int]:
    """What gunicorn's master makes."""
    descriptor = os.memfd_create("test")
    os.ftruncate(descriptor, SIZE)
    yield descriptor
    os.close(descriptor)


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


def test_a_path_that_is_no_text_and_an_endless_message_are_kept_as_far_as_they_go() -> None:
    memory = Memory()
    published(memory, b"x", os.fsdecode(b"/\xff"))
    with memory.locked():
        memory.fail("\N{EURO SIGN}" * 9000)
    assert published_rules(memory)[2] == os.fsdecode(b"/\xff")
    assert memory.error() == "\N{EURO SIGN}" * (8 * 1024 // 3)


def test_only_the_own_masters_memory_is_taken(fd: int) -> None:
    published(Memory(fd), b"theirs")
    assert published_rules(open_memory(f"{os.getppid()}:{fd}"))[1] == b"theirs"
    for told in ("", "x", f"{os.getppid() + 1}:{fd}", f"{os.getppid()}:", f"{os.getppid()}:x", f"{os.getpid()}:{fd}"):
        assert open_memory(told).generation() == 0
