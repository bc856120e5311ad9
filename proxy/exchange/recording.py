"""Recording of the bodies of one request, for the live page and captures.

A recording keeps references to the parts that pass, and copies nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from proxy.upstream.client import UpstreamCall

# Bytes kept of one body, unless the answers are captured.
MAX_KEPT = 256 * 1024
# Tries of one request that are kept.
MAX_TRIES = 8


class Excerpt:
    """The first bytes of a body that arrives in parts, at most `most`; `size` is the number of all bytes."""

    def __init__(self, most: int | None = None) -> None:
        self._parts: list[bytes] = []
        self._most = most or MAX_KEPT
        self.size = 0

    def add(self, part: bytes) -> None:
        """Append the next part, as far as it fits."""
        room = self._most - self.size
        self.size += len(part)
        if room >= len(part):
            self._parts.append(part)
        elif room > 0:
            self._parts.append(part[:room])

    @property
    def data(self) -> bytes:
        """The kept bytes."""
        return b"".join(self._parts)

    def shortened(self) -> Excerpt:
        """Return the excerpt of at most MAX_KEPT bytes."""
        short = Excerpt()
        for part in self._parts:
            short.add(part)
        short.size = self.size
        return short

    @property
    def kept(self) -> int:
        """The number of kept bytes."""
        return min(self.size, self._most)

    @property
    def cut(self) -> bool:
        """Whether the body is longer than the kept part."""
        return self.size > self._most


class TryRecording:
    """One try: the body sent upstream, and the answer to the `call`. `raw_text`: the proxy alone looked for calls."""

    def __init__(self, body: bytes, *, raw_text: bool, most: int | None = None) -> None:
        self.up = body
        self.answer = Excerpt(most)
        self.raw_text = raw_text
        self.complete = False
        self.call: UpstreamCall | None = None

    @property
    def status(self) -> int:
        """The HTTP status of the answer, or 0 without one."""
        return 0 if self.call is None else self.call.status

    def listen(self, call: UpstreamCall, parts: Iterator[bytes | None]) -> Iterator[bytes | None]:
        """Yield the parts of the answer unchanged, and record them. Parts that pass elsewhere are added directly."""
        self.call = call
        for part in parts:
            if part:
                self.answer.add(part)
            yield part
        self.complete = not self.answer.cut


class Recording:
    """The `tries` of one request, and the response that was `sent` to the client.

    At most `most` bytes of each answer are kept.
    """

    def __init__(self, most: int | None = None) -> None:
        self.tries: list[TryRecording] = []
        self.sent = Excerpt()
        self._most = most

    @property
    def size(self) -> int:
        """Return the number of bytes kept in addition to the client's body."""
        return self.sent.kept + sum(len(one.up) + one.answer.kept for one in self.tries)

    def shorten(self) -> None:
        """Keep at most MAX_KEPT bytes of each answer from now on."""
        for one in self.tries:
            one.answer = one.answer.shortened()
            one.complete = one.complete and not one.answer.cut

    def begin_try(self, body: bytes, *, raw_text: bool) -> TryRecording:
        """Return a recording of the next try; only the first MAX_TRIES are kept."""
        recording = TryRecording(body, raw_text=raw_text, most=self._most)
        if len(self.tries) < MAX_TRIES:
            self.tries.append(recording)
        return recording
