"""What a worker accepts: its listeners, their clients' connections, and the settings under which those are served.

What is the same for each connection is asked for once, and not of the kernel, of an enum or of gunicorn's table of
settings each time.

gunicorn's configuration loads it by its path, so it imports nothing of the package.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Any

from gunicorn.workers.gthread import TConn


class Connection(TConn):
    """A client's connection, which closes as its worker says: `end` takes its socket, and whether the client needs the
    end of its answer. `message` is the class of its requests.
    """

    def __init__(
        self, cfg: Any, sock: Any, client: Any, server: Any, end: Callable[[Any, bool], None], *, message: Any
    ) -> None:
        super().__init__(cfg, sock, client, server)
        self._end = end
        self._message = message

    def init(self) -> None:
        """Make its parser, once."""
        super().init()
        parser: Any = self.parser
        parser.mesg_class = self._message

    def close(self, graceful: bool = False) -> None:
        """Close it; `graceful`: without losing the end of its answer."""
        self._end(self.sock, graceful)


class Listener:
    """A socket on which connections come.

    `made` makes a connection's socket of its family, kind and protocol, and of its descriptor; `cfg`, `end` and
    `message` are what the connection gets.
    """

    def __init__(
        self,
        sock: socket.socket,
        made: Callable[[tuple[int, int, int], int], Any],
        cfg: Any,
        end: Callable[[Any, bool], None],
        message: Any,
    ) -> None:
        self._sock = sock
        self._name = sock.getsockname()
        # As plain numbers: a socket gives them as members of an enum, which is looked up each time.
        self._kind = int(sock.family), int(sock.type), sock.proto
        self._made = made
        self._cfg = cfg
        self._end = end
        self._message = message

    def accept(self) -> Connection:
        """The next connection. Raises OSError if there is none."""
        # `accept` would make a socket, of which our own is then made.
        descriptor, client = self._sock._accept()  # type: ignore[attr-defined]
        sock = self._made(self._kind, descriptor)
        return Connection(self._cfg, sock, client, self._name, self._end, message=self._message)


def listeners_of(
    sockets: Sequence[Any],
    made: Callable[[tuple[int, int, int], int], Any],
    cfg: Any,
    end: Callable[[Any, bool], None],
    message: Any,
) -> dict[Any, Listener]:
    """A listener for each of gunicorn's."""
    return {each: Listener(each.sock, made, cfg, end, message) for each in sockets}


class Settings:
    """gunicorn's settings, for one worker: what was asked for once is known. They do not change while it lives."""

    def __init__(self, settings: Any) -> None:
        self._settings = settings

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._settings, name)
        setattr(self, name, value)
        return value
