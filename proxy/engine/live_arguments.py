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
from collections.abc import Iterable

from proxy.codec.json_text import Json, JsonObject, dump, load_json, read_json
from proxy.engine.json_prefix import MAX_KEY, JsonPrefix, NotJson, Reading
from proxy.engine.live_state import BROKEN, CLOSED, TRANSITIONS, LiveState, LiveStep
from proxy.engine.release_policy import ReleasePolicy
from proxy.repair.schema_fixes import FIXES, apply_fixes
from proxy.tools.schema import Schema
from proxy.tools.validator import same, violations
from proxy.transitions import next_state

# The inside of a string with its whole escapes, as RFC 8259 has them (section 7).
_WITHIN_STRING = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u%b)*+' % (rb"[0-9a-fA-F]" * 4))
_ESCAPE = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_ESCAPE_LENGTH = {b"u": 6}
_BLANKS = re.compile(rb"[ \t\r\n]*+")
_STRING = frozenset(("string",))


class LiveArguments:
    """Fragments in any cut; each `feed` gives what may leave now.

    `excess` is what came behind the object, if that is more than blanks; it does not belong to `text`.
    """

    def __init__(self, policy: ReleasePolicy) -> None:
        self.policy = policy
        self._state = LiveState.STREAMING
        self._data = bytearray()
        # Two readers of one text: the first finds what may leave; where it breaks, the second one finds the end.
        self._cursor = JsonPrefix(self._data)
        self._parsing = self._object()
        self._end_reader = JsonPrefix(self._data)
        self._ending = self._find_end()
        self._safe = 0
        self._sent = 0
        # Where the object ends, once it does; behind it there are only blanks up to `_blank_to`.
        self._end = 0
        self._blank_to = 0
        self._exceeded = False
        # The members that may leave as a whole, and the key and start of a string that is still open.
        self._members: JsonObject = {}
        self._open_string: tuple[str, int] | None = None
        # The member before the closing brace, if only the end of the call tells whether it is over.
        self._last_member: tuple[str, Json] | None = None
        self.excess = ""
        if policy.hold_all:
            self._move(LiveStep.BREAK_OFF)

    def _move(self, step: LiveStep) -> None:
        self._state = next_state(TRANSITIONS, self._state, step)

    @property
    def broken(self) -> bool:
        """True if nothing more leaves before the end of the call."""
        return self._state in BROKEN

    @property
    def complete(self) -> bool:
        """True if all of the object could leave as it came."""
        return self._state is LiveState.COMPLETE

    @property
    def closed(self) -> bool:
        """True if the object has ended, if its last mark is the end of its last string."""
        return self._state in CLOSED

    @property
    def waits_for_end(self) -> bool:
        """True if only the end of the call tells whether all of the object may leave."""
        return self._state is LiveState.UNDECIDED

    @property
    def in_string(self) -> bool:
        """True if what comes next goes on a string that leaves as it comes, and nothing waits before it."""
        return self._state is LiveState.STREAMING and self._open_string is not None and not self.waiting

    @property
    def text(self) -> str:
        """All fragments joined."""
        return self._cursor.text(0, len(self._data))

    @property
    def object(self) -> str:
        """The text up to the end of the object, without the blanks behind it."""
        if not self.closed:
            return self.text
        return self._cursor.text(0, self._end)

    @property
    def rest(self) -> str:
        """All that has not left yet."""
        return self._cursor.text(self._sent, len(self._data))

    @property
    def waiting(self) -> int:
        """The number of bytes that have not left."""
        return len(self._data) - self._sent

    @property
    def sent(self) -> int:
        """The number of bytes that have left."""
        return self._sent

    def feed(self, fragment: str) -> str:
        """Take the next fragment; give what may leave now."""
        self._data += fragment.encode("utf-8", "surrogatepass")
        if self._state is LiveState.STREAMING:
            try:
                next(self._parsing)
            except NotJson:
                self._move(LiveStep.BREAK_OFF)
        if self._state is LiveState.BROKEN:
            next(self._ending)
        if self._state in CLOSED:
            self._cut_excess()
        return self._take_safe()

    def take_excess(self) -> str:
        """Return the text behind the object, if that is more than blanks; it is not given a second time."""
        excess, self.excess = self.excess, ""
        return excess

    def end(self) -> str:
        """Say that no more of the call comes; give what may leave now."""
        if self._last_member is None:
            return ""
        key, value = self._last_member
        self._last_member = None
        if not self.policy.accepts(self.object):
            self._move(LiveStep.REFUSE)
            return ""
        # The blanks behind the object are its own, now that nothing follows them.
        self._commit(key, value, len(self._data))
        self._move(LiveStep.ACCEPT)
        return self._take_safe()

    def _take_safe(self) -> str:
        """What may leave and has not."""
        if self._sent == self._safe:
            return ""
        new = self._data[self._sent : self._safe]
        self._sent = self._safe
        return new.decode("utf-8", "surrogatepass")

    def tail(self, values: JsonObject) -> str | None:
        """The text that must follow what has left, so that all of it says these values; None if nothing can.

        Behind `{"command": "l` that is `s", "timeout": 10}` for `{"command": "ls", "timeout": 10}`.
        """
        if self._state is LiveState.OVERRUN:
            return None
        if not self._agrees_with(values):
            return None
        if self.complete:
            return "" if len(values) == len(self._members) else None
        keys = set(self._members)
        text = "" if self._sent else "{"
        if self._open_string is not None:
            key, start = self._open_string
            rest = _continued(self._cursor.text(start, self._sent), values.get(key))
            if rest is None:
                return None
            text += f'{rest}"'
            keys.add(key)
        missing = ", ".join(f"{dump(key)}: {dump(value)}" for key, value in values.items() if key not in keys)
        if keys and missing:
            text += ", "
        return f"{text}{missing}}}"

    def _agrees_with(self, values: JsonObject) -> bool:
        """True if what has left of the members says the same as these values."""
        return all(key in values and same(values[key], member) for key, member in self._members.items())

    def reopen(self, excess: str) -> None:
        """Take back what came behind the object: it had not ended, and only a repair tells what it says."""
        self._move(LiveStep.REOPEN)
        self._data += excess.encode("utf-8", "surrogatepass")
        self._last_member = None

    def drop_blanks(self) -> str:
        """Forget the blanks behind the object, and give them: they stand between it and another one."""
        if not self.closed:
            return ""
        self._blank_to = self._end
        blanks = self._cursor.text(self._blank_to, len(self._data))
        del self._data[self._blank_to :]
        return blanks

    def _cut_excess(self) -> None:
        """Take out what is not the object's, if it is more than blanks."""
        end = self._end
        blanks = _BLANKS.match(self._data, max(end, self._blank_to))
        assert blanks is not None
        self._blank_to = blanks.end()
        del blanks  # it would keep the bytes from growing
        only_blanks = self._blank_to >= len(self._data)
        if only_blanks and not self._exceeded:
            return  # they are the object's own, as long as nothing follows them
        if end < len(self._data):
            self.excess = self._cursor.text(end, len(self._data))
            self._exceeded = True
            self._blank_to = end
            del self._data[end:]

    def _find_end(self) -> Reading[None]:
        cursor = self._end_reader
        try:
            yield from cursor.blanks()
            if (yield from cursor.byte()) == b"{":
                yield from cursor.value()
                self._end = cursor.pos
                self._move(LiveStep.CLOSE)
        except NotJson:
            pass
        while True:
            yield

    def _allow(self) -> None:
        self._safe = self._cursor.pos

    def _object(self) -> Reading[None]:
        cursor = self._cursor
        yield from cursor.blanks()
        yield from cursor.expect(b"{")
        yield from cursor.blanks()
        if (yield from cursor.byte()) == b"}":
            cursor.pos += 1
        else:
            yield from self._read_members()
        if self._last_member is not None:
            self._close(LiveStep.CLOSE_IN_DOUBT)
        elif self.policy.accepts(cursor.text(0, cursor.pos)):
            self._allow()
            self._close(LiveStep.CLOSE)
        else:
            raise NotJson
        yield

    def _close(self, step: LiveStep) -> None:
        self._end = self._cursor.pos
        self._move(step)

    def _read_members(self) -> Reading[None]:
        """Read from the first key to the closing brace. A comma and a key leave with the value behind them, and the end
        of a value when the next key has come; of a last string only the end of the call tells.
        """
        cursor = self._cursor
        key = yield from self._key(())
        while True:
            value = yield from self._value(key)
            end = cursor.pos
            yield from cursor.blanks()
            mark = yield from cursor.expect(b",", b"}")
            if mark == b"}":
                break
            yield from cursor.blanks()
            following = yield from self._key((key,))
            self._commit(key, value, end)
            key = following
        if _ends_in_string(cursor.text(0, cursor.pos)):
            self._last_member = key, value
        else:
            self._commit(key, value, end)

    def _commit(self, key: str, value: Json, end: int) -> None:
        """The value is over, and may leave."""
        self._members[key] = value
        self._open_string = None
        self._safe = end

    def _key(self, last: tuple[str, ...]) -> Reading[str]:
        """Read a key and its colon; `last` is the key before, if there is one."""
        cursor = self._cursor
        key = _loaded((yield from cursor.string(MAX_KEY)))
        if not isinstance(key, str):
            raise NotJson
        if not self.policy.knows(key):
            raise NotJson
        if key in self._members or key in last:
            raise NotJson
        yield from cursor.blanks()
        yield from cursor.expect(b":")
        return key

    def _value(self, key: str) -> Reading[Json]:
        cursor = self._cursor
        schemas = self.policy.schemas(key)
        yield from cursor.blanks()
        may_go_on = key not in self.policy.rule_keys and all(map(_stays_text, schemas))
        if may_go_on and (yield from cursor.byte()) == b'"':
            return (yield from self._read_string(key, schemas))
        value = _loaded((yield from cursor.value()))
        if _needs_repair(value, schemas):
            raise NotJson
        if key in self.policy.rule_keys and not self.policy.keeps(key, value):
            raise NotJson
        return value

    def _read_string(self, key: str, schemas: tuple[Schema, ...]) -> Reading[Json]:
        """Read a string, letting go of each part as soon as it is known to be strict JSON."""
        cursor, data, start = self._cursor, self._data, self._cursor.pos
        # A schema may take every string but an empty one, which is told by the next byte.
        cursor.pos += 1
        if (yield from cursor.byte()) == b'"' and _needs_repair("", schemas):
            raise NotJson
        self._open_string = (key, start)
        self._allow()
        while True:
            within = _WITHIN_STRING.match(data, cursor.pos)
            assert within is not None
            self._safe = cursor.pos = within.end()
            del within  # it would keep the window from growing
            if cursor.pos == len(data):
                yield
                continue
            mark = self._data[cursor.pos : cursor.pos + 1]
            if mark == b'"':
                cursor.pos += 1
                break
            if mark != b"\\":
                raise NotJson  # a control character
            yield from self._escape()
        return _loaded(bytes(self._data[start : cursor.pos]))

    def _escape(self) -> Reading[None]:
        cursor, data = self._cursor, self._data
        start = cursor.pos
        cursor.pos += 1
        length = _ESCAPE_LENGTH.get((yield from cursor.byte()), 2)
        while len(data) < start + length:
            cursor.pos = len(data)
            yield from cursor.byte()
        if not _ESCAPE.fullmatch(data, start, start + length):
            raise NotJson
        cursor.pos = start + length
        self._allow()


