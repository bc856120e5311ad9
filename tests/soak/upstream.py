"""The model server of the soak: it does what each request's plan says, and counts what is open."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
import time
from collections.abc import Mapping

from tests.faults.bench import MODELS
from tests.soak.plans import Do, Plan, Step
from tests.support.scripted import answer

_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_ID = re.compile(rb"(?i)\r\nx-request-id: *(\S+)")
# The longest that a script waits for the proxy to close.
_LONG = 60.0
_RESET = struct.pack("ii", 1, 0)


class Gone(Exception):
    """The proxy closed."""


class Upstream:
    """`plans` are the requests by their id; `asked` is how often each has come, `came` when, `closed` when it was over.

    `down` are the times at which nobody listened; None as the end means that it is so now.
    """

    def __init__(self, plans: Mapping[str, Plan]) -> None:
        self._plans = plans
        self._server: asyncio.Server | None = None
        self.port = 0
        self.open = 0
        self.asked: dict[str, int] = {}
        self.came: dict[str, float] = {}
        self.closed: dict[str, float] = {}
        self.down: list[tuple[float, float | None]] = []

    async def listen(self) -> None:
        """Begin, or begin again on the same port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=2**21, backlog=1000)
        self.port = self._server.sockets[0].getsockname()[1]
        if self.down:
            self.down[-1] = (self.down[-1][0], time.monotonic())

    def refuse(self) -> None:
        """Nobody listens; what is under way goes on."""
        assert self._server is not None
        self.down.append((time.monotonic(), None))
        self._server.close()

    async def end(self) -> None:
        """Nobody listens any more, and no connection is left."""
        assert self._server is not None
        self._server.close()
        while self.open:
            await asyncio.sleep(0.05)

    def was_down(self, start: float, end: float) -> bool:
        """True if nobody listened at some moment of that time, or just before."""
        return any(began <= end and (until is None or until >= start - 0.5) for began, until in self.down)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sock: socket.socket = writer.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.open += 1
        id_ = ""
        try:
            top = await reader.readuntil(b"\r\n\r\n")
            found = _LENGTH.search(top)
            await reader.readexactly(int(found[1]) if found else 0)
            named = _ID.search(top)
            id_ = named[1].decode() if named else ""
            await self._answer(top, id_, reader, writer)
        except (OSError, asyncio.IncompleteReadError, Gone):
            pass  # the proxy did not wait for the end
        finally:
            self.open -= 1
            self.closed[id_] = time.monotonic()
            writer.transport.abort() if sock.fileno() >= 0 and _lingers(sock) else writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, top: bytes, id_: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if top.startswith(b"GET /v1/models"):
            writer.write(MODELS)
        elif not top.startswith(b"POST /v1/chat/completions") or id_ not in self._plans:
            writer.write(answer({}))
        else:
            self.asked[id_] = self.asked.get(id_, 0) + 1
            self.came[id_] = time.monotonic()
            for step in self._plans[id_].steps:
                await self._do(step, reader, writer)
        await writer.drain()

    async def _do(self, step: Step, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if isinstance(step, bytes):
            writer.write(step)
            await writer.drain()
        elif step is Do.RST:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        else:
            # Nothing more is sent by the proxy: what can be read is its end.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(step if isinstance(step, float) else _LONG):
                    await reader.read(1)
                    raise Gone


def _lingers(sock: socket.socket) -> bool:
    """True if it was told to end with an RST."""
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8) == _RESET
