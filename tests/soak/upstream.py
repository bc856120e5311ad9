"""The model server of the soak: it plays each request's plan, and counts open connections."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping

from tests.faults.bench import MODELS
from tests.soak.plans import Plan
from tests.support import scripted
from tests.support.scripted import PATIENCE, Seen, answer


class Upstream(scripted.Upstream):
    """`plans` are the requests by id. `requests` counts the arrivals of each, with the times `arrived` and `closed`.

    `down` are the times without a listener; None as the end means until now.
    """

    def __init__(self, plans: Mapping[str, Plan]) -> None:
        super().__init__()
        self._plans = plans
        self.open = 0
        self.requests: Counter[str] = Counter()
        self.arrived: dict[str, float] = {}
        self.closed: dict[str, float] = {}
        self.down: list[tuple[float, float | None]] = []

    def refuse(self) -> None:
        """Close the listener; running answers continue."""
        self.down.append((time.monotonic(), None))
        self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join(PATIENCE)
        self._listener.close()
        self._threads = [thread for thread in self._threads if thread.is_alive()]

    def listen(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()
        self.down[-1] = (self.down[-1][0], time.monotonic())

    def was_down(self, start: float, end: float) -> bool:
        """Return whether there was no listener at some moment of that time, or just before."""
        return any(began <= end and (until is None or until >= start - 0.5) for began, until in self.down)

    def _answer(self, sock: socket.socket, seen: Seen) -> None:
        id_ = seen.headers["X-Request-Id"] or ""
        script: scripted.Script = [MODELS if seen.path == "/v1/models" else answer({})]
        with self._arrived:
            self.open += 1
            if seen.line.startswith("POST /v1/chat/completions") and id_ in self._plans:
                script = self._plans[id_].steps
                self.requests[id_] += 1
                self.arrived[id_] = time.monotonic()
        with contextlib.suppress(scripted.Gone, OSError):
            for action in script:
                self._act(sock, action)
            sock.shutdown(socket.SHUT_WR)
        with self._arrived:
            self.open -= 1
            self.closed[id_] = time.monotonic()
