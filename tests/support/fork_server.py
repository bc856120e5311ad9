"""`vllm-tool-proxy serve` as a fork of a process that has imported all modules.

The command imports them twice, which takes a second, and the tests start hundreds of proxies. Everything else is as in
the command: settings, rules, checks, gunicorn's master and workers. Tests of the start itself (its messages, another
release's modules at a reload, systemd) use the command.
"""

from __future__ import annotations

import atexit
import json
import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from unittest import mock

from gunicorn.app import wsgiapp

from proxy import gunicorn_conf
from proxy.cli.main import main
from proxy.cli.serve import MALLOC

CONF = gunicorn_conf.__file__
_PRELOADED = [__name__, "proxy.app", "gunicorn.workers.gthread"]


def serve(
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    log: Path,
    limits: Mapping[str, float] | None = None,
) -> ForkServerProcess:
    """Start `serve` with these arguments and variables in `folder`; stderr is written to `log`.

    `limits` replace constants of `proxy/limits.py` and `proxy/server/pump_worker.py`, by name.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    process = context.Process(target=_serve, args=(list(words), folder, dict(environment), log, dict(limits or {})))
    # The first start creates the fork server in this environment; glibc and prometheus-client read these once.
    once = {**MALLOC, "PROMETHEUS_MULTIPROC_DIR": "/nowhere"}
    with mock.patch.dict(os.environ, {**environment, **once}, clear=True):
        process.start()
    return process


def end(process: ForkServerProcess, patience: float = 4) -> None:
    """Terminate `process`; kill it if it is still running after `patience` seconds."""
    process.terminate()
    process.join(patience)
    if process.is_alive():
        process.kill()
        process.join()


def _serve(words: list[str], folder: Path, environment: dict[str, str], log: Path, limits: dict[str, float]) -> None:
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    os.chdir(folder)
    _take(environment)
    _set_limits(limits)
    command, variables = _command_of_gunicorn(["serve", *words])
    os.chdir(variables["PWD"])
    _take(variables)
    sys.argv = ["gunicorn", *command[command.index("gunicorn") + 1 :]]
    if limits:
        sys.argv[sys.argv.index("-c") + 1] = str(_gunicorn_conf(log.with_name("gunicorn_conf.py"), limits))
    try:
        wsgiapp.run()
    finally:
        # The master and the workers exit by SystemExit, and multiprocessing does not run exit functions.
        atexit._run_exitfuncs()


def _set_limits(limits: Mapping[str, float]) -> None:
    """Replace these constants in every module of the proxy that has imported them."""
    for name, module in list(sys.modules.items()):
        if name.startswith("proxy."):
            for limit in limits.keys() & vars(module).keys():
                setattr(module, limit, limits[limit])


def _gunicorn_conf(path: Path, limits: Mapping[str, float]) -> Path:
    """Write gunicorn's configuration with these constants of its worker."""
    source = str(CONF)
    lines = ["from pathlib import Path", f"__file__ = {source!r}"]
    lines.append("exec(compile(Path(__file__).read_text(), __file__, 'exec'))")
    lines += [f"_worker.{name} = {value!r}" for name, value in limits.items()]
    path.write_text("\n".join(lines))
    return path


def _take(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


def _command_of_gunicorn(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return the command and variables that `main` passes to `execve`. It runs in a child, so no state is left here."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        _send_command(words, writing)
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    if not told:
        sys.exit(os.waitstatus_to_exitcode(status))
    command, variables = json.loads(told)
    return command, variables


def _send_command(words: list[str], descriptor: int) -> None:
    def execve(_program: str, command: list[str], variables: dict[str, str]) -> None:
        with open(descriptor, "w", encoding="utf-8") as pipe:
            json.dump([command, variables], pipe)
        os._exit(0)

    with mock.patch("os.execve", execve):
        code = main(words)
    atexit._run_exitfuncs()
    os._exit(code)
