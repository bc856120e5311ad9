"""A model server without a socket, whose answers are available immediately."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from typing import Any

from proxy.errors import ProxyError
from proxy.json import JsonObject, as_object, load_json
from proxy.upstream.client import ModelServer, ServerOptions, UpstreamCall

# The answer to a path and a body: a status and a body, or an error to raise.
Made = tuple[int, bytes] | ProxyError
Answers = Callable[[str, JsonObject], Made]


class _Received:
    """Stand-in for a socket whose data has already arrived."""

    def __init__(self, data: bytes, *, stays: bool = False) -> None:
        self._data = data
        self._stays = stays
        self._file = os.open(os.devnull, os.O_RDONLY)

    def fileno(self) -> int:
        """Return a descriptor that is always readable."""
        return self._file

    def setblocking(self, flag: bool) -> None:
        """Do nothing: reading never blocks."""

    def recv(self, most: int) -> bytes:
        """Return the next bytes."""
        piece, self._data = self._data[:most], self._data[most:]
        if not piece and self._stays:
            raise BlockingIOError
        return piece

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Socketless(ModelServer):
    """Model server with fixed answers. `asked` has the methods, paths and bodies; `headers` are the last request's."""

    def __init__(self, answers: Answers, url: str = "http://h:1") -> None:
        super().__init__(ServerOptions(url))
        self._answers = answers
        self.asked: list[tuple[str, str, JsonObject]] = []
        self.headers: dict[str, str] = {}

    def open(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None, seconds: float = math.inf
    ) -> UpstreamCall:
        """Return the call with its answer, or raise the error given in its place."""
        asked = as_object(load_json(body)) if body else {}
        self.asked.append((method, path, asked))
        self.headers = {**headers}
        made = self._answers(path, asked)
        if isinstance(made, ProxyError):
            raise made
        return answer_with(*made)


def answer_with(status: int, data: bytes, headers: Mapping[str, str] | None = None) -> UpstreamCall:
    """Return a call whose answer has arrived, but is unread."""
    named = {**({} if headers is None else headers), "Content-Length": str(len(data))}
    lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in named.items()), "", ""]
    return bytes_came("\r\n".join(lines).encode() + data)


def bytes_came(data: bytes, *, stays: bool = False) -> UpstreamCall:
    """Return a call whose raw answer has arrived. `stays`: the server keeps the connection open afterwards."""
    come: Any = _Received(data, stays=stays)
    return UpstreamCall(come)
