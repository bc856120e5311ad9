"""Incremental readers of one HTTP/1.1 response and of its events."""

from __future__ import annotations

MAX_HEADERS = 64 << 10


class Reply:
    """Sans-IO reader of a response: takes bytes, returns bytes of the body."""

    def __init__(self) -> None:
        """Start before the status line."""
        self._raw = b""
        self._left: int | None = None
        self._chunked = False
        self.status: int | None = None
        self.done = False

    def feed(self, data: bytes) -> bytes:
        """Add bytes from the socket; return the body bytes in them."""
        self._raw += data
        if self.status is None and not self._headers():
            return b""
        return self._chunks() if self._chunked else self._plain()

    def eof(self) -> None:
        """Handle the end of the connection, which ends a body without length and chunks."""
        self.done = self.done or (self.status is not None and not self._chunked and self._left is None)

    def _headers(self) -> bool:
        """Read status and framing; return whether the header block is complete."""
        head, end, rest = self._raw.partition(b"\r\n\r\n")
        if not end:
            if len(self._raw) > MAX_HEADERS:
                raise ValueError("headers too long")
            return False
        line, *fields = head.split(b"\r\n")
        self.status = int(line.split(b" ", 2)[1])
        named = {name.strip().lower(): value.strip().lower() for name, _, value in (f.partition(b":") for f in fields)}
        self._chunked = named.get(b"transfer-encoding") == b"chunked"
        if b"content-length" in named:
            self._left = int(named[b"content-length"])
        self._raw = rest
        return True

    def _plain(self) -> bytes:
        """Return the bytes of a body that has a length or ends with the connection."""
        body, self._raw = self._raw, b""
        if self._left is not None:
            self._left -= len(body)
            self.done = self._left <= 0
        return body

    def _chunks(self) -> bytes:
        """Return the data of complete chunks; keep the rest."""
        raw, at, data = self._raw, 0, []
        while (line := raw.find(b"\r\n", at)) >= 0:
            size = int(raw[at:line], 16)
            if len(raw) < line + 4 + size:
                break
            data.append(raw[line + 2 : line + 2 + size])
            at = line + 4 + size
            if size == 0:
                self.done = True
                break
        self._raw = raw[at:]
        return b"".join(data)


class Events:
    """Sans-IO reader of events: takes bytes of a body, returns complete server-sent events."""

    def __init__(self) -> None:
        """Start before the first event."""
        self._text = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes of the body; return the events that they complete, each from its `data:` on.

        Comments (heartbeats) are dropped, and so are `event:` lines, which only repeat the data's type.
        """
        *blocks, self._text = (self._text + data).split(b"\n\n")
        named = (block.partition(b"\n")[2] if block.startswith(b"event:") else block for block in blocks)
        return [block for block in named if block.startswith(b"data:")]
