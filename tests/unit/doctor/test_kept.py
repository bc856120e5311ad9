"""The last report, kept where the page finds it."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from proxy.doctor.kept import FORMAT, NAME, keep, kept_beside
from proxy.errors import RulesError
from tests.support.kept_report import read_kept

REPORT: Any = {"format": FORMAT, "url": "http://h", "findings": [{"id": "kind"}]}


def test_it_is_beside_the_rules_file() -> None:
    assert kept_beside("/etc/x/rules.yaml") == Path("/etc/x") / NAME
    assert kept_beside("built-in") is None


def test_what_is_kept_is_read_again_by_everybody(tmp_path: Path) -> None:
    """The page's own user, too; nothing else is left in the folder."""
    place = tmp_path / NAME
    for number in (1, 2):
        keep({**REPORT, "number": number}, place)
    assert read_kept(place) == {**REPORT, "number": 2}
    assert stat.S_IMODE(place.stat().st_mode) == 0o644 and [*tmp_path.iterdir()] == [place]


@pytest.mark.parametrize(
    "data", [b"", b"no JSON", b"[]", b'{"format": 99, "url": "u", "findings": [1]}', b'{"format": 1, "url": "u"}']
)
def test_what_is_no_report_is_none(data: bytes, tmp_path: Path) -> None:
    assert read_kept(tmp_path / "none") is None
    (tmp_path / NAME).write_bytes(data)
    assert read_kept(tmp_path / NAME) is None


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(RulesError, match=r"the report cannot be kept \(No such file or directory\); name a place"):
        keep(REPORT, tmp_path / "none" / NAME)


@pytest.mark.parametrize("data", ["", "[]", "{}", '{"format": 2, "url": "x", "findings": [1]}', "{"])
def test_what_is_no_report_is_not_taken_for_one(data: str, tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(data)
    assert read_kept(tmp_path / NAME) is None
    assert read_kept(tmp_path / "none") is None
