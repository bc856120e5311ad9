"""The file of kept responses: whose they are, how many, how long, and what becomes of a file that cannot be used."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from proxy.errors import NotKept
from proxy.worker.response_store import ResponseStore

DAY = 86400.0
ASKED: list[Any] = [{"type": "message", "role": "user", "content": "Hi"}]


BYTES = 2**30


def store(path: Path, owner: str = "a", most: int = 1000, size: int = BYTES) -> ResponseStore:
    return ResponseStore(str(path / "kept.db"), owner, most, DAY, size)


def made(number: int) -> dict[str, Any]:
    return {"id": f"resp_{number}", "output": [{"id": f"msg_{number}_0", "text": "ü\ud800"}]}


def test_what_is_kept_is_there_for_every_worker(tmp_path: Path) -> None:
    """As it was, lone surrogates and all; the file is this user's alone."""
    store(tmp_path).keep(made(1), ASKED)
    other = store(tmp_path)
    assert (other.response("resp_1"), other.input_of("resp_1")) == (made(1), ASKED)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {0o600}


def test_another_key_has_nothing_of_it(tmp_path: Path) -> None:
    store(tmp_path).keep(made(1), ASKED)
    other = store(tmp_path, "b")
    assert (other.response("resp_1"), other.input_of("resp_1")) == (None, [])
    assert other.delete("resp_1") is False
    other.keep({**made(1), "output": []}, [])
    assert store(tmp_path).response("resp_1") == made(1)


def test_what_is_deleted_is_gone(tmp_path: Path) -> None:
    kept = store(tmp_path)
    kept.keep(made(1), ASKED)
    assert (kept.delete("resp_1"), kept.delete("resp_1")) == (True, False)
    assert (kept.response("resp_1"), kept.input_of("resp_1")) == (None, [])


def test_no_more_than_so_many_are_kept(tmp_path: Path) -> None:
    """The oldest go first, whose they are."""
    store(tmp_path, "b", 3).keep(made(9), [])
    for number in range(3):
        store(tmp_path, "a", 3).keep(made(number), [])
    assert store(tmp_path, "b").response("resp_9") is None
    assert [store(tmp_path).response(f"resp_{number}") is not None for number in range(3)] == [True] * 3


def long(number: int, size: int = 100_000) -> dict[str, Any]:
    return {"id": f"resp_{number}", "output": [{"id": f"msg_{number}_0", "text": "x" * size}]}


def used(path: Path) -> int:
    """Bytes of the file that are in use."""
    with contextlib.closing(sqlite3.connect(path / "kept.db")) as database:
        pages, free, size = (
            database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
    return int((pages - free) * size)


def test_all_that_is_kept_has_so_many_bytes_at_most(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The oldest go first, whose they are, and the log says how many; what was given counts, too."""
    caplog.set_level(logging.INFO, "proxy")
    store(tmp_path, "b", size=1_000_000).keep(long(99), [])
    kept = store(tmp_path, size=1_000_000)
    for number in range(8):
        kept.keep(long(number), [])
    assert caplog.text == "" and store(tmp_path, "b").response("resp_99") == long(99)
    for number in range(8, 30):
        kept.keep(long(number, 50_000), ["y" * 50_000])
        assert used(tmp_path) <= 1_000_000
        assert kept.response(f"resp_{number}") == long(number, 50_000)
    assert store(tmp_path, "b").response("resp_99") is None
    there = [kept.response(f"resp_{number}") is not None for number in range(30)]
    assert there == [False] * 21 + [True] * 9
    assert caplog.text.count("store_bytes") == 22 and "1 kept response is gone" in caplog.text


@pytest.mark.slow
def test_the_file_does_not_grow_beyond_it(tmp_path: Path) -> None:
    kept = store(tmp_path, size=1_000_000)
    for number in range(100):
        kept.keep(long(number), [])
    assert (tmp_path / "kept.db").stat().st_size < 1_300_000


@pytest.mark.parametrize("size", [990_000, 1_000_001, 3_000_000])
def test_one_that_is_larger_than_all_may_be_is_not_kept(tmp_path: Path, size: int) -> None:
    """The client is told, and nothing else goes for it; 990,000 bytes do not fit beside what the file itself needs."""
    kept = store(tmp_path, size=1_000_000)
    kept.keep(long(1), ASKED)
    told = r"this response and all that was given for it have [\d,]+ bytes, and 1,000,000 can be kept here at most"
    with pytest.raises(NotKept, match=told):
        kept.keep(long(2, size), [])
    with pytest.raises(NotKept, match=told):
        kept.keep(long(3, 10), ["y" * size])
    assert (kept.response("resp_2"), kept.response("resp_3")) == (None, None)
    assert (kept.response("resp_1"), kept.input_of("resp_1")) == (long(1), ASKED)


def test_a_file_that_is_larger_already_is_made_smaller(tmp_path: Path) -> None:
    """`store_bytes` was set to less."""
    for number in range(30):
        store(tmp_path).keep(long(number), [])
    kept = store(tmp_path, size=1_000_000)
    kept.keep(long(30), [])
    assert used(tmp_path) <= 1_000_000
    assert [kept.response(f"resp_{number}") is not None for number in range(31)] == [False] * 22 + [True] * 9


def test_none_is_kept_for_longer_than_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not told any more, and with the next one it goes."""
    now = [1_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    kept = store(tmp_path)
    kept.keep(made(1), ASKED)
    now[0] += DAY
    assert kept.response("resp_1") is not None
    now[0] += 1.0
    assert (kept.response("resp_1"), kept.input_of("resp_1")) == (None, [])
    kept.keep(made(2), [])
    now[0] -= 2.0
    assert kept.response("resp_1") is None


@pytest.mark.parametrize("again", range(20))
def test_all_threads_may_begin_at_once(tmp_path: Path, again: int) -> None:
    """The file is made by one of them, and each of their responses is there."""
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: store(tmp_path).keep(made(number), ASKED), range(32)))
    assert all(store(tmp_path).response(f"resp_{number}") for number in range(32))


@pytest.mark.parametrize("what", ["a folder", "no folder", "no database"])
def test_a_file_that_cannot_be_used_is_told_in_words(
    tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "kept.db"
    if what == "a folder":
        path.mkdir()
    elif what == "no folder":
        path = path / "kept.db"
    else:
        path.write_bytes(b"this is no database, however long it is" * 100)
    kept = ResponseStore(str(path), "a", 10, DAY, BYTES)
    for step in (lambda: kept.keep(made(1), []), lambda: kept.response("resp_1"), lambda: kept.delete("resp_1")):
        with pytest.raises(NotKept, match=r"cannot use the file in which it keeps responses: [a-z]") as told:
            step()
        # Where the file is does not concern a client; the log says it.
        assert str(tmp_path) not in told.value.message and "kept.db" not in told.value.message
        assert str(path) in caplog.text
        caplog.clear()
