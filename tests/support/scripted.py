"""A model server whose every byte is scripted, the bytes that real ones write, and a client that can simply vanish."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.message import Message
from enum import Enum, auto
from http import HTTPStatus
from http.client import HTTPResponse, parse_headers
from io import BytesIO
from types import TracebackType
from typing import Any, TypeAlias

# Seconds. What is awaited comes, however busy the machine is; only what is broken takes so long.
PATIENCE = 60.0
# What would come late, or never, where something is broken: so long a script waits at a gate, and so much is a setting
# that must not be what ends a test. A wait of PATIENCE is over before, so that the two are told apart.
HELD = 3 * PATIENCE


class Act(Enum):
    """What a script does beside sending bytes and waiting at a gate."""

    RST = auto()
    CLOSE = auto()
    EXPECT_CLOSE = auto()


class Gate:
    """A place where a script waits until the test opens it; `reached` is set when it gets there."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.fd = os.eventfd(0)

    def open(self) -> None:
        """Let the script go on."""
        os.eventfd_write(self.fd, 1)

    def wait(self) -> None:
        """Wait until the script is here."""
        assert self.reached.wait(PATIENCE), "the upstream never came to this point of its script"


# A number is a pause of so many seconds.
Action: TypeAlias = "bytes | Gate | Act | float"
Script: TypeAlias = Sequence[Action]


@dataclass(eq=False)
class Seen:
    """A request as it arrived; `closed_at` is when (`time.monotonic`) the other side's end was seen to close."""

    line: str
    headers: Message
    body: bytes
    closed_at: float = 0.0
    closed: threading.Event = field(default_factory=threading.Event)

    @property
    def path(self) -> str:
        """The path that was asked for."""
        return self.line.split()[1]

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)

    def gone_after(self, moment: float, seconds: float = PATIENCE) -> bool:
        """True if the close came within so many seconds after `moment`, and not when the script was at its end."""
        return self.closed.wait(seconds) and self.closed_at - moment <= seconds

    def note_close(self) -> None:
        """The other side is gone."""
        self.closed_at = time.monotonic()
        self.closed.set()


def _is_question(seen: Seen) -> bool:
    """Return whether the proxy asks about a model: with the headers of the request that it is about to forward."""
    about_models = seen.line.startswith("GET ") and seen.path in ("/v1/models", "/props", "/get_model_info")
    return about_models and seen.headers["Content-Type"] == "application/json"


class _Gone(Exception):
    """The other side closed."""


class Upstream:
    """A context manager: a server at `url` that answers the n-th request with the n-th script, over TLS with `tls`.

    `paths` are answered apart from the scripts, any number of times; a request that no script is left for gets 599.
    `received` has all requests, `seen` those that a script answers, `asked` the paths of the others. The proxy's own
    questions about a model, asked for a request that it forwards, get 404 and are in `received` alone, unless `paths`
    answers them.
    """

    def __init__(self, *scripts: Script, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.received: list[Seen] = []
        self.seen: list[Seen] = []
        self.asked: list[str] = []
        self.paths: dict[str, Script] = {}
        self._scripts = list(scripts)
        self._tls = tls
        self._stop = Gate()
        self._gates: list[Gate] = []
        self._threads: list[threading.Thread] = []
        self._arrived = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://{'localhost' if tls else '127.0.0.1'}:{self.port}"

    def __enter__(self) -> Upstream:
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.open()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join(PATIENCE)
        self._listener.close()
        for thread in self._threads:
            thread.join(PATIENCE)
        for gate in [self._stop, *self._gates]:
            os.close(gate.fd)

    def gate(self) -> Gate:
        """A gate for a script of this server."""
        self._gates.append(Gate())
        return self._gates[-1]

    def play(self, *scripts: Script) -> None:
        """Forget everything; answer the next requests so."""
        with self._arrived:
            self._scripts = list(scripts)
            self.received, self.seen, self.asked, self.paths = [], [], [], {}

    def wait(self, count: int = 1) -> Seen:
        """The `count`-th scripted request, as soon as it is there."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.seen) >= count, PATIENCE), "no request came"
            return self.seen[count - 1]

    def wait_for_all(self) -> None:
        """Wait until each connection that was made until now was served to its end: on a busy machine a request can
        still be unread when the other side has closed, and it would take a script of the next test's.
        """
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as last:
            name = str(last.getsockname()[1])
        deadline = time.monotonic() + PATIENCE
        while all(thread.name != name for thread in self._threads):  # they are accepted in their order
            assert time.monotonic() < deadline, "a connection was not accepted"
            time.sleep(0.001)
        for thread in [*self._threads]:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a connection was not closed"

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the listener was shut down
            while True:
                connection, (_, peer) = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(connection,), name=str(peer), daemon=True)
                thread.start()
                self._threads.append(thread)

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            try:
                sock = self._tls.wrap_socket(connection, server_side=True) if self._tls else connection
                with sock:
                    seen = _read_request(sock)
                    if seen is not None:
                        self._answer(sock, seen)
            except OSError:
                return  # the other side does not want us, or left while we spoke

    def _answer(self, sock: socket.socket, seen: Seen) -> None:
        with self._arrived:
            self.received.append(seen)
            script = self.paths.get(seen.path)
            if script is None and _is_question(seen):
                script = (head(404, {"Content-Length": "0"}),)
            elif script is not None:
                self.asked.append(seen.path)
            else:
                self.seen.append(seen)
                number = len(self.seen)
                script = self._scripts[number - 1] if number <= len(self._scripts) else (head(599) + b"no script",)
            self._arrived.notify_all()
        try:
            for action in script:
                self._act(sock, action)
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_WR)
        except (_Gone, ConnectionError):
            seen.note_close()

    def _act(self, sock: socket.socket, action: Action) -> None:
        if isinstance(action, bytes):
            sock.sendall(action)
        elif isinstance(action, Gate):
            action.reached.set()
            self._wait(sock, action)
        elif action is Act.EXPECT_CLOSE:
            self._wait(sock, None)
        elif isinstance(action, float):
            self._wait(sock, None, action)
        else:
            if action is Act.RST:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()

    def _wait(self, sock: socket.socket, gate: Gate | None, seconds: float = HELD) -> None:
        """Until the gate opens, the server stops or the other side closes; that is seen below TLS, without reading."""
        poll = select.poll()
        poll.register(sock.fileno(), select.POLLRDHUP)
        poll.register(self._stop.fd, select.POLLIN)
        if gate is not None:
            poll.register(gate.fd, select.POLLIN)
        if any(fd == sock.fileno() for fd, _ in poll.poll(seconds * 1000)):
            raise _Gone


def _read_request(sock: socket.socket) -> Seen | None:
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(65536)
        if not more:
            return None
        data += more
    top, _, body = data.partition(b"\r\n\r\n")
    line, _, rest = top.partition(b"\r\n")
    headers = parse_headers(BytesIO(rest + b"\r\n\r\n"))
    parts, size, length = [body], len(body), int(headers.get("content-length", "0"))
    while size < length:
        more = sock.recv(1 << 20)
        if not more:
            return None
        parts.append(more)
        size += len(more)
    return Seen(line.decode("latin-1"), headers, b"".join(parts))


# What model servers write.


def head(status: int = 200, headers: Mapping[str, str] | None = None) -> bytes:
    """The head of an answer; without a Content-Length among its headers the body ends with the connection."""
    phrase = HTTPStatus(status).phrase if status != 599 else "Unscripted"
    lines = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    return f"HTTP/1.1 {status} {phrase}\r\n{lines}\r\n".encode("latin-1")


def answer(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> bytes:
    """A whole answer: bytes as they are, everything else as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    usual = {"Content-Type": "application/json", "Content-Length": str(len(data))}
    return head(status, {**usual, **(headers or {})}) + data


def completion(message: Mapping[str, object] | str, finish: str = "stop", **more: object) -> dict[str, Any]:
    """A whole chat completion in vLLM's shape."""
    said = {"role": "assistant", "content": message} if isinstance(message, str) else dict(message)
    choice = {"index": 0, "message": said, "logprobs": None, "finish_reason": finish, "stop_reason": None}
    usage = {"prompt_tokens": 10, "total_tokens": 17, "completion_tokens": 7}
    envelope = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1795223438, "model": "tiny"}
    return {**envelope, "choices": [choice], "usage": usage, **more}


