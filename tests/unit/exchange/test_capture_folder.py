"""The folder of captures: written whole or not at all, for its owner alone, bounded; other files stay."""

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

DAY = 86400.0
NOW = time.time()


@pytest.fixture(autouse=True)
def _usual_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds that `Told` sets last for one test."""
    monkeypatch.setattr(capture, "CAPTURES_MAX", 2**30)
    monkeypatch.setattr(capture, "CAPTURE_SECONDS", 30 * DAY)


class Told:
    """A folder, and what it told of its captures."""

    def __init__(self, path: Path, max_bytes: int = 2**30, max_seconds: float = 30 * DAY) -> None:
        self.counts = Counter[str]()
        vars(capture).update(CAPTURES_MAX=max_bytes, CAPTURE_SECONDS=max_seconds)
        self.folder = CaptureFolder(str(path), self._count)

    def _count(self, _: str, number: int, what: str) -> None:
        self.counts[what] += number


def name(age: float, id_: str = "id", ending: str = ".capture") -> str:
    """The name of a capture that was made so many seconds ago."""
    return f"{datetime.fromtimestamp(NOW - age, UTC):%Y%m%dT%H%M%S.%fZ}-{id_}{ending}"


def make(folder: Path, file: str, size: int = 10) -> str:
    (folder / file).write_bytes(b"x" * size)
    return file


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


def test_a_capture_is_written_for_its_owner_alone(tmp_path: Path) -> None:
    told = Told(tmp_path / "new" / "folder")
    told.folder.keep("my-id", lambda: b"data")
    (file,) = (tmp_path / "new" / "folder").iterdir()
    assert file.read_bytes() == b"data" and file.name.endswith("Z-my-id.capture")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert told.counts == {"written": 1}


def test_it_has_its_name_only_once_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, bytes]] = []
    renamed = Path.rename

    def rename(path: Path, target: Path) -> Path:
        seen.extend((file.name.partition("Z-")[2], file.read_bytes()) for file in tmp_path.iterdir())
        return renamed(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    Told(tmp_path).folder.keep("a", lambda: b"data")
    assert seen == [("a.capture.part", b"data")]
    assert [file.name.partition("Z-")[2] for file in tmp_path.iterdir()] == ["a.capture"]


def test_what_cannot_get_its_name_is_removed_counted_and_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(path: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", refuse)
    monkeypatch.setattr(logging.getLogger("proxy"), "propagate", True)
    told = Told(tmp_path)
    told.folder.keep("a", lambda: b"data")
    told.folder.keep("b", lambda: b"data")
    assert names(tmp_path) == set() and told.counts == {"lost": 2}
    assert [record.getMessage() for record in caplog.records] == [
        f"no capture can be written to {tmp_path}: [Errno 28] No space left on device"
    ]


def test_over_the_size_the_oldest_go(tmp_path: Path) -> None:
    for age in (500, 400, 300, 200):
        make(tmp_path, name(age), 100)
    told = Told(tmp_path, max_bytes=250)
    told.folder.keep("new", lambda: b"x" * 50)
    assert {file.rpartition("-")[0] for file in names(tmp_path)} > {name(200).rpartition("-")[0]}
    assert len(names(tmp_path)) == 3 and name(300) in names(tmp_path) and name(400) not in names(tmp_path)
    assert told.counts == {"written": 1, "removed": 2}


def test_there_are_at_most_so_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "MAX_CAPTURES", 2)
    made = [make(tmp_path, name(age)) for age in (4, 3, 2)]
    Told(tmp_path).folder.tidy()
    assert names(tmp_path) == {*made[1:]}


def test_what_was_never_finished_goes_in_the_end(tmp_path: Path) -> None:
    make(tmp_path, name(UNFINISHED_SECONDS + 60, ending=".capture.part"))
    under_way = make(tmp_path, name(60, ending=".capture.part"))
    Told(tmp_path, max_bytes=0).folder.tidy()
    assert names(tmp_path) == {under_way}


@pytest.mark.parametrize(
    "mine",
    [
        "notes.txt",
        "20200101T000000.000000Z-id.capture.bak",
        "x20200101T000000.000000Z-id.capture",
        "20201399T000000.000000Z-id.capture",
        "20200101T000000Z-id.capture",
        "20200101T000000.000000Z-.capture",
        "20200101T000000.000000Z-a b.capture",
    ],
)
def test_a_file_that_the_proxy_did_not_make_stays(mine: str, tmp_path: Path) -> None:
    make(tmp_path, mine)
    told = Told(tmp_path, max_bytes=0, max_seconds=0.0)
    told.folder.tidy()
    assert names(tmp_path) == {mine} and told.counts == {}


def test_what_is_no_plain_file_stays(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / name(5, "link")).symlink_to(tmp_path / "elsewhere")
    (tmp_path / name(5, "folder")).mkdir()
    Told(tmp_path, max_bytes=0, max_seconds=0.0).folder.tidy()
    assert names(tmp_path) == {"elsewhere", name(5, "link"), name(5, "folder")}


def test_another_users_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = make(tmp_path, name(5))
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    Told(tmp_path, max_bytes=0, max_seconds=0.0).folder.tidy()
    assert names(tmp_path) == {theirs}


def test_what_another_worker_has_removed_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [make(tmp_path, name(age)) for age in (5, 6)]
    unlink = os.unlink

    def late(path: str) -> None:
        if path.endswith(files[1]):
            unlink(path)
        unlink(path)

    monkeypatch.setattr(os, "unlink", late)
    told = Told(tmp_path, max_bytes=0)
    told.folder.tidy()
    assert names(tmp_path) == set() and told.counts == {"removed": 1}
