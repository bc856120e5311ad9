"""`vllm-tool-proxy launch`: start an agent on the proxy. With `--upstream`, start a proxy for it first."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from proxy.cli.check import try_port
from proxy.cli.configuration import NO_KEY, web_proxy_exceptions
from proxy.cli.merging import NotMergeableError
from proxy.cli.output import FOLDER, NAME, CommandError, Status, report, reported
from proxy.cli.proxy_facts import ProxyFacts
from proxy.cli.setup import Target, target
from proxy.config.load import builtin_text, load
from proxy.doctor.asking import unreachable
from proxy.limits import MAX_AGENT_FILE

# A start imports the whole package, which is slow on a busy machine.
_START_SECONDS = 60.0
_STEP_SECONDS = 0.05
# The agent has exited, so its streams need no time to finish.
_STOP_SECONDS = 10.0
# The number of ports tried after one that is taken.
_PORTS = 100
_LAST_PORT = 65535
_PR_SET_PDEATHSIG = 1
# Removes a folder once no process holds the other end of standard input. It forks to be reparented to init, because an
# agent may wait for all of its children.
_REMOVE_AT_THE_END = """\
import os, shutil, sys
if os.fork():
    os._exit(0)
sys.stdin.buffer.read()
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""

_Handler = Callable[[int, FrameType | None], None]


def launch_command(*, upstream: str, arguments: Sequence[str], **options: Any) -> int:
    """Replace this process with the agent. With `upstream`, run the agent and a proxy, and report the results.

    The other options are those of `target`. Raises CommandError and RulesError.
    """
    aim = target(**options, starts_proxy=bool(upstream))
    if not upstream:
        with (
            _configured(aim, arguments) as (program, command, variables, _),
            reported(program, "started", Status.NOT_INSTALLED),
        ):
            os.execve(program, command, variables)
    with (
        running_proxy(aim, upstream) as running,
        _configured(replace(aim, url=running), arguments) as (program, command, variables, held),
    ):
        status = run_agent(program, command, variables, held)
        if verdict := ProxyFacts(running).verdict():
            report(f"{NAME}: {verdict}")
        return status


@contextlib.contextmanager
def _configured(
    aim: Target, arguments: Sequence[str]
) -> Iterator[tuple[str, list[str], dict[str, str], tuple[int, ...]]]:
    """Query the proxy, and configure the agent for this run. Raises CommandError.

    Yield the agent's program, its command line, its environment, and the descriptors that it must inherit.
    """
    folder = Path(tempfile.gettempdir()) / f"{NAME}-{secrets.token_hex(8)}"
    values = replace(aim.values(), key=aim.key or NO_KEY, folder=str(folder), read=_text)
    try:
        configuration = aim.agent.launch(values)
    except NotMergeableError as error:
        message = f"{aim.agent.title}'s settings for all users of this machine cannot be merged: {error}"
        raise CommandError(Status.NOT_WRITTEN, message) from error
    command = [*configuration.command, *arguments]
    if not command:
        message = f"{aim.agent.name} is not a program; add the program to run after --"
        raise CommandError(Status.USAGE, message)
    program = aim.program(command[0])
    for note in configuration.notes:
        report(note)
    variables = {name: value for name, value in aim.variables.items() if name not in configuration.unset}
    variables |= {**configuration.environment, **web_proxy_exceptions(values)}
    with _private_folder(folder, configuration.private) as held:
        yield program, command, variables, held


def _text(path: str) -> str:
    """Return the text of a user's file, or "" if it cannot be read. Raises CommandError if it is too large."""
    file = Path(path)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if file.is_file():
            if file.stat().st_size > MAX_AGENT_FILE:
                raise CommandError(Status.NOT_WRITTEN, f"{path} is larger than 4 MB, and cannot be merged")
            return file.read_text("utf-8")
    return ""


@contextlib.contextmanager
def _private_folder(folder: Path, texts: Mapping[str, str]) -> Iterator[tuple[int, ...]]:
    """Create a folder with these files, for this user only. Without files, no folder is created.

    Yield the descriptors that the agent must inherit. The folder is removed once no process holds them, even if the
    processes were killed with SIGKILL. Raises CommandError.
    """
    if not texts:
        yield ()
        return
    reading, writing = os.pipe()
    try:
        try:
            folder.mkdir(0o700)  # fails if it exists
            subprocess.run(
                [sys.executable, "-I", "-S", "-c", _REMOVE_AT_THE_END, str(folder)],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,  # Ctrl-C must not end it
                check=True,
            )
            for name, text in texts.items():
                descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    file.write(text)
        except (OSError, subprocess.SubprocessError) as error:
            raise CommandError(Status.NOT_WRITTEN, f"{folder} cannot be written ({error})") from error
        finally:
            os.close(reading)
        os.set_inheritable(writing, True)
        yield (writing,)
    finally:
        os.close(writing)


