"""`setup` and `launch`: what is printed for a person and for a shell, what is written, and how they end."""

from __future__ import annotations

import json
from dataclasses import replace

from proxy.cli.configuration import KEY, Agent, Configuration, File, Format, Values
from proxy.cli.setup import described

VALUES = Values("http://h:1", "m", 65536, home="/home/u")
KEYED = replace(VALUES, key_name="PROXY_KEY")
AGENT = Agent(
    "a", lambda values: Configuration(), lambda values: Configuration(), "An agent", "https://docs", "2026-11-22"
)


def shown(configuration: Configuration, values: Values = VALUES) -> list[str]:
    return "\n".join(described(AGENT, values, configuration)).split("\n")


def test_what_is_empty_is_not_said() -> None:
    assert shown(Configuration()) == [
        "# An agent: tested with the SDKs for Python; from its documentation (https://docs), as of 2026-11-22",
        "# proxy http://h:1, model m, context 65536 tokens",
    ]


def test_commands_are_for_a_shell_and_the_first_says_what_it_writes() -> None:
    said = Configuration(command=("run", "it; now"), first=("auth", "-k", KEY), written="/w")
    assert shown(said, KEYED)[3:] == [
        *("# run once; it writes /w", 'auth -k "$PROXY_KEY"', ""),
        *("# start", "run 'it; now'"),
    ]


def test_a_file_is_shown_as_it_is_where_there_is_none_yet() -> None:
    file = File("/f.json", Format.JSON, {"a": 1}, optional=True, without=(("env", "X"), ("b",)))
    lines = shown(Configuration(files=(file,)))
    assert lines[3] == "# instead of the environment: /f.json (JSON; --write merges this into the file)"
    assert json.loads("\n".join(lines[4:-1])) == {"a": 1}
    assert lines[-1] == "# remove keys that would override it: env.X, b"
