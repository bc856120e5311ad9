"""The last report of `doctor`: the newest that can be read, wherever it was left."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from proxy.ui import doctor_report
from proxy.ui.doctor_report import FILE_NAMES, last_report


def left(folder: Path, told: object, at: int, name: str = FILE_NAMES[0]) -> None:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(told if isinstance(told, str) else json.dumps(told))
    os.utime(file, (at, at))


def test_the_newest_counts_wherever_it_is(tmp_path: Path) -> None:
    env = {"RUNTIME_DIRECTORY": str(tmp_path / "run"), "STATE_DIRECTORY": f"{tmp_path / 'state'}:/other"}
    rules = str(tmp_path / "etc" / "rules.yaml")
    assert last_report(env, rules) is None
    for at, folder in enumerate(("run", "state", "etc"), 1):
        left(tmp_path / folder, {"from": folder}, at)
        assert last_report(env, rules) == {"from": folder}
    left(tmp_path / "state", {"from": "the other name"}, 9, FILE_NAMES[1])
    assert last_report(env, rules) == {"from": "the other name"}
    assert last_report({}, "built-in") is None


@pytest.mark.parametrize("told", ["", "{", "[1]", "null", json.dumps({"long": "x" * 2000})])
def test_what_is_none_gives_way_to_the_one_before(tmp_path: Path, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_report, "MAX_BYTES", 1000)
    left(tmp_path / "run", {"a": 1}, 1)
    left(tmp_path / "etc", told, 2)
    assert last_report({"RUNTIME_DIRECTORY": str(tmp_path / "run")}, str(tmp_path / "etc" / "rules.yaml")) == {"a": 1}
