"""The pump in a real worker: one thread drives all streams, and no stream delays another."""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import json
import random
import re
import resource
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import psutil
import pytest

from proxy import gunicorn_conf
from proxy.server.shared_file import FILE_NAME
from tests.conftest import Front, Proxy, Start, clean_environment, until
from tests.real.processes import ROOT, answers, free_port, stop
from tests.support.dialects import DIALECTS
from tests.support.many_streams import Readers
from tests.support.messages_client import CHAT, serving
from tests.support.scripted import (
    DONE,
    HELD,
    LAST,
    PATIENCE,
    ROLE,
    SSE,
    WRITE_FILE,
    Act,
    Action,
    Client,
    Gate,
    Upstream,
    answer,
    chat,
    chunked,
    finish,
    head,
    text,
    text_reply,
    whole_reply,
)

pytestmark = pytest.mark.once

BEGIN: tuple[Action, ...] = (SSE, chunked(ROLE), chunked(text("So")))
END: tuple[Action, ...] = (chunked(finish()), chunked(DONE), LAST)
# A stream that sends ten words per second for the duration of any test.
PACED: tuple[Action, ...] = (*BEGIN, *(0.1, chunked(text(" it"))) * int(HELD / 0.1))
HERMES = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a", "content": "b"}}\n</tool_call>'


def worker_of(proxy: Proxy) -> psutil.Process:
    return psutil.Process(proxy.health()["worker"])


@contextmanager
def fifty_paced(proxy: Start, upstream: Upstream, *flags: str) -> Iterator[tuple[Proxy, Readers]]:
    front = proxy(upstream.url, *flags)
    with Readers(front.port) as readers:
        for _ in range(50):
            readers.post(chat())
        yield front, readers


@pytest.mark.slow
def test_200_streams_on_8_threads_all_deliver(proxy: Start) -> None:
    gate = Gate()
    with ExitStack() as stack:
        script = [*BEGIN, gate, *(chunked(text(f" {number}")) for number in range(20)), *END]
        upstream = stack.enter_context(serving(*[script] * 200))
        stack.callback(gate.open)
        front = proxy(upstream.url, "THREADS=8", "RESERVED_THREADS=2")
        readers = stack.enter_context(Readers(front.port))
        for number in range(200):
            dialect = DIALECTS["messages" if number % 4 == 0 else "chat"]
            readers.post(dialect.ask(streamed=True, tools=True), dialect.path)
        health = front.health()
        assert (health["active_requests"], health["total_buffers"]) == (200, 200)
        assert worker_of(front).num_threads() < 8 + 70  # and the pump's helpers
        for _ in range(200):
            gate.open()  # each call lets one stream continue
        readers.wait(lambda: all(each.ended for each in readers.all))
        for each in readers.all:
            said = re.findall(rb'"(?:content|text)": ?"( [0-9]+)"', each.data)
            assert said == [b" %d" % number for number in range(20)], each.data
            assert DONE in each.data or b"message_stop" in each.data
        assert front.idle()


def test_a_connection_serves_another_request_after_its_stream(front: Front) -> None:
    front.upstream.play([*BEGIN, *END], [*BEGIN, *END], whole_reply("So."))
    front.upstream.paths["/v1/models"] = [answer({"data": []})]
    with closing(http.client.HTTPConnection("127.0.0.1", front.proxy.port, timeout=PATIENCE)) as connection:
        connection.connect()
        own = connection.sock.getsockname()
        for streams in (True, True, False):
            connection.request("POST", CHAT, http_body(stream=streams), {"Content-Type": "application/json"})
            assert connection.getresponse().read().endswith(DONE) is streams
        assert connection.sock.getsockname() == own
    assert front.proxy.idle()


def http_body(**more: object) -> bytes:
    return json.dumps(chat(**more)).encode()


def test_an_http_1_0_client_gets_an_unframed_stream_that_ends_with_the_connection(front: Front) -> None:
    front.upstream.play([*BEGIN, 0.1, *END])
    body = http_body()
    asked = b"POST /v1/chat/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    with closing(socket.create_connection(("127.0.0.1", front.proxy.port), PATIENCE)) as client:
        client.sendall(asked % len(body) + body)
        said = b""
        while data := client.recv(65536):
            said += data
    top, _, rest = said.partition(b"\r\n\r\n")
    assert b"chunked" not in top and rest == ROLE + text("So") + finish() + DONE


