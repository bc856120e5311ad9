"""Cline's command line: the command that must come first, and the one that starts it."""

from __future__ import annotations

from dataclasses import replace

from proxy.agents.cline import CLINE
from proxy.agents.configuration import KEY, NO_KEY
from tests.support.agent_values import KEYED, VALUES


def options(command: tuple[str, ...]) -> dict[str, str]:
    """The options of a command line, each with its value."""
    words = [word for word in command if word not in ("cline", "auth")]
    return dict(zip(words[::2], words[1::2], strict=True))


def test_it_is_told_all_by_its_own_command_before_it_is_started() -> None:
    configuration = CLINE.configure(VALUES)
    first, start = options(configuration.first), options(configuration.command)
    assert first == {"-p": "openai-compatible", "-k": NO_KEY, "-m": VALUES.model, "-b": f"{VALUES.url}/v1"}
    assert (start["-P"], start["-m"]) == (first["-p"], first["-m"])
    assert configuration.files == ()


def test_the_key_stands_for_itself_until_the_command_is_run() -> None:
    assert options(CLINE.configure(KEYED).first)["-k"] == KEY


def test_what_its_command_writes_is_where_its_variable_says() -> None:
    moved = replace(VALUES, environment={"CLINE_DATA_DIR": "/d"})
    assert CLINE.configure(VALUES).written == "/home/u/.cline/data/settings/providers.json"
    assert CLINE.configure(moved).written == "/d/settings/providers.json"
