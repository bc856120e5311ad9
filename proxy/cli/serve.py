"""`vllm-tool-proxy serve`: check everything that can be checked, then become gunicorn."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from proxy.cli.check import check_surroundings, checked_settings, is_activated, try_port
from proxy.cli.output import FOLDER, NAME
from proxy.config.load import RULES_VARIABLE, VIA_VARIABLE, bind, environment, working_folder
from proxy.config.settings import SPECS, Settings
from proxy.errors import RulesError
from proxy.limits import THREADS

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
    check_surroundings(settings, rules)
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