@pytest.mark.slow
@pytest.mark.once
def test_a_client_that_stops_reading_delays_no_stream(proxy: Start) -> None:
    """Its upstream is not read while the client reads nothing. test_slow_clients.py tests the time limit."""
    flood: list[Action] = [SSE, *[chunked(text("x" * 4000)) * 16] * 800, Act.EXPECT_CLOSE]
    with Upstream(*[PACED] * 200, flood) as upstream:
        upstream.paths["/v1/models"] = [answer({"data": []})]
        front = proxy(upstream.url, f"STALL_SECONDS={HELD:g}")
        with Readers(front.port) as readers:
            for _ in range(200):
                readers.post(chat())
            before = worker_of(front).memory_info().rss
            with closing(socket.socket()) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.connect(("127.0.0.1", front.port))
                body = http_body()
                client.sendall(
                    b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (CHAT.encode(), len(body))
                )
                client.sendall(body)
                assert client.recv(1)
                readers.go_on()  # a blocked stream would wait for HELD
                assert front.health()["total_buffers"] == 201
                assert worker_of(front).memory_info().rss - before < 30e6  # the flood is 51 MB
            assert upstream.seen[-1].closed.wait(PATIENCE)


def test_data_buffered_in_the_tls_layer_is_read(either_front: Front) -> None:
    """A turn reads only part of the buffered data, and epoll does not report the rest."""
    upstream = either_front.upstream
    gate = upstream.gate()
    words = [text(f"{number} " + "x" * 200) for number in range(2000)]
    upstream.play([*BEGIN, 0.2, chunked(b"".join(words)), gate, *END])
    with Client.post(either_front.proxy.port, chat()) as client, client.answer() as response:
        data = b""
        while b'"1999 x' not in data:
            data += response.read1()
        assert data.startswith(ROLE + text("So") + words[0])
        gate.open()
        assert (data + response.read()) == ROLE + text("So") + b"".join(words) + finish() + DONE


def test_a_large_decompressed_part_is_sent_immediately(front: Front) -> None:
    gate = front.upstream.gate()
    words = [text(f"{number} " + "x" * 200) for number in range(4000)]
    packing = zlib.compressobj(wbits=31)
    begun = packing.compress(ROLE + text("So")) + packing.flush(zlib.Z_SYNC_FLUSH)
    packed = packing.compress(b"".join(words)) + packing.flush(zlib.Z_SYNC_FLUSH)
    rest = packing.compress(finish() + DONE) + packing.flush()
    type_ = {"Content-Type": "text/event-stream", "Content-Encoding": "gzip"}
    front.upstream.play([head(200, type_) + begun, 0.2, packed, gate, rest])
    with Client.post(front.proxy.port, chat()) as client, client.answer() as response:
        data = b""
        while b'"3999 x' not in data:
            data += response.read1()
        gate.open()
        assert (data + response.read()) == ROLE + text("So") + b"".join(words) + finish() + DONE


def test_heartbeats_and_held_text_are_on_time_on_the_pump(proxy: Start) -> None:
    """A started stream gets heartbeats, and text that may become a call is released when its time is over."""
    gate = Gate()
    with ExitStack() as stack:
        held = chunked(text(' <tool_call>\n{"name": "write_file", "argu'))
        upstream = stack.enter_context(serving([*BEGIN, held, gate, *END]))
        front = proxy(upstream.url, "--heartbeat", "0.2", "--hold-timeout", "0.9")
        began, data = time.monotonic(), b""
        client = stack.enter_context(Client.post(front.port, chat(tools=[WRITE_FILE])))
        response = stack.enter_context(client.answer())
        while b"argu" not in data:
            data += response.read1()
        assert 0.9 <= time.monotonic() - began < PATIENCE
        assert data.count(b"\n: ") + data.startswith(b": ") >= 2 or data.count(b":") > 2
        assert data.count(b"\n\n:") >= 2, data
        gate.open()
        assert response.read().endswith(DONE)
        assert front.idle()


