"""Calls written as JSON objects: `{"name": …, "arguments": {…}}` and its spellings (F1, F2, F6).

One object, several behind each other or line by line, or an array of them; pretty-printed or not; `parameters`,
`args` or `input` for `arguments`; the OpenAI shape `{"type": "function", "function": {…}}`; arguments as a JSON
string. The reading ends at the first key that no call has, so that a JSON answer is let go at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..events import load_json
from ..reader import MAX_KEY, NotACall, Parsing, RawCall, Reader

_ARGUMENTS = frozenset(("arguments", "parameters", "args", "input"))
_IGNORED = frozenset(("id", "index"))


@dataclass(slots=True)
class _Members:
    """What was read of one call's object so far."""

    name: str | None = None
    arguments: bytes | None = None
    inner: RawCall | None = None

    def may_wrap(self, inner: bool) -> bool:
        """True if a `function` object may stand beside what was read, as in the OpenAI shape."""
        return not inner and self.name is None and self.arguments is None


def json_calls(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read one object or one array of objects that stands here."""
    if (yield from reader.byte()) == b"[":
        return (yield from _array(reader))
    return ((yield from _call(reader)),)


def _array(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    yield from reader.expect(b"[")
    calls = []
    while True:
        yield from reader.blanks()
        if (yield from reader.byte()) == b"{":
            calls.append((yield from _call(reader)))
        else:
            # An array of something else: its strings are strings, whatever they hold.
            reader.annul()
            yield from reader.value()
        yield from reader.blanks()
        end = yield from reader.which((b",", b"]"))
        if end == b"]" and not reader.void:
            return tuple(calls)
        if end != b",":
            raise NotACall


def _call(reader: Reader, inner: bool = False) -> Parsing[RawCall]:
    yield from reader.expect(b"{")
    members = _Members()
    seen: set[str] = set()
    while True:
        yield from reader.blanks()
        key = yield from _key(reader)
        reader.annul(key in seen)
        seen.add(key)
        yield from _member(reader, key, members, inner)
        yield from reader.blanks()
        end = yield from reader.which((b",", b"}"))
        if end == b"}":
            return _finished(reader, members)
        if end is None:
            raise NotACall


def _key(reader: Reader) -> Parsing[str]:
    key = _string(reader, (yield from reader.string(MAX_KEY)))
    yield from reader.blanks()
    yield from reader.expect(b":")
    yield from reader.blanks()
    return key


def _member(reader: Reader, key: str, members: _Members, inner: bool) -> Parsing[None]:
    if key == "name" and members.inner is None and (yield from reader.byte()) == b'"':
        members.name = _string(reader, (yield from reader.string(MAX_KEY)))
        reader.tool(members.name)
    elif key in _ARGUMENTS and members.arguments is None and members.inner is None:
        members.arguments = yield from reader.value()
    elif key == "function" and members.may_wrap(inner) and (yield from reader.byte()) == b"{":
        members.inner = yield from _call(reader, inner=True)
    elif key == "type":
        reader.annul((yield from reader.value()) != b'"function"')
    else:
        # A key that no call has, or an id that is none: this is JSON of another kind.
        reader.annul(key not in _IGNORED or (yield from reader.byte()) in (b"{", b"["))
        yield from reader.value(0 if reader.void else MAX_KEY)


def _finished(reader: Reader, members: _Members) -> RawCall:
    if reader.void:
        raise NotACall
    if members.inner is not None:
        return members.inner
    if members.name is None or (members.arguments is None and not reader.wrapped):
        raise NotACall
    return RawCall(reader.tool(members.name), members.name, _arguments(reader, members.arguments or b"null"))


def _arguments(reader: Reader, value: bytes) -> str:
    """The text of the arguments' object; a string that holds one is taken for it (F29), null for none (F26)."""
    if value == b"null":
        return "{}"
    if value.startswith(b'"'):
        value = _string(reader, value).encode("utf-8", "surrogatepass")
    try:
        parsed = load_json(value)
    except ValueError:
        raise NotACall from None
    if not isinstance(parsed, dict):
        raise NotACall
    return value.decode("utf-8", "surrogatepass")


def _string(reader: Reader, quoted: bytes) -> str:
    if reader.void:
        return ""
    try:
        text = load_json(quoted)
    except ValueError:
        raise NotACall from None
    if not isinstance(text, str):
        raise NotACall
    return text
