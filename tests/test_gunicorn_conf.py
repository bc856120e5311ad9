"""gunicorn's configuration: every name is gunicorn's, and the listeners' limits hold in a real server."""

from __future__ import annotations

import ast
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
from pathlib import Path
from types import SimpleNamespace

import pytest
from gunicorn.config import Config

from proxy import gunicorn_conf
from proxy.config import MEMORY_VARIABLE
from proxy.shared_memory import SIZE, Memory

CONF = Path(gunicorn_conf.__file__)
APP = """
import socket, struct
def app(environ, start_response):
    client = environ["gunicorn.socket"]
    limits = [struct.unpack("ll", client.getsockopt(socket.SOL_SOCKET, option, 16))[0]
              for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO)]
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(limits).encode()]
"""


@contextmanager
def serving(folder: Path, conf: Path, threads: int) -> Iterator[int]:
    """gunicorn with so many threads and the application above; yields its port."""
    (folder / "tiny.py").write_text(APP)
    command = [sys.executable, "-P", "-m", "gunicorn", "-c", str(conf), "--chdir", str(folder)]
    command += ["--bind", "127.0.0.1:0", "--threads", str(threads), "--worker-connections", "100", "tiny:app"]
    env = {"PATH": os.environ["PATH"], "PWD": str(folder)}
    process = subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        told = ""
        while "Booting worker" not in told:
            line = process.stderr.readline()
            assert line, told
            told += line
        found = re.search(r"http://127\.0\.0\.1:(\d+)", told)
        assert found
        yield int(found[1])
    finally:
        process.send_signal(signal.SIGQUIT)
        process.wait(90)  # gunicorn kills what has not ended after its graceful timeout, 60 s
        process.stderr.close()


def asked(port: int) -> bytes:
    """The body of the answer to one request."""
    with closing(socket.create_connection(("127.0.0.1", port), 10)) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        answer = b""
        while data := client.recv(65536):
            answer += data
    return answer.partition(b"\r\n\r\n")[2]


def test_every_setting_is_one_of_gunicorns_and_its_value_is_taken() -> None:
    config = Config()
    names = {name for name, value in vars(gunicorn_conf).items() if name.islower() and not name.startswith("_")}
    names -= {"annotations", "importlib", "os", "socket", "struct"}
    assert names <= set(config.settings), names - set(config.settings)
    for name in names:
        config.set(name, getattr(gunicorn_conf, name))
    assert config.settings["worker_class"].get() == "gthread"
    assert (config.max_requests, config.preload_app, config.control_socket_disable) == (0, False, True)
    assert (config.forwarded_allow_ips, config.header_map) == (["127.0.0.1"], "drop")
    assert (config.timeout, config.graceful_timeout, config.keepalive) == (60, 60, 120)


def test_it_imports_nothing_of_the_package() -> None:
    for node in ast.walk(ast.parse(CONF.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module in ("__future__", "typing")
        if isinstance(node, ast.Import):
            assert all(name.name in sys.stdlib_module_names for name in node.names)


def test_the_limits_are_set_on_tcp_listeners_and_no_others() -> None:
    with (
        socket.socket() as tcp,
        socket.socket(socket.AF_INET6) as tcp6,
        socket.socket(socket.AF_UNIX) as unix,
    ):
        gunicorn_conf.when_ready(SimpleNamespace(LISTENERS=[SimpleNamespace(sock=each) for each in (tcp, tcp6, unix)]))
        for each, seconds in ((tcp, 30), (tcp6, 30), (unix, 0)):
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                assert struct.unpack("ll", each.getsockopt(socket.SOL_SOCKET, option, 16)) == (seconds, 0)
        assert tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT) >= 5


def test_connections_inherit_the_limits_and_silent_ones_hold_up_nobody(tmp_path: Path) -> None:
    with serving(tmp_path, CONF, threads=2) as port, ExitStack() as silent:
        for _ in range(4):
            silent.enter_context(socket.create_connection(("127.0.0.1", port)))
        start = time.monotonic()
        assert asked(port) == b"[30, 30]"
        assert time.monotonic() - start < 2.5  # without the deferred accept: 5 s, until the threads give up


def test_half_open_requests_lose_their_threads_when_the_limit_is_over(tmp_path: Path) -> None:
    conf = tmp_path / "conf.py"
    conf.write_text(f"exec(compile(open({str(CONF)!r}).read(), 'conf', 'exec'))\nSTALL_SECONDS = 1\n")
    with serving(tmp_path, conf, threads=1) as port, socket.create_connection(("127.0.0.1", port)) as half:
        half.sendall(b"G")
        start = time.monotonic()
        assert asked(port) == b"[1, 1]"
        assert 0.5 < time.monotonic() - start < 9  # without the limit: never


def test_a_forked_worker_forgets_what_the_master_saw_in_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    monkeypatch.setattr("importlib.invalidate_caches", lambda: seen.append(True))
    gunicorn_conf.post_fork(None, None)
    assert seen == [True]


def test_what_the_master_asks_for_is_done_once_and_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MEMORY_VARIABLE, "")
    gunicorn_conf.on_starting(None)
    pid, _, descriptor = os.environ[MEMORY_VARIABLE].partition(":")
    try:
        assert pid == str(os.getpid())
        memory = Memory(int(descriptor))
        assert memory.asked() == 0
        for _ in range(2):
            gunicorn_conf.on_reload(None)
            gunicorn_conf.on_reload(None)
            asked = memory.asked()
            gunicorn_conf.on_reload(None)  # while the file is being read
            memory.done(asked)
            again = memory.asked()
            assert 0 < asked < again
            memory.done(again)
            assert memory.asked() == 0
        assert os.environ[MEMORY_VARIABLE] == f"{pid}:{descriptor}"  # one memory for a master's whole life
    finally:
        os.close(int(descriptor))


def test_a_master_makes_its_own_memory_when_it_has_another_ones_or_one_of_another_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fd = os.memfd_create("another")
    os.ftruncate(fd, SIZE // 2)
    for told in (f"1:{fd}", f"{os.getpid()}:{fd}"):
        monkeypatch.setenv(MEMORY_VARIABLE, told)
        gunicorn_conf.on_reload(None)
        own = int(os.environ[MEMORY_VARIABLE].partition(":")[2])
        assert own != fd and Memory(own).asked() == 1
        os.close(own)
    os.close(fd)


def test_master_and_workers_mean_the_same_memory() -> None:
    assert (gunicorn_conf.MEMORY_VARIABLE, gunicorn_conf.MEMORY_BYTES) == (MEMORY_VARIABLE, SIZE)
