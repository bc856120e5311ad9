"""The captures of users, each with what should become of it: all of them are replayed."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.commands.main import main

FOLDER = Path(__file__).parents[1] / "captures"


def test_each_capture_is_as_it_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # no rules file but the built-in one
    (tmp_path / "rules.yaml").write_text("")
    code = main(["replay", str(FOLDER)])
    told = capsys.readouterr().out
    count = len([*FOLDER.glob("*.capture")])
    assert (code, told) == (0, f"{count} captures: {count} as recorded, 0 changed\n") and count >= 2
