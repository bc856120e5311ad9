"""What is to be known of a coding agent: how it is installed, how it is run, and how a model calls its shell."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PROOF = "proof.txt"
SECOND = "proof2.txt"
WROTE = "made-by-tool"
FINAL = "All done: proof.txt is there."
THOUGHT = "The shell can make it."
MODEL = "test-model"  # the only one that the scripted server has


@dataclass(frozen=True)
class Agent:
    """One agent. In `program`, `arguments`, `environment` and `files` stand `{url}` (the base URL without `/v1`),
    `{home}`, `{prompt}` and `{cpu}` (x64 or arm64) for what they are in a run.

    `dialect` names the API that it speaks: the one in which a server is asked when no proxy is between. `tool` is its
    shell, and `takes` what that is called with, the command line at `{command}`. `files` are written below the home
    folder before it starts. One that is `invited` takes part only in rows that name it.
    """

    name: str
    package: str
    version: str
    program: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    dialect: str
    tool: str
    takes: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)
    invited: bool = False

    def call(self, second: bool = False) -> Call:
        """Return the call of the agent's shell that writes the proof file, or the second one."""
        name = SECOND if second else PROOF
        command = f"printf {WROTE} > $PWD/{name}"
        return Call(self.tool, {key: _fill(value, {"command": command}) for key, value in self.takes.items()})

    def command(self, folder: Path, **values: str) -> list[str]:
        """Return the command line of a run; `folder` is where the package is installed."""
        return [str(folder / _fill(self.program, values)), *(_fill(each, values) for each in self.arguments)]

    def variables(self, **values: str) -> dict[str, str]:
        """Return the environment of a run, but for PATH and HOME."""
        return {name: _fill(value, values) for name, value in self.environment.items()}

    def settle(self, folder: Path, **values: str) -> None:
        """Write the agent's own configuration into the empty home folder."""
        for name, text in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_fill(text, values), encoding="utf-8")


@dataclass(frozen=True)
class Call:
    """What the model means: a tool of the agent, and its arguments."""

    name: str
    values: Mapping[str, str]

    @property
    def arguments(self) -> str:
        """The arguments as JSON."""
        return json.dumps(self.values)

    @property
    def json(self) -> str:
        """The call as models write it."""
        return json.dumps({"name": self.name, "arguments": self.values})


def cpu() -> str:
    """Return the word for this machine's processor in the names of npm packages."""
    return "arm64" if platform.machine() in ("aarch64", "arm64") else "x64"


def _fill(text: str, values: Mapping[str, str]) -> str:
    """Put the values in their places; other braces stay what they are."""
    for name, value in {"cpu": cpu(), **values}.items():
        text = text.replace(f"{{{name}}}", value)
    return text
