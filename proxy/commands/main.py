"""The command `vllm-tool-proxy`: check everything that can be checked, then become gunicorn.

Whatever is wrong is told in one line on stderr, with exit code 2; so is Ctrl-C, with 130.
"""

from __future__ import annotations

import difflib
import importlib
import json
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from proxy import __file__ as _package_file
from proxy import __version__
from proxy.codec.display import printable
from proxy.commands.banner import keyless_entries, keys_there, show
from proxy.commands.describe_rules import summary
from proxy.commands.exit_status import Status
from proxy.commands.parsers import NAME, SHORT_HELP, settings_parser
from proxy.commands.rules_notes import notes
from proxy.commands.surroundings import few_descriptors, is_activated, refuse_own_address
from proxy.config.api_keys import Keys
from proxy.config.load import (
    RULES_VARIABLE,
    VIA_VARIABLE,
    bind,
    check_files,
    environment,
    key_files,
    load,
    open_to_all,
    rules_text,
    unread_rules,
    working_folder,
)
from proxy.config.rules import Rules
from proxy.config.settings import SPECS, Settings
from proxy.errors import RulesError
from proxy.limits import THREADS

COMMANDS = ("serve", "check", "parse", "doctor", "setup", "launch")
# Those that read their own words, and where they are: what only they need is not loaded before the proxy serves.
_COMMANDS = {
    "parse": ("proxy.commands.parse", "parse_command"),
    "doctor": ("proxy.commands.doctor", "doctor_command"),
    "setup": ("proxy.commands.setup", "setup_command"),
    "launch": ("proxy.commands.setup", "launch_command"),
}
CONNECT_SECONDS = 1.0
# The flags whose relative paths are taken from where the command was given.
_PATHS = ("upstream_ca", "capture", "audit_file", "store", "client_keys", "upstream_key_file", "admin_key_file")
# What gunicorn is told once, when it starts.
_GUNICORNS = (*("host", "port", "workers", "max_streams", "graceful_timeout"),)
# Idle connections that gunicorn keeps beside those that are served.
SPARE_CONNECTIONS = 1000
# What glibc is told of the worker's memory (mallopt(3)). It gives each of many threads a place of its own to take it
# from, which it keeps: with two a worker needs less than half. And what is large it takes from the kernel, and gives
# back: but with each large text that it has taken so it calls larger ones small, and what small ones are between is
# never given back. With a bound that stays, workers beside 200 clients needed a third less.
MALLOC = {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": str(1024 * 1024)}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with `argv` (None: the process's own); return the exit code, or become gunicorn.

    If the reader of a pipe closes it (`check | head`), the command ends silently.
    """
    _open_standard_streams()
    words = sys.argv[1:] if argv is None else argv
    code: int = Status.DONE
    try:
        try:
            code = _command(words)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes standard output again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _command(words: Sequence[str]) -> int:
    if not words:
        print(SHORT_HELP)
        return 0
    # Flags that cannot be read are told in JSON, too.
    as_json = "check" in words[:1] and "--json" in words
    try:
        env = environment()
        _say_what_is_not_read(words, env)
        if words and words[0] in _COMMANDS:
            return _run(words[0], words[1:])
        command, flags = _arguments([word for word in words if word != "--json"] if as_json else words)
        cwd = working_folder(env)
        flags |= {name: str(cwd / flags[name]) for name in _PATHS if flags.get(name)}
        settings, rules = load(flags, env)
        refuse_own_address(settings, (settings.upstream, *rules.urls), env)
        handed_on = _handed_on(settings, rules, flags, env)
        if command == "check":
            return _check(settings, rules, as_json=as_json)
        return _serve(settings, rules, handed_on, cwd)
    except RulesError as error:
        if as_json:
            print(json.dumps({"ok": False, "error": error.message}))
        else:
            _say("error", error.message)
        return 2
    except KeyboardInterrupt:
        # The agent of a `launch` takes it as its end.
        _say("interrupted", "this did not come to its end")
        return Status.INTERRUPTED


def _run(command: str, words: Sequence[str]) -> int:
    module, name = _COMMANDS[command]
    run: Callable[[str, Sequence[str]], int] = getattr(importlib.import_module(module), name)
    return run(NAME, words)


def _say_what_is_not_read(words: Sequence[str], env: Mapping[str, str]) -> None:
    """Say that the `rules.yaml` of the working folder is not read, if it is a rules file and none was named."""
    own = words[: words.index("--")] if "--" in words else words
    named = any(word.partition("=")[0] in ("--rules", "-h", "--help", "-V", "--version") for word in own)
    if not named and (path := unread_rules(env)):
        _say("note", f"{printable(str(path), '?')} is not read; pass --rules rules.yaml to use it")


def _open_standard_streams() -> None:
    """Open those of the descriptors 0 to 2 that are closed: gunicorn's master would get its memory, or a connection,
    under such a number, and write its log into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free is taken, so it is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def _say(kind: str, message: str) -> None:
    print(f"{NAME}: {kind}: {' '.join(message.split())}", file=sys.stderr, flush=True)


def _arguments(argv: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The command and the flags that were given, by the settings' names; raises RulesError."""
    parser = settings_parser()
    parsed, rest = parser.parse_known_args(argv)
    options = [word.partition("=")[0] for word in rest if word.startswith("-")]
    if options:
        names = ["--rules", "--help", "--version", *(flag for spec in SPECS for flag in spec.flags)]
        near = ", ".join(difflib.get_close_matches(options[0], names)) or f"what {NAME} --help shows"
        raise RulesError(f"there is no option {options[0]}; use {near}")
    flags: dict[str, str] = vars(parsed)
    command = flags.pop("command")
    if command not in COMMANDS:
        raise RulesError(f"there is no command {command!r}; use {' or '.join(COMMANDS)}")
    if rest:
        raise RulesError(f"{rest[0]!r} is one word too many; give one command, {' or '.join(COMMANDS)}, and options")
    return command, flags


def _check(settings: Settings, rules: Rules, *, as_json: bool) -> int:
    _check_surroundings(settings, rules)
    try:
        importlib.import_module("proxy.app")
    except Exception as error:
        # A worker that cannot load the code takes the service down at a reload; here it costs one line.
        raise RulesError(f"the code cannot be loaded ({type(error).__name__}: {error}); restore it") from error
    keyless = [f"no key for {entry} (set key_env, key_file or key: same)" for entry in keyless_entries(settings, rules)]
    noted = [*notes(rules_text({"rules": rules.source} if os.path.isabs(rules.source) else {}), rules)]
    if as_json:
        where = {"upstream": settings.upstream, "listening": bind(settings)}
        rules_file = {"source": rules.source, "sha256": rules.sha256, "summary": [*summary(rules)]}
        report = {"ok": True, "version": __version__, **where, "rules": rules_file, "notes": [*keyless, *noted]}
        print(json.dumps(report, indent=2))
        return 0
    print(
        f"ok: {NAME} {__version__}, upstream {settings.upstream}, listening on {bind(settings)}, "
        f"rules {rules.source} (sha256 {rules.sha256[:12]})"
    )
    for line in (*keyless, *(f"note: {note}" for note in noted), *summary(rules)):
        print(line)
    return 0


def _serve(settings: Settings, rules: Rules, env: Mapping[str, str], cwd: Path) -> NoReturn:
    if not is_activated(env):
        _check_port(settings)
    keys = _check_surroundings(settings, rules)
    show(settings, rules, keys_there(keys))
    folder = _package_folder(str(cwd))
    command = _gunicorn(settings, folder)
    try:
        # gunicorn looks for modules in the folder that it starts in, too.
        os.chdir(folder)
        # At USR2 gunicorn starts itself anew without -P.
        os.execve(command[0], command, {**MALLOC, **env, "PWD": folder, "PYTHONSAFEPATH": "1"})
    except OSError as error:
        raise RulesError(f"gunicorn cannot be started ({error}); install {NAME} anew") from error


def _gunicorn(settings: Settings, folder: str) -> list[str]:
    return [
        *(sys.executable, "-P", "-m", "gunicorn"),
        *("-c", os.path.join(folder, "proxy", "gunicorn_conf.py")),
        *("--chdir", folder),
        *("--bind", bind(settings)),
        *("--workers", str(settings.workers)),
        *("--threads", str(THREADS)),
        *("--worker-connections", str(THREADS + settings.max_streams + SPARE_CONNECTIONS)),
        *("--graceful-timeout", str(settings.graceful_timeout)),
        "proxy.app:create_app()",
    ]


def _handed_on(settings: Settings, rules: Rules, flags: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """The environment from which this release's workers and those of later reloads read the same settings.

    What gunicorn itself was told stays as it is until a restart, whatever the rules file says then. The pseudonym of
    another proxy, of which this one may be a descendant, is dropped.
    """
    handed = {name: value for name, value in env.items() if name not in ("GUNICORN_CMD_ARGS", VIA_VARIABLE)}
    values = {**flags, **{name: str(getattr(settings, name)) for name in _GUNICORNS}}
    handed.update({spec.variables[0]: values[spec.name] for spec in SPECS if spec.name in values})
    if os.path.isabs(rules.source):
        handed[RULES_VARIABLE] = rules.source
    return handed


def _package_folder(spelled: str) -> str:
    """The folder that holds the package, not resolved: a deployment switches the symlink in it and reloads.

    `python -m proxy` gives it resolved, if it was started there; `spelled` is how the user says where that is.
    """
    folder = os.path.dirname(os.path.dirname(os.path.abspath(_package_file)))
    try:
        return spelled if os.path.samefile(folder, spelled) else folder
    except OSError:
        return folder


def _check_port(settings: Settings) -> None:
    """Bind as gunicorn will: by itself it tries a port in use for 5 s before it gives up."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((settings.host, settings.port))
    except OSError as error:
        remedy = "choose another with --port, or --host, or stop what listens there"
        raise RulesError(f"cannot listen on {bind(settings)} ({error.strerror}); {remedy}") from error


def _check_surroundings(settings: Settings, rules: Rules) -> Keys:
    """Warn of what may be meant, and give the keys; raise RulesError for a CA file that is none, and for keys that
    cannot be used.
    """
    check_files(settings)
    keys = key_files(settings, rules, environment()).read()
    keys.check_clients(rules)
    for warning in filter(None, (open_to_all(settings, keys), few_descriptors(settings))):
        _say("warning", warning)
    for url in dict.fromkeys((settings.upstream, *rules.urls)):
        _check_reachable(url)
    return keys


def _check_reachable(url: str) -> None:
    parts = urlsplit(url)
    address = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
    try:
        socket.create_connection(address, CONNECT_SECONDS).close()
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        _say("warning", f"upstream {url} cannot be reached ({reason}); the proxy serves all the same")
