"""A model server with scripted bytes, the bytes of real servers, and a client that can disconnect."""

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
from typing import Any, TypeAlias

# Timeout in seconds, long enough for a busy machine; only failures take this long.
PATIENCE = 60.0
# Seconds that a script waits at a gate, and the value of timeouts that must not affect a test. It is longer than
# PATIENCE, so that a test's own timeout is always first.
HELD = 3 * PATIENCE


class Act(Enum):
    """Actions of a script other than sending bytes and waiting at a gate."""

    RST = auto()
    CLOSE = auto()
    EXPECT_CLOSE = auto()


class Gate:
    """A point where a script waits until the test opens it. `reached` is set when the script gets there."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.fd = os.eventfd(0)

    def open(self) -> None:
        """Let the script continue."""
        os.eventfd_write(self.fd, 1)

    def wait(self) -> None:
        """Wait until the script reaches the gate."""
        assert self.reached.wait(PATIENCE), "the script did not reach the gate"


# A number is a pause in seconds.
Action: TypeAlias = "bytes | Gate | Act | float"
Script: TypeAlias = Sequence[Action]


@dataclass(eq=False)
class Seen:
    """A received request. `closed_at` is when (`time.monotonic`) the other side closed its connection."""

    line: str
    headers: Message
    body: bytes
    closed_at: float = 0.0
    closed: threading.Event = field(default_factory=threading.Event)

    @property
    def path(self) -> str:
        return self.line.split()[1]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def gone_after(self, moment: float, seconds: float = PATIENCE) -> bool:
        """Return whether the other side closed within `seconds` after `moment`, and before the script ended."""
        return self.closed.wait(seconds) and self.closed_at - moment <= seconds

    def note_close(self) -> None:
        """Record that the other side has closed."""
        self.closed_at = time.monotonic()
        self.closed.set()


def _is_own_request(seen: Seen) -> bool:
    """Return whether this is the proxy's own request for a model's properties, with a client's headers."""
    about_models = seen.line.startswith("GET ") and seen.path in ("/v1/models", "/props", "/get_model_info")
    return about_models and seen.headers["Content-Type"] == "application/json"


class Gone(Exception):
    """The other side has closed the connection."""


class Upstream:
    """Context manager: a server at `url` that answers the n-th request with the n-th script, over TLS with `tls`.

    `paths` have fixed answers instead of scripts. A request without a script gets 599. `received` has all requests,
    `seen` those with a script, `asked` the paths of the others. The proxy's own requests for model properties get 404
    and are only in `received`, unless `paths` answers them.
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

    def __exit__(self, *_: object) -> None:
        self._stop.open()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join(PATIENCE)
        self._listener.close()
        for thread in self._threads:
            thread.join(PATIENCE)
        for gate in [self._stop, *self._gates]:
            os.close(gate.fd)

    def gate(self) -> Gate:
        """Return a gate for a script of this server."""
        self._gates.append(Gate())
        return self._gates[-1]

    def play(self, *scripts: Script) -> None:
        """Drop all records, and answer the next requests with these scripts."""
        with self._arrived:
            self._scripts = list(scripts)
            self.received, self.seen, self.asked, self.paths = [], [], [], {}

    def wait(self, count: int = 1) -> Seen:
        """Wait for the `count`-th scripted request, and return it."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.seen) >= count, PATIENCE), "no request came"
            return self.seen[count - 1]

    def wait_for_all(self) -> None:
        """Wait until all connections so far are closed.

        On a busy machine, a request may still be unread after the other side has closed, and would use up a script of
        the next test.
        """
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as last:
            name = str(last.getsockname()[1])
        deadline = time.monotonic() + PATIENCE
        while all(thread.name != name for thread in self._threads):  # connections are accepted in order
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
                return  # the TLS handshake failed, or the other side closed

    def _answer(self, sock: socket.socket, seen: Seen) -> None:
        with self._arrived:
            self.received.append(seen)
            script = self.paths.get(seen.path)
            if script is None and _is_own_request(seen):
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
        except (Gone, ConnectionError):
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
        """Wait until the gate opens, the server stops, or the other side closes, which is detected without reading."""
        poll = select.poll()
        poll.register(sock.fileno(), select.POLLRDHUP)
        poll.register(self._stop.fd, select.POLLIN)
        if gate is not None:
            poll.register(gate.fd, select.POLLIN)
        if any(fd == sock.fileno() for fd, _ in poll.poll(seconds * 1000)):
            raise Gone


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


