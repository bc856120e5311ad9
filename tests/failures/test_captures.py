"""Captures from users, each with the expected report."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.cli.main import main

CAPTURES = sorted((Path(__file__).parents[1] / "captures").glob("*.capture"))


def test_the_captures_exist() -> None:
    assert len(CAPTURES) >= 2


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_each_capture_has_the_expected_report(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rules.yaml").write_text("")
    monkeypatch.chdir(tmp_path)
    assert main(["parse", "--capture", str(path)]) == 0
    assert capsys.readouterr().out == path.with_suffix(".txt").read_text()
