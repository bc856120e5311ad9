"""`vllm-tool-proxy setup`: print, write or undo an agent's configuration for the proxy."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from proxy.cli.agent_files import AgentFiles
from proxy.cli.agents import AGENTS
from proxy.cli.configuration import NO_KEY, Agent, Configuration, Values, web_proxy_exceptions
from proxy.cli.merging import merged
from proxy.cli.output import NAME, CommandError, Status, show
from proxy.cli.proxy_facts import ProxyFacts, plain_url
from proxy.config.load import environment, key_in_variable, load, own_url
from proxy.display import escaped

# With a smaller context, some agents compact immediately or send nothing at all.
_FEW = 24576


@dataclass(frozen=True, slots=True)
class Target:
    """The agent and the proxy of a command line; `variables` is the environment, `rules` the value of `--rules`."""

    agent: Agent
    url: str
    model: str
    key_name: str
    key: str
    variables: Mapping[str, str]
    rules: str | None = None

    @property
    def home(self) -> Path:
        """The user's home folder."""
        return Path(self.variables.get("HOME") or Path.home())

    @property
    def state(self) -> Path:
        """The folder for records and logs."""
        return Path(self.variables.get("XDG_STATE_HOME") or self.home / ".local" / "state") / NAME

    def values(self) -> Values:
        """Ask the proxy for the values of the agent's configuration, with `$NAME` as the key. Raises CommandError."""
        facts = ProxyFacts(self.url, self.key, self.key_name, self.variables.get("SSL_CERT_FILE", ""))
        values = facts.served(self.model)
        key = f"${self.key_name}" if self.key_name else NO_KEY
        return replace(values, key_name=self.key_name, key=key, home=str(self.home), environment=self.variables)

    def program(self, name: str) -> str:
        """Return the path of a program. Raises CommandError."""
        program = shutil.which(name, path=self.variables.get("PATH"))
        if program is None:
            package = self.agent.package
            fix = f"; install it: npm install -g {package}@{self.agent.version}" if package else ""
            raise CommandError(Status.NOT_INSTALLED, f"{name} is not on PATH{fix}")
        return program


def target(
    *, agent: str, url: str | None, rules: str | None, model: str, key_env: str, starts_proxy: bool = False
) -> Target:
    """Return the target of a command line. Raises CommandError and RulesError.

    A proxy that `launch --upstream` starts is for this machine only, whatever address the service listens on.
    """
    if url is None:
        settings, _ = load({"rules": rules})
        url = f"http://127.0.0.1:{settings.port}" if starts_proxy else own_url(settings)
    variables = environment()
    key = ""
    if key_env:
        # OpenClaw expands only such names.
        if not re.fullmatch(r"[A-Z_][A-Z0-9_]*", key_env):
            message = f"--key-env {key_env!a} is not the name of a variable in capitals, such as PROXY_KEY"
            raise CommandError(Status.USAGE, message)
        key = key_in_variable(key_env, f"--key-env {key_env}", variables)
    return Target(AGENTS[agent], plain_url(url), model, key_env, key, variables, rules)


def setup_command(*, write: bool, undo: bool, **options: Any) -> None:
    """Run `setup`; the other options are those of `target`. Raises CommandError, RulesError and UsageError."""
    if write and undo:
        raise click.UsageError("give --write or --undo, not both")
    if undo:
        aim = target(**{**options, "key_env": ""})
        show(AgentFiles(aim.agent.name, aim.state).restore())
        return
    aim = target(**options)
    values = aim.values()
    usual = aim.agent.configure(values)
    configuration = replace(usual, environment={**usual.environment, **web_proxy_exceptions(values)})
    # Collect the lines first: the files are written even if the output is closed.
    show([*(_written(aim, values, configuration) if write else described(aim.agent, values, configuration))])


def described(agent: Agent, values: Values, configuration: Configuration) -> Iterator[str]:
    """Yield the whole configuration as lines for the user. Lines other than comments are for a shell or a file."""
    yield from _title(agent, values)
    if configuration.environment:
        yield from ("\n# environment", *_environment(configuration, values))
    for file in configuration.files:
        instead = "instead of the environment: " if file.optional else ""
        yield f"\n# {instead}{file.path} ({file.format.value}; --write merges this into the file)"
        yield merged("", file).rstrip("\n")
        if file.agents:
            yield f"# agents in {'.'.join(file.agents)} that have a `model` do not use the proxy"
    if configuration.command:
        yield from ("\n# start", _shown(configuration.command, values))
    yield from _notes(configuration, values)


def _title(agent: Agent, values: Values) -> Iterator[str]:
    """Yield shell comments. Names are escaped: a line break in a model's name would start a command."""
    context = f"{values.context} tokens" if values.context else "unknown"
    yield f"# {agent.title}{f', tested with version {agent.version}' if agent.version else ''}"
    yield f"# proxy {values.url}, model {escaped(values.model)}, context {context}"


def _notes(configuration: Configuration, values: Values) -> Iterator[str]:
    yield from (f"\n# {escaped(note)}" for note in configuration.notes)
    if values.context is not None and values.context < _FEW:
        yield (
            f"\n# A context of {values.context} tokens is small: the prompt and the tools of an agent take 10,000 and "
            "more."
        )


def _environment(configuration: Configuration, values: Values) -> Iterator[str]:
    if configuration.unset:
        yield f"unset {' '.join(configuration.unset)}"
    for name, value in configuration.environment.items():
        if value != values.key or name != values.key_name:
            yield f"export {name}={_shown([value], values)}"


def _shown(words: Sequence[str], values: Values) -> str:
    """Return words for a shell, with the variable instead of the key."""
    return " ".join(f'"{word}"' if values.key_name and word == values.key else shlex.quote(word) for word in words)


def _written(aim: Target, values: Values, configuration: Configuration) -> Iterator[str]:
    """Write the agent's files; yield lines about it."""
    yield from _title(aim.agent, values)
    yield from AgentFiles(aim.agent.name, aim.state).write(
        aim.agent.configure(replace(values, key=aim.key or NO_KEY)).files, aim.key
    )
    if configuration.environment and not any(file.optional for file in configuration.files):
        yield from ("\n# its environment, which `launch` sets", *_environment(configuration, values))
    yield from _notes(configuration, values)
