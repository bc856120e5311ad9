"""Fake model server with paced streams: `python -m benchmarks.upstream --port 0`.

One thread, one epoll, raw sockets. Event k of a stream is written at t0 + k / rate. The event's text ends with its
number, and its id contains t0 (time.monotonic(), the same clock in all processes), so a reader can compute how late the
event is. With rate 0 every stream gets one event in turn, like the steps of a model server, as fast as the sockets
allow.

Prints `{"port": N}` when it listens, and exits after `--lifetime` seconds.
"""

from __future__ import annotations

import argparse
import heapq
import json
import select
import socket
import time
from dataclasses import dataclass, field
from typing import Any

from benchmarks import script
from benchmarks.body import MODEL

MAX_REQUEST = 16 << 20
MAX_HOLD = 600.0
_READ = select.EPOLLIN | select.EPOLLRDHUP


@dataclass(slots=True)
class Plan:
    """Contents of one stream: events, events per second (0: no pacing), seconds of silence before the end.

    `usage`: token counts at the end; `counts`: in every chunk, too. `call`: a call instead of text. It is structured
    (`right`, or `wrong` or `unescaped` if it needs a repair), or `printed` as text. `piece`: number of characters in
    each piece of its content.
    """

    events: int = 50
    rate: float = 50.0
    hold: float = 0.0
    usage: bool = False
    counts: bool = False
    call: str = ""
    piece: int = 0

    def with_body(self, body: dict[str, Any]) -> Plan:
        """Return the plan with the values from a request, within bounds."""
        # Messages clients send it as the user id, which the proxy translates to `user`.
        bench = body.get("bench") or json.loads(body.get("user") or "{}")
        counted = body.get("stream_options") or {}
        return Plan(
            events=max(0, min(int(bench.get("events", self.events)), script.MAX_EVENTS)),
            rate=max(0.0, float(bench.get("rate", self.rate))),
            hold=max(0.0, min(float(bench.get("hold", self.hold)), MAX_HOLD)),
            usage=bool(counted.get("include_usage")),
            counts=bool(counted.get("continuous_usage_stats")),
            call=str(bench.get("call", self.call)),
            piece=int(bench.get("piece", self.piece)),
        )


@dataclass(slots=True, eq=False)
class Connection:
    """One client: bytes received, bytes still to send, and the current stream."""

    sock: socket.socket
    received: bytearray = field(default_factory=bytearray)
    unsent: bytes = b""
    plan: Plan | None = None
    says: script.Script | None = None
    start: float = 0.0
    ident: bytes = b""
    number: int = 0
    closed: bool = False

    def due(self, now: float) -> float:
        """Return the time at which the next piece of the stream is due."""
        assert self.plan is not None
        if self.number > self.plan.events:
            # The finish is sent with the last token, unless a silence was requested.
            spoken = self.plan.events / self.plan.rate if self.plan.rate else 0.0
            return self.start + spoken + self.plan.hold if self.plan.hold else now
        return self.start + self.number / self.plan.rate if self.plan.rate else now


