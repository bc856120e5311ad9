"""`vllm-tool-proxy setup` and `launch`: an agent is told of the proxy, and started."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from proxy.agents.configuration import KEY, Agent, Configuration, Values
from proxy.agents.known import AGENTS
from proxy.agents.merging import dotted, merged
from proxy.agents.spans import NotMergeableError
from proxy.agents.web_proxy import past_web_proxy
from proxy.commands.agent_files import AgentFiles
from proxy.commands.exit_status import CommandError, Status
from proxy.commands.own_proxy import run_agent, running_proxy
from proxy.commands.parsers import Parser, add_rules, command_parser, rules_flag
from proxy.commands.private_folder import PrivateFolder
from proxy.commands.proxy_facts import ProxyFacts, plain_url
from proxy.commands.text_report import printable
from proxy.config.load import environment, load, own_url
from proxy.limits import MAX_AGENT_FILE

_ABOUT = """\
Asks the proxy for its models and prints what an agent must be told: its environment and its files. With --write the
files are written, what they say of other things stays, and --undo restores what was there before.
"""
_LAUNCH = """\
Starts an agent with the proxy as its model server, for this run only: no file of yours is written. What flags and
variables cannot say is in a private folder, which is removed when the agent exits. To configure an agent permanently,
run `setup AGENT --write`. With --upstream, a proxy for that model server is started first, unless one listens at --url,
and stopped when the agent exits. If something else listens at --url, the next free port is used.
"""
_STATUS = """\
exit status: 0 done; 1 a file cannot be merged, or was changed since; 2 something is missing in the command line, or a
key; 3 nothing answers, or the proxy does not reach its model server; 4 what answers is no proxy; 127 the agent is not
installed; 130 it was interrupted (Ctrl-C). A launched agent ends with its own.
"""
_SECONDS_OF_FIRST = 120
# Tokens of context below which agents have been seen to compact at once, or to send nothing at all.
_FEW = 24576
# OpenClaw puts in no others.
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class _CommandLine:
    """The options of the command line; `variables` is the environment, `rules` the value of `--rules`."""

    agent: Agent
    url: str
    model: str
    key_name: str
    variables: Mapping[str, str]
    rules: str | None = None

    @property
    def home(self) -> Path:
        """The user's home folder."""
        return Path(self.variables.get("HOME") or Path.home())

    @property
    def key(self) -> str:
        """The key; raises CommandError if there is none where one is named."""
        if not self.key_name:
            return ""
        if not _VARIABLE.fullmatch(self.key_name):
            error_message = f"--key-env {self.key_name!a} is no name of a variable, in capitals, such as PROXY_KEY"
            raise CommandError(Status.USAGE, error_message)
        key = self.variables.get(self.key_name, "")
        if not key.strip():
            raise CommandError(Status.USAGE, f"--key-env {self.key_name}: there is no such variable, or it is empty")
        return key

    @property
    def state(self) -> Path:
        """The folder for what is remembered."""
        state = self.variables.get("XDG_STATE_HOME") or self.home / ".local" / "state"
        return Path(state) / "vllm-tool-proxy"

    def files(self) -> AgentFiles:
        """The agent's files."""
        return AgentFiles(self.agent.name, self.state)


def setup_command(name: str, argv: Sequence[str]) -> int:
    """Run `setup` with the words behind it; raises RulesError for words that cannot be read."""
    parser = _parser(name, "setup", _ABOUT)
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--write", action="store_true", help="write the files, each beside a copy of what it was")
    one.add_argument("--undo", action="store_true", help="restore what was there before the first --write")
    options = parser.parse_args(argv)
    command_line = _command_line(options)
    if options.undo:
        return _ended(name, lambda: _print(command_line.files().restore()))
    if options.write:
        return _ended(name, lambda: _write(command_line))
    return _ended(name, lambda: _print(described(command_line.agent, *_configured(command_line))))


def launch_command(name: str, argv: Sequence[str]) -> int:
    """Run `launch` with the words behind it; raises RulesError for words that cannot be read."""
    words = [*argv]
    at = words.index("--") if "--" in words else len(words)
    parser = _parser(name, "launch", _LAUNCH)
    parser.usage = "%(prog)s AGENT [options] [-- what the agent itself is given]"
    about = "the model server; a proxy for it is started if none is at --url, and stopped behind the agent"
    parser.add_argument("--upstream", default="", metavar="URL", help=about)
    options = parser.parse_args(words[:at])
    command_line = _command_line(options)
    if options.upstream:
        return _ended(name, lambda: _launch_both(command_line, options.upstream, words[at + 1 :]))
    return _ended(name, lambda: _launch(command_line, words[at + 1 :]))


