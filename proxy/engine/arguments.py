"""Decides how much of a call's arguments can be sent while they are still arriving (contracts C2 and C4).

    BRACE ── { ──> FIRST ── "key": ──> STRING or VALUE ──> BEHIND ── , "key": ──> STRING or VALUE
                                                              └──── } ──> END
    any of them ──> HELD, at the first byte that is invalid there or that a repair may change

The content of a STRING is sent as it arrives. All other text is sent once the next key has arrived, because a quotation
mark may belong to the string and lack its backslash: `{"code": "print("}` looks complete, but `")"}` follows. The last
value is sent at the end of the call, after the repairer has read the whole call.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from proxy.json import Json, JsonObject, dump, load_json, read_json
from proxy.notations.schema import Schema
from proxy.notations.validator import children, same, violations
from proxy.repair.policy import apply_rule, renames, touched
from proxy.repair.repairer import Repairer
from proxy.repair.schema_fixes import FIXES, apply_fixes

_B = rb"[ \t\r\n]*+"
_KEY = rb'"(?:[^"\\\x00-\x1f]++|\\[^\x00-\x1f])*+"'
_BLANKS = re.compile(_B)
_FIRST = re.compile(_B + rb"(?:\}|(" + _KEY + rb")" + _B + rb":" + _B + rb"(?=[^ \t\r\n]))")
_BEHIND = re.compile(_B + rb"(?:\}|," + _B + rb"(" + _KEY + rb")" + _B + rb":" + _B + rb"(?=[^ \t\r\n]))")
_KEY_BEGUN = rb'(?:"(?:[^"\\\x00-\x1f]++|\\[^\x00-\x1f])*+(?:\\|"' + _B + rb"(?::" + _B + rb")?)?)?"
_FIRST_BEGUN = re.compile(_B + _KEY_BEGUN)
_BEHIND_BEGUN = re.compile(_B + rb"(?:," + _B + _KEY_BEGUN + rb")?")
# The maximum length of a key with the blanks around it.
_MAX_KEY = 256
# The inside of a string with complete escapes (RFC 8259, section 7), an incomplete escape at its end, and the inside of
# a string with any escapes.
_INSIDE = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u%b)*+' % (rb"[0-9a-fA-F]" * 4))
_ESCAPE_BEGUN = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?")
_ANY_INSIDE = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_MARK = re.compile(rb'["\[\]{},]')
# Characters that tool names do not contain.
_NO_NAME = re.compile(r"[^\w.-]")
# A closing tag of a raw value, complete or cut. A server's parser may have left the next pair in the value after it.
_VALUE_END = re.compile('(</(?:arg_value|parameter|｜DSML｜parameter)>)|<[^<>"\\\\ ]{0,24}\\Z'.encode())
_BLANKS_BEFORE = re.compile(rb"(?<!\\)(?:\\[nrt]| )*+\Z")
_MOST_BLANKS = 64


class Where(Enum):
    """The next expected part of the arguments."""

    BRACE = auto()
    FIRST = auto()
    STRING = auto()
    VALUE = auto()
    BEHIND = auto()
    END = auto()
    HELD = auto()


@dataclass(frozen=True, slots=True)
class Policy:
    """Which parts of a call can be sent early because no repair can change them.

    `parts` are the schemas of the arguments, and `required` their required keys. Rules may change the values of
    `rule_keys`; `keeps` returns whether all rules keep a given value. `hold`: send nothing before the end of the call.
    """

    parts: tuple[Schema, ...] = ()
    required: frozenset[str] = frozenset()
    rule_keys: frozenset[str] = frozenset()
    keeps: Callable[[str, Json], bool] = lambda key, value: True
    hold: bool = False

    def knows(self, key: str) -> bool:
        """Return whether the tool declares this parameter, or no parameters at all."""
        return any(key in part.properties for part in self.parts) or not any(part.properties for part in self.parts)


def policy_of(repairer: Repairer, written: str, *, hold: bool) -> Policy:
    """Return the policy for a call with this name, as the server wrote it."""
    tool = repairer.tools.resolve(written)
    name = tool.name if tool else written
    rules = repairer.rules(name)

    def keeps(key: str, value: Json) -> bool:
        own = (rule for rule in rules if rule.parameter[:1] == (key,))
        return all(apply_rule(rule, name, {key: value}, repairer.tools)[1].get(key) is value for rule in own)

    hold = hold or renames((*rules, *repairer.rules(name, fallback=True)))
    if tool is None:
        # The rest of the name may be the arguments: `bash{"command": "ls"}`.
        return Policy(hold=hold or (_NO_NAME.search(written) is not None and bool(repairer.tools.begun(written))))
    return Policy(tool.compiled.all_parts(), frozenset(tool.required), touched(rules), keeps, hold)


class Arguments:
    """The arguments of one call, fed in fragments. Each `feed` returns the text that can be sent now.

    Fragments are only kept until `begin` gives the policy, which depends on the call's name. `closed` is the end of the
    object in `data`, or -1 before it has ended. `sent` is the number of released bytes.
    """

    def __init__(self) -> None:
        self._policy = Policy()
        self.begun = False
        self.data = bytearray()
        self.where = Where.BRACE
        self.closed = -1
        self.sent = 0
        # The end of the text that can be sent; the read position, its bracket depth, and whether it is in a string.
        self._safe = self._at = self._depth = 0
        self._in_string = False
        # The text that looked like the object is not JSON.
        self._endless = False
        # The complete members, and the open one: its key, the start and end of its value, and its schemas.
        self._members: JsonObject = {}
        self._key, self._start, self._value_end = "", 0, 0
        self._value: Json = None
        self._schemas: tuple[Schema, ...] = ()
        # A required key is missing, so the open string may contain the markup of that key's pair.
        self._may_hold_pair = False

    def begin(self, policy: Policy) -> None:
        """Read the fragments under this policy from now on."""
        self._policy, self.begun = policy, True
        self.where = Where.HELD if policy.hold else Where.BRACE

    @property
    def text(self) -> str:
        """All fragments joined."""
        return self.data.decode("utf-8", "surrogatepass")

    @property
    def flows(self) -> bool:
        """True if the next fragment continues a string that is sent as it arrives, and no earlier text is held."""
        return self.where is Where.STRING and self.sent == len(self.data) and not self._may_hold_pair

    @property
    def over(self) -> bool:
        """True once the last bracket has closed, even if the text before it is not an object, or repeats a key."""
        return self.closed >= 0 or self._endless

    def feed(self, fragment: str) -> str:
        """Take the next fragment and return the text that can be sent now."""
        self.data += fragment.encode("utf-8", "surrogatepass")
        while self.begun and _STEPS[self.where](self):
            pass
        new = self.data[self.sent : self._safe]
        self.sent = self._safe
        return new.decode("utf-8", "surrogatepass")

    def tail(self, values: JsonObject) -> str | None:
        """Return the text that completes the sent text to an object with these values, or None if that is impossible.

        If `{"command": "l` was sent, the tail for `{"command": "ls", "timeout": 10}` is `s", "timeout": 10}`.
        """
        if not all(key in values and same(values[key], member) for key, member in self._members.items()):
            return None
        keys, text = set(self._members), "" if self.sent else "{"
        if self._key and self._key not in keys and self.sent > self._start:
            begun = self.data[self._start : self.sent].decode("utf-8", "surrogatepass")
            rest = _continued(begun, values.get(self._key))
            if rest is None:
                return None
            text += f'{rest}"'
            keys.add(self._key)
        missing = ", ".join(f"{dump(key)}: {dump(value)}" for key, value in values.items() if key not in keys)
        return f"{text}{', ' if keys and missing else ''}{missing}}}"

    # Steps. Each returns whether another step may follow before more text arrives.

    def _hold(self) -> bool:
        self.where = Where.HELD
        return True

    def _held(self) -> bool:
        """Look only for the end of the object. Invalid JSON has no end."""
        if self.closed < 0 and not self._endless and self._to_mark(floor=0):
            try:
                read_json(bytes(self.data[: self.closed]))
            except ValueError:
                self._endless, self.closed = True, -1
        return False

    def _brace(self) -> bool:
        self._at = _end_of(_BLANKS, self.data, self._at)
        if self._at == len(self.data):
            return False
        if self.data[self._at] != ord("{"):
            return self._hold()
        self._at, self._depth, self.where = self._at + 1, 1, Where.FIRST
        return True

    def _next(self) -> bool:
        """Read the next key, which completes the value before it, or the brace that ends the object."""
        pattern, begun = _NEXT[self.where]
        match = pattern.match(self.data, self._at)
        if match is None:
            waits = begun.fullmatch(self.data, self._at) and len(self.data) - self._at < _MAX_KEY
            return False if waits else self._hold()
        if match[1] is None:
            self._at = self.closed = match.end()
            self._depth, self.where = 0, Where.END
            return True
        key, at = _loaded(match[1]), match.end()
        del match  # it would keep the buffer from growing
        if not isinstance(key, str) or not self._policy.knows(key) or key in self._members or key == self._key:
            return self._hold()
        if self.where is Where.BEHIND:
            self._members[self._key], self._safe = self._value, self._value_end
        self._key, self._start, self._at = key, at, at
        self._schemas = children(key, self._policy.parts)
        # A string flows if no fix can change it, unless it is empty. Length limits matter only if a fix could turn it
        # into another type.
        flows = self.data[at] == ord('"') and key not in self._policy.rule_keys
        if flows and all(_takes_all(each, {}, limited=each.types != {"string"}) for each in self._schemas):
            self._at, self._in_string = at + 1, True
            self._may_hold_pair = not self._policy.required <= {*self._members, key}
            self.where = Where.STRING
        else:
            self.where = Where.VALUE
        return True

    def _string(self) -> bool:
        """Release a string as it arrives, except for an incomplete escape at its end."""
        data = self.data
        if len(data) == self._start + 1:
            return False
        if data[self._start + 1] == ord('"') and _needs_repair("", self._schemas):
            return self._hold()
        begun = self._at
        self._at = _end_of(_INSIDE, data, begun)
        self._safe = self._at
        if self._may_hold_pair:
            # {"path": "app.log</arg_value><arg_key>content</arg_key>\\n<arg_value>error"}
            found = _VALUE_END.search(data, max(begun - _MOST_BLANKS, self._start + 1), self._at)
            end = self._at if found is None else found.start()
            blanks = _BLANKS_BEFORE.search(data, max(self._start + 1, end - _MOST_BLANKS), end)
            self._safe = max(self.sent, blanks.start() if blanks else end)
            if found is not None and found[1]:
                del found, blanks  # they would keep the buffer from growing
                return self._hold()
            del found, blanks
        if self._at == len(data) or _ESCAPE_BEGUN.fullmatch(data, self._at):
            return False
        if data[self._at] != ord('"'):
            return self._hold()
        self._at += 1
        self._in_string = False
        self._value, self._value_end = _loaded(data[self._start : self._at]), self._at
        self.where = Where.BEHIND
        return True

    def _whole_value(self) -> bool:
        if not self._to_mark(floor=1):
            return False
        written = self.data[self._start : self._at].rstrip()
        try:
            value = read_json(bytes(written))
        except ValueError:
            return self._hold()
        changed = self._key in self._policy.rule_keys and not self._policy.keeps(self._key, value)
        if changed or _needs_repair(value, self._schemas):
            return self._hold()
        self._value, self._value_end, self.where = value, self._start + len(written), Where.BEHIND
        return True

    def _ended(self) -> bool:
        return self._hold() if self.data[self._at :].strip() else False

    def _to_mark(self, *, floor: int) -> bool:
        """Move to the comma or bracket that ends a value (`floor` 1), or to the end of the object (`floor` 0)."""
        data = self.data
        while self._at < len(data):
            if self._in_string:
                self._at = _end_of(_ANY_INSIDE, data, self._at)
                if self._at == len(data) or data[self._at] != ord('"'):
                    return False
                self._in_string = False
                self._at += 1
                continue
            match = _MARK.search(data, self._at)
            if match is None:
                self._at = len(data)
                return False
            mark, at = match[0], match.start()
            del match  # it would keep the buffer from growing
            if self._depth == floor == 1 and mark in (b",", b"}", b"]"):
                self._at = at
                return True
            self._at = at + 1
            if mark == b'"':
                self._in_string = True
            elif mark in (b"{", b"["):
                self._depth += 1
            elif mark != b"," and self._depth:
                self._depth -= 1
                if not self._depth:
                    self.closed = self._at
                    return True
        return False


_NEXT = {Where.FIRST: (_FIRST, _FIRST_BEGUN), Where.BEHIND: (_BEHIND, _BEHIND_BEGUN)}
_STEPS: dict[Where, Callable[[Arguments], bool]] = {
    Where.BRACE: Arguments._brace,
    Where.FIRST: Arguments._next,
    Where.STRING: Arguments._string,
    Where.VALUE: Arguments._whole_value,
    Where.BEHIND: Arguments._next,
    Where.END: Arguments._ended,
    Where.HELD: Arguments._held,
}


def _end_of(pattern: re.Pattern[bytes], data: bytearray, at: int) -> int:
    """Return the end of a match. The pattern must match."""
    match = pattern.match(data, at)
    assert match is not None
    return match.end()


def _loaded(data: bytes | bytearray) -> Json:
    try:
        return read_json(bytes(data))
    except ValueError:
        return None


def _needs_repair(value: Json, schemas: tuple[Schema, ...]) -> bool:
    """Return whether a schema rejects the value or has another name for a key in it."""
    nested = isinstance(value, dict | list)
    return any(violations(value, schema) or (nested and apply_fixes(value, schema, FIXES)[1]) for schema in schemas)


def _takes_all(schema: Schema, known: dict[Schema, bool], *, limited: bool) -> bool:
    """Return whether the schema accepts every string. `limited`: limits of its length count.

    `known` holds the results so far, because references may be shared or circular.
    """
    if schema not in known:
        known[schema] = False
        known[schema] = (
            schema.values is None
            and "string" in schema.own_types
            and not (limited and schema.limits)
            and all(_takes_all(part, known, limited=limited) for part in schema.parts)
            and all(any(_takes_all(choice, known, limited=limited) for choice in group) for group in schema.groups)
        )
    return known[schema]


def _continued(sent: str, value: Json) -> str | None:
    """Return the text that completes the start of a JSON string to this value: `s` after `"l` for `ls`."""
    begun = load_json(f'{sent}"')
    if not isinstance(begun, str) or not isinstance(value, str):
        return None
    # The two escapes of a surrogate pair may have been sent separately.
    start, whole = begun.encode("utf-16-le", "surrogatepass"), value.encode("utf-16-le", "surrogatepass")
    if not whole.startswith(start):
        return None
    return dump(whole[len(start) :].decode("utf-16-le", "surrogatepass"))[1:-1]
