"""A model server whose requests set the length of its streams. It is a separate process that can be killed.

    python -m tests.cluster.upstream --port 8000 --name A --seen FILE

The last message of a request has its parameters: `request=r1 chunks=40 pause=0.25`. The text of the answer is
`A/p1 w0 w1 ...`: this server's name, the key of the proxy, and one word per chunk. Each request is written to FILE
when it arrives, so that the record survives the server. `GET /open` returns the number of running answers. Each answer
has the server's name in the header `X-Served-By`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import select
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.real.threaded import Handler, Listener
from tests.support.scripted import DONE, ROLE, USAGE, completion, finish, text

_WANTED = re.compile(r"request=(\w+) chunks=(\d+) pause=([0-9.]+)")
_CARD = {"id": "tiny", "object": "model", "created": 1, "owned_by": "vllm", "max_model_len": 100_000}


class _Server(Listener):
    """The listening socket; `under_way` counts the answers."""

    request_queue_size = 1024
    name: str
    seen: Path
    under_way = 0
    lock = threading.Lock()


class _Handler(Handler):
    server: _Server

    def end_headers(self) -> None:
        self.send_header("X-Served-By", self.server.name)
        super().end_headers()

    def do_GET(self) -> None:
        """Answer HAProxy, the proxies and the test."""
        cards = {"object": "list", "data": [_CARD]}
        self.send_whole(200, {"/open": {"open": self.server.under_way}, "/v1/models": cards}.get(self.path, {}))

    def do_POST(self) -> None:
        """Answer a chat request by its parameters."""
        body = self.body()
        request, chunks, pause = _WANTED.findall(json.dumps(body))[-1]
        served = f"{self.server.name}/{self.headers['Authorization'].removeprefix('Bearer ')}"
        words = [served, *(f"w{number}" for number in range(int(chunks)))]
        with self.server.lock:
            self.server.under_way += 1
            with self.server.seen.open("a") as lines:
                lines.write(f"{served} {request}\n")
        try:
            with contextlib.suppress(ConnectionError):
                if body.get("stream"):
                    self.send_stream(self._events(words, float(pause)))
                else:
                    self._wait(float(pause) * len(words))
                    self.send_whole(200, completion(" ".join(words)))
        finally:
            with self.server.lock:
                self.server.under_way -= 1

    def _events(self, words: list[str], pause: float) -> Iterator[bytes]:
        yield ROLE
        for number, word in enumerate(words):
            yield text(word if number == 0 else f" {word}")
            self._wait(pause)
        yield from (finish(), USAGE, DONE)

    def _wait(self, seconds: float) -> None:
        """Wait. Raises ConnectionError if the other side closes meanwhile."""
        poll = select.poll()
        poll.register(self.connection, select.POLLRDHUP)
        if poll.poll(seconds * 1000):
            raise ConnectionError


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--seen", type=Path, required=True)
    options = parser.parse_args()
    server = _Server(("127.0.0.1", options.port), _Handler)
    server.name, server.seen = options.name, options.seen
    server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