def _ends_in_string(text: str) -> bool:
    """True if a quotation mark stands before the brackets at the end of an object."""
    return text.rstrip("}] \t\r\n")[-1:] in ('"', "'")


def _loaded(data: bytes) -> Json:
    try:
        return read_json(data)
    except ValueError:
        raise NotJson from None


def _needs_repair(value: Json, schemas: Iterable[Schema]) -> bool:
    """True if a schema refuses the value, or knows a key of it by another name."""
    return any(_is_refused(value, schema) for schema in schemas)


def _is_refused(value: Json, schema: Schema) -> bool:
    if violations(value, schema):
        return True
    if not isinstance(value, dict | list):
        return False
    return bool(apply_fixes(value, schema, FIXES)[1])


def _stays_text(schema: Schema) -> bool:
    """True if no fix can change a string here, whatever it says, unless it is empty."""
    # One of a forbidden length matters only if it could become something else.
    return _takes_all(schema, {}, limited=schema.types != _STRING)


def _takes_all(schema: Schema, known: dict[Schema, bool], *, limited: bool) -> bool:
    """True if every string fits; `limited` if its length counts.

    `known` are the answers so far: references may lead to one schema in many ways, and in a circle.
    """
    if schema in known:
        return known[schema]
    known[schema] = False
    if not _is_limited(schema, limited=limited):
        known[schema] = _parts_take_all(schema, known, limited=limited)
    return known[schema]


def _is_limited(schema: Schema, *, limited: bool) -> bool:
    """True if a schema itself, without its parts, takes not every string."""
    if schema.never:
        return True
    if schema.values is not None:
        return True
    if "string" not in schema.own_types:
        return True
    if not limited:
        return False
    return bool(schema.limits)


def _parts_take_all(schema: Schema, known: dict[Schema, bool], *, limited: bool) -> bool:
    if not all(_takes_all(part, known, limited=limited) for part in schema.parts):
        return False
    return all(any(_takes_all(choice, known, limited=limited) for choice in group) for group in schema.groups)


def _continued(sent: str, value: Json) -> str | None:
    """What must follow the beginning of a JSON string so that it says this value; None if it cannot.

    `"l` to `ls` is `s`; the closing mark is not part of it.
    """
    begun = load_json(f'{sent}"')
    if not isinstance(begun, str) or not isinstance(value, str):
        return None
    # Surrogates in pairs of escapes may have left one by one.
    start = begun.encode("utf-16-le", "surrogatepass")
    whole = value.encode("utf-16-le", "surrogatepass")
    if not whole.startswith(start):
        return None
    return dump(whole[len(start) :].decode("utf-16-le", "surrogatepass"))[1:-1]
