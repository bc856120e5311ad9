"""Secrets in recorded bytes: each byte of them becomes a `*`, so that nothing else moves.

What counts: the credentials of a request (`codec/masking.py`), and texts of a shape that only keys have. A streamed key
comes in pieces, one event each; so the texts of a stream are also looked at joined. All of it is linear: literals are
found, and what follows them is matched by patterns that cannot go far back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from proxy.codec import sse
from proxy.codec.json_text import Json, dump_json, load_chunk
from proxy.codec.masking import Secrets, mask_of, starred
from proxy.errors import ProxyError, UpstreamRefused

# Characters of a text that may be a name.
_MAX_NAME = 64
# What is nested deeper than the texts of a chunk is not looked at.
_MAX_DEPTH = 12
_BEARER = b"earer "
# The literal that a key begins with, and the key; what follows `Bearer ` is the key alone.
_SHAPES = tuple(
    (start, re.compile(pattern))
    for start, pattern in (
        (b"sk-", rb"sk-[A-Za-z0-9_-]{16,}"),
        (_BEARER, rb"(?<=earer )[A-Za-z0-9._~+/=-]{16,}"),
        *((b"gh%b_" % kind, rb"gh[pousr]_[A-Za-z0-9]{16,}") for kind in (b"p", b"o", b"u", b"s", b"r")),
        (b"github_pat_", rb"github_pat_[A-Za-z0-9_]{16,}"),
        (b"AKIA", rb"AKIA[A-Z0-9]{16}"),
        (b"ASIA", rb"ASIA[A-Z0-9]{16}"),
        (b"xox", rb"xox[a-z]-[A-Za-z0-9-]{10,}"),
        # In JSON its line ends are escaped, in JSON within JSON twice. Without its last line it is a key all the same.
        (
            b"-----BEGIN ",
            rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----(?:[A-Za-z0-9+/=\s]++|\\++[nrt])*+"
            rb"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----)?",
        ),
    )
)
_WORD = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_ESCAPES = frozenset(b"nrtbf")
_NUMBERED = re.compile(rb"\\u[0-9A-Fa-f]{4}")
# Of what comes in parts so many bytes wait for what follows, and so many at most.
_KEPT = 16 * 1024
_MAX_WAITING = 1024 * 1024

_Path: TypeAlias = tuple[str | int, ...]


def redact(data: bytes, credential: Secrets = "") -> bytes:
    """The data, of the same length, with the credential and all that looks like a key replaced by `*`."""
    return _without_shapes(mask_of(credential).whole(data))


def redact_end(data: bytes, credential: Secrets = "") -> bytes:
    """The same for data that may be cut off: where it ends in the first part of a credential, that is replaced too."""
    return _without_shapes(mask_of(credential).whole(data, cut_off=True))


def _without_shapes(data: bytes) -> bytes:
    return starred(data, [*_spans(data)])


def clean(text: str, secrets: Secrets) -> str:
    """The text with the secrets, and all that looks like a key, replaced by `*`."""
    return _clean_name(text, secrets) if len(text) <= _MAX_NAME else _clean(text, secrets)


def _clean(text: str, secrets: Secrets) -> str:
    return redact(text.encode("utf-8", "replace"), secrets).decode("utf-8", "replace")


# Names of models and tools come again and again, with the keys of the same clients.
_clean_name = lru_cache(maxsize=256)(_clean)


def redact_error(error: ProxyError, secrets: Secrets) -> None:
    """Take the secrets out of what an error says: a model server may quote the key that it did not like."""
    error.message = clean(error.message, secrets)
    error.headers = tuple((name, clean(value, secrets)) for name, value in error.headers)
    if isinstance(error, UpstreamRefused):
        error.kind = clean(error.kind, secrets)
        if error.body is not None:
            error.body = _clean_body(error.body, secrets)


def _clean_body(body: bytes, secrets: Secrets) -> bytes:
    """A JSON body; also a key that is written in escapes (`\\u0073k-...`) is found."""
    body = redact(body, secrets)
    if b"\\" not in body:
        return body
    try:
        plain = dump_json(load_chunk(body)[0])
    except ValueError:
        return body
    redacted = redact(plain, secrets)
    if redacted == plain:
        return body
    return redacted


class Redactor:
    """`redact` for bytes that come in parts: none leaves before it is known that no secret goes on behind it."""

    def __init__(self, credential: Secrets = "") -> None:
        self._credential = credential
        # Each character of a credential may stand as an escape, and that within another one.
        self._keep = max(_KEPT, 16 * mask_of(credential).longest)
        self._waiting = b""

    def feed(self, data: bytes) -> bytes:
        """Take the next part; give what can leave."""
        self._waiting += data
        if len(self._waiting) < 2 * self._keep:
            return b""
        redacted = redact(self._waiting, self._credential)
        most = len(redacted) - self._keep
        # The rest of what is starred would not be known as such any more.
        cut = most
        while cut and redacted[cut - 1] != self._waiting[cut - 1]:
            cut -= 1
        if not cut and len(redacted) > _MAX_WAITING:
            cut = most
        ready, self._waiting = redacted[:cut], self._waiting[cut:]
        return ready

    def finish(self) -> bytes:
        """The rest."""
        rest, self._waiting = self._waiting, b""
        return redact_end(rest, self._credential)


def redact_stream(data: bytes, credential: Secrets = "", within: tuple[str, ...] = ("choices",)) -> bytes:
    """The same for an event stream: also what is split over its events; those that had a part are written anew.

    `within` is where in a chunk the texts are; without it they may be anywhere, as in other dialects than chat.
    """
    events = sse.Decoder(len(data) + 2).feed(data)
    texts: dict[_Path, _Joined] = {}
    for number, event in enumerate(events):
        for same, path, text in _texts(_inside(event.data, within), (), ()):
            texts.setdefault(same, _Joined()).add(number, path, text)
    changes: dict[int, list[tuple[_Path, str]]] = {}
    for pieces in texts.values():
        for number, path, text in pieces.redacted(credential):
            changes.setdefault(number, []).append(((*within, *path), text))
    rest = data[sum(len(event.raw) for event in events) :]
    joined = b"".join(_rewritten(event, changes.get(number, [])) for number, event in enumerate(events))
    return redact_end(joined + rest, credential)


def _spans(data: bytes) -> Iterator[tuple[int, int]]:
    for start, shape in _SHAPES:
        at = data.find(start)
        while at >= 0:
            match = _shape_at(data, at, start, shape)
            behind = at + len(start)
            if match is not None:
                behind = match.end()
                if start == _BEARER or _begins(data, at):
                    yield match.span()
            at = data.find(start, behind)


def _shape_at(data: bytes, at: int, start: bytes, shape: re.Pattern[bytes]) -> re.Match[bytes] | None:
    """A match of a key's shape where its beginning stands; what follows `Bearer ` is the key alone."""
    if start == _BEARER:
        return shape.match(data, at + len(start))
    return shape.match(data, at)


