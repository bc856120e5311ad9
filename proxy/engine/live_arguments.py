"""How much of a call's arguments may leave while they are still being written (contracts C2 and C4).

The arguments stream live while they are a strict prefix of one JSON object (RFC 8259) whose keys are the tool's, each
once. Strings that nothing can change any more go on as they come; every other value waits until it is complete, and
leaves if the schema accepts it. From the first byte that is not such a prefix, nothing more leaves: what is repaired
at the end must go on where that stopped (`tail`).

Nothing leaves before the first byte of the first value. A quotation mark may be one of the string's own that lacks its
backslash, whatever stands behind it: `{"code": "print("}")"}` reads as a whole object up to its first brace. So the
mark that could end a string waits, with what follows it, until the opener of another of the tool's keys, or the end of
the call, decides (`end`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from proxy.codec.json_text import Json, JsonObject, dump, load_json, read_json
from proxy.parsing.buffer import TextBuffer
from proxy.parsing.cursor import MAX_KEY, Cursor, NotACall, Parsing
from proxy.repair.schema_fixes import FIXES, apply_fixes
from proxy.tools.schema import Schema, all_parts, children, same, violations
from proxy.tools.toolset import Tool, ToolSet

_STOPS_STRING = re.compile(rb'["\\\x00-\x1f]')
_ESCAPE = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_ESCAPE_LENGTH = {b"u": 6}
_NOT_BLANK = re.compile(rb"[^ \t\r\n]")
_STRING = frozenset(("string",))


def _anything(_: str) -> bool:
    return True


def _any_value(_: str, __: Json) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class ReleasePolicy:
    """What decides how much may leave: all of it that a repair cannot change.

    `tool` is None where the name is of no offered tool: then every key is taken and every string goes on. `waits` are
    keys whose values a rule may change, and `keeps` says of one of them whether no rule does. `accepts` says of the
    whole text whether it needs no repair. `shut`: nothing leaves before the end.
    """

    tool: Tool | None
    waits: frozenset[str] = frozenset()
    keeps: Callable[[str, Json], bool] = _any_value
    accepts: Callable[[str], bool] = _anything
    shut: bool = False
    _parts: list[tuple[Schema, ...]] = field(default_factory=list, repr=False)

    @property
    def parts(self) -> tuple[Schema, ...]:
        """All that the schema may say of the arguments."""
        if not self._parts:
            self._parts.append(all_parts(self.tool.shape) if self.tool else ())
        return self._parts[0]

    def shapes(self, key: str) -> tuple[Schema, ...]:
        """All that the schema says of a key's value; nothing of it may need a repair."""
        return children(key, self.parts)

    def knows(self, key: str) -> bool:
        """True if the tool has this parameter, or says nothing of its parameters."""
        return any(key in part.properties for part in self.parts) or not any(part.properties for part in self.parts)


