"""Servers for tests, which accept connections in a thread and stop when the block ends."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Generic, Self, TypeVar

Server = TypeVar("Server", bound=TCPServer)


class Listener(ThreadingHTTPServer):
    """A listening socket. Open connections do not delay the stop."""

    daemon_threads = True
    block_on_close = False


class Handler(BaseHTTPRequestHandler):
    """One connection, with any number of requests; nothing is logged."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def body(self) -> Any:
        """Return the JSON value of the request."""
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def send_whole(self, status: int, value: Any, *, cut: bool = False) -> None:
        """Answer with JSON, or bytes verbatim. If the answer is cut, send half of it."""
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if cut else data)
        self.close_connection = self.close_connection or cut

    def send_stream(self, events: Iterable[bytes], *, cut: bool = False) -> None:
        """Answer with an event stream, one chunk per event. If it is cut, omit the last chunk."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
        if cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


class Threaded(Generic[Server]):
    """Context manager: `server` answers at `url`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        self.url = f"http://127.0.0.1:{server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop serving and close the listening socket."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