class Upstream:
    """Server: accepts connections, reads requests, and writes each event when it is due."""

    def __init__(self, port: int, default: Plan, owner: str = "vllm") -> None:
        """Listen on 127.0.0.1:`port` (0: a free one). `owner` is the reported owner of the models."""
        self._default, self._owner = default, owner
        self._scripts = {counts: script.Script(counts=counts) for counts in (False, True)}
        self._listener = socket.create_server(("127.0.0.1", port), backlog=4096)
        self._listener.setblocking(False)
        self._epoll = select.epoll()
        self._epoll.register(self._listener.fileno(), select.EPOLLIN)
        self._connections: dict[int, Connection] = {}
        self._due: list[tuple[float, int, Connection]] = []
        self._turn = 0
        self.port: int = self._listener.getsockname()[1]

    def serve(self, until: float) -> None:
        """Serve until time.monotonic() is `until`."""
        while (now := time.monotonic()) < until:
            soonest = min(self._due[0][0], until) if self._due else until
            if soonest > now:
                # select() has a resolution of a microsecond, epoll of a millisecond.
                select.select([self._epoll], [], [], soonest - now)
            for descriptor, mask in self._epoll.poll(0):
                self._ready(descriptor, mask)
            self._write_due()

    def _ready(self, descriptor: int, mask: int) -> None:
        """Handle the epoll events of one descriptor."""
        if descriptor == self._listener.fileno():
            self._accept()
            return
        connection = self._connections.get(descriptor)
        if connection is None:
            return
        if mask & select.EPOLLOUT:
            self._unblock(connection)
        if mask & ~select.EPOLLOUT and not connection.closed:
            self._receive(connection)

    def _accept(self) -> None:
        """Accept all waiting clients."""
        while True:
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections[sock.fileno()] = Connection(sock)
            self._epoll.register(sock.fileno(), _READ)

    def _receive(self, connection: Connection) -> None:
        """Read from a client, and answer each complete request."""
        try:
            data = connection.sock.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        connection.received += data
        if not data or len(connection.received) > MAX_REQUEST:
            self._close(connection)
            return
        self._next(connection)

    def _next(self, connection: Connection) -> None:
        """Answer received requests. A request received during a stream waits for the stream's end."""
        while connection.plan is None and not connection.closed and (request := _request(connection.received)):
            self._answer(connection, *request)

    def _answer(self, connection: Connection, line: bytes, body: bytes) -> None:
        """Answer one request: a stream, a whole completion, or one of the small routes."""
        now = time.monotonic()
        if line.startswith(b"POST /v1/chat/completions "):
            request = json.loads(body)
            if request.get("stream"):
                self._begin(connection, self._default.with_body(request), now)
                return
            self._send(connection, script.whole(now))
        elif line.startswith(b"GET /health "):
            self._send(connection, script.reply({"status": "ok"}))
        elif line.startswith(b"GET /v1/models "):
            model = {"id": MODEL, "object": "model", "created": 1, "owned_by": self._owner, "max_model_len": 131072}
            self._send(connection, script.reply({"object": "list", "data": [model]}))
        else:
            self._send(connection, script.reply({"detail": "Not Found"}, "404 Not Found"))

    def _begin(self, connection: Connection, plan: Plan, now: float) -> None:
        """Send headers and the role chunk, which are event 0, and schedule the stream."""
        connection.plan, connection.start, connection.ident = plan, now, script.ident(now)
        text = self._scripts[plan.counts]
        connection.says = text
        if plan.call == "printed":
            connection.says = script.printed_call(plan.events, plan.counts)
        elif plan.call == "unescaped":
            connection.says = script.unescaped_call(plan.events, plan.counts)
        elif plan.call:
            connection.says = script.call(plan.events, plan.call == "wrong", plan.counts, plan.piece)
        connection.number = 1
        self._send(connection, script.STREAM_HEADERS + connection.says.role(connection.ident))
        self._schedule(connection)

    def _schedule(self, connection: Connection) -> None:
        """Schedule a stream's next piece. A blocked stream waits for its socket instead."""
        if connection.closed or connection.plan is None or connection.unsent:
            return
        self._turn += 1
        heapq.heappush(self._due, (connection.due(time.monotonic()), self._turn, connection))

    def _write_due(self) -> None:
        """Write every piece that is due, one for each stream without pacing."""
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            connection = heapq.heappop(self._due)[2]
            plan, says = connection.plan, connection.says
            if connection.closed or plan is None or says is None:
                continue
            if connection.number <= plan.events:
                self._send(connection, says.content(connection.ident, connection.number))
                connection.number += 1
                self._schedule(connection)
            else:
                connection.plan = None
                self._send(connection, says.end(connection.ident, plan.events, plan.usage))
                self._next(connection)

    def _send(self, connection: Connection, data: bytes) -> None:
        """Write bytes. Keep the rest if the socket blocks; the stream pauses until it is sent."""
        connection.unsent += data
        self._flush(connection)
        if connection.unsent and not connection.closed:
            self._epoll.modify(connection.sock.fileno(), _READ | select.EPOLLOUT)

    def _unblock(self, connection: Connection) -> None:
        """Resume a stream with a socket that is writable again."""
        self._flush(connection)
        if not connection.unsent and not connection.closed:
            self._epoll.modify(connection.sock.fileno(), _READ)
            self._schedule(connection)

    def _flush(self, connection: Connection) -> None:
        """Write as many kept bytes as the socket accepts."""
        try:
            sent = connection.sock.send(connection.unsent)
        except BlockingIOError:
            return
        except OSError:
            self._close(connection)
            return
        connection.unsent = connection.unsent[sent:]

    def _close(self, connection: Connection) -> None:
        """Close a client. Its scheduled pieces are skipped when they are due."""
        connection.closed = True
        del self._connections[connection.sock.fileno()]
        connection.sock.close()


def _request(received: bytearray) -> tuple[bytes, bytes] | None:
    """Remove the first complete request from `received`; return its request line and body, or None."""
    end = received.find(b"\r\n\r\n")
    if end < 0:
        return None
    line, *headers = bytes(received[:end]).split(b"\r\n")
    lengths = [value for name, _, value in (h.partition(b":") for h in headers) if name.lower() == b"content-length"]
    whole = end + 4 + (int(lengths[0]) if lengths else 0)
    if len(received) < whole:
        return None
    body = bytes(received[end + 4 : whole])
    del received[:whole]
    return line, body


def main() -> None:
    """Read the command line, listen, print the port, serve."""
    parser = argparse.ArgumentParser(description="paced upstream")
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--events", type=int, default=50, help="content events per stream")
    parser.add_argument("--rate", type=float, default=50.0, help="events per second and stream; 0: no pacing")
    parser.add_argument("--hold", type=float, default=0.0, help="seconds of silence before the finish")
    parser.add_argument("--owner", default="vllm", help="whose the models are, as GET /v1/models says")
    parser.add_argument("--lifetime", type=float, default=300.0, help="seconds until it ends by itself")
    options = parser.parse_args()
    upstream = Upstream(options.port, Plan(options.events, options.rate, options.hold), options.owner)
    print(json.dumps({"port": upstream.port}), flush=True)
    upstream.serve(time.monotonic() + options.lifetime)


if __name__ == "__main__":
    main()