def event(body: object) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def delta(said: Mapping[str, object], finish: str | None = None, **more: object) -> bytes:
    """One chunk of a stream in vLLM's shape."""
    choice = {"index": 0, "delta": dict(said), "logprobs": None, "finish_reason": finish, "token_ids": None}
    envelope = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1795223438, "model": "tiny"}
    return event({**envelope, "choices": [choice], **more})


def text(said: str) -> bytes:
    """A chunk of text."""
    return delta({"content": said})


def opened(index: int, id_: str, name: str) -> bytes:
    """A chunk that opens a structured call."""
    function = {"name": name, "arguments": ""}
    return delta({"tool_calls": [{"index": index, "id": id_, "type": "function", "function": function}]})


def arguments(index: int, fragment: str) -> bytes:
    """A chunk with the next part of a call's arguments."""
    return delta({"tool_calls": [{"index": index, "function": {"arguments": fragment}}]})


def finish(reason: str = "stop") -> bytes:
    """The chunk that says why the model stopped."""
    return delta({"content": ""}, reason)


ROLE = delta({"role": "assistant", "content": ""})
USAGE = event(
    {
        **{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1795223438, "model": "tiny"},
        **{"choices": [], "usage": {"prompt_tokens": 10, "total_tokens": 17, "completion_tokens": 7}},
    }
)
DONE = b"data: [DONE]\n\n"
_SSE = {"Content-Type": "text/event-stream; charset=utf-8", "Transfer-Encoding": "chunked"}
SSE = head(200, _SSE)
LAST = b"0\r\n\r\n"


def chunked(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def stream(*events: bytes) -> list[Action]:
    """A whole stream, one write per event."""
    return [SSE, *map(chunked, events), LAST]


# What clients ask.

WRITE_FILE: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "write_file",
        "description": "Write a file.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["path", "content"],
        },
    },
}


def chat(content: str = "Hi", /, **more: Any) -> dict[str, Any]:
    """A chat request; by default it asks for a stream and offers no tools."""
    return {"model": "tiny", "messages": [{"role": "user", "content": content}], "stream": True, **more}


class Client:
    """A context manager: one HTTP/1.1 request over a raw socket, whose answer is read as it comes."""

    def __init__(self, port: int, request: bytes) -> None:
        self._sock = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self._sock.sendall(request)

    @classmethod
    def post(cls, port: int, body: object, path: str = "/v1/chat/completions") -> Client:
        """A POST of JSON."""
        data = json.dumps(body).encode()
        top = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
        return cls(port, top.encode() + b"\r\n\r\n" + data)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    @contextlib.contextmanager
    def answer(self) -> Iterator[HTTPResponse]:
        """The answer, once its head is there."""
        response = HTTPResponse(self._sock)
        try:
            response.begin()
            yield response
        finally:
            response.close()

    def half_close(self) -> None:
        """Say that nothing more will be sent."""
        self._sock.shutdown(socket.SHUT_WR)

    def vanish(self, *, reset: bool) -> float:
        """Be gone, with a FIN or with an RST; returns when (`time.monotonic`)."""
        if reset:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._sock.close()
        return time.monotonic()
