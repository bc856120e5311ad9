"""A recording TCP relay between a client and a server."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.real.threaded import Threaded

HEAD = re.compile(rb"(?P<method>[A-Z]+) (?P<path>\S+) HTTP/1\.[01]\r\n(?P<fields>.*?)\r\n\r\n", re.DOTALL)
LENGTH = re.compile(rb"(?i)^content-length:\s*(\d+)", re.MULTILINE)
# Paths of requests to the model. Others are not counted.
ASKING = re.compile(r"/v1/(messages|chat/completions|responses)$")


@dataclass
class Connection:
    """The recorded bytes of one connection."""

    sent: bytearray = field(default_factory=bytearray)
    got: bytearray = field(default_factory=bytearray)


class Request(NamedTuple):
    """A request. The path has no query."""

    method: str
    path: str
    body: bytes


def requests_in(data: bytes) -> Iterator[Request]:
    """Yield the requests in a client's bytes on one connection."""
    at = 0
    while head := HEAD.match(data, at):
        length = LENGTH.search(head["fields"])
        at = head.end() + (int(length[1]) if length else 0)
        path = head["path"].decode().partition("?")[0]
        yield Request(head["method"].decode(), path, data[head.end() : at])


class _Server(socketserver.ThreadingTCPServer):
    """The listening socket, with the target's address and the recorded connections."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    target: tuple[str, int]
    connections: list[Connection]


class _Handler(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        """Relay both directions until the server closes."""
        kept = Connection()
        self.server.connections.append(kept)
        with contextlib.suppress(OSError), socket.create_connection(self.server.target) as server:
            threading.Thread(target=_pass_on, args=(self.request, server, kept.sent), daemon=True).start()
            _pass_on(server, self.request, kept.got)


def _pass_on(source: socket.socket, target: socket.socket, kept: bytearray) -> None:
    """Relay the bytes from `source`, and its end."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            kept += data
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


class Tap(Threaded[_Server]):
    """Context manager: a recording relay at `url` for the server at `target`."""

    def __init__(self, target: str) -> None:
        super().__init__(_Server(("127.0.0.1", 0), _Handler))
        self._server.connections = []
        self.turn(target)

    def turn(self, target: str) -> None:
        """Relay new connections to the server at `target`."""
        place = urlsplit(target)
        self._server.target = (place.hostname or "", place.port or 80)

    def bodies(self) -> list[dict[str, Any]]:
        """Return the bodies of requests to the model, in the order of their connections."""
        found = (each for kept in self._server.connections for each in requests_in(bytes(kept.sent)))
        return [json.loads(each.body) for each in found if ASKING.match(each.path)]

    def got(self) -> list[bytes]:
        """Return the server's bytes on each connection."""
        return [bytes(kept.got) for kept in self._server.connections]

    def write(self, folder: Path, name: str) -> None:
        """Write the bytes of each connection, by direction, to two files in `folder`."""
        for number, kept in enumerate(self._server.connections):
            (folder / f"{name}-{number}-sent.txt").write_bytes(kept.sent)
            (folder / f"{name}-{number}-got.txt").write_bytes(kept.got)
