"""Progress of a long command on standard error."""

from __future__ import annotations

import pytest

from proxy.commands.progress import Progress


def test_each_step_is_one_safe_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress("doctor", 2)
    progress.step("models")
    assert capsys.readouterr() == ("", "doctor: 1/2 models\n")
    progress.step("a\nb\x1b[2J\u202e")
    assert capsys.readouterr() == ("", "doctor: 2/2 a b [2J \n")