def _parser(name: str, command: str, about: str) -> Parser:
    parser = command_parser(name, command, about, _STATUS)
    parser.add_argument("agent", metavar="AGENT", choices=AGENTS, help=", ".join(AGENTS))
    parser.add_argument("--url", metavar="URL", help="the proxy; by default where `serve` listens")
    add_rules(parser)
    parser.add_argument("--model", default="", metavar="NAME", help="needed where the proxy has several")
    about_key = "the variable that holds the proxy's key, if it wants one; the key itself is written into no file"
    parser.add_argument("--key-env", default="", metavar="NAME", help=about_key)
    return parser


def _command_line(options: argparse.Namespace) -> _CommandLine:
    flags, url = rules_flag(options), options.url
    if url is None:
        settings, _ = load(flags)
        # `launch --upstream` starts a proxy for this machine alone, whatever address the service listens on.
        url = f"http://127.0.0.1:{settings.port}" if getattr(options, "upstream", "") else own_url(settings)
    return _CommandLine(AGENTS[options.agent], url, options.model, options.key_env, environment(), flags.get("rules"))


def _ended(name: str, step: Callable[[], int | None]) -> int:
    """Do a step; return its exit status, and say in one line what went wrong."""
    try:
        return step() or Status.DONE
    except CommandError as error:
        print(f"{name}: error: {printable(' '.join(str(error).split()))}", file=sys.stderr, flush=True)
        return error.status


def _print(lines: Iterator[str] | Sequence[str]) -> None:
    for line in lines:
        print(printable(line, "\n\t"), flush=True)


def _configured(command_line: _CommandLine) -> tuple[Values, Configuration]:
    """Ask the proxy, and return what the agent needs permanently. Raises CommandError."""
    values = _asked(command_line)
    return values, past_web_proxy(command_line.agent.configure(values), values)


def _asked(command_line: _CommandLine) -> Values:
    """Ask the proxy for the values of the agent's configuration. Raises CommandError."""
    url = plain_url(command_line.url)
    facts = ProxyFacts(url, command_line.key, command_line.key_name, command_line.variables.get("SSL_CERT_FILE", ""))
    facts.check()
    served = facts.served(command_line.model)
    return Values(
        url,
        served.model,
        served.context,
        command_line.key_name,
        images=served.images,
        efforts=served.efforts,
        home=str(command_line.home),
        environment=command_line.variables,
    )


def described(agent: Agent, values: Values, configuration: Configuration) -> Iterator[str]:
    """All that the agent must be told, as lines for a person; those of the environment are for a shell."""
    yield from _title(agent, values)
    if configuration.environment:
        yield "\n# environment"
        yield from _environment(configuration, values)
    for file in configuration.files:
        or_so = "instead of the environment: " if file.optional else ""
        yield f"\n# {or_so}{file.path} ({file.format.value}; `--write` merges it with what is there)"
        yield merged("", file).rstrip("\n")
        if file.without:
            yield f"# take out of it what would win over that: {', '.join(map(dotted, file.without))}"
        if file.rivals:
            yield f"# a model that it says there is asked past the proxy: {', '.join(map(dotted, file.rivals))}"
    if configuration.first:
        yield f"\n# once, which writes {configuration.written}"
        yield _shown(configuration.first, values)
    if configuration.command:
        yield "\n# start"
        yield _shown(configuration.command, values)
    for note in _notes(configuration, values):
        yield f"\n# {note}"


def _notes(configuration: Configuration, values: Values) -> Iterator[str]:
    """The notes of a configuration for a person."""
    yield from map(printable, configuration.notes)
    if values.context is not None and values.context < _FEW:
        yield f"{values.context} tokens are few: the prompt and the tools of an agent alone take 10,000 and more."


def _title(agent: Agent, values: Values) -> Iterator[str]:
    """Comments for a shell: a line break in the model's name would begin a command."""
    context = f"{values.context} tokens" if values.context else "not said by the server"
    yield f"# {agent.title}: {agent.origin}"
    yield f"# proxy {values.url}, model {printable(values.model)}, context {context}"


def _environment(configuration: Configuration, values: Values) -> Iterator[str]:
    if configuration.unset:
        yield f"unset {' '.join(configuration.unset)}"
    for name, value in configuration.environment.items():
        if value != KEY or name != values.key_name:
            yield f"export {name}={_shown([value], values)}"


def _shown(words: Sequence[str], values: Values) -> str:
    """Words for a shell, the variable in the place of the key."""
    return " ".join(f'"${values.key_name}"' if word == KEY else shlex.quote(word) for word in words)


def _write(command_line: _CommandLine) -> None:
    """Write the agent's files, or let its own command do so."""
    values, configuration = _configured(command_line)
    _print([*_title(command_line.agent, values)])
    _print(_settle(command_line, configuration))
    winning = [name for name in configuration.unset if command_line.variables.get(name)]
    if winning:
        _print([f"\n# what this shell says wins over it; `launch` starts the agent without\nunset {' '.join(winning)}"])
    left = not any(file.optional for file in configuration.files)
    if left and configuration.environment:
        _print(["\n# and its environment, which `launch` sets", *_environment(configuration, values)])
    _print([f"\n# {note}" for note in _notes(configuration, values)])