def _begins(data: bytes, at: int) -> bool:
    """True if no word goes on here: `task-` is no key. The letter of an escaped line end is no word, and the digits of
    `\\u003e` are none, as which some that write JSON have `>`.
    """
    if at == 0 or data[at - 1] not in _WORD:
        return True
    if _NUMBERED.fullmatch(data, max(0, at - 6), at):
        return True
    return data[at - 1] in _ESCAPES and data[at - 2 : at - 1] == b"\\"


@dataclass(slots=True)
class _Joined:
    """One text of the reply, in the pieces in which it came: the event, the place in it, and the bytes."""

    pieces: list[tuple[int, _Path, bytes]] = field(default_factory=list)

    def add(self, number: int, path: _Path, text: str) -> None:
        self.pieces.append((number, path, text.encode("utf-8", "surrogatepass")))

    def redacted(self, credential: Secrets) -> Iterator[tuple[int, _Path, str]]:
        """The pieces that had to change."""
        whole = redact_end(b"".join(piece for _, _, piece in self.pieces), credential)
        at = 0
        for number, path, piece in self.pieces:
            now = whole[at : at + len(piece)]
            at += len(piece)
            if now != piece:
                yield number, path, now.decode("utf-8", "surrogatepass")


def _inside(data: bytes | None, within: tuple[str, ...]) -> Json:
    """The value at a place of an event's body; None where there is none."""
    try:
        body, _ = load_chunk(data or b"null")
    except ValueError:
        return None
    for key in within:
        body = body.get(key) if isinstance(body, dict) else None
    return body


def _texts(value: Json, same: _Path, path: _Path) -> Iterator[tuple[_Path, _Path, str]]:
    """Each text in `value`: what names it in every event (a choice or a call by its index), and its place in this."""
    if len(path) > _MAX_DEPTH:
        return
    if isinstance(value, str):
        yield same, path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, (*same, key), (*path, key))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _texts(inner, (*same, _index_of(inner, at)), (*path, at))


def _index_of(entry: Json, at: int) -> int:
    """The number that a choice or a call has in every event; its place in this one where it says none."""
    if isinstance(entry, dict):
        index = entry.get("index")
        if isinstance(index, int):
            return index
    return at


def _rewritten(event: sse.ServerSentEvent, changes: list[tuple[_Path, str]]) -> bytes:
    if not changes:
        return event.raw
    assert event.data is not None  # it held what changes
    body, _ = load_chunk(event.data)
    for path, text in changes:
        body = _replaced(body, path, text)
    return sse.encode(dump_json(body), event.name)


def _replaced(value: Json, path: _Path, text: str) -> Json:
    """The value with `text` at this place in it."""
    if not path:
        return text
    step, rest = path[0], path[1:]
    if isinstance(value, dict) and isinstance(step, str):
        return {**value, step: _replaced(value[step], rest, text)}
    if isinstance(value, list) and isinstance(step, int):
        return [*value[:step], _replaced(value[step], rest, text), *value[step + 1 :]]
    return value
