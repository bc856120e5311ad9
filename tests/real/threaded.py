"""Servers of the tests: one thread accepts, and leaving the server ends it."""

from __future__ import annotations

import threading
from socketserver import TCPServer
from types import TracebackType
from typing import Generic, Self, TypeVar

Server = TypeVar("Server", bound=TCPServer)


class Threaded(Generic[Server]):
    """A context manager: `server` answers at `url`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        self.url = f"http://127.0.0.1:{server.server_address[1]}"

    def __enter__(self) -> Self:
        """Start to answer."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop to answer and close the listening socket."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
