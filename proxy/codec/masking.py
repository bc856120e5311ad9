"""The very secrets of a request in bytes: each byte of one becomes a `*`, so that nothing else moves.

A secret stands as it is, or with any of its characters in an escape of JSON, Python, HTML or a URL
(`codec/escapes.py`). All of it is linear: escapes are undone first, then the secrets are plain literals.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

from proxy.codec.escapes import BYTES, LONGEST, escape_of, layers, undone
from proxy.codec.json_text import dump_json

# A credential this short is a placeholder ("EMPTY", "x"): to remove it would break what it happens to stand in.
MIN_SECRET = 8
# So much of one at the end of what was cut off is one.
_MIN_PART = 4
# What is looked at together, so that hostile escapes cost no memory.
_SLICE = 1024 * 1024
# A JSON escape that is not at its end yet.
_HALF = re.compile(rb"(\\+)(?:u[0-9A-Fa-f]{0,3})?\Z")
# Bytes by how often they are in chunks of JSON; those that are not named are rare.
_FREQUENT = b'"e:,tnoi cadlshr_mpu{}[].0123456789-fgbwyvkx'
# What every escape begins with.
_BACKSLASH, _PERCENT, _AMPERSAND = b"\\%&"

# A credential, or several; an empty one is none.
Secrets: TypeAlias = str | tuple[str, ...]
Span: TypeAlias = tuple[int, int]


class Mask:
    """Where the secrets stand in bytes. It keeps no state: one serves all who ask for the same secrets."""

    def __init__(self, secrets: tuple[str, ...]) -> None:
        self._forms = tuple(sorted({form for secret in secrets for form in _forms(secret)}))
        self._rare = tuple((form, *_rarest(form)) for form in self._forms)
        # The bytes of which the beginning of a secret may consist, escapes and all.
        self._inner = b"".join(self._forms) + BYTES if self._forms else b""
        self._may_be_last = frozenset(self._inner)
        self._escape = escape_of(frozenset(b"".join(self._forms)))

    @property
    def empty(self) -> bool:
        """True if there are no secrets."""
        return not self._forms

    @property
    def longest(self) -> int:
        """The length of the longest secret, without escapes."""
        return max(map(len, self._forms), default=0)

    def whole(self, data: bytes, *, cut_off: bool = False) -> bytes:
        """The data without the secrets; if it may be `cut_off`, also without the beginning of one at its end."""
        if self.clean(data):
            return data
        if not cut_off and self._holds_none(data):
            return data
        masking = Masking(self)
        parts = [masking.feed(data[at : at + _SLICE]) for at in range(0, len(data), _SLICE)]
        return b"".join(parts) + masking.finish(cut_off=cut_off)

    def text(self, text: str) -> str:
        """A text without the secrets."""
        if not self._forms:
            return text
        data = text.encode("utf-8", "replace")
        if self._holds_none(data):
            return text
        return self.whole(data).decode("utf-8", "replace")

    def clean(self, data: bytes) -> bool:
        """True if the data plainly holds no secret, and none may have begun at its end: nearly always."""
        if not self._forms:
            return True
        return not self._may_go_on(data) and self._holds_none(data)

    def _may_go_on(self, data: bytes) -> bool:
        """Only what stands behind the last byte that no secret has need be read: of `... "total_tokens":17}}` two."""
        if not data or data[-1] not in self._may_be_last:
            return False
        end = data[len(data.rstrip(self._inner)) :]
        return self.secrets_in(end).open < len(end)

    def _holds_none(self, data: bytes) -> bool:
        """Each event of each stream comes by here, so single bytes are looked for first: that takes a tenth of it."""
        may_escape = _BACKSLASH in data or _PERCENT in data or _AMPERSAND in data
        if may_escape and self._escape.search(data):
            return False
        for form, rare, next_rare in self._rare:  # noqa: SIM110 (a generator would cost as much again)
            if rare in data and next_rare in data and form in data:
                return False
        return True

    def secrets_in(self, data: bytes, *, ended: bool = False) -> FoundSecrets:
        """The secrets that are in the data; `ended`: nothing follows it."""
        spans: list[Span] = []
        at, most = len(data), 0
        for layer in layers(data, ended=ended):
            text = layer.text
            for form in self._forms:
                spans += [
                    (_begin(data, layer.position_of(start)), layer.position_of(end))
                    for start, end in _places(text, form)
                ]
            begun = max((_overlap(text, *each) for each in zip(self._forms, self._fallbacks, strict=True)), default=0)
            at = min(at, layer.open)
            if begun:
                at = min(at, _begin(data, layer.position_of(len(text) - begun)))
                most = max(most, begun)
        # What is starred in part must be known as a secret then, too.
        for start, end in sorted(spans, reverse=True):
            if start < at < end:
                at = start
        return FoundSecrets(spans, at, most)

    @cached_property
    def _fallbacks(self) -> tuple[list[int], ...]:
        return tuple(map(_fallback, self._forms))


@dataclass(frozen=True, slots=True)
class FoundSecrets:
    """The secrets in some data by begin and end; from `open` on another one may have begun, with `begun` characters."""

    spans: list[Span]
    open: int
    begun: int


class Masking:
    """A mask over bytes that come in parts: what may be the beginning of a secret waits for what follows it."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._waiting = b""

    def feed(self, data: bytes) -> bytes:
        """Take the next part; give what can leave."""
        if not self._waiting and self._mask.clean(data):
            return data
        data = self._waiting + data
        secrets = self._mask.secrets_in(data)
        self._waiting = data[secrets.open :]
        return starred(data, secrets.spans)[: secrets.open]

    def finish(self, *, cut_off: bool = True) -> bytes:
        """The rest; if it may be `cut_off`, the beginning of a secret counts as one."""
        rest, self._waiting = self._waiting, b""
        if not rest:
            return b""
        secrets = self._mask.secrets_in(rest, ended=not cut_off)
        spans = secrets.spans
        if cut_off and secrets.begun >= _MIN_PART:
            spans = [*spans, (secrets.open, len(rest))]
        return starred(rest, spans)


