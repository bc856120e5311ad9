"""The command `vllm-tool-proxy`: its subcommands, their options, and their exit statuses.

An error is one line on standard error, with exit status 2 unless --help says otherwise; Ctrl-C exits with 130.
"""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from proxy import __version__
from proxy.cli.output import NAME, CommandError, Status, say
from proxy.config.load import RULES_VARIABLE, environment, unread_rules
from proxy.config.settings import SPECS, Spec
from proxy.errors import RulesError

# Not imported from `agents`: that would delay every start of the proxy.
_AGENTS = ("claude", "codex", "openclaw", "opencode", "qwen", "pi", "cline", "sdk")
_ABOUT = """\
Repair the tool calls of open models, between coding agents and your own model server.

\b
Try, with the URL of your model server:
  vllm-tool-proxy doctor --upstream http://127.0.0.1:8000
  vllm-tool-proxy launch claude --upstream http://127.0.0.1:8000
  vllm-tool-proxy serve --upstream http://127.0.0.1:8000
"""
_SHORT_HELP = f"""\
{NAME} repairs the tool calls of open models. It runs between coding agents and your own model server.

Try, with the URL of your model server:
  {NAME} doctor --upstream http://127.0.0.1:8000         what the server does to tool calls
  {NAME} launch claude --upstream http://127.0.0.1:8000  Claude Code on your model, for this run only
  {NAME} serve --upstream http://127.0.0.1:8000          the proxy, for any number of agents

{NAME} --help lists all commands, and {NAME} COMMAND --help their options."""
_SETTINGS = f"""\
Each option's variable and default are in brackets. An option overrides its variable, and the variable overrides the
settings of the rules file.

The rules file is the first of: --rules, {RULES_VARIABLE}, $XDG_CONFIG_HOME/{NAME}/rules.yaml (default ~/.config),
/etc/{NAME}/rules.yaml, the built-in rules."""
_EXITS = """\
\b
Exit status (`launch` exits with the agent's):
  0    success
  1    a file cannot be merged or written, or --undo found it changed
  2    wrong usage, or a missing or rejected key
  3    nothing answers, or the proxy does not reach its model server
  4    what answers is not this proxy
  127  the agent is not installed
  130  interrupted (Ctrl-C)"""

_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))

_Command = TypeVar("_Command", bound=Callable[..., Any])


class _Commands(click.Group):
    """The subcommands. Options without a subcommand are passed to `serve`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0].startswith("-") and args[0].partition("=")[0] not in ("-h", "--help", "-V", "--version"):
            args = ["serve", *args]
        return super().parse_args(ctx, args)


def _note_unread_rules(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Report an unread rules file in the working folder, unless `--rules` names a file."""
    path = None if value is not None else unread_rules(environment())
    if path is not None:
        say("note", f"{path} is not read; pass --rules rules.yaml to use it")
    return value


_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
_rules = click.option(
    "--rules", metavar="FILE", callback=_note_unread_rules, help=f"The rules file ({RULES_VARIABLE})."
)


def _settings(command: _Command) -> _Command:
    """Add an option for each setting. Its default is None, so that the variable or the rules file applies."""
    for spec in reversed(SPECS):
        flag = {"is_flag": True, "flag_value": "true"} if isinstance(spec.default, bool) else {"metavar": spec.metavar}
        command = click.option(spec.name, *spec.flags, default=None, help=_help(spec), **flag)(command)
    return _rules(command)


def _help(spec: Spec) -> str:
    default = ",".join(spec.default) if isinstance(spec.default, tuple) else str(spec.default)
    if isinstance(spec.default, bool):
        default = "off"
    names = ", ".join(spec.variables[1:])
    return f"{spec.help} ({spec.variables[0]}; {default or 'none'}{f'; also {names}' if names else ''})"


