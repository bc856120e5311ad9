"""Clients of many concurrent streams on one thread: the data that each received, and its gaps."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
from typing import Any

from tests.support.scripted import PATIENCE


class Reading:
    """One stream from its client's view."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.data = b""
        self.closed = False
        self.parts = 0

    @property
    def ended(self) -> bool:
        """Whether the last chunk has arrived, or the connection is closed."""
        return self.closed or self.data.endswith(b"\r\n0\r\n\r\n")


class Readers:
    """Context manager for clients whose streams are read by one thread."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._epoll = select.epoll()
        self._by_descriptor: dict[int, Reading] = {}
        self._change = threading.Condition()
        self._over = False
        self.all: list[Reading] = []

    def __enter__(self) -> Readers:
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._thread.join(PATIENCE)
        self._epoll.close()
        for reading in self.all:
            reading.sock.close()

    def post(self, body: Any, path: str = "/v1/chat/completions") -> Reading:
        """Request a stream, and wait for its first bytes."""
        sock = socket.create_connection(("127.0.0.1", self._port), PATIENCE)
        data = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        sock.sendall(head.encode() + data)
        reading = Reading(sock)
        self.all.append(reading)
        self._by_descriptor[sock.fileno()] = reading
        self._epoll.register(sock, select.EPOLLIN)
        self.wait(lambda: b"data: " in reading.data or reading.closed)
        return reading

    def wait(self, holds: Any, seconds: float = PATIENCE) -> None:
        """Wait until `holds()` is true. It is called whenever data arrives."""
        with self._change:
            assert self._change.wait_for(holds, seconds), "the condition was not met in time"

    def go_on(self, parts: int = 20) -> None:
        """Wait until each open stream has received `parts` more pieces of data."""
        wanted = [(each, each.parts + parts) for each in self.all if not each.ended]
        self.wait(lambda: all(each.parts >= number for each, number in wanted))

    def leave(self, reading: Reading) -> None:
        with self._change:
            self._forget(reading)
            reading.sock.close()

    def _forget(self, reading: Reading) -> None:
        if self._by_descriptor.pop(reading.sock.fileno(), None) is not None:
            with contextlib.suppress(OSError):
                self._epoll.unregister(reading.sock)

    def _read(self) -> None:
        while not self._over:
            events = self._epoll.poll(0.1)
            with self._change:
                for descriptor, _ in events:
                    if descriptor in self._by_descriptor:
                        self._take(self._by_descriptor[descriptor])
                self._change.notify_all()

    def _take(self, reading: Reading) -> None:
        try:
            data = reading.sock.recv(1 << 18)
        except OSError:
            data = b""
        if not data:
            reading.closed = True
            self._forget(reading)
        reading.data += data
        reading.parts += 1