class LiveArguments:
    """Fragments in any cut; each `feed` gives what may leave now.

    `complete` is true once all of the object could leave, `closed` once it has ended at all, if its last mark is the
    end of its last string. `broken`: nothing more leaves. `excess` is what came behind the object, if that is more
    than blanks; it does not belong to `text`.
    """

    def __init__(self, gate: ReleasePolicy) -> None:
        self._gate = gate
        self._buffer = TextBuffer()
        self._cursor = Cursor(self._buffer, 0, ToolSet(()))
        self._parsing = self._object()
        self._end_reader = Cursor(self._buffer, 0, ToolSet(()))
        self._ending = self._find_end()
        self._safe = 0
        self._sent = 0
        self._blank_to = 0
        self._exceeded = False
        self._said: JsonObject = {}
        self._live: tuple[str, int] | None = None
        # The last member, if only the end of the call tells whether it is over.
        self._last: tuple[str, Json] | None = None
        self.broken = gate.shut
        self.complete = False
        self.closed = False
        self.excess = ""

    @property
    def text(self) -> str:
        """All fragments joined."""
        return self._cursor.text(0, self._buffer.end)

    @property
    def object(self) -> str:
        """The text up to the end of the object, without the blanks behind it."""
        return self._cursor.text(0, self._end_reader.pos) if self.closed else self.text

    @property
    def rest(self) -> str:
        """All that has not left yet."""
        return self._cursor.text(self._sent, self._buffer.end)

    @property
    def waiting(self) -> int:
        """The number of bytes that have not left."""
        return self._buffer.end - self._sent

    @property
    def sent(self) -> int:
        """The number of bytes that have left."""
        return self._sent

    def feed(self, fragment: str) -> str:
        """Take the next fragment; give what may leave now."""
        self._buffer.data += fragment.encode("utf-8", "surrogatepass")
        next(self._ending)
        if self.closed:
            self._cut_excess()
        if not self.broken:
            try:
                next(self._parsing)
            except NotACall:
                self.broken = True
        new = self._cursor.text(self._sent, self._safe)
        self._sent = self._safe
        return new

    @property
    def ends_in_string(self) -> bool:
        """True if the object is closed, and the mark before its brace may be one of its last string's own."""
        return self.closed and _ends_in_string(self.object)

    @property
    def waits_for_end(self) -> bool:
        """True if only the end of the call tells whether all of the object may leave."""
        return self._last is not None and not self.broken

    def end(self) -> str:
        """Say that no more of the call comes; give what may leave now."""
        if self.broken or self._last is None:
            return ""
        key, value = self._last
        self._last = None
        if not self._gate.accepts(self._cursor.text(0, self._cursor.pos)):
            self.broken = True
            return ""
        self._commit(key, value, self._cursor.pos)
        self.complete = True
        new = self._cursor.text(self._sent, self._safe)
        self._sent = self._safe
        return new

    def tail(self, values: JsonObject) -> str | None:
        """What must follow that which has left, so that all of it says these values; None if nothing can."""
        if self.complete:
            return "" if self._says(values, self._said.keys()) and len(values) == len(self._said) else None
        keys = list(self._said)
        begun = ""
        if self._live is not None:
            key, start = self._live
            text = _continued(self._cursor.text(start, self._sent), values.get(key))
            if text is None:
                return None
            begun = text + '"'
            keys.append(key)
        if not self._says(values, self._said.keys()):
            return None
        new = [f"{dump(key)}: {dump(value)}" for key, value in values.items() if key not in keys]
        opening = "" if self._sent else "{"
        return f"{opening}{begun}{', ' if keys and new else ''}{', '.join(new)}}}"

    def _says(self, values: JsonObject, keys: Iterable[str]) -> bool:
        return all(key in values and same(values[key], self._said[key]) for key in keys)

    def drop_blanks(self) -> str:
        """Forget the blanks behind the object, and give them: they stand between it and another one."""
        if not self.closed:
            return ""
        self._blank_to = self._end_reader.pos
        blanks = self._cursor.text(self._blank_to, self._buffer.end)
        del self._buffer.data[self._blank_to :]
        return blanks

    def _cut_excess(self) -> None:
        """Take out what is not the object's, if it is more than blanks."""
        end = self._end_reader.pos
        self._blank_to = self._buffer.search(_NOT_BLANK, max(end, self._blank_to))
        if self._blank_to < self._buffer.end or (self._exceeded and end < self._buffer.end):
            self.excess = self._cursor.text(end, self._buffer.end)
            self._exceeded = True
            self._blank_to = end
            del self._buffer.data[end:]

    def _find_end(self) -> Parsing[None]:
        cursor = self._end_reader
        try:
            yield from cursor.blanks()
            if (yield from cursor.byte()) == b"{":
                yield from cursor.value()
                self.closed = True
        except NotACall:
            pass
        while True:
            yield

    def _allow(self) -> None:
        self._safe = self._cursor.pos

    def _object(self) -> Parsing[None]:
        cursor = self._cursor
        yield from cursor.blanks()
        yield from cursor.expect(b"{")
        yield from cursor.blanks()
        if (yield from cursor.byte()) == b"}":
            cursor.pos += 1
        else:
            yield from self._members()
        if self._last is None:
            if not self._gate.accepts(cursor.text(0, cursor.pos)):
                raise NotACall
            self._allow()
            self.complete = True
        while True:
            yield from cursor.blanks()
            if (yield from cursor.byte()):
                raise NotACall

    def _members(self) -> Parsing[None]:
        """Read from the first key to the closing brace. A comma and a key leave with the value behind them, and the end
        of a value when the next key has come; of a last string only the end of the call tells.
        """
        cursor = self._cursor
        key = yield from self._key(())
        while True:
            value = yield from self._value(key)
            end = cursor.pos
            yield from cursor.blanks()
            mark = yield from cursor.which((b",", b"}"))
            if mark is None:
                raise NotACall
            if mark == b"}":
                break
            yield from cursor.blanks()
            following = yield from self._key((key,))
            self._commit(key, value, end)
            key = following
        if _ends_in_string(cursor.text(0, cursor.pos)):
            self._last = key, value
        else:
            self._commit(key, value, end)

    def _commit(self, key: str, value: Json, end: int) -> None:
        """The value is over, and may leave."""
        self._said[key] = value
        self._live = None
        self._safe = end

    def _key(self, last: tuple[str, ...]) -> Parsing[str]:
        """Read a key and its colon; `last` is the key before, if there is one."""
        cursor = self._cursor
        key = _loaded((yield from cursor.string(MAX_KEY)))
        if not isinstance(key, str) or key in self._said or key in last or not self._gate.knows(key):
            raise NotACall
        yield from cursor.blanks()
        yield from cursor.expect(b":")
        return key

    def _value(self, key: str) -> Parsing[Json]:
        cursor, shapes = self._cursor, self._gate.shapes(key)
        yield from cursor.blanks()
        if key not in self._gate.waits and (yield from cursor.byte()) == b'"' and all(map(_stays_text, shapes)):
            return (yield from self._live_string(key, shapes))
        value = _loaded((yield from cursor.value()))
        if (key in self._gate.waits and not self._gate.keeps(key, value)) or _wrong(value, shapes):
            raise NotACall
        return value

    def _live_string(self, key: str, shapes: tuple[Schema, ...]) -> Parsing[Json]:
        """Read a string, letting go of each part as soon as it is known to be strict JSON."""
        cursor, data, start = self._cursor, self._buffer.data, self._cursor.pos
        cursor.pos += 1
        if (yield from cursor.byte()) == b'"' and _wrong("", shapes):
            raise NotACall
        self._live = (key, start)
        self._allow()
        while True:
            found = _STOPS_STRING.search(data, cursor.pos)
            cursor.pos = found.start() if found else len(data)
            del found  # it would keep the window from growing
            self._allow()
            mark = yield from cursor.byte()
            if mark == b'"':
                cursor.pos += 1
                break
            if mark == b"\\":
                yield from self._escape()
            elif mark < b" ":
                raise NotACall
        return _loaded(self._buffer.part(start, cursor.pos))

    def _escape(self) -> Parsing[None]:
        cursor, data = self._cursor, self._buffer.data
        start = cursor.pos
        cursor.pos += 1
        length = _ESCAPE_LENGTH.get((yield from cursor.byte()), 2)
        while len(data) < start + length:
            cursor.pos = len(data)
            yield from cursor.byte()
        if not _ESCAPE.fullmatch(data, start, start + length):
            raise NotACall
        cursor.pos = start + length
        self._allow()


