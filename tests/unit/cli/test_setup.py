"""`setup` and `launch`: what is printed for a person and for a shell, what is written, and how they end."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proxy.cli import proxy_facts
from proxy.cli.agents import AGENTS
from proxy.cli.configuration import KEY, Agent, Configuration, File, Format, Values
from proxy.cli.main import main
from proxy.cli.output import Status
from proxy.cli.setup import described
from tests.support.socketless import Made, Socketless

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


# The commands, in a home of their own, in front of a proxy that answers without a socket.


def answer(path: str, body: object) -> Made:
    """What a proxy of one model says."""
    said: dict[str, Any] = {
        "/": {"service": "vllm-tool-proxy"},
        "/_ready": {},
        "/v1/models": {"data": [{"id": "m", "max_model_len": 65536}]},
        "/v1/models/m": {"type": "model", "display_name": "m", "efforts": []},
    }
    return 200, json.dumps(said[path]).encode()


@pytest.fixture(name="home", autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [*os.environ]:
        if name.startswith(("XDG_", "CODEX_", "ANTHROPIC_", "CLAUDE_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(proxy_facts, "ModelServer", lambda options: Socketless(answer, options.url))
    return tmp_path


def files(home: Path) -> dict[str, str]:
    return {str(path.relative_to(home)): path.read_text() for path in home.rglob("*") if path.is_file()}


@pytest.mark.parametrize("agent", AGENTS)
def test_without_write_nothing_is_written(agent: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["setup", agent]) == Status.DONE
    out, err = capsys.readouterr()
    assert out.startswith(f"# {AGENTS[agent].title}: ") and "http://127.0.0.1:8003" in out and err == ""
    assert files(home) == {}


def test_what_is_written_is_merged_and_undone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text("mine = 1\n")
    before = files(home)
    assert main(["setup", "codex", "--write"]) == Status.DONE
    written = files(home)[".codex/config.toml"]
    assert "mine = 1\n" in written and 'base_url = "http://127.0.0.1:8003/v1"' in written
    assert main(["setup", "codex", "--undo"]) == Status.DONE
    assert {name: text for name, text in files(home).items() if not name.startswith(".local")} == before
    assert "nothing to undo" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "status", "line"),
    [
        (["pi", "--url", "h:1"], Status.USAGE, "--url 'h:1' is not valid; give "),
        (["pi", "--key-env", "lower"], Status.USAGE, "--key-env 'lower' is not the name of a variable in capitals"),
        (["pi", "--key-env", "NOT_THERE"], Status.USAGE, "--key-env NOT_THERE: the variable is not set, or is empty"),
        (["cline", "--write"], Status.NOT_INSTALLED, "cline is not on PATH"),
    ],
    ids=["no URL", "no name", "no key", "what comes first"],
)
def test_what_hinders_it_is_one_line_and_a_status(
    words: list[str], status: Status, line: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["setup", *words]) == status
    err = capsys.readouterr().err
    assert err.startswith(f"vllm-tool-proxy: error: {line}") and err.count("\n") == 1
    assert files(home) == {}


@pytest.mark.parametrize(
    ("agent", "line"),
    [
        ("pi", "pi is not on PATH; install it: npm install -g @mariozechner/"),
        ("sdk", "sdk is not a program; add one after --, and it gets the variables"),
    ],
)
def test_an_agent_that_cannot_be_launched_is_one_line(
    agent: str, line: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["launch", agent]) == (Status.USAGE if agent == "sdk" else Status.NOT_INSTALLED)
    err = capsys.readouterr().err
    assert err.startswith(f"vllm-tool-proxy: error: {line}") and err.count("\n") == 1
    assert files(home) == {}


class Became(Exception):
    """Instead of the exec: what the process would have become."""


def test_a_launched_agent_has_its_words_its_key_and_no_variable_that_would_win(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def become(*what: object) -> None:
        raise Became(*what)

    (home / "bin").mkdir()
    (home / "bin/claude").write_text("")
    (home / "bin/claude").chmod(0o755)
    monkeypatch.setattr(os, "execve", become)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-mine")
    monkeypatch.setenv("PROXY_KEY", "secret")
    with pytest.raises(Became) as caught:
        main(["launch", "claude", "--key-env", "PROXY_KEY", "--", "-p", "--", "hi"])
    program, command, variables = caught.value.args
    assert program == str(home / "bin/claude") and command[0] == "claude" and command[-3:] == ["-p", "--", "hi"]
    assert variables["ANTHROPIC_AUTH_TOKEN"] == "secret" and "ANTHROPIC_API_KEY" not in variables
    assert "secret" not in "".join(command)
    assert files(home).keys() == {"bin/claude"}, "what its environment says is in no file"
