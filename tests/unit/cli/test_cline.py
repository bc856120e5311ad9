"""Cline's command line: the command that must come first, and the one that starts it."""

from __future__ import annotations

import json
from dataclasses import replace

from proxy.cli.agents import AGENTS
from proxy.cli.configuration import KEY, NO_KEY
from tests.support.agent_values import FOLDER, KEYED, VALUES, launched

CLINE = AGENTS["cline"]


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


def test_launched_its_providers_are_private_and_no_daemon_keeps_them() -> None:
    for values, key in ((VALUES, NO_KEY), (KEYED, KEY)):
        configuration = launched(CLINE, values)
        ((name, text),) = configuration.private.items()
        said = json.loads(text)
        assert said["providers"][said["lastUsedProvider"]]["settings"] == {
            **{"provider": "openai-compatible", "apiKey": key},
            **{"model": VALUES.model, "baseUrl": VALUES.v1},
        }
        assert configuration.environment == {
            "CLINE_PROVIDER_SETTINGS_PATH": f"{FOLDER}/{name}",
            "CLINE_SESSION_BACKEND_MODE": "local",
        }
        assert (configuration.command, configuration.first) == (CLINE.configure(values).command, ())


def test_what_its_command_writes_is_where_its_variable_says() -> None:
    moved = replace(VALUES, environment={"CLINE_DATA_DIR": "/d"})
    assert CLINE.configure(VALUES).written == "/home/u/.cline/data/settings/providers.json"
    assert CLINE.configure(moved).written == "/d/settings/providers.json"