@contextlib.contextmanager
def running_proxy(aim: Target, upstream: str) -> Iterator[str]:
    """Run a proxy for the model server `upstream` inside the block; report it, and yield its URL.

    It listens at the URL of `aim`, or at the next free port. Raises CommandError, or RulesError for a URL that cannot
    be used.
    """
    parts = urlsplit(aim.url)
    host, usual = parts.hostname or "", parts.port or 80
    if parts.scheme != "http" or host not in ("127.0.0.1", "localhost", "::1") or parts.path.strip("/"):
        message = f"--upstream starts a proxy on this machine, but {aim.url} is on another one; leave out either"
        raise CommandError(Status.USAGE, message)
    server = load({"upstream": upstream}, {}, builtin_text())[0].upstream
    if why := unreachable(server):
        raise CommandError(Status.NOT_THERE, why)
    port, output = _free_port(host, usual, aim.state)
    url, elsewhere, log = aim.url, "", Path(output.name)
    if port != usual:
        url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        elsewhere = f" at {url}, because something else listens at {aim.url}"

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    # The proxy is in its own session, so a signal that ends this process must stop it. While an agent runs, `run_agent`
    # installs its own handlers.
    with _handlers(dict.fromkeys((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), end)):
        with output:
            process = _started(aim, ["--upstream", upstream, "--host", host, "--port", str(port)], output)
        try:
            _wait(process, url, log)
            report(f"started a proxy for {upstream}{elsewhere}; it stops when the agent exits; its log is {log}")
            yield url
        finally:
            process.send_signal(signal.SIGQUIT)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def _handlers(handlers: Mapping[signal.Signals, _Handler]) -> Iterator[None]:
    """Install signal handlers for the block."""
    with contextlib.ExitStack() as stack:
        for number, handler in handlers.items():
            stack.callback(signal.signal, number, signal.signal(number, handler))
        yield


def run_agent(program: str, command: Sequence[str], variables: Mapping[str, str], held: Collection[int] = ()) -> int:
    """Run an agent to its end and return its exit status. Raises CommandError if it cannot be started.

    The agent inherits the descriptors `held`. The terminal sends Ctrl-C and Ctrl-\\ to the agent too, so they are
    ignored here; SIGTERM and SIGHUP are passed on to it.
    """
    agents: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def ignore(number: int, frame: FrameType | None) -> None:
        """Do nothing. Unlike SIG_IGN, a handler is not inherited by the agent."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        if agents:
            agents[0].send_signal(number)
        else:
            early.append(number)

    ignored = dict.fromkeys((signal.SIGINT, signal.SIGQUIT), ignore)
    with _handlers({**ignored, **dict.fromkeys((signal.SIGTERM, signal.SIGHUP), pass_on)}):
        with reported(program, "started", Status.NOT_INSTALLED):
            process = subprocess.Popen([program, *command[1:]], env=dict(variables), pass_fds=held)
        agents.append(process)
        for number in early:
            process.send_signal(number)
        status = process.wait()
    return status if status >= 0 else 128 - status


def _free_port(host: str, first: int, folder: Path) -> tuple[int, BinaryIO]:
    """Return the first free port from `first` on, and the log of the proxy for it. Raises CommandError.

    The log is locked until the proxy ends, so that another `launch` leaves the port alone before the proxy listens.
    """
    why: str | None = ""
    for port in range(first, min(first + _PORTS, _LAST_PORT) + 1):
        try:
            try_port(host, port)
        except OSError as error:
            why = error.strerror
            continue
        log = folder / f"serve-{port}.log"
        with reported(log, "written"):
            folder.mkdir(parents=True, exist_ok=True)
            output = log.open("ab")
            try:
                fcntl.flock(output, fcntl.LOCK_EX | fcntl.LOCK_NB)
                output.truncate(0)
            except BlockingIOError as error:
                output.close()
                why = error.strerror
                continue
        return port, output
    message = f"no port of {host} from {first} on can be used ({why}); give the URL of a free port with --url"
    raise CommandError(Status.NOT_THERE, message)


def _started(aim: Target, options: Sequence[str], output: BinaryIO) -> subprocess.Popen[bytes]:
    """Start a proxy of this package, in its own session because Ctrl-C is for the agent. It stops when this process
    ends, even by SIGKILL. Raises CommandError.
    """
    rules = () if aim.rules is None else ("--rules", aim.rules)
    parent = os.getpid()
    try:
        prctl = ctypes.CDLL(None).prctl
    except AttributeError as error:
        message = "the proxy needs Linux; run it on another machine, and give its URL with --url instead of --upstream"
        raise CommandError(Status.USAGE, message) from error

    def end_with_parent() -> None:
        """Make the kernel send SIGQUIT to the proxy when its parent ends (prctl(2), PR_SET_PDEATHSIG)."""
        # A shell's background job may ignore SIGQUIT.
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)
        prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGQUIT))
        if os.getppid() != parent:  # it ended before prctl was called
            os._exit(1)

    with reported(sys.executable, "started"):
        return subprocess.Popen(
            [sys.executable, "-m", "proxy", "serve", *options, *rules],
            # Do not import modules from the working folder.
            env={**aim.variables, "PYTHONPATH": FOLDER, "PYTHONSAFEPATH": "1"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=end_with_parent,  # noqa: PLW1509 - this process has no other threads
        )


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Wait until the proxy listens. Raises CommandError."""
    deadline = time.monotonic() + _START_SECONDS
    while unreachable(url, usual=url):
        if process.poll() is not None:
            last = (log.read_text("utf-8", "replace").strip().splitlines() or ["no output"])[-1]
            raise CommandError(Status.NOT_THERE, f"the proxy did not start: {last}")
        if time.monotonic() > deadline:
            raise CommandError(Status.NOT_THERE, f"the proxy did not listen within {_START_SECONDS:g} s; see {log}")
        time.sleep(_STEP_SECONDS)
