"""The capture folder: captures are written atomically, private and limited, and other files stay."""

from __future__ import annotations

import logging
import os
import stat
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from proxy.exchange import capture
from proxy.exchange.capture import UNFINISHED_SECONDS, CaptureFolder
from tests.support.rows import rows

DAY = 86400.0
NOW = time.time()


@pytest.fixture(autouse=True)
def _usual_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the limits that `CountedFolder` sets after each test."""
    monkeypatch.setattr(capture, "CAPTURES_MAX", 2**30)
    monkeypatch.setattr(capture, "CAPTURE_SECONDS", 30 * DAY)


class CountedFolder:
    """A capture folder and the counts that it reports."""

    def __init__(self, path: Path, max_bytes: int = 2**30, max_seconds: float = 30 * DAY) -> None:
        self.counts = Counter[str]()
        vars(capture).update(CAPTURES_MAX=max_bytes, CAPTURE_SECONDS=max_seconds)
        self.folder = CaptureFolder(str(path), self._count)

    def _count(self, _: str, number: int, what: str) -> None:
        self.counts[what] += number


def name(age: float, id_: str = "id", ending: str = ".capture") -> str:
    """Return the name of a capture that is `age` seconds old."""
    return f"{datetime.fromtimestamp(NOW - age, UTC):%Y%m%dT%H%M%S.%fZ}-{id_}{ending}"


def make(folder: Path, file: str, size: int = 10) -> str:
    (folder / file).write_bytes(b"x" * size)
    return file


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


def test_a_capture_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    counted = CountedFolder(tmp_path / "new" / "folder")
    counted.folder.keep("my-id", lambda: b"data")
    (file,) = (tmp_path / "new" / "folder").iterdir()
    assert file.read_bytes() == b"data" and file.name.endswith("Z-my-id.capture")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert counted.counts == {"written": 1}


def test_a_capture_is_renamed_only_when_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, bytes]] = []
    renamed = Path.rename

    def rename(path: Path, target: Path) -> Path:
        seen.extend((file.name.partition("Z-")[2], file.read_bytes()) for file in tmp_path.iterdir())
        return renamed(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    CountedFolder(tmp_path).folder.keep("a", lambda: b"data")
    assert seen == [("a.capture.part", b"data")]
    assert [file.name.partition("Z-")[2] for file in tmp_path.iterdir()] == ["a.capture"]


def test_a_capture_that_cannot_be_renamed_is_removed_counted_and_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(path: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", refuse)
    monkeypatch.setattr(logging.getLogger("proxy"), "propagate", True)
    counted = CountedFolder(tmp_path)
    counted.folder.keep("a", lambda: b"data")
    counted.folder.keep("b", lambda: b"data")
    assert names(tmp_path) == set() and counted.counts == {"lost": 2}
    assert [record.getMessage() for record in caplog.records] == [
        f"no capture can be written to {tmp_path}: [Errno 28] No space left on device"
    ]


def test_the_oldest_captures_are_removed_above_the_size_limit(tmp_path: Path) -> None:
    for age in (500, 400, 300, 200):
        make(tmp_path, name(age), 100)
    counted = CountedFolder(tmp_path, max_bytes=250)
    counted.folder.keep("new", lambda: b"x" * 50)
    assert {file.rpartition("-")[0] for file in names(tmp_path)} > {name(200).rpartition("-")[0]}
    assert len(names(tmp_path)) == 3 and name(300) in names(tmp_path) and name(400) not in names(tmp_path)
    assert counted.counts == {"written": 1, "removed": 2}


def test_the_number_of_captures_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "MAX_CAPTURES", 2)
    made = [make(tmp_path, name(age)) for age in (4, 3, 2)]
    CountedFolder(tmp_path).folder.tidy()
    assert names(tmp_path) == {*made[1:]}


def test_an_unfinished_capture_is_removed_after_a_while(tmp_path: Path) -> None:
    make(tmp_path, name(UNFINISHED_SECONDS + 60, ending=".capture.part"))
    under_way = make(tmp_path, name(60, ending=".capture.part"))
    CountedFolder(tmp_path, max_bytes=0).folder.tidy()
    assert names(tmp_path) == {under_way}


@rows(__file__, "mine")
def test_a_file_that_the_proxy_did_not_create_stays(mine: str, tmp_path: Path) -> None:
    make(tmp_path, mine)
    counted = CountedFolder(tmp_path, max_bytes=0, max_seconds=0.0)
    counted.folder.tidy()
    assert names(tmp_path) == {mine} and counted.counts == {}


def test_an_entry_that_is_not_a_regular_file_stays(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / name(5, "link")).symlink_to(tmp_path / "elsewhere")
    (tmp_path / name(5, "folder")).mkdir()
    CountedFolder(tmp_path, max_bytes=0, max_seconds=0.0).folder.tidy()
    assert names(tmp_path) == {"elsewhere", name(5, "link"), name(5, "folder")}


def test_another_users_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = make(tmp_path, name(5))
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    CountedFolder(tmp_path, max_bytes=0, max_seconds=0.0).folder.tidy()
    assert names(tmp_path) == {theirs}


def test_a_capture_that_another_worker_removed_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [make(tmp_path, name(age)) for age in (5, 6)]
    unlink = os.unlink

    def late(path: str) -> None:
        if path.endswith(files[1]):
            unlink(path)
        unlink(path)

    monkeypatch.setattr(os, "unlink", late)
    counted = CountedFolder(tmp_path, max_bytes=0)
    counted.folder.tidy()
    assert names(tmp_path) == set() and counted.counts == {"removed": 1}