def _ends_in_string(text: str) -> bool:
    """True if a quotation mark stands before the brackets at the end of an object."""
    return text.rstrip("}] \t\r\n")[-1:] in ('"', "'")


def _loaded(data: bytes) -> Json:
    try:
        return read_json(data)
    except ValueError:
        raise NotACall from None


def _wrong(value: Json, shapes: Iterable[Schema]) -> bool:
    """True if a schema refuses the value, or knows a key of it by another name."""
    for shape in shapes:
        if violations(value, shape):
            return True
        if isinstance(value, dict | list) and apply_fixes(value, shape, FIXES)[1]:
            return True
    return False


def _stays_text(shape: Schema) -> bool:
    """True if no fix can change a string here, whatever it says, unless it is empty."""
    return _takes_all(shape, {}, limited=shape.kinds != _STRING)


def _takes_all(shape: Schema, known: dict[Schema, bool], *, limited: bool) -> bool:
    """True if every string fits; one of a forbidden length matters only if it could become something else.

    `known` are the answers so far: references may lead to one shape in many ways, and in a circle.
    """
    if shape in known:
        return known[shape]
    known[shape] = False
    if shape.never or shape.values is not None or "string" not in shape.own or (shape.limits and limited):
        return False
    groups = (any(_takes_all(choice, known, limited=limited) for choice in group) for group in shape.groups)
    known[shape] = all(_takes_all(part, known, limited=limited) for part in shape.parts) and all(groups)
    return known[shape]


def _continued(sent: str, value: Json) -> str | None:
    """What must follow the beginning of a JSON string so that it says this value; None if it cannot."""
    begun = load_json(f'{sent}"')
    if not isinstance(begun, str) or not isinstance(value, str):
        return None
    # Surrogates in pairs of escapes may have left one by one.
    start, whole = (text.encode("utf-16-le", "surrogatepass") for text in (begun, value))
    return dump(whole[len(start) :].decode("utf-16-le", "surrogatepass"))[1:-1] if whole.startswith(start) else None