def _agent(command: _Command) -> _Command:
    """Add the argument and the options that `setup` and `launch` share."""
    about_key = "The environment variable that holds the proxy's key. Only Cline's file holds the key itself."
    for option in (
        click.option("--key-env", default="", metavar="NAME", help=about_key),
        click.option("--model", default="", metavar="NAME", help="The model; needed if the proxy has several."),
        _rules,
        click.option("--url", metavar="URL", help="The proxy's URL. Default: where `serve` listens."),
        click.argument("agent", type=click.Choice(_AGENTS), metavar="AGENT"),
    ):
        command = option(command)
    return command


@click.group(
    cls=_Commands,
    help=_ABOUT,
    context_settings={"max_content_width": 100, "help_option_names": ["-h", "--help"]},
    no_args_is_help=False,
    invoke_without_command=True,
)
@click.version_option(__version__, "-V", "--version", message=f"{NAME} %(version)s")
@click.pass_context
def commands(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        print(_SHORT_HELP)


@commands.command(epilog=_SETTINGS)
@_settings
def serve(**options: str | None) -> None:
    """Check everything, then serve. This is the default command if options are given."""
    from proxy.cli.serve import serve_command  # noqa: PLC0415

    serve_command(_given(options))


@commands.command(epilog=_SETTINGS)
@_json
@_settings
def check(*, as_json: bool, **options: str | None) -> None:
    """Check options, rules and code. Each rule in force is printed."""
    from proxy.cli.check import check_command  # noqa: PLC0415

    check_command(_given(options), as_json=as_json)


@commands.command()
@click.argument("file", required=False)
@click.option(
    "--tools",
    metavar="TOOLS.json",
    help="The request's tools as JSON, as Chat Completions, Responses or Messages has them, or a whole request body.",
)
@click.option(
    "--finish",
    type=click.Choice(("stop", "length")),
    default="stop",
    show_default=True,
    help="Why the reply ended. A call cut off by its length is not completed.",
)
@click.option("--model", default="", metavar="NAME", help="Apply the rules for this model.")
@click.option("--capture", metavar="FILE", help="A file written by serve --capture DIR, instead of a text.")
@_json
@_rules
def parse(**options: Any) -> int:
    """Print the tool calls in a text or a capture.

    Also print why other text is not a call.

    FILE is the text of one reply in UTF-8; - reads standard input. Strong evidence counts anywhere in the reply, weak
    evidence only at its end. Each call is shown with its repairs and as the client gets it.

    With --capture, print what the model server sent, what the client gets, each repair with its reason, and why other
    text is not a call.

    Exit status: 0 a call was found, 1 no call was found, 2 wrong usage.
    """
    from proxy.cli.parse import parse_command  # noqa: PLC0415

    return parse_command(**options)


@commands.command()
@click.option("--upstream", metavar="URL", help="The model server. Default: the setting `upstream`.")
@click.option("--model", default="", metavar="NAME", help="The model. Default: the first one that is served.")
@_json
@click.option(
    "--write",
    metavar="[FILE]",
    is_flag=False,
    flag_value="",
    help="Add the model's entry to this rules file and back the file up. Without FILE: the rules file in force, or "
    f"~/.config/{NAME}/rules.yaml.",
)
@click.option(
    "--key-env",
    metavar="NAME",
    help="The environment variable that holds the server's key. Default: the key that the proxy would use.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, 3600, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Maximum time for one answer.",
)
@_rules
def doctor(**options: Any) -> int:
    """Probe a model server for defects.

    Each is reported with its harm, what the proxy does about it, and the flag or rule that fixes it.

    It takes about a minute and never more than five. It generates a few hundred tokens, and changes nothing on the
    server.

    Exit status: 0 no harmful defect, 1 a harmful defect, 2 wrong usage, 3 no model server answers, 130 interrupted.
    """
    from proxy.cli.doctor import doctor_command  # noqa: PLC0415

    return doctor_command(**options)


@commands.command(epilog=_EXITS)
@_agent
@click.option("--write", is_flag=True, help="Write the files. A copy of each file is kept.")
@click.option("--undo", is_flag=True, help="Restore what was there before the first --write.")
def setup(**options: Any) -> None:
    """Configure an agent for the proxy.

    The configuration is printed, or written with --write. AGENT is claude, codex, openclaw, opencode, qwen, pi, cline,
    or sdk (the SDKs of OpenAI and Anthropic).

    The proxy must be running: it is asked for its models. With --write, other content of the agent's files stays.
    """
    from proxy.cli.setup import setup_command  # noqa: PLC0415

    setup_command(**options)


@commands.command(epilog=_EXITS)
@_agent
@click.argument("arguments", nargs=-1, metavar="[-- ARGUMENTS...]")
@click.option(
    "--upstream",
    default="",
    metavar="URL",
    help="The model server. A proxy for it is started, and stopped when the agent exits.",
)
def launch(**options: Any) -> int:
    """Start an agent on the proxy.

    This applies to one run only. ARGUMENTS are passed to the agent. AGENT is claude, codex, openclaw, opencode, qwen,
    pi, cline, or sdk (any program that uses the SDKs).

    None of your files is written. What options and variables cannot express is in a private folder, which is removed
    when the agent exits. To configure an agent permanently, run `setup AGENT --write`.

    The proxy for --upstream listens at --url, or at the next free port.
    """
    from proxy.cli.launch import launch_command  # noqa: PLC0415

    return launch_command(**options)


@commands.group(no_args_is_help=False)
def key() -> None:
    """Manage the keys of clients."""


@key.command("add")
@click.argument("name")
@click.option("--file", metavar="FILE", help="The file of client keys. Default: the setting client_keys.")
@_rules
def add_key(**options: Any) -> None:
    """Create a key for the client NAME.

    The key is printed once and not stored. Its SHA-256 hash is added to the file of client keys, which is created if it
    does not exist.
    """
    from proxy.cli.key import add_command  # noqa: PLC0415

    add_command(**options)


def _given(options: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in options.items() if value is not None}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: the process's own) and return its exit status, or become gunicorn.

    If the reader of a pipe closes it (`check | head`), the command ends silently. A full disk is an error.
    """
    _open_standard_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # the terminal's encoding may be ASCII
    code: int = Status.DONE
    try:
        try:
            code = _ended(sys.argv[1:] if argv is None else [*argv])
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
    except OSError as error:
        if error.errno not in _NO_ROOM or error.filename is not None:
            raise
        _discard_output()
        say("error", f"the output cannot be written ({error.strerror})")
        return Status.NOT_WRITTEN
    return code


def _discard_output() -> None:
    """Redirect standard output to /dev/null: Python flushes it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _ended(words: list[str]) -> int:
    """Run a command and return its exit status; errors are reported."""
    try:
        with commands.make_context(NAME, list(words)) as context:
            code: int | None = commands.invoke(context)
            return code or Status.DONE
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.UsageError as error:
        command = f"{error.ctx.command_path} " if error.ctx and error.ctx.command_path != NAME else f"{NAME} "
        message = f"{error.format_message().rstrip('.')}; see {command}--help".replace("?; see", "? See")
        status = Status.USAGE
    except RulesError as error:
        status, message = Status.USAGE, error.message
    except CommandError as error:
        status, message = error.status, str(error)
    except KeyboardInterrupt:
        say("interrupted", "the command did not finish")
        return Status.INTERRUPTED
    if words[:1] == ["check"] and "--json" in words:
        print(json.dumps({"ok": False, "error": message}))
    else:
        say("error", message)
    return status


def _open_standard_streams() -> None:
    """Open closed standard descriptors on /dev/null.

    Otherwise gunicorn's master would reuse their numbers for shared memory or a connection, and write its log there.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # `open` returns the lowest free number, which is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdin is None:  # it was closed; `parse -` reads it
        sys.stdin = os.fdopen(0, closefd=False)
