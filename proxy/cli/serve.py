"""`vllm-tool-proxy serve`: check everything that can be checked, log three lines about it, then become gunicorn."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import NoReturn

from proxy import __version__
from proxy.cli.check import check_surroundings, checked_settings, is_activated, try_port
from proxy.cli.output import FOLDER, NAME, report
from proxy.config.api_keys import Keys
from proxy.config.load import RULES_VARIABLE, VIA_VARIABLE, bind, environment, working_folder
from proxy.config.rules import Rules, entries_in_force
from proxy.config.settings import SPECS, Settings
from proxy.display import escaped
from proxy.errors import RulesError
from proxy.exchange.plan import keyless
from proxy.limits import THREADS
from proxy.server.logging_setup import log_line
from proxy.web.routes import CHAT, MESSAGES, RESPONSES

# Settings that gunicorn reads only when it starts.
_GUNICORNS = ("host", "port", "workers", "max_streams", "graceful_timeout")
# Idle connections that gunicorn keeps in addition to those that are served.
_SPARE_CONNECTIONS = 1000
# glibc's memory settings (mallopt(3)). With the default number of arenas, a worker needs more than twice the memory. A
# fixed mmap threshold returns large blocks to the kernel; with 200 clients, a worker needs a third less memory.
MALLOC = {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": str(1024 * 1024)}


def serve_command(flags: dict[str, str]) -> NoReturn:
    """Become gunicorn. Raises RulesError for anything that would keep it from serving."""
    env = environment()
    settings, rules = checked_settings(flags)
    if not is_activated(env):
        _check_port(settings)
    keys = check_surroundings(settings, rules)
    # A write error is ignored: a full disk must not keep the proxy from serving.
    with contextlib.suppress(OSError):
        for line in startup_lines(settings, rules, keys):
            report(log_line(line, json_lines=settings.log_format == "json"))
    folder = package_folder(str(working_folder(env)))
    command = [
        sys.executable, "-P", "-m", "gunicorn",
        "-c", os.path.join(folder, "proxy", "gunicorn_conf.py"),
        "--chdir", folder,
        "--bind", bind(settings),
        "--workers", str(settings.workers),
        "--threads", str(THREADS),
        "--worker-connections", str(THREADS + settings.max_streams + _SPARE_CONNECTIONS),
        "--graceful-timeout", str(settings.graceful_timeout),
        "proxy.app:create_app()",
    ]
    # Workers, including those of later reloads, read the same settings from the environment. gunicorn's own settings
    # stay until a restart, even if the rules file changes. A parent proxy's pseudonym is dropped.
    handed = {name: value for name, value in env.items() if name not in ("GUNICORN_CMD_ARGS", VIA_VARIABLE)}
    values = {**flags, **{name: str(getattr(settings, name)) for name in _GUNICORNS}}
    handed |= {spec.variables[0]: values[spec.name] for spec in SPECS if spec.name in values}
    if os.path.isabs(rules.source):
        handed[RULES_VARIABLE] = rules.source
    try:
        # gunicorn also looks for modules in the folder where it starts.
        os.chdir(folder)
        # PYTHONSAFEPATH in addition to -P, because at USR2 gunicorn restarts itself without -P.
        os.execve(command[0], command, {**MALLOC, **handed, "PWD": folder, "PYTHONSAFEPATH": "1"})
    except OSError as error:
        raise RulesError(f"gunicorn cannot be started ({error}); reinstall {NAME}") from error


def package_folder(spelled: str) -> str:
    """Return the folder that holds the package, with symlinks kept: a deployment switches them and reloads.

    `python -m proxy` resolves them if started in that folder, so `spelled` is the working folder as the user spells it.
    """
    try:
        return spelled if os.path.samefile(FOLDER, spelled) else FOLDER
    except OSError:
        return FOLDER


def _check_port(settings: Settings) -> None:
    """Fail if gunicorn could not bind; gunicorn itself would retry a port in use for 5 s first. Raises RulesError."""
    try:
        try_port(settings.host, settings.port)
    except OSError as error:
        fix = "choose another port with --port or address with --host, or stop the program that listens there"
        raise RulesError(f"cannot listen on {bind(settings)} ({error.strerror}); {fix}") from error


def startup_lines(settings: Settings, rules: Rules, keys: Keys) -> Iterator[str]:
    """Yield three lines, safe to print, about what is served and how. They show no key."""
    facts = {
        "listens on": f"http://{bind(settings)}",
        "paths": ", ".join(route.path for route in (CHAT, MESSAGES, RESPONSES)),
        "model servers": ", ".join(dict.fromkeys((settings.upstream, *rules.urls))),
    }
    yield _line(facts)
    counts = [f"{len(found)} {section}" for section, found in entries_in_force(rules).items() if found]
    client_keys = f"{len(keys.clients)} for clients" if keys.clients else "none required"
    others = {"one for the model server": keys.upstream, "one for the admin": keys.admin}
    facts = {
        "rules": f"{rules.source} ({', '.join(counts) or 'no entries'})",
        "keys": ", ".join([client_keys, *(words for words, key in others.items() if key)]),
    }
    if without := [f"{entry.match} at {entry.url}" for entry in keyless(rules, settings)]:
        facts["no key for models"] = ", ".join(without)
    yield _line(facts)
    written = {
        f"captures to {settings.capture}": settings.capture,
        f"repairs with their values to {settings.audit_file}": settings.audit_file,
        "what clients and models say to the live page": settings.audit_values and not settings.no_ui,
    }
    yield _line({"writes": ", ".join(words for words, on in written.items() if on) or "only the log"})


def _line(facts: Mapping[str, str]) -> str:
    words = "; ".join(f"{name}: {text}" for name, text in facts.items())
    return escaped(f"{NAME} {__version__} {words}")
