"""How `setup` and `launch` end, as their callers see it."""

from __future__ import annotations

from pathlib import Path

from proxy.commands.exit_status import CommandError, Status

PAGE = Path(__file__).parents[3] / "docs" / "agents.md"


def test_an_error_has_its_status_and_its_words() -> None:
    error = CommandError(Status.NO_PROXY, "what answers is none")
    assert (error.status, str(error)) == (Status.NO_PROXY, "what answers is none")