# Bytes of model servers.


def head(status: int = 200, headers: Mapping[str, str] | None = None) -> bytes:
    """Return the head of an answer. Without a Content-Length header, the body ends with the connection."""
    phrase = HTTPStatus(status).phrase if status != 599 else "Unscripted"
    lines = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    return f"HTTP/1.1 {status} {phrase}\r\n{lines}\r\n".encode("latin-1")


def answer(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> bytes:
    """Return a whole answer: bytes verbatim, other types as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    usual = {"Content-Type": "application/json", "Content-Length": str(len(data))}
    return head(status, {**usual, **(headers or {})}) + data


def completion(message: Mapping[str, object] | str, finish: str = "stop", **more: object) -> dict[str, Any]:
    """Return a whole chat completion in vLLM's form."""
    said = {"role": "assistant", "content": message} if isinstance(message, str) else dict(message)
    choice = {"index": 0, "message": said, "logprobs": None, "finish_reason": finish, "stop_reason": None}
    usage = {"prompt_tokens": 10, "total_tokens": 17, "completion_tokens": 7}
    envelope = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1795223438, "model": "tiny"}
    return {**envelope, "choices": [choice], "usage": usage, **more}


def event(body: object) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def delta(said: Mapping[str, object], finish: str | None = None, **more: object) -> bytes:
    """Return a chunk of a stream in vLLM's form."""
    choice = {"index": 0, "delta": dict(said), "logprobs": None, "finish_reason": finish, "token_ids": None}
    envelope = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1795223438, "model": "tiny"}
    return event({**envelope, "choices": [choice], **more})


def text(said: str) -> bytes:
    return delta({"content": said})


def opened(index: int, id_: str, name: str) -> bytes:
    """Return a chunk that opens a structured call."""
    function = {"name": name, "arguments": ""}
    return delta({"tool_calls": [{"index": index, "id": id_, "type": "function", "function": function}]})


def arguments(index: int, fragment: str) -> bytes:
    """Return a chunk with the next part of a call's arguments."""
    return delta({"tool_calls": [{"index": index, "function": {"arguments": fragment}}]})


def finish(reason: str = "stop") -> bytes:
    """Return a chunk with the finish reason."""
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
    """Return a chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def stream(*events: Action, ended: bool = True) -> list[Action]:
    """Return the script of a stream, one write per event; other actions are between them.

    If `ended` is false, the body lacks the last chunk.
    """
    return [SSE, *(chunked(each) if isinstance(each, bytes) else each for each in events), *([LAST] if ended else [])]


def whole_reply(message: Mapping[str, object] | str, finish: str = "stop", **more: object) -> list[Action]:
    """Return the script of a whole chat completion."""
    return [answer(completion(message, finish, **more))]


def text_reply(*parts: str | Gate | float, why: str = "stop", streamed: bool = True) -> list[Action]:
    """Return the script of a reply with this text: streamed in these parts, or whole."""
    if not streamed:
        return whole_reply("".join(part for part in parts if isinstance(part, str)), why)
    return stream(ROLE, *(text(part) if isinstance(part, str) else part for part in parts), finish(why), DONE)


# Requests of clients.

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
    """Return a chat request; by default it asks for a stream and offers no tools."""
    return {"model": "tiny", "messages": [{"role": "user", "content": content}], "stream": True, **more}


class Client:
    """Context manager: one HTTP/1.1 request over a raw socket, whose answer is read as it arrives."""

    def __init__(self, port: int, request: bytes) -> None:
        self._sock = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self._sock.sendall(request)

    @classmethod
    def post(cls, port: int, body: object, path: str = "/v1/chat/completions") -> Client:
        """Return a client with a POST of JSON."""
        data = json.dumps(body).encode()
        top = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
        return cls(port, top.encode() + b"\r\n\r\n" + data)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    @contextlib.contextmanager
    def answer(self) -> Iterator[HTTPResponse]:
        """Yield the answer once its head has arrived."""
        response = HTTPResponse(self._sock)
        try:
            response.begin()
            yield response
        finally:
            response.close()

    def half_close(self) -> None:
        """Close the sending side of the connection."""
        self._sock.shutdown(socket.SHUT_WR)

    def vanish(self, *, reset: bool) -> float:
        """Close the connection with a FIN or an RST, and return the time (`time.monotonic`)."""
        if reset:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._sock.close()
        return time.monotonic()
