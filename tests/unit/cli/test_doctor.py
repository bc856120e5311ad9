"""`doctor` as a command: what it takes, before any model server is asked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from proxy.cli import doctor
from proxy.cli.main import main
from proxy.config import load as config
from proxy.doctor.asking import Asker
from proxy.doctor.examination import NoServerError
from proxy.doctor.report import Report


@pytest.fixture(autouse=True)
def _bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No rules file of this machine counts, and no variable."""
    for name in [name for name in os.environ if name.startswith("TOOL_PROXY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(config, "SYSTEM_RULES", tmp_path / "none.yaml")
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def told(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr; there is nothing else."""
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    return err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--upstream", "ftp://x"], "--upstream: 'ftp://x' cannot be used; it must be an http:// or https:// URL"),
        (["--key-env", "NO_SUCH_KEY"], "--key-env: the variable 'NO_SUCH_KEY' is not set"),
    ],
)
def test_what_cannot_be_done_as_it_was_given(words: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *words]) == 2
    assert told(capsys).startswith(f"vllm-tool-proxy: error: {line}")


def test_all_of_it_ends_within_five_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Asker] = []

    def examine(ask: Asker, *_: object) -> Report:
        asked.append(ask)
        raise NoServerError("there is none")

    monkeypatch.setattr(doctor, "examine", examine)
    assert main(["doctor"]) == 3
    assert [ask.budget for ask in asked] == [300]


def test_a_key_that_no_header_can_carry_is_told_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-ü-secret")
    assert main(["doctor", "--key-env", "MY_KEY"]) == 2
    line = told(capsys)
    assert "has characters that no HTTP header can carry" in line and "secret" not in line


def test_that_there_is_no_server_is_one_line_whatever_it_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def examine(*_: object) -> Report:
        raise NoServerError("it says\n  \x1b[31mno")

    monkeypatch.setattr(doctor, "examine", examine)
    assert main(["doctor"]) == doctor.NO_SERVER
    line = told(capsys)
    assert line.startswith("vllm-tool-proxy: error: it says ") and "\x1b" not in line
