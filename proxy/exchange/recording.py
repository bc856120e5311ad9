"""Recording of the bodies of one request for the live page: the first bytes of each body.

A recording is made only if values may be shown. It keeps references to the parts that pass, and copies nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from proxy.upstream.client import UpstreamCall

# Bytes kept of one body.
MAX_KEPT = 256 * 1024
# Tries of one request that are kept.
MAX_TRIES = 4


class Excerpt:
    """The first bytes of a body that arrives in parts; `size` is the number of all bytes."""

    def __init__(self, data: bytes = b"") -> None:
        self._parts: list[bytes] = []
        self.size = 0
        if data:
            self.add(data)

    def add(self, part: bytes) -> None:
        """Append the next part, as far as it fits."""
        room = MAX_KEPT - self.size
        self.size += len(part)
        if room >= len(part):
            self._parts.append(part)
        elif room > 0:
            self._parts.append(part[:room])

    @property
    def data(self) -> bytes:
        """The kept bytes."""
        return b"".join(self._parts)

    @property
    def kept(self) -> int:
        """The number of kept bytes."""
        return min(self.size, MAX_KEPT)

    @property
    def cut(self) -> bool:
        """Whether the body is longer than the kept part."""
        return self.size > MAX_KEPT


class TryRecording:
    """One try: the body sent upstream, and the answer. `raw_text`: the proxy alone looked for calls."""

    def __init__(self, body: bytes, *, raw_text: bool) -> None:
        self.up = Excerpt(body)
        self.answer = Excerpt()
        self.raw_text = raw_text
        self.complete = False
        self._call: UpstreamCall | None = None

    @property
    def status(self) -> int:
        """The HTTP status of the answer, or 0 without one."""
        return 0 if self._call is None else self._call.status

    @property
    def content_type(self) -> str:
        """The content type of the answer, or ""."""
        return "" if self._call is None else self._call.header("Content-Type")

    def listen(self, call: UpstreamCall, parts: Iterator[bytes | None]) -> Iterator[bytes | None]:
        """Yield the parts of the answer unchanged, and record them."""
        self._call = call
        for part in parts:
            if part:
                self.answer.add(part)
            yield part
        self.complete = True

    def note(self, part: bytes) -> None:
        """Record a part of the answer that does not pass through `listen`."""
        self.answer.add(part)


class Recording:
    """One request: the `client_body`, the `tries`, and the response that was `sent` to the client."""

    def __init__(self, client_body: bytes) -> None:
        self.client_body = Excerpt(client_body)
        self.tries: list[TryRecording] = []
        self.sent = Excerpt()

    @property
    def size(self) -> int:
        """Return the number of bytes kept in addition to the client's body."""
        return self.sent.kept + sum(one.up.kept + one.answer.kept for one in self.tries)

    def begin_try(self, body: bytes, *, raw_text: bool) -> TryRecording:
        """Return a recording of the next try; only the first MAX_TRIES are kept."""
        recording = TryRecording(body, raw_text=raw_text)
        if len(self.tries) < MAX_TRIES:
            self.tries.append(recording)
        return recording


def begin_try(recording: Recording | None, body: bytes, *, raw_text: bool) -> TryRecording | None:
    """Return a recording of the request's next try, or None if the request is not recorded."""
    if recording is None:
        return None
    return recording.begin_try(body, raw_text=raw_text)


def listened(
    recording: TryRecording | None, call: UpstreamCall, parts: Iterator[bytes | None]
) -> Iterator[bytes | None]:
    """Return the parts of an answer unchanged, and record them if there is a recording."""
    if recording is None:
        return parts
    return recording.listen(call, parts)
