"""The file of kept responses: whose they are, its limits, and files that cannot be used."""

from __future__ import annotations

import multiprocessing
import os
import stat
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from proxy.errors import NotKept
from proxy.worker import response_store as module
from proxy.worker.response_store import ResponseStore, StoreFile

ASKED: list[Any] = [{"type": "message", "role": "user", "content": "Hi"}]
MIB = 1024 * 1024


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "kept.db"


def made(number: int, text: str = "ü\ud800") -> dict[str, Any]:
    return {"id": f"resp_{number}", "output": [{"id": f"msg_{number}_0", "text": text}]}


def numbers(kept: ResponseStore, count: int) -> list[int]:
    return [number for number in range(count) if kept.response(f"resp_{number}") is not None]


def test_a_kept_response_is_there_for_every_worker_unchanged(path: Path) -> None:
    ResponseStore(StoreFile(str(path)), "a").keep(made(1), ASKED)
    other = ResponseStore(StoreFile(str(path)), "a")
    assert (other.response("resp_1"), other.input_of("resp_1")) == (made(1), ASKED)
    assert (other.response("\ud800"), other.input_of("\ud800"), other.delete("\ud800")) == (None, [], False)


def test_another_key_sees_nothing_of_it(path: Path) -> None:
    file = StoreFile(str(path))
    ResponseStore(file, "a").keep(made(1), ASKED)
    other = ResponseStore(file, "b")
    assert (other.response("resp_1"), other.input_of("resp_1"), other.delete("resp_1")) == (None, [], False)
    other.keep(made(1, "b"), [])
    assert ResponseStore(file, "a").response("resp_1") == made(1)


def test_a_deleted_response_is_gone(path: Path) -> None:
    kept = ResponseStore(StoreFile(str(path)), "a")
    kept.keep(made(1), ASKED)
    assert (kept.delete("resp_1"), kept.delete("resp_1"), kept.response("resp_1")) == (True, False, None)


def test_the_oldest_go_when_there_are_too_many(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever key they belong to."""
    monkeypatch.setattr(module, "STORE_RESPONSES", 3)
    file = StoreFile(str(path))
    ResponseStore(file, "b").keep(made(9), [])
    kept = ResponseStore(file, "a")
    for number in range(3):
        kept.keep(made(number), [])
    assert ResponseStore(file, "b").response("resp_9") is None and numbers(kept, 3) == [0, 1, 2]


def test_the_oldest_go_when_they_have_too_many_bytes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input counts as well, and the file itself stays near the limit."""
    monkeypatch.setattr(module, "STORE_BYTES", MIB)
    kept = ResponseStore(StoreFile(str(path)), "a")
    for number in range(100):
        kept.keep(made(number, "x" * 50_000), ["y" * 50_000])
    assert numbers(kept, 100) == [*range(90, 100)]
    assert path.stat().st_size < 1.2 * MIB
    kept.keep(made(100, "x" * 900_000), [])
    assert numbers(kept, 101) == [99, 100]


def test_a_response_larger_than_the_store_is_not_kept_and_displaces_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STORE_BYTES", MIB)
    kept = ResponseStore(StoreFile(str(path)), "a")
    kept.keep(made(0), ASKED)
    for response, given in ((made(1, "x" * MIB), ""), (made(1), "y" * MIB)):
        with pytest.raises(NotKept, match="at most 1,048,576 are kept"):
            kept.keep(response, [given])
    assert numbers(kept, 2) == [0]


def test_a_response_expires_after_a_day(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    kept = ResponseStore(StoreFile(str(path)), "a")
    kept.keep(made(1), ASKED)
    now[0] += 86_400
    assert kept.response("resp_1") is not None
    now[0] += 1
    assert (kept.response("resp_1"), kept.input_of("resp_1"), kept.delete("resp_1")) == (None, [], False)
    kept.keep(made(2), [])
    now[0] -= 2
    assert kept.response("resp_1") is None, "it is removed with the next one that is kept"


def test_threads_share_one_file(path: Path) -> None:
    kept = ResponseStore(StoreFile(str(path)), "a")
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: kept.keep(made(number), ASKED), range(64)))
    assert numbers(kept, 64) == [*range(64)]


def keep_some(path: str, first: int) -> None:
    kept = ResponseStore(StoreFile(path), "a")
    for number in range(first, first + 10):
        kept.keep(made(number), ASKED)


def test_workers_that_start_at_the_same_time_create_one_file(path: Path) -> None:
    with ProcessPoolExecutor(8, multiprocessing.get_context("forkserver")) as pool:
        list(pool.map(keep_some, [str(path)] * 8, range(0, 80, 10)))
    assert numbers(ResponseStore(StoreFile(str(path)), "a"), 80) == [*range(80)]


def test_only_the_owner_can_read_the_file(path: Path) -> None:
    """Whatever the umask, and also if the file was there before with another mode."""
    old = os.umask(0)
    try:
        path.touch(0o666)
        kept = ResponseStore(StoreFile(str(path)), "a")
        kept.keep(made(1), ASKED)
        assert {stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()} == {0o600}
    finally:
        os.umask(old)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("symlink", "it is a symlink"),
        ("hard link", "not a plain file"),
        ("symlink at -wal", "not a plain file"),
        ("hard link at -shm", "not a plain file"),
        ("pipe", "[a-z]"),
        ("folder", "is a directory"),
        ("no folder", "no such file"),
        ("foreign", "not a plain file"),
        ("no database", "file is not a database"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_and_not_touched(
    path: Path, what: str, words: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client gets the reason without the path; the log has both."""
    other = path.with_name("other")
    other.write_bytes(b"mine, and not for others to change " * 100)
    match what:
        case "symlink":
            path.symlink_to(other)
        case "hard link":
            path.hardlink_to(other)
        case "symlink at -wal":
            path.with_name("kept.db-wal").symlink_to(other)
        case "hard link at -shm":
            path.with_name("kept.db-shm").hardlink_to(other)
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "no folder":
            path = path.with_name("none") / "kept.db"
        case "foreign":
            path.touch()
            monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        case "no database":
            path.write_bytes(other.read_bytes())
    kept = ResponseStore(StoreFile(str(path)), "a")
    for step in (lambda: kept.keep(made(1), []), lambda: kept.response("resp_1"), lambda: kept.delete("resp_1")):
        with pytest.raises(NotKept, match=f"cannot use the file in which it keeps responses: .*{words}") as told:
            step()
        assert "kept.db" not in told.value.message and str(path) in caplog.text
        caplog.clear()
    assert other.read_bytes() == b"mine, and not for others to change " * 100


def test_a_file_that_was_refused_is_used_once_it_is_in_order(path: Path) -> None:
    kept = ResponseStore(StoreFile(str(path)), "a")
    path.mkdir()
    with pytest.raises(NotKept):
        kept.response("resp_1")
    path.rmdir()
    kept.keep(made(1), ASKED)
    assert kept.response("resp_1") == made(1)
