"""A proxy for as long as an agent runs: `launch --upstream` starts one if none answers, and stops it at the end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import BinaryIO
from urllib.parse import urlsplit

from proxy import __file__ as _package_file
from proxy.commands.exit_status import CommandError, Status
from proxy.commands.proxy_facts import ProxyFacts
from proxy.config.server_url import server_url

_LOCAL = ("127.0.0.1", "localhost", "::1")
# A start loads all of the package, which takes long on a machine that has other work.
_START_SECONDS = 60.0
_STEP_SECONDS = 0.05
_CONNECT_SECONDS = 1.0
# The streams of an agent that has ended are nobody's.
_STOP_SECONDS = 10.0
# How many ports behind one that is taken are tried.
_PORTS = 100
_LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class RunningProxy:
    """Where the agent's proxy is, and the log of one that is our own: None for another's."""

    url: str
    log: Path | None = None


@contextlib.contextmanager
def running_proxy(
    url: str, upstream: str, rules: str | None, variables: Mapping[str, str], folder: Path
) -> Iterator[RunningProxy]:
    """Run a proxy for the model server `upstream` inside the block.

    A proxy that already listens at `url` for the same model server is used, unless another `launch` started it or
    `rules` names a rules file. Otherwise one is started at `url`, or at the next free port if that is taken; its log is
    in `folder`. Raises CommandError if it cannot be started.
    """
    host, port = _address_of(url)
    if _listens(host, port):
        if rules is None and _is_for(url, upstream) and not _is_of_a_launch(_log_of(folder, port)):
            yield RunningProxy(url)
            return
        port = _free_port(host, port)
        url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    log = _log_of(folder, port)
    with _ending_in_order():
        options = ["--upstream", upstream, "--host", host, "--port", str(port)]
        process = _started([*options, *(() if rules is None else ("--rules", rules))], variables, log)
        try:
            _wait(process, host, port, log)
            yield RunningProxy(url, log)
        finally:
            _stop(process)


@contextlib.contextmanager
def _ending_in_order() -> Iterator[None]:
    """A signal that ends this process raises SystemExit, so that what must be stopped is: the proxy has a session of
    its own, and would outlive it. While an agent runs, `run_agent` has handlers of its own.
    """

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    with contextlib.ExitStack() as handlers:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            handlers.callback(signal.signal, number, signal.signal(number, end))
        yield


def run_agent(program: str, command: Sequence[str], variables: Mapping[str, str], held: Collection[int] = ()) -> int:
    """Run an agent to its end; return its exit status. Raises CommandError if it cannot be started.

    The agent inherits the descriptors `held`.

    Ctrl-C and Ctrl-\\ of the terminal are the agent's, which gets them too; an order to end is handed on to it.
    """
    with contextlib.ExitStack() as handlers:
        for number in (signal.SIGINT, signal.SIGQUIT):
            handlers.callback(signal.signal, number, signal.signal(number, _leave_to_the_agent))
        # Of an agent that is being started, and orders that came before it was.
        agents: list[subprocess.Popen[bytes]] = []
        early: list[int] = []

        def hand_on(number: int, frame: FrameType | None) -> None:
            if agents:
                agents[0].send_signal(number)
            else:
                early.append(number)

        for number in (signal.SIGTERM, signal.SIGHUP):
            handlers.callback(signal.signal, number, signal.signal(number, hand_on))
        try:
            process = subprocess.Popen([program, *command[1:]], env=dict(variables), pass_fds=held)
        except OSError as error:
            raise CommandError(Status.NOT_INSTALLED, f"{program} cannot be started ({error.strerror})") from error
        agents.append(process)
        for order in early:
            process.send_signal(order)
        status = process.wait()
    return status if status >= 0 else 128 - status


def _leave_to_the_agent(number: int, frame: FrameType | None) -> None:
    """Nothing: unlike SIG_IGN a handler is not inherited by the agent."""


def _address_of(url: str) -> tuple[str, int]:
    """Host and port of a URL at which a proxy can be started; raises CommandError for another one."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "http" or host not in _LOCAL or parts.path.strip("/"):
        error_message = f"--upstream starts a proxy on this machine; {url} is not on it: leave one of the two out"
        raise CommandError(Status.USAGE, error_message)
    return host, parts.port or 80


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), _CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def _is_for(url: str, upstream: str) -> bool:
    """True if what listens there is a proxy for this model server."""
    try:
        return ProxyFacts(url).model_server() == server_url(upstream)
    except ValueError:  # the proxy that is started for it says what is wrong
        return False


def _log_of(folder: Path, port: int) -> Path:
    return folder / f"serve-{port}.log"


def _is_of_a_launch(log: Path) -> bool:
    """True if a proxy writes this log: one of another `launch`, which ends with that one's agent."""
    try:
        with log.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # there is no such log
        return False
    return False


def _free_port(host: str, taken: int) -> int:
    """The first port behind this one that is free. Raises CommandError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in range(taken + 1, min(taken + _PORTS, _LAST_PORT) + 1):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            return port
    error_message = f"port {taken} of {host} is taken, and so are those behind it; say with --url which one is free"
    raise CommandError(Status.NOT_THERE, error_message)


def _started(words: Sequence[str], variables: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """The proxy of this very package, in a session of its own: Ctrl-C is for the agent alone. It ends with this
    process, however that ends.
    """
    folder = os.path.dirname(os.path.dirname(os.path.abspath(_package_file)))
    with _opened(log) as output:
        return subprocess.Popen(
            [sys.executable, "-m", "proxy.commands.serve_beside", str(os.getpid()), *words],
            # With it no module of the folder that the user is in counts.
            env={**variables, "PYTHONPATH": folder, "PYTHONSAFEPATH": "1"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def _opened(log: Path) -> BinaryIO:
    """The log, empty, and locked as long as somebody writes it. Raises CommandError."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        file = log.open("ab")
        # It may still be that of a proxy which is about to end.
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.truncate(0)
        return file
    except OSError as error:
        raise CommandError(Status.NOT_WRITTEN, f"{log} cannot be written ({error.strerror})") from error


def _wait(process: subprocess.Popen[bytes], host: str, port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not _listens(host, port):
        if process.poll() is not None:
            lines = log.read_text("utf-8", "replace").strip().splitlines()
            last = lines[-1] if lines else "it says nothing"
            raise CommandError(Status.NOT_THERE, f"the proxy did not start: {last}")
        if time.monotonic() > deadline:
            raise CommandError(Status.NOT_THERE, f"the proxy did not listen within {_START_SECONDS:g} s; see {log}")
        time.sleep(_STEP_SECONDS)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGQUIT)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
