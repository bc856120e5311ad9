"""`setup` and `launch`: what is printed for a person and for a shell, what is written, and how they end."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest

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


def test_the_environment_is_for_a_shell() -> None:
    said = Configuration(environment={"URL": "a b", "TOKEN": KEY, "PROXY_KEY": KEY}, unset=("X", "Y"))
    lines = shown(said, KEYED)
    assert lines[3:] == ["# environment", "unset X Y", "export URL='a b'", 'export TOKEN="$PROXY_KEY"']


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


@pytest.mark.parametrize("model", ["m\nrm -rf x", "m\x1b[2J", "a\rb"], ids=["a line", "an escape", "a return"])
def test_no_name_of_a_model_is_a_command(model: str) -> None:
    values = replace(VALUES, model=model)
    lines = shown(Configuration(command=("x", model), notes=(f"The model is {model}.",)), values)
    code = [line for line in lines if line and not line.startswith("#")]
    assert shlex.split("\n".join(code)) == ["x", model]
    assert all(line.isprintable() for line in lines if line.startswith("#"))


@pytest.mark.parametrize(
    ("context", "said", "few"),
    [(None, "unknown", False), (24575, "24575 tokens", True), (24576, "24576 tokens", False)],
)
def test_a_context_that_is_too_small_is_told(context: int | None, said: str, few: bool) -> None:
    lines = shown(Configuration(notes=("a note",)), replace(VALUES, context=context))
    assert lines[1].endswith(f"context {said}") and "# a note" in lines
    assert any("tokens is small" in line for line in lines) is few