class BlackHole:
    """A model server that accepts one request and then no further connection, as a context manager.

    `refuse` answers the request with an error that makes the proxy retry.
    """

    SAYS = b'{"error": {"message": "\\"auto\\" tool choice requires --enable-auto-tool-choice", "code": 400}}'

    def __enter__(self) -> BlackHole:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=0)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._waiting: list[socket.socket] = []
        self._first: socket.socket | None = None
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        return self

    def _accept(self) -> None:
        while True:
            self._first, _ = self._listener.accept()
            if self._first.recv(65536):
                return
            self._first.close()  # the command checks whether a server is running

    def refuse(self) -> None:
        self._thread.join(PATIENCE)
        assert self._first is not None
        for _ in range(4):  # these connections fill the accept queue
            waiting = socket.socket()
            waiting.setblocking(False)
            waiting.connect_ex(self._listener.getsockname())
            self._waiting.append(waiting)
        time.sleep(0.2)
        self._first.sendall(answer(self.SAYS, 400))

    def end(self) -> None:
        for sock in (*self._waiting, self._listener, *([self._first] if self._first else [])):
            sock.close()

    def __exit__(self, *_: object) -> None:
        self.end()


@pytest.mark.slow
def test_a_second_try_that_cannot_connect_delays_no_stream(proxy: Start, tmp_path: Path) -> None:
    """A heartbeat has been sent, so the pump drives the stream when the server refuses it."""
    rules = tmp_path / "rules.yaml"
    with Upstream(*[PACED] * 50) as upstream, BlackHole() as hole:
        rules.write_text(f"models: [{{match: hole, url: '{hole.url}', server: vllm, family: gpt-oss}}]")
        flags = ("--rules", str(rules), "--heartbeat", "1", f"CONNECT_SECONDS={HELD:g}")
        with fifty_paced(proxy, upstream, *flags) as (front, readers):
            asked = chat(model="hole", tools=[WRITE_FILE])
            with Client.post(front.port, asked) as client, client.answer() as response:
                assert response.readline().startswith(b":")
                hole.refuse()
                readers.go_on()  # a blocked stream would wait for HELD
                hole.end()
                data = response.read()
            assert b"error" in data and DONE not in data


@pytest.mark.slow
def test_a_locked_audit_file_delays_no_stream(proxy: Start, tmp_path: Path) -> None:
    """Each of 70 replies waits a second to write its repairs."""
    audit = tmp_path / "audit.jsonl"
    repaired = text_reply(HERMES)
    with (
        Upstream(*[PACED] * 50, *[repaired] * 70) as upstream,
        fifty_paced(proxy, upstream, "--audit-file", str(audit)) as (front, readers),
        audit.open("ab") as file,
    ):
        fcntl.flock(file, fcntl.LOCK_EX)
        began = time.monotonic()
        for _ in range(70):
            assert b"write_file" in readers.post(chat(tools=[WRITE_FILE])).data
        readers.wait(lambda: sum(each.ended for each in readers.all) == 70)
        readers.go_on(5)
        assert time.monotonic() - began < PATIENCE  # blocked streams would wait for 70 s
        assert front.health()["active_requests"] > 50  # these wait to write
        assert front.logged("another process keeps it locked").count("cannot be written") >= 1
        fcntl.flock(file, fcntl.LOCK_UN)
        until(lambda: front.health()["active_requests"] == 50)


