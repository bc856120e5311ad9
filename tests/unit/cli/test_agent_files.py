"""Agents' configuration files: backed up, written once, and restored byte for byte."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.cli.agent_files import SUFFIX, AgentFiles
from proxy.cli.configuration import File, Format
from proxy.cli.output import CommandError, Status

CONTENT = {"model": "m"}
WHOLE = '{\n  "model": "m"\n}\n'


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return the mode and content of every file below `folder`."""
    return {
        str(path.relative_to(folder)): (stat.S_IMODE(path.lstat().st_mode), _content(path))
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def _content(path: Path) -> bytes:
    if path.is_symlink():
        return os.readlink(path).encode()
    return path.read_bytes()


@pytest.fixture(name="home")
def _home(tmp_path: Path) -> Iterator[Path]:
    """A home folder with one file, under a umask that makes new files readable by all users."""
    before = os.umask(0o022)
    home = tmp_path / "home"
    home.mkdir()
    (home / "other").write_text("x")
    yield home
    os.umask(before)


def files(home: Path) -> AgentFiles:
    return AgentFiles("claude", home / ".local/state/vllm-tool-proxy")


def made(home: Path, name: str = ".agent/config.json") -> File:
    return File(str(home / name), Format.JSON, dict(CONTENT))


def failed(step: object) -> CommandError:
    with pytest.raises(CommandError) as caught:
        list(step()) if callable(step) else None
    assert caught.value.status == Status.NOT_WRITTEN
    return caught.value


def test_writing_other_content_keeps_the_first_backup(home: Path) -> None:
    path = home / "config.json"
    path.write_text("{}")
    before = tree(home)
    files(home).write([made(home, "config.json")])
    files(home).write([File(str(path), Format.JSON, {"model": "other"})])
    assert json.loads(path.read_text()) == {"model": "other"}
    list(files(home).restore())
    assert tree(home) == before


@pytest.mark.parametrize("again", [False, True])
def test_restore_refuses_a_file_that_the_user_changed(home: Path, again: bool) -> None:
    """The user's change survives a second write, too."""
    path = home / "config.json"
    path.write_text("{}")
    files(home).write([made(home, "config.json"), made(home)])
    path.write_text('{"mine": 1}')
    if again:
        files(home).write([made(home, "config.json")])
    now = tree(home)
    error = failed(files(home).restore)
    assert str(error).startswith(f"{path} has changed since it was written, so nothing is restored; ")
    assert f"{path}{SUFFIX}" in str(error)
    assert tree(home) == now


def test_restore_accepts_a_file_that_is_already_deleted(home: Path) -> None:
    before = tree(home)
    files(home).write([made(home)])
    (home / ".agent/config.json").unlink()
    list(files(home).restore())
    assert tree(home) == before


@pytest.mark.slow
def test_a_file_over_4_mb_is_refused_with_one_message(home: Path) -> None:
    """Merging a file of 20 MB took half a minute."""
    file = made(home)
    path = Path(file.path)
    path.parent.mkdir()
    path.write_text('{"a": [' + "1, " * 1_400_000 + "1]}")
    before = tree(home)
    error = failed(lambda: files(home).write([file, made(home, "second.json")]))
    assert "larger than 4 MB" in str(error) and file.path in str(error)
    assert tree(home) == before
    path.write_text('{"a": "' + "x" * 4_100_000 + '"}')
    assert files(home).write([file])


def test_no_file_is_written_unless_all_can_be_merged(home: Path) -> None:
    (home / "bad.json").write_text("{'a': 1}")
    before = tree(home)
    error = failed(lambda: files(home).write([made(home), made(home, "bad.json")]))
    assert str(error).startswith(f"{home}/bad.json is unchanged: it is not valid JSON")
    assert tree(home) == before
    assert list(files(home).restore()) == ["nothing to undo"]


def test_a_path_that_is_not_utf_8_is_refused_in_one_sentence(home: Path) -> None:
    file = File(str(home / "a.toml"), Format.TOML, {"model_catalog_json": "/home/\udcff/models.json"})
    before = tree(home)
    assert "it would name a path that is not UTF-8" in str(failed(lambda: files(home).write([file])))
    assert tree(home) == before


def test_a_symlink_stays_a_symlink(home: Path) -> None:
    (home / "dotfiles").mkdir()
    (home / "dotfiles/config.json").write_text("{}")
    (home / "config.json").symlink_to("dotfiles/config.json")
    before = tree(home)
    files(home).write([made(home, "config.json")])
    assert (home / "config.json").is_symlink()
    assert (home / "dotfiles/config.json").read_text() == WHOLE.rstrip("\n")
    list(files(home).restore())
    assert tree(home) == before


def test_a_backup_of_another_program_is_never_overwritten(home: Path) -> None:
    (home / "config.json").write_text("{}")
    (home / f"config.json{SUFFIX}").write_text("precious")
    before = tree(home)
    assert "move it away" in str(failed(lambda: files(home).write([made(home, "config.json")])))
    assert tree(home) == before


def test_an_unreadable_record_is_reported(home: Path) -> None:
    files(home).write([made(home)])
    record = home / ".local/state/vllm-tool-proxy/setup-claude.json"
    for text in ("{", "[]", "{}", '{"files": {"a": {}}}'):
        record.write_text(text)
        assert str(record) in str(failed(lambda: files(home)))


def test_a_users_agent_with_its_own_model_is_reported(home: Path) -> None:
    path = home / "a.json"
    path.write_text('{"agents": {"w": {"model": "x/y"}}}')
    file = File(str(path), Format.JSON, {}, agents=("agents",))
    (note,) = AgentFiles("a", home).write([file])
    assert note == f"{path}: nothing to change; these agents keep their own models: w"


def test_writing_a_key_makes_the_file_private(home: Path) -> None:
    path = home / "config.json"
    path.write_text("{}")
    before = tree(home)
    assert before["config.json"][0] == 0o644
    file = File(str(path), Format.JSON, {"key": 'a"b'})
    for note in ("written", "nothing to change"):
        assert files(home).write([file], 'a"b')[0].startswith(f"{path}: {note}")
    assert (json.loads(path.read_text()), tree(home)["config.json"][0]) == ({"key": 'a"b'}, 0o600)
    list(files(home).restore())
    assert tree(home) == before
