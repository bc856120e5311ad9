"""A model server that is asked without a socket: each answer is made here, and has come at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from proxy.codec.json_access import as_object
from proxy.codec.json_text import JsonObject, load_json
from proxy.errors import ProxyError
from proxy.upstream.client import USUAL, ModelServer, ServerOptions, UpstreamCall, Waiting

# Made of a path and a body: a status and the answer's body, or what happens instead.
Made = tuple[int, bytes] | ProxyError
Answers = Callable[[str, JsonObject], Made]


class _Come:
    """In the place of a socket: all that it gives is there."""

    def __init__(self, data: bytes, *, stays: bool = False) -> None:
        self._data = data
        self._stays = stays
        self._file = os.open(os.devnull, os.O_RDONLY)

    def fileno(self) -> int:
        """What a poll says at once that it can be read."""
        return self._file

    def setblocking(self, flag: bool) -> None:
        """It never blocks."""

    def recv(self, most: int) -> bytes:
        """The next bytes."""
        piece, self._data = self._data[:most], self._data[most:]
        if not piece and self._stays:
            raise BlockingIOError
        return piece

    def close(self) -> None:
        """Once is enough."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Socketless(ModelServer):
    """Answers as it is told; what was asked is in `asked`, as methods, paths and bodies, and `headers` are the last."""

    def __init__(self, answers: Answers, url: str = "http://h:1") -> None:
        super().__init__(ServerOptions(url))
        self._answers = answers
        self.asked: list[tuple[str, str, JsonObject]] = []
        self.headers: dict[str, str] = {}

    def open(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None, waiting: Waiting = USUAL
    ) -> UpstreamCall:
        """The call, whose answer has come; raises what happens instead of one."""
        asked = as_object(load_json(body)) if body else {}
        self.asked.append((method, path, asked))
        self.headers = {**headers}
        made = self._answers(path, asked)
        if isinstance(made, ProxyError):
            raise made
        return answer_with(*made)


def answer_with(status: int, data: bytes, headers: Mapping[str, str] | None = None) -> UpstreamCall:
    """An answer that has come, of which nothing is read yet."""
    named = {**({} if headers is None else headers), "Content-Length": str(len(data))}
    lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in named.items()), "", ""]
    return bytes_came("\r\n".join(lines).encode() + data)


def bytes_came(data: bytes, *, stays: bool = False) -> UpstreamCall:
    """The same, of these very bytes; behind them the server `stays`, and says no more."""
    come: Any = _Come(data, stays=stays)
    return UpstreamCall(come)
