"""The parsers of command lines: the one of the settings' flags, and those of the commands that read their own words.

    command_parser("vllm-tool-proxy", "parse", "Prints the calls ...").parse_args(["FILE", "--tools", "TOOLS.json"])

All tell what is wrong in one line, by RulesError, and take no option that is cut short.
"""

from __future__ import annotations

import argparse
from typing import NoReturn

from proxy import __version__
from proxy.config.load import RULES_VARIABLE
from proxy.config.settings import SPECS, Spec
from proxy.errors import RulesError

NAME = "vllm-tool-proxy"

_ABOUT = """\
The proxy between coding agents and their own model server that makes tool calls just work.

commands:
  serve       check options, rules and port, then serve (also with options and no command)
  check       check options, rules and that the code loads; print what the rules mean and exit; --json prints JSON
  parse       print the calls in a text or a capture, and why the rest is not a call; see parse --help
  doctor      probe a live model server: what it does to tool calls, and what mends it; see doctor --help
  setup       tell a coding agent of the proxy: print its configuration, or write it; see setup --help
  launch      start a coding agent with the proxy as its model server; see launch --help
"""
SHORT_HELP = f"""\
{NAME} repairs the tool calls of open models. It runs between coding agents and your own model server.

Try, with the URL of your model server:
  {NAME} doctor --upstream http://127.0.0.1:8000         what the server does to tool calls
  {NAME} launch claude --upstream http://127.0.0.1:8000  Claude Code on your model, for this run only
  {NAME} serve --upstream http://127.0.0.1:8000          the proxy, for any number of agents

{NAME} --help lists all commands and options."""
_ORDER = f"""\
Each option's variable and default are in brackets. A flag wins over the variable, the variable over the line of the
rules file's settings. The rules file is the first of: --rules, {RULES_VARIABLE},
$XDG_CONFIG_HOME/{NAME}/rules.yaml (~/.config without that variable), /etc/{NAME}/rules.yaml, the built-in file.
"""


class Parser(argparse.ArgumentParser):
    """argparse without its usage block: an error is one line."""

    def error(self, message: str) -> NoReturn:
        """Raise RulesError."""
        raise RulesError(f"{message}; see {self.prog} --help")


def command_parser(name: str, command: str, about: str, epilog: str | None = None) -> Parser:
    """The parser of one command's words; its options are the command's to add. `name` is the program's."""
    return Parser(
        prog=f"{name} {command}",
        description=about,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_rules(parser: Parser) -> None:
    """Add `--rules`, for a command that reads the rules as `serve` does; `rules_flag` returns its value."""
    parser.add_argument("--rules", metavar="FILE", help="the rules file; by default the one that `serve` reads")


def rules_flag(options: argparse.Namespace) -> dict[str, str]:
    """Return the value of `--rules` as flags for `load`."""
    return {} if options.rules is None else {"rules": options.rules}


def settings_parser() -> Parser:
    """The parser of `serve` and `check`: each setting is a flag, and what is not given is not in what it returns."""
    parser = Parser(
        prog=NAME,
        usage="%(prog)s [serve | check | parse | doctor | setup | launch] [options]",
        description=_ABOUT,
        epilog=_ORDER,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("command", nargs="?", default="serve", help=argparse.SUPPRESS)
    parser.add_argument("--rules", metavar="FILE", help=f"the rules file ({RULES_VARIABLE})")
    parser.add_argument("-V", "--version", action="version", version=f"{NAME} {__version__}")
    groups: dict[str, argparse._ArgumentGroup] = {}
    for spec in SPECS:
        if spec.group not in groups:
            groups[spec.group] = parser.add_argument_group(spec.group)
        _add(groups[spec.group], spec)
    return parser


def _add(group: argparse._ArgumentGroup, spec: Spec) -> None:
    own, *aliases = spec.flags
    about = f"{spec.help} {_in_brackets(spec)}"
    if isinstance(spec.default, bool):
        group.add_argument(own, dest=spec.name, action="store_const", const="true", help=about)
    else:
        group.add_argument(own, dest=spec.name, metavar=spec.metavar, help=about)
    for alias in aliases:
        group.add_argument(alias, dest=spec.name, help=argparse.SUPPRESS)


def _in_brackets(spec: Spec) -> str:
    """The variable, the default, and the earlier systems' names for the option."""
    default = ",".join(spec.default) if isinstance(spec.default, tuple) else str(spec.default)
    if isinstance(spec.default, bool):
        default = "off"
    also = (*spec.flags[1:], *spec.variables[1:])
    return f"({spec.variables[0]}; {default or 'none'}{'; also ' if also else ''}{', '.join(also)})"