def starred(data: bytes, spans: list[Span]) -> bytes:
    """The data with a `*` for each byte of the spans; the very same if there are none."""
    if not spans:
        return data
    changed = bytearray(data)
    for start, end in spans:
        changed[start:end] = b"*" * (end - start)
    return bytes(changed)


def _begin(data: bytes, start: int) -> int:
    """Where to begin to star what begins at `start`: no escape is left in half (`\\n` before the rest of a key)."""
    match = _HALF.search(data, max(0, start - LONGEST), start)
    if match is None or len(match[1]) % 2 == 0:
        return start
    return match.end(1) - 1


def _places(text: bytes, form: bytes) -> Iterator[Span]:
    """Where in a text a form of a secret stands."""
    at = text.find(form)
    while at >= 0:
        yield at, at + len(form)
        at = text.find(form, at + len(form))


def _overlap(text: bytes, form: bytes, fallback: list[int]) -> int:
    """The number of bytes at the end of a text that are the beginning of a form, but not all of it."""
    size = 0
    if text[-1:] not in form:
        return size
    for byte in text[max(0, len(text) - len(form) + 1) :]:
        size = _matched(form, fallback, size, byte)
    return size


def _rarest(form: bytes) -> tuple[int, int]:
    """The two bytes of a form by which it is told soonest that it is not there."""
    by_rarity = sorted(set(form), key=lambda byte: (byte in _FREQUENT, -_FREQUENT.find(byte), byte))
    return by_rarity[0], by_rarity[min(1, len(by_rarity) - 1)]


def _fallback(form: bytes) -> list[int]:
    """For each beginning of a form the longest one that it also ends with (Knuth, Morris and Pratt)."""
    lengths = [0]
    for byte in form[1:]:
        lengths.append(_matched(form, lengths, lengths[-1], byte))
    return lengths


def _matched(form: bytes, fallback: list[int], size: int, byte: int) -> int:
    """The length of a form's beginning with which a text ends, of which `size` bytes were matched before this one."""
    while size and form[size] != byte:
        size = fallback[size - 1]
    if form[size] == byte:
        size += 1
    return size


@lru_cache(maxsize=256)
def _made(secrets: tuple[str, ...]) -> Mask:
    return Mask(secrets)


def mask_of(secrets: Secrets) -> Mask:
    """The mask of a secret, or of several."""
    if isinstance(secrets, str):
        return _made((secrets,))
    return _made(secrets)


def _forms(secret: str) -> Iterator[bytes]:
    """A secret as bytes, as it may stand where escapes are undone."""
    if len(secret) < MIN_SECRET:
        return
    for form in _written(secret):
        yield form
        # It may hold what looks like an escape (`100%25sure`), which then is undone as well.
        plain = undone(form)
        if len(plain) >= MIN_SECRET:
            yield plain


def _written(secret: str) -> Iterator[bytes]:
    """A secret as bytes: as it is, and as JSON has it, and JSON in JSON, but for the escapes that are undone."""
    # WSGI shows each byte of a header as a character; the server may have read them as UTF-8.
    for text in (secret, secret.encode("utf-8", "replace").decode("latin-1"), _as_utf8(secret)):
        for written in (text, dump_json(text)[1:-1].decode(), json.dumps(text)[1:-1]):
            for again in (written, json.dumps(written)[1:-1]):
                with contextlib.suppress(UnicodeEncodeError):
                    yield again.encode("latin-1")
                yield again.encode("utf-8", "replace")


def _as_utf8(secret: str) -> str:
    try:
        return secret.encode("latin-1").decode("utf-8")
    except ValueError:
        return secret
