"""A model server that streams for as long as its request says, in a process of its own that can be killed.

    python -m tests.cluster.upstream --port 8000 --name A --seen FILE

A request says in its last message what it wants: `request=r1 chunks=40 pause=0.25`. The text of the answer is
`A/p1 w0 w1 ...`: this server's name, the key that the proxy has for it (each has its own), and one word for each chunk.
FILE gets a line for each request when it arrives, so that it outlives the server. `GET /open` is the number of answers
under way, `GET /v1/echo` the head of the request itself, with this server's name in a header (`X-Served-By`).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import socket
from dataclasses import dataclass
from pathlib import Path

from tests.support.scripted import DONE, LAST, ROLE, SSE, USAGE, answer, chunked, completion, finish, text

_WANTED = re.compile(rb"request=(\w+) chunks=(\d+) pause=([0-9.]+)")
_CARD = {"id": "tiny", "object": "model", "created": 1, "owned_by": "vllm", "max_model_len": 100_000}


@dataclass
class Server:
    """One model server; `under_way` counts its answers."""

    name: str
    seen: Path
    under_way: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, which has one request."""
        sock: socket.socket = writer.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
            body = await reader.readexactly(int(length[1])) if length else b""
            await self._answer(head, body, reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async def _answer(
        self, head: bytes, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        path = head.split(b" ")[1].decode()
        if path == "/v1/echo":
            writer.write(answer(head, headers={"Content-Type": "text/plain", "X-Served-By": self.name}))
        elif path == "/open":
            writer.write(answer({"open": self.under_way}))
        elif path in ("/health", "/_ready"):
            writer.write(answer({}))
        elif path == "/v1/models":
            writer.write(answer({"object": "list", "data": [_CARD]}))
        elif path == "/v1/chat/completions":
            proxy = re.findall(rb"(?i)\r\nauthorization: Bearer (p[123])\r\n", head)[0]
            await self._generate(proxy.decode(), body, reader, writer)
        else:
            writer.write(answer({"error": {"message": f"no {path}"}}, 404))

    async def _generate(
        self, proxy: str, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        found = _WANTED.findall(body)[-1]
        with self.seen.open("a") as lines:
            lines.write(f"{self.name}/{proxy} {found[0].decode()}\n")
        words = [f"{self.name}/{proxy}", *(f"w{number}" for number in range(int(found[1])))]
        speak = self._stream if json.loads(body).get("stream") else self._whole
        self.under_way += 1
        try:
            # The other side's end closes: it wants no answer any more.
            gone = asyncio.ensure_future(reader.read())
            spoken = asyncio.ensure_future(speak(words, float(found[2]), writer))
            await asyncio.wait((gone, spoken), return_when=asyncio.FIRST_COMPLETED)
            for each in (gone, spoken):
                each.cancel()
            await asyncio.gather(gone, spoken, return_exceptions=True)
        finally:
            self.under_way -= 1

    async def _stream(self, words: list[str], pause: float, writer: asyncio.StreamWriter) -> None:
        writer.write(SSE + chunked(ROLE))
        for number, word in enumerate(words):
            writer.write(chunked(text(word if number == 0 else f" {word}")))
            await writer.drain()
            await asyncio.sleep(pause)
        writer.write(chunked(finish()) + chunked(USAGE) + chunked(DONE) + LAST)
        await writer.drain()

    async def _whole(self, words: list[str], pause: float, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(pause * len(words))
        writer.write(answer(completion(" ".join(words))))
        await writer.drain()


async def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--seen", type=Path, required=True)
    options = parser.parse_args()
    server = Server(options.name, options.seen)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", options.port, backlog=1024, limit=1 << 20)
    await listener.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
