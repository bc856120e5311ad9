"""The captures that a command is given, and how they came out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from proxy.commands.capture_files import Total, files_of, is_folder, read_file
from proxy.errors import RulesError


def test_of_a_folder_all_captures_are_meant_the_oldest_first(tmp_path: Path) -> None:
    for name in ("b.capture", "a.capture", "c.txt"):
        (tmp_path / name).write_bytes(b"")
    given = [str(tmp_path / "c.txt"), str(tmp_path)]
    assert files_of(given) == [str(tmp_path / name) for name in ("c.txt", "a.capture", "b.capture")]


def test_a_folder_without_captures_and_a_file_that_is_none_are_told(tmp_path: Path) -> None:
    with pytest.raises(RulesError, match=r"holds no captures \(\*\.capture\); give a file"):
        files_of([str(tmp_path)])
    (tmp_path / "a").write_bytes(b"no capture")
    for path in (str(tmp_path / "none"), str(tmp_path), "a\0b"):
        with pytest.raises(RulesError, match=r"cannot be read \(.*give a file"):
            read_file(path)
    with pytest.raises(RulesError, match="no capture"):
        read_file(str(tmp_path / "a"))
    assert not is_folder("a\0b") and is_folder(str(tmp_path))


def test_a_pipe_in_a_folder_is_passed_over_and_what_has_no_end_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "a.capture")
    (tmp_path / "b.capture").write_bytes(b"")
    (tmp_path / "c.capture").symlink_to("nowhere")
    assert files_of([str(tmp_path)]) == [str(tmp_path / "b.capture"), str(tmp_path / "c.capture")]
    monkeypatch.setattr("proxy.commands.capture_files._MOST", 1000)
    with pytest.raises(RulesError, match="is longer than any capture; give a file"):
        read_file("/dev/zero")


@pytest.mark.parametrize(
    ("total", "code", "said"),
    [
        (Total(), 0, "0 captures: 0 as recorded, 0 changed"),
        (Total(same=1), 0, "1 capture: 1 as recorded, 0 changed"),
        (Total(2, 1), 1, "3 captures: 2 as recorded, 1 changed"),
        (Total(0, 1, 2, 1), 2, "4 captures: 0 as recorded, 1 changed, 2 of which nothing was recorded, 1 no captures"),
    ],
)
def test_the_total_is_told_and_is_the_exit_code(total: Total, code: int, said: str) -> None:
    assert (total.exit_code, str(total)) == (code, said)


def test_each_capture_counts_once() -> None:
    total = Total()
    for recorded, changed in ((True, False), (True, True), (False, True), (False, False)):
        total.add(recorded, changed=changed)
    assert total == Total(same=1, changed=1, unrecorded=2)