@pytest.mark.slow
def test_a_locked_store_delays_no_stream(proxy: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 14 responses waits five seconds for the store and then ends without being stored."""
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    kept = tmp_path / FILE_NAME
    asked = {"model": "tiny", "input": "Hi", "stream": True}
    gate = Gate()
    with Upstream(*[PACED] * 50, *[[*BEGIN, gate, *END]] * 14) as upstream:
        upstream.paths["/v1/models"] = [answer({"data": [{"id": "tiny", "owned_by": "vllm"}]})]
        with fifty_paced(proxy, upstream) as (_, readers):
            responses = [readers.post(asked, "/v1/responses") for _ in range(14)]
            with closing(sqlite3.connect(kept)) as other:
                other.execute("BEGIN EXCLUSIVE")
                began = time.monotonic()
                for _ in responses:
                    gate.open()
                readers.wait(lambda: all(each.ended for each in responses))
                readers.go_on(5)
                assert time.monotonic() - began < PATIENCE  # blocked streams would wait for 70 s
            assert all(b"response.completed" in each.data for each in responses)
            assert all(b'"store":false' in each.data for each in responses)


@pytest.mark.slow
@pytest.mark.once
def test_2000_streams_opened_and_closed_at_random_leak_no_descriptor(proxy: Start) -> None:
    moments = random.Random(7)
    endless = [*BEGIN, *(0.02, chunked(text(" it"))) * 100, Act.EXPECT_CLOSE]
    whole = [*BEGIN, 0.05, *END]
    with Upstream(*[moments.choice([endless, whole]) for _ in range(2002)]) as upstream:
        upstream.paths["/v1/models"] = [answer({"data": []})]
        front = proxy(upstream.url, "--heartbeat", "0.5")
        worker = worker_of(front)
        opened: list[Client] = []
        for number in range(2002):
            if number == 2:  # everything that is created only once exists now
                end(opened, front)
                before, threads = worker.num_fds(), worker.num_threads()
            opened.append(Client.post(front.port, chat()))
            if number % 10 == 0:  # otherwise streams open faster than the proxy serves them
                with opened[-1].answer() as response:
                    assert response.status == 200 and response.peek()
            while len(opened) > moments.randrange(1, 150):
                opened.pop(moments.randrange(len(opened))).vanish(reset=moments.random() < 0.5)
        end(opened, front)
        until(lambda: worker.num_fds() <= before + 2)
        assert worker.num_threads() < threads + 600
        assert front.health()["total_buffers"] == 0


def end(opened: list[Client], front: Proxy) -> None:
    while opened:
        opened.pop().vanish(reset=False)
    until(lambda: front.health()["active_requests"] == 0)


# A worker whose pump fails when a file exists.
BROKEN = """
__file__ = {conf!r}
exec(compile(open(__file__).read(), "conf", "exec"))
import os
def failing(self, took=_load("pump").Pump._round):
    took(self)
    if os.path.exists({trigger!r}):
        os.unlink({trigger!r})
        raise ValueError("a defect of the pump")
_load("pump").Pump._round = failing
"""


@contextmanager
def with_a_defect(folder: Path, upstream: str, trigger: Path) -> Iterator[Proxy]:
    """Yield a proxy whose pump fails once, soon after `trigger` is created."""
    conf = folder / "conf.py"
    conf.write_text(BROKEN.format(conf=gunicorn_conf.__file__, trigger=str(trigger)))
    port = free_port()
    command = [sys.executable, "-P", "-m", "gunicorn", "-c", str(conf), "--chdir", str(ROOT), "--threads", "8"]
    command += ["--bind", f"127.0.0.1:{port}", "--worker-connections", "500", "proxy.app:create_app()"]
    proxy = Proxy(port, folder / "log")
    with proxy.log.open("wb") as log:
        env = {**clean_environment(), "TOOL_PROXY_UPSTREAM": upstream, "TOOL_PROXY_HEARTBEAT": "0.2"}
        process = subprocess.Popen(command, env=env, stderr=log)
    try:
        until(lambda: answers(f"{proxy.url}/health"))
        yield proxy
    finally:
        stop(process)


@pytest.mark.slow
def test_a_failed_pump_ends_its_streams_properly_and_the_worker_is_replaced(tmp_path: Path) -> None:
    gate, trigger = Gate(), tmp_path / "now"
    with ExitStack() as stack:
        upstream = stack.enter_context(serving(*[[*BEGIN, gate, *END]] * 30))
        stack.callback(gate.open)
        front = stack.enter_context(with_a_defect(tmp_path, upstream.url, trigger))
        first = front.health()["worker"]
        readers = stack.enter_context(Readers(front.port))
        dialects = [DIALECTS["chat"], DIALECTS["messages"]] * 15
        for dialect in dialects:
            readers.post(dialect.ask(streamed=True, tools=True), dialect.path)
        trigger.touch()
        readers.wait(lambda: all(each.ended for each in readers.all))
        for dialect, each in zip(dialects, readers.all, strict=True):
            body = b"".join(re.findall(rb"[0-9a-f]+\r\n(.*?\n\n)\r\n", each.data.partition(b"\r\n\r\n")[2], re.DOTALL))
            assert "about to end" in dialect.stream(body).words, each.data
        front.workers(but=(first,), count=1)
        upstream.play(whole_reply("So."))
        upstream.paths["/v1/models"] = [answer({"data": []})]
        with Client.post(front.port, chat(stream=False)) as client, client.answer() as response:
            assert response.status == 200
        until(lambda: front.log.read_text().count("path=/v1/chat/completions") >= 16)
        log = front.log.read_text()
        assert "the pump has failed" in log and "a defect of the pump" in log
        assert log.count("path=/v1/chat/completions") == 16 and "WORKER TIMEOUT" not in log


@pytest.fixture(autouse=True)
def many_descriptors() -> Iterator[None]:
    """The test process holds both ends of all streams."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
