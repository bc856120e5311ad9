"""The folder of captures, as the settings have it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from proxy.config.settings import Settings
from proxy.exchange.capture_folder import LOST, REMOVED, WRITTEN
from proxy.worker.captures import capture_folder

DAY = 24 * 3600


def kept(folder: Path) -> list[str]:
    return sorted(path.read_text() for path in folder.iterdir())


def test_captures_go_where_the_setting_says_and_are_counted(tmp_path: Path) -> None:
    counted: list[tuple[str, int]] = []
    captures = capture_folder(Settings(capture=str(tmp_path)), lambda what, number: counted.append((what, number)))
    captures.keep("a", b"one")
    assert kept(tmp_path) == ["one"] and counted == [(WRITTEN, 1)]


def test_the_bytes_of_the_setting_are_the_most_that_is_kept(tmp_path: Path) -> None:
    counted: list[tuple[str, int]] = []
    settings = Settings(capture=str(tmp_path), capture_max=10)
    captures = capture_folder(settings, lambda what, number: counted.append((what, number)))
    captures.keep("a", b"12345678")
    captures.keep("b", b"abcdefgh")
    assert kept(tmp_path) == ["abcdefgh"] and counted == [(WRITTEN, 1), (WRITTEN, 1), (REMOVED, 1)]


@pytest.mark.parametrize(("days", "left"), [(1.9, 3), (2.1, 2)])
def test_the_setting_of_the_age_is_in_days(tmp_path: Path, days: float, left: int) -> None:
    captures = capture_folder(Settings(capture=str(tmp_path), capture_days=2), lambda what, number: None)
    captures.keep("a", b"one")
    (old,) = tmp_path.iterdir()
    then = time.time() - days * DAY
    moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime(then))
    os.rename(old, tmp_path / f"{moment}.000000Z-old.capture")
    captures.keep("b", b"two")
    captures.keep("c", b"three")
    assert len(kept(tmp_path)) == left


def test_a_folder_that_cannot_be_written_costs_no_request(tmp_path: Path) -> None:
    counted: list[tuple[str, int]] = []
    no_folder = tmp_path / "file"
    no_folder.write_text("")
    settings = Settings(capture=str(no_folder))
    capture_folder(settings, lambda what, number: counted.append((what, number))).keep("a", b"one")
    assert counted == [(LOST, 1)]
