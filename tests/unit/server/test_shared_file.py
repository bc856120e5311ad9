"""The file that the workers share: its permissions, what is refused, and its counters."""

from __future__ import annotations

import multiprocessing
import os
import stat
import subprocess
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from proxy.errors import Unavailable
from proxy.server.shared_file import ResponseStore, SharedFile
from tests.support.rows import rows
from tests.support.worker_state import held


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "shared"


def take_ten(path: str) -> None:
    shared = SharedFile(path)
    for _ in range(10):
        shared.rate_limit("a", 1000)


def test_workers_that_start_at_the_same_time_create_one_file(path: Path) -> None:
    with ProcessPoolExecutor(8, multiprocessing.get_context("forkserver")) as pool:
        list(pool.map(take_ten, [str(path)] * 8))
    with SharedFile(str(path)).transaction() as database:
        assert database.execute("SELECT name, count(*) FROM allowed").fetchall() == [("a", 80)]


def test_only_the_owner_can_read_the_file(path: Path) -> None:
    """This holds for any umask, and for an existing file with another mode."""
    old = os.umask(0)
    try:
        path.touch(0o666)
        shared = SharedFile(str(path))
        shared.acquire_slot("a", 100)
        assert {stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()} == {0o600}
    finally:
        os.umask(old)


@rows(__file__, "what,words")
def test_an_unsafe_file_is_refused_and_not_changed(
    path: Path, what: str, words: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client gets the reason without the path. The log has both, once."""
    other = path.with_name("other")
    other.write_bytes(b"mine, and not for others to change " * 100)
    match what:
        case "symlink":
            path.symlink_to(other)
        case "hard link":
            path.hardlink_to(other)
        case "symlink at -wal":
            path.with_name("shared-wal").symlink_to(other)
        case "hard link at -shm":
            path.with_name("shared-shm").hardlink_to(other)
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "no folder":
            path = path.with_name("none") / "shared"
        case "foreign":
            path.touch()
            monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    shared = SharedFile(str(path))
    for _ in range(2):
        with pytest.raises(Unavailable, match=f"the file that the workers share cannot be used: .*{words}") as refusal:
            held(shared, "a")
        assert str(path) not in refusal.value.message
    with pytest.raises(Unavailable):
        ResponseStore(shared, "a").response("resp_1")
    assert caplog.text.count(f"the workers cannot share {path}: ") == 1
    assert other.read_bytes() == b"mine, and not for others to change " * 100


def test_a_refused_file_is_used_once_it_is_fixed(path: Path) -> None:
    shared = SharedFile(str(path))
    path.mkdir()
    with pytest.raises(Unavailable):
        held(shared, "a")
    path.rmdir()
    assert shared.acquire_slot("a", 100) and held(shared, "a") == 1


@pytest.mark.parametrize("how", ["no database", "broken pages", "gone"])
def test_a_broken_file_is_recreated_for_all_workers(path: Path, how: str, caplog: pytest.LogCaptureFixture) -> None:
    first, second = SharedFile(str(path)), SharedFile(str(path))
    for shared in (first, second):
        shared.acquire_slot("a", 100)
        shared._disconnect()
    data = path.read_bytes()
    match how:
        case "no database":
            path.write_bytes(b"no database " * 4096)
        case "broken pages":
            path.write_bytes(data[:100] + bytes(at % 251 for at in range(len(data) - 100)))
        case "gone":
            path.unlink()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda shared: shared.acquire_slot("a", 100), (first, second)))
    assert (held(first, "a"), held(second, "a")) == (2, 2)
    assert caplog.text.count("it is deleted and created again") == (how != "gone")


def test_slots_are_limited_over_all_workers_and_dead_workers_free_theirs(path: Path) -> None:
    shared = SharedFile(str(path))
    dead = subprocess.run(["/bin/sh", "-c", "echo $$"], stdout=subprocess.PIPE, text=True, check=True).stdout
    with shared.transaction() as database:
        database.executemany("INSERT INTO slots VALUES ('a', ?, 2)", [(int(dead),), (os.getppid(),)])
    assert shared.acquire_slot("a", 3)
    assert not shared.acquire_slot("a", 3)
    assert shared.acquire_slot("b", 3)
    assert (held(shared, "a"), held(shared, "b")) == (3, 1)
    shared.release_slot("a")
    shared.release_slot("a")
    assert held(shared, "a") == 2
    with pytest.raises(ZeroDivisionError), shared.transaction() as database:
        database.execute("DELETE FROM slots")
        1 / 0  # noqa: B018
    assert held(shared, "a") == 2


def test_a_slot_that_cannot_be_returned_is_returned_later(path: Path) -> None:
    shared, other = SharedFile(str(path)), path.with_name("other")
    assert shared.acquire_slot("a", 1) and not shared.acquire_slot("a", 1)
    path.rename(other)
    path.mkdir()
    shared.release_slot("a")
    path.rmdir()
    other.rename(path)
    assert shared.acquire_slot("a", 1) and not shared.acquire_slot("a", 1)


def test_the_rate_limit_uses_a_sliding_window_of_one_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = SharedFile(str(tmp_path / "shared"))

    def wait(name: str, per_minute: int, now: float) -> float:
        with monkeypatch.context() as patched:
            patched.setattr("time.monotonic", lambda: now)
            return shared.rate_limit(name, per_minute)

    assert [wait("a", 3, second) for second in (100.0, 100.9, 130.0)] == [0.0] * 3
    assert (wait("a", 3, 130.0), wait("a", 3, 159.5)) == (30.0, 0.5)
    assert wait("b", 3, 130.0) == 0.0
    assert [wait("a", 3, 161.0) for _ in range(3)] == [0.0, 0.0, 29.0]
    assert wait("a", 1, 161.0) == 60.0


def test_listed_models_are_remembered_up_to_a_limit(tmp_path: Path) -> None:
    shared = SharedFile(str(tmp_path / "shared"))
    assert shared.listed_models(["a", "b"]) == {"a", "b"}
    assert shared.listed_models([]) == {"a", "b"}
    assert len(shared.listed_models(map(str, range(200)))) == 100
