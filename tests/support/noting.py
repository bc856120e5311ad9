"""Recording of the bytes that an SDK receives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import httpx2


@dataclass
class Answered:
    """One answer of the proxy: its bytes, and whether it is complete."""

    request: httpx2.Request
    status: int
    kind: str
    data: bytearray = field(default_factory=bytearray)
    whole: bool = False

    def check(
        self,
        path: str,
        *,
        error: Callable[[bytes, int], object],
        stream: Callable[[bytes], object],
        body: Callable[[bytes], object],
    ) -> None:
        """Check an error with `error`. Check an answer from a path that ends with `path` with `stream` or `body`."""
        data = bytes(self.data)
        if self.status >= 400:
            error(data, self.status)
        elif self.request.url.path.endswith(path) and self.whole:
            (stream if self.kind.startswith("text/event-stream") else body)(data)


class _Noted(httpx2.SyncByteStream):
    """A body that is recorded while the SDK reads it."""

    def __init__(self, inner: httpx2.SyncByteStream, answered: Answered) -> None:
        self._inner, self._answered = inner, answered

    def __iter__(self) -> Iterator[bytes]:
        for part in self._inner:
            self._answered.data += part
            yield part
        self._answered.whole = True

    def close(self) -> None:
        self._inner.close()


class Noting(httpx2.BaseTransport):
    """An SDK transport that records all answers."""

    def __init__(self) -> None:
        self.answers: list[Answered] = []
        self._inner = httpx2.HTTPTransport()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = self._inner.handle_request(request)
        self.answers.append(Answered(request, response.status_code, response.headers.get("content-type", "")))
        assert isinstance(response.stream, httpx2.SyncByteStream)
        noted = _Noted(response.stream, self.answers[-1])
        return httpx2.Response(
            response.status_code, headers=response.headers, stream=noted, extensions=response.extensions
        )

    def close(self) -> None:
        self._inner.close()
