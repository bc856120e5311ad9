"""`top` as a command: what it takes, before any proxy is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.commands import main as cli


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--url", "ftp://a"], "--url: this value cannot be used"),
        (["--url", "http://"], "--url: this value cannot be used"),
        (["--url"], "--url: expected one argument"),
        (["--key-file", "/nowhere/key"], "/nowhere/key cannot be read as a key"),
        (["--nothing"], "unrecognized arguments: --nothing"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(words: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["top", *words]) == 2
    said = capsys.readouterr().err
    assert why in said and said.count("\n") == 1


def test_a_digest_is_no_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "key").write_text("sha256:" + "0" * 64)
    assert cli.main(["top", "--key-file", str(tmp_path / "key")]) == 2
    assert "holds the digest of the key" in capsys.readouterr().err


def test_a_key_that_is_no_text_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "key").write_bytes(b"\xff\xfe")
    assert cli.main(["top", "--key-file", str(tmp_path / "key")]) == 2
    said = capsys.readouterr().err
    assert "cannot be read as a key" in said and "give --key-file" in said


def test_its_help_says_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["top", "--help"])
    assert caught.value.code == 0 and "live page" in capsys.readouterr().out
