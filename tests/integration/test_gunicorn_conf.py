"""gunicorn's configuration: gunicorn knows every setting, and a real server enforces the listeners' limits."""

from __future__ import annotations

import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from proxy import gunicorn_conf
from tests.support.scripted import HELD, PATIENCE
from tests.unit.test_gunicorn_conf import CONF

pytestmark = pytest.mark.once
APP = """
import socket, struct
def app(environ, start_response):
    client = environ["gunicorn.socket"]
    limits = [struct.unpack("ll", client.getsockopt(socket.SOL_SOCKET, option, 16))[0]
              for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO)]
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(limits).encode()]
"""


@dataclass(frozen=True)
class Running:
    process: subprocess.Popen[str]
    port: int


@contextmanager
def started(folder: Path, conf: Path, threads: int) -> Iterator[Running]:
    """Run gunicorn with this number of threads and the application above."""
    (folder / "tiny.py").write_text(APP)
    command = [sys.executable, "-P", "-m", "gunicorn", "-c", str(conf), "--chdir", str(folder)]
    command += ["--bind", "127.0.0.1:0", "--threads", str(threads), "--worker-connections", "100", "tiny:app"]
    env = {"PATH": os.environ["PATH"], "PWD": str(folder)}
    process = subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        log = ""
        while "Booting worker" not in log or "Listening at" not in log:  # two processes write
            line = process.stderr.readline()
            assert line, log
            log += line
        found = re.search(r"http://127\.0\.0\.1:(\d+)", log)
        assert found
        yield Running(process, int(found[1]))
    finally:
        process.send_signal(signal.SIGQUIT)
        process.wait(2 * HELD)  # gunicorn kills workers after its graceful timeout, HELD at most
        process.stderr.close()


def extended(more: str) -> str:
    """Return the project's configuration with additional lines."""
    return f"__file__ = {str(CONF)!r}\nexec(compile(open({str(CONF)!r}).read(), 'conf', 'exec'))\n{more}\n"


def own_file(folder: Path, more: str) -> Path:
    path = folder / "conf.py"
    path.write_text(extended(more))
    return path


def fetch(port: int) -> bytes:
    with closing(socket.create_connection(("127.0.0.1", port), PATIENCE)) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        answer = b""
        while data := client.recv(65536):
            answer += data
    return answer.partition(b"\r\n\r\n")[2]


def test_the_limits_are_set_only_on_tcp_listeners() -> None:
    with socket.socket() as tcp, socket.socket(socket.AF_INET6) as tcp6, socket.socket(socket.AF_UNIX) as unix:
        gunicorn_conf.when_ready(SimpleNamespace(LISTENERS=[SimpleNamespace(sock=each) for each in (tcp, tcp6, unix)]))
        for each, seconds in ((tcp, 30), (tcp6, 30), (unix, 0)):
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                assert struct.unpack("ll", each.getsockopt(socket.SOL_SOCKET, option, 16)) == (seconds, 0)
        assert tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT) >= 5


def test_silent_connections_block_no_one(tmp_path: Path) -> None:
    with started(tmp_path, CONF, threads=2) as running, ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", running.port))) for _ in range(4)]
        assert fetch(running.port) == b"[30, 30]"
        for client in silent:  # they are still open: the answer did not require closing them
            with pytest.raises(BlockingIOError):
                client.recv(1, socket.MSG_DONTWAIT)


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    return sum(sum(each.cpu_times()[:2]) for each in family)


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"GET / HT", b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HT"], ids=["first", "later"])
@pytest.mark.parametrize("gone", [True, False])
def test_a_client_that_leaves_in_the_middle_of_a_head_uses_no_cpu(tmp_path: Path, sent: bytes, gone: bool) -> None:
    """The poll reports the close immediately, and repeats it if it is not handled."""
    with started(tmp_path, CONF, threads=4) as running:
        clients = [connect_and_send(running.port, sent) for _ in range(20)]
        time.sleep(0.3)
        for client in clients:
            client.close() if gone else client.shutdown(socket.SHUT_WR)
        before = cpu_seconds(running.process)
        time.sleep(1.0)
        assert cpu_seconds(running.process) - before < 0.5
        assert fetch(running.port) == b"[30, 30]"
        for client in clients:
            client.close()


def connect_and_send(port: int, request: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), PATIENCE)
    client.sendall(request)
    return client


def test_a_client_that_is_still_sending_gets_its_whole_answer(tmp_path: Path) -> None:
    with started(tmp_path, CONF, threads=2) as running:
        client = connect_and_send(
            running.port, b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999999\r\nConnection: close\r\n\r\n"
        )
        with closing(client):
            for _ in range(20):
                client.sendall(b"x" * 65536)
            answer = b""
            while data := client.recv(65536):
                answer += data
        assert answer.endswith(b"[30, 30]\r\n0\r\n\r\n")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT])
def test_silent_and_kept_alive_connections_do_not_delay_the_shutdown(tmp_path: Path, number: signal.Signals) -> None:
    with ExitStack() as stack:
        conf = own_file(tmp_path, f"graceful_timeout = {HELD:.0f}")
        running = stack.enter_context(started(tmp_path, conf, threads=2))
        for _ in range(3):
            stack.enter_context(socket.create_connection(("127.0.0.1", running.port)))
        kept = stack.enter_context(closing(connect_and_send(running.port, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")))
        assert kept.recv(65536)
        running.process.send_signal(number)
        running.process.wait(PATIENCE)


@pytest.mark.slow
def test_kept_alive_connections_do_not_delay_a_worker_whose_master_died(tmp_path: Path) -> None:
    """Its port is then free for the next master."""
    conf = own_file(tmp_path, f"graceful_timeout = {HELD:.0f}")
    with started(tmp_path, conf, threads=2) as running:
        (worker,) = psutil.Process(running.process.pid).children()
        with closing(connect_and_send(running.port, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")) as kept:
            assert kept.recv(65536)
            running.process.kill()
            worker.wait(PATIENCE)
