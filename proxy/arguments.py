"""How much of a call's arguments may leave while they are still being written (contracts C2 and C4).

The arguments stream live while they are a strict prefix of one JSON object (RFC 8259) whose keys are the tool's, each
once. Strings that the schema allows as strings go on as they come; every other value waits until it is complete,
because a fix may still change it. From the first byte that is not such a prefix, nothing more leaves.
"""

from __future__ import annotations

import re

from .events import load_json
from .reader import MAX_KEY, NotACall, Parsing, Reader
from .schema import allowed_types
from .tools import Tool, Tools
from .window import Window

_STOPS_STRING = re.compile(rb'["\\\x00-\x1f]')
_ESCAPE = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_ESCAPE_LENGTH = {b"u": 6}


class LiveArguments:
    """Fragments in any cut; each `feed` gives what may leave now.

    `tool` is None where the name is of no offered tool: then every key is taken and every string goes on.
    """

    def __init__(self, tool: Tool | None) -> None:
        self._tool = tool
        self._window = Window()
        self._reader = Reader(self._window, 0, Tools(()))
        self._parsing = self._object()
        self._safe = 0
        self._sent = 0
        self.broken = False
        self.complete = False

    @property
    def text(self) -> str:
        """All fragments joined."""
        return self._reader.text(0, self._window.end)

    @property
    def rest(self) -> str:
        """All that has not left yet."""
        return self._reader.text(self._sent, self._window.end)

    @property
    def sent(self) -> int:
        """The number of bytes that have left."""
        return self._sent

    def feed(self, fragment: str) -> str:
        """Take the next fragment; give what may leave now."""
        self._window.data += fragment.encode("utf-8", "surrogatepass")
        if not self.broken:
            try:
                next(self._parsing)
            except NotACall:
                self.broken = True
        new = self._reader.text(self._sent, self._safe)
        self._sent = self._safe
        return new

    def _allow(self) -> None:
        self._safe = self._reader.pos

    def _object(self) -> Parsing[None]:
        reader = self._reader
        yield from reader.blanks()
        yield from reader.expect(b"{")
        self._allow()
        yield from reader.blanks()
        if (yield from reader.byte()) == b"}":
            reader.pos += 1
        else:
            yield from self._members()
        self._allow()
        self.complete = True
        while True:
            yield from reader.blanks()
            if (yield from reader.byte()):
                self.complete = False
                raise NotACall

    def _members(self) -> Parsing[None]:
        """Read from the first key to the closing brace."""
        reader = self._reader
        seen: set[str] = set()
        while True:
            key = yield from self._key(seen)
            self._allow()
            yield from self._value(key)
            yield from reader.blanks()
            mark = yield from reader.which((b",", b"}"))
            if mark == b"}":
                return
            if mark is None:
                raise NotACall
            self._allow()
            yield from reader.blanks()

    def _key(self, seen: set[str]) -> Parsing[str]:
        """Read a key and its colon. The key is the tool's, so no fix can change it any more."""
        reader = self._reader
        try:
            key = load_json((yield from reader.string(MAX_KEY)))
        except ValueError:
            raise NotACall from None
        properties = self._tool.properties if self._tool else {}
        if not isinstance(key, str) or key in seen or (properties and key not in properties):
            raise NotACall
        seen.add(key)
        yield from reader.blanks()
        yield from reader.expect(b":")
        yield from reader.blanks()
        return key

    def _value(self, key: str) -> Parsing[None]:
        reader = self._reader
        if (yield from reader.byte()) == b'"' and self._may_be_string(key):
            yield from self._live_string()
        else:
            try:
                load_json((yield from reader.value()))
            except ValueError:
                raise NotACall from None
        self._allow()

    def _may_be_string(self, key: str) -> bool:
        if self._tool is None:
            return True
        return "string" in allowed_types(self._tool.properties.get(key), self._tool.schema)

    def _live_string(self) -> Parsing[None]:
        """Read a string, letting go of each part as soon as it is known to be strict JSON."""
        reader, data = self._reader, self._window.data
        reader.pos += 1
        self._allow()
        while True:
            found = _STOPS_STRING.search(data, reader.pos)
            reader.pos = found.start() if found else len(data)
            del found  # it would keep the window from growing
            self._allow()
            mark = yield from reader.byte()
            if mark == b'"':
                reader.pos += 1
                return
            if mark == b"\\":
                yield from self._escape()
            elif mark < b" ":
                raise NotACall

    def _escape(self) -> Parsing[None]:
        reader, data = self._reader, self._window.data
        start = reader.pos
        reader.pos += 1
        length = _ESCAPE_LENGTH.get((yield from reader.byte()), 2)
        while len(data) < start + length:
            reader.pos = len(data)
            yield from reader.byte()
        if not _ESCAPE.fullmatch(data, start, start + length):
            raise NotACall
        reader.pos = start + length
        self._allow()