def _settle(command_line: _CommandLine, configuration: Configuration) -> Iterator[str]:
    """Write the files of the configuration, and run the command that must have been run once. Yield a line for each."""
    store = command_line.files()
    yield from store.write(configuration.files)
    if configuration.first:
        words = configuration.first
        program = _program(words[0], command_line)

        def run() -> None:
            _run_first(program, _filled(words, command_line), command_line)

        yield store.run(words, configuration.written, run)


def _run_first(program: str, words: Sequence[str], command_line: _CommandLine) -> None:
    try:
        done = subprocess.run(
            [program, *words[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS_OF_FIRST,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandError(Status.NOT_WRITTEN, f"{words[0]} {words[1]} did not end: {type(error).__name__}") from error
    if done.returncode:
        output_lines = (done.stderr or done.stdout).strip().splitlines()
        last = output_lines[-1] if output_lines else "it says nothing"
        error_message = f"{words[0]} {words[1]} ended with status {done.returncode}: {last}"
        if command_line.key:
            error_message = error_message.replace(command_line.key, KEY)
        raise CommandError(Status.NOT_WRITTEN, error_message)


def _launch(command_line: _CommandLine, words: Sequence[str]) -> None:
    """Become the agent."""
    start = _prepared(command_line, words)
    try:
        with start.folder.written(start.private):
            os.execve(start.program, start.command, start.variables)
    except OSError as error:
        raise CommandError(Status.NOT_INSTALLED, f"{start.program} cannot be started ({error.strerror})") from error


def _launch_both(command_line: _CommandLine, upstream: str, words: Sequence[str]) -> int:
    """Run the agent to its end, and a proxy for this model server beside it; return the agent's exit status."""
    url = plain_url(command_line.url)
    with running_proxy(url, upstream, command_line.rules, command_line.variables, command_line.state) as running:
        notice = f"a proxy for {upstream} listens at {url} already, and is used as it is"
        if running.log:
            at = "" if running.url == url else f" at {running.url}, as something else listens at {url},"
            notice = f"a proxy for {upstream} runs{at} as long as the agent; {running.log} is its log"
        print(printable(notice), file=sys.stderr, flush=True)
        start = _prepared(replace(command_line, url=running.url), words)
        with start.folder.written(start.private) as held:
            return run_agent(start.program, start.command, start.variables, held)


class _Start(NamedTuple):
    """All that is needed to start an agent. `private` is not written yet."""

    program: str
    command: list[str]
    variables: dict[str, str]
    folder: PrivateFolder
    private: dict[str, str]


def _prepared(command_line: _CommandLine, words: Sequence[str]) -> _Start:
    """Ask the proxy, and configure the agent for this run. Raises CommandError."""
    folder = PrivateFolder()
    values = replace(_asked(command_line), folder=str(folder.path), read=_text)
    try:
        configuration = command_line.agent.launch(values)
    except NotMergeableError as error:
        error_message = f"{command_line.agent.title}'s settings for all users of this machine cannot be merged: {error}"
        raise CommandError(Status.NOT_WRITTEN, error_message) from error
    command = [*configuration.command, *words]
    if not command:
        error_message = f"{command_line.agent.name} is no program; give one behind --, which gets its variables"
        raise CommandError(Status.USAGE, error_message)
    program = _program(command[0], command_line)
    for note in configuration.notes:
        print(printable(note), file=sys.stderr, flush=True)
    own = {name: value for name, value in command_line.variables.items() if name not in configuration.unset}
    given = past_web_proxy(configuration, values).environment
    variables = dict(zip(given, _filled(given.values(), command_line), strict=True))
    key = json.dumps(command_line.key)[1:-1]
    private = {name: text.replace(KEY, key) if key else text for name, text in configuration.private.items()}
    return _Start(program, command, {**own, **variables}, folder, private)


def _text(path: str) -> str:
    """Return the text of a file of the user, or "" if it cannot be read. Raises CommandError if it is too large."""
    file = Path(path)
    try:
        if not file.is_file():
            return ""
        if file.stat().st_size > MAX_AGENT_FILE:
            raise CommandError(Status.NOT_WRITTEN, f"{path} is larger than 4 MB, and cannot be merged")
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _filled(words: Iterable[str], command_line: _CommandLine) -> list[str]:
    """The words with the key in its place."""
    return [command_line.key if word == KEY else word for word in words]


def _program(name: str, command_line: _CommandLine) -> str:
    program = shutil.which(name, path=command_line.variables.get("PATH"))
    if program is None:
        agent = command_line.agent
        # With the SDKs it is any program.
        words = f"; install it: npm install -g {agent.package}@{agent.version}" if agent.package else ""
        raise CommandError(Status.NOT_INSTALLED, f"{name} is not on PATH{words}")
    return program
