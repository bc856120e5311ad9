"""How `setup` and `launch` end, as their callers see it."""

from __future__ import annotations

import re
from pathlib import Path

from proxy.commands import setup
from proxy.commands.exit_status import CommandError, Status

PAGE = Path(__file__).parents[3] / "docs" / "agents.md"


def test_an_error_has_its_status_and_its_words() -> None:
    error = CommandError(Status.NO_PROXY, "what answers is none")
    assert (error.status, str(error)) == (Status.NO_PROXY, "what answers is none")


def test_the_page_and_the_help_say_every_status_and_no_other() -> None:
    table = PAGE.read_text("utf-8").partition("| exit status | |\n")[2].partition("\n\n")[0]
    assert {int(number) for number in re.findall(r"(?m)^\| (\d+) \|", table)} == {*Status}
    told = " ".join(setup._STATUS.split()).removeprefix("exit status: ").split("; ")
    assert {int(part.split()[0]) for part in told if part[0].isdigit()} == {*Status}
