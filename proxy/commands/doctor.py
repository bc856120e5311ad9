"""`vllm-tool-proxy doctor`: probe a live model server, and say what is wrong with it and what mends that.

Exit codes: 0 nothing that does harm was found, 1 something was, 2 the command cannot be done as it was given, 3 there
is no model server to examine.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from proxy.commands.parsers import Parser, add_rules, command_parser, rules_flag
from proxy.commands.progress import Progress
from proxy.commands.text_report import printable
from proxy.config.load import environment, key_files, load, user_rules, working_folder
from proxy.config.rules import Rules
from proxy.config.settings import Settings
from proxy.doctor.asking import Asker
from proxy.doctor.examination import NoModelError, NoServerError
from proxy.doctor.report import PROBES, Report, as_json, examine, lines
from proxy.doctor.rule import rules_in, write_entry
from proxy.errors import RulesError
from proxy.upstream.client import ModelServer, ServerOptions

HARM, NO_SERVER = 1, 3
_SECONDS = 60.0
_MOST_SECONDS = 3600.0
_BUDGET_SECONDS = 300.0
_CONNECT_SECONDS = 5.0
_ABOUT = """\
Probes a live model server directly, in about a minute and never more than five, and reports each defect: the harm it
does, what the proxy does about it, and the flag or rule that fixes it. It generates some hundred tokens and changes
nothing on the server.
"""
_CODES = """\
exit codes: 0 nothing that does harm was found, 1 something was, 2 the command cannot be done as it was given, 3 there
is no model server to examine, 130 it was interrupted
"""


def doctor_command(name: str, argv: Sequence[str]) -> int:
    """Run `doctor` with the words behind it; raises RulesError for bad input."""
    options = _parser(name).parse_args(argv)
    env = environment()
    folder = working_folder(env)
    flags = rules_flag(options)
    if options.upstream is not None:
        flags["upstream"] = options.upstream
    settings, rules = load(flags, env)
    entry_path = _written_at(options, rules, folder, user_rules(env))
    if entry_path is not None:
        _check_place(Path(os.path.realpath(entry_path)))
        rules = rules_in(entry_path)
    ask = _asker(options, settings, rules, env)
    try:
        report = examine(ask, options.model, rules, Progress("doctor", len(PROBES)).step)
    except NoModelError as error:
        raise RulesError(str(error)) from None
    except NoServerError as error:
        print(f"{name}: error: {printable(' '.join(str(error).split()))}", file=sys.stderr, flush=True)
        return NO_SERVER
    _print(report, _written(entry_path, report), as_text=not options.json)
    return HARM if report.does_harm else 0


def _parser(name: str) -> Parser:
    parser = command_parser(name, "doctor", _ABOUT, _CODES)
    parser.add_argument("--upstream", metavar="URL", help="the model server; without it that of the settings")
    parser.add_argument("--model", metavar="NAME", default="", help="the model; without it the first that is served")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--write",
        metavar="FILE",
        nargs="?",
        const="",
        help="put the model's entry into this rules file and back the file up; without a name into the rules file in "
        "force, or the user's: ~/.config/vllm-tool-proxy/rules.yaml",
    )
    parser.add_argument("--key-env", metavar="NAME", help="the variable that holds the server's key")
    parser.add_argument("--timeout", metavar="S", default=str(_SECONDS), help="seconds for one answer (60)")
    add_rules(parser)
    return parser


def _asker(options: argparse.Namespace, settings: Settings, rules: Rules, env: dict[str, str]) -> Asker:
    seconds = _seconds(options.timeout)
    connect = min(seconds, _CONNECT_SECONDS)
    server = ModelServer(ServerOptions(settings.upstream, connect, seconds, settings.upstream_ca))
    key = _key(options, settings, rules, env)
    place = options.key_env or ("the file of upstream_key_file" if key else "")
    return Asker(server, key, seconds, _BUDGET_SECONDS, place)


def _seconds(text: str) -> float:
    """Return the value of `--timeout`; raises RulesError."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= _MOST_SECONDS:
        raise RulesError(f"--timeout must be a number of seconds, up to {_MOST_SECONDS:g}; write one")
    return number


def _key(options: argparse.Namespace, settings: Settings, rules: Rules, env: dict[str, str]) -> str:
    """The server's key: of the named variable, else the one that the proxy itself would use."""
    if options.key_env is None:
        return key_files(settings, rules, env).read().upstream_key("")
    key = env.get(options.key_env, "").strip()
    if not key:
        raise RulesError(f"--key-env: the variable {options.key_env!r} is not set; put the key into it")
    if not (key.isascii() and key.isprintable()):
        raise RulesError(f"--key-env: the variable {options.key_env!r} holds what no header can; put the key into it")
    return key


def _written_at(options: argparse.Namespace, rules: Rules, folder: Path, own: Path | None) -> Path | None:
    """Return the rules file to write, or None: the named one, the one in force, or `own`, the user's.

    Creates the folder of the user's file. Raises RulesError if there is no file to write.
    """
    if options.write is None:
        return None
    if options.write:
        return folder / str(options.write)
    if os.path.isabs(rules.source):
        return Path(rules.source)
    if own is None:
        raise RulesError("--write: no rules file is in force, and HOME is not set; name a file")
    try:
        own.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RulesError(f"{own.parent}: cannot be created ({error.strerror}); name a file with --write") from error
    return own


def _check_place(place: Path) -> None:
    """Raise RulesError for a place that cannot be written, before the server is asked anything."""
    if place.is_dir():
        raise RulesError(f"{place}: it is a folder; name a file in it")
    if not os.access(place.parent, os.W_OK):
        raise RulesError(f"{place}: nothing can be written there; name another place, or make its folder")


def _written(file: Path | None, report: Report) -> list[str]:
    """Put the entry into the file; say what was done."""
    if file is None:
        return []
    if not report.entry:
        return [f"nothing was written: {file} needs no further entry for this model"]
    written = write_entry(file, report.model, report.entry)
    backup = "there was none before" if written.backup is None else f"before it was what {written.backup} is"
    notes = [f"written: {written.file} ({backup}); a reload takes it (POST /_reload, or SIGHUP)"]
    if written.infers_anew:
        notes.append(
            "the file had no section models; with one, a call without a name is read only if the schemas of the "
            "offered tools decide its tool"
        )
    return notes


def _print(report: Report, notes: Sequence[str], *, as_text: bool) -> None:
    output_lines = [*lines(report), *notes] if as_text else [json.dumps(as_json(report), indent=2)]
    if not as_text:
        for note in notes:
            print(printable(note), file=sys.stderr)
    encoding = sys.stdout.encoding or "utf-8"
    # A line break in the name of a model begins no line; JSON has lines of its own.
    text = "\n".join(printable(line, "" if as_text else "\n") for line in output_lines)
    print(text.encode(encoding, "backslashreplace").decode(encoding))
