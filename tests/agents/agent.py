"""A coding agent in a run: its program, how it gets its task, and how a model calls its shell."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proxy.cli.configuration import Agent as Setup
from proxy.cli.configuration import Configuration, Values

PROOF = "proof.txt"
SECOND = "proof2.txt"
WROTE = "made-by-tool"
FINAL = "All done: proof.txt is there."
THOUGHT = "The shell can make it."
MODEL = "test-model"  # the scripted server's only model
CONTEXT = 131072  # its context length in tokens


@dataclass(frozen=True)
class Agent:
    """One agent. `setup` is the configuration that `vllm-tool-proxy setup` writes; the other fields are for runs.

    `folders`, below npm's folder, have its programs; `also` is installed first. `arguments` make it run unattended,
    `environment` disables telemetry, and `files` are a user's own configuration in the home folder.
    Placeholders in them are `{home}`, `{project}`, `{prompt}`, `{patience}` (the timeout of the agent's task) and
    `{cpu}` (x64 or arm64). `scripts` is the prefix of the names of its scripts, if it is not the agent's name.

    `dialect` is the API that it uses without the proxy. `tool` is its shell, and `takes` the shell's arguments, with
    the command line at `{command}`. It sends `extra` additional requests, for example to name its session.
    """

    setup: Setup
    folders: tuple[str, ...]
    arguments: tuple[str, ...]
    dialect: str
    tool: str
    takes: Mapping[str, Any]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    also: str = ""
    scripts: str = ""
    extra: int = 0

    @property
    def name(self) -> str:
        return self.setup.name

    @property
    def version(self) -> str:
        return self.setup.version

    def script(self, form: str) -> str:
        """Return the name of the real server's script in which the model writes its call in this form."""
        return f"{self.scripts or self.name}_{form}"

    def call(self, second: bool = False) -> Call:
        """Return the call of the agent's shell that writes the proof file, or the second one."""
        name = SECOND if second else PROOF
        text = json.dumps(self.takes).replace("{command}", f"printf {WROTE} > $PWD/{name}")
        return Call(self.tool, json.loads(text))

    def told(self, url: str, home: str) -> Configuration:
        """Return the configuration for a server without the proxy. No request is sent to it."""
        return self.setup.configure(Values(url, MODEL, CONTEXT, home=home))

    def words(self, more: tuple[str, ...] = (), **values: str) -> list[str]:
        """Return the arguments of its program, including `more`."""
        first, *rest = self.arguments
        return [fill(each, values) for each in (first, *more, *rest)]

    def path(self, package: Path) -> str:
        """Return the first folders of PATH; `package` is where the agent is installed."""
        return ":".join(str(package / fill(each, {})) for each in self.folders)

    def variables(self, **values: str) -> dict[str, str]:
        """Return the environment of a run without PATH, HOME and the variables of `setup`."""
        return {name: fill(value, values) for name, value in self.environment.items()}

    def settle(self, home: Path) -> None:
        """Write the user's own files into the empty home folder."""
        for name, text in self.files.items():
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Call:
    """The call that the model intends: a tool of the agent, and its arguments."""

    name: str
    values: Mapping[str, Any]

    @property
    def arguments(self) -> str:
        return json.dumps(self.values)

    @property
    def json(self) -> str:
        return json.dumps({"name": self.name, "arguments": self.values})


Body = Callable[[Agent], bytes]


def cpu() -> str:
    """Return this machine's processor as in the names of npm packages."""
    return "arm64" if platform.machine() in ("aarch64", "arm64") else "x64"


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace the placeholders by their values; other braces are unchanged."""
    for name, value in {"cpu": cpu(), **values}.items():
        text = text.replace(f"{{{name}}}", value)
    return text
