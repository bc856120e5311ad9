"""The short way of most events: a chunk that differs from an earlier one by its text alone needs no parsing.

Servers send hundreds of chunks that are equal but for one string. Once one of them was parsed, the bytes before and
after its text tell that another one is of the same shape; if its text has neither quotation mark nor backslash, that
text is the whole difference, but for the numbers of a usage that counts on with each chunk.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from proxy.engine.call_delta import CallDelta
from proxy.engine.events import Chunk

_KEYS = (b'"content":', b'"reasoning":', b'"reasoning_content":')
_USAGE = b'"usage":{'
_ARGUMENTS = b'"arguments":'
# A text without anything that ends a string of JSON, is an escape, or must be one.
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]++')


@dataclass(frozen=True, slots=True)
class Template:
    """The bytes before and after the text in the chunks of one choice; `reasoning` if it is the model's reasoning.

    `counts` is what stands behind `after`, with any numbers; None if nothing does.
    """

    before: bytes
    after: bytes
    choice: int
    reasoning: bool
    counts: re.Pattern[bytes] | None = None

    def text(self, raw: bytes) -> bytes | None:
        """Return the text of an event of this shape; None for any other, and for a text that is empty or not plain."""
        end = len(raw)
        if self.counts is not None:
            end = raw.rfind(_USAGE) + len(_USAGE)
            if not self.counts.fullmatch(raw, end):
                return None
        if not raw.startswith(self.before):
            return None
        if not raw.endswith(self.after, 0, end):
            return None
        if end < len(self.before) + len(self.after):
            return None
        if not _PLAIN.fullmatch(raw, len(self.before), end - len(self.after)):
            return None
        return raw[len(self.before) : end - len(self.after)]


@dataclass(frozen=True, slots=True)
class CallTemplate:
    """The bytes before and after the fragment in chunks that say nothing but the next of one call's arguments; `delta`
    is such a piece, `index` the number of the call in the engine's events. `counts` as in `Template`.
    """

    before: bytes
    after: bytes
    choice: int
    index: int
    delta: CallDelta
    counts: re.Pattern[bytes] | None = None

    def fits(self, raw: bytes) -> bool:
        """True for an event of this shape, whatever its fragment is."""
        end = len(raw)
        if self.counts is not None:
            end = raw.rfind(_USAGE) + len(_USAGE)
            if not self.counts.fullmatch(raw, end):
                return False
        return raw.startswith(self.before) and raw.endswith(self.after, 0, end)


def learn(chunk: Chunk, choice: int, text: str, *, reasoning: bool) -> Template | None:
    """The template of a chunk that says this text and nothing else; None if it cannot be told where it stands."""
    parts = _around(chunk.raw, _KEYS[1:] if reasoning else _KEYS[:1], text)
    if parts is None:
        return None
    before, after = parts
    after, counts = _without_counts(after)
    return Template(before, after, choice, reasoning, counts)


def _without_counts(after: bytes) -> tuple[bytes, re.Pattern[bytes] | None]:
    """What stands behind a text up to the usage that counts on, and what matches the rest; None without one."""
    fixed, counted, counts = after.rpartition(_USAGE)
    if not counted:
        return after, None
    return fixed + counted, re.compile(re.sub(rb"[0-9]+", rb"[0-9]+", re.escape(counts)))


def learn_call(chunk: Chunk, choice: int, index: int, delta: CallDelta) -> CallTemplate | None:
    """The template of a chunk that says this piece of a call and nothing else; None if others may be of another call,
    or it cannot be told where its fragment stands.
    """
    if delta.name or delta.id is not None or delta.complete or not delta.standard:
        return None
    parts = _around(chunk.raw, (_ARGUMENTS,), delta.fragment)
    if parts is None:
        return None
    before, after = parts
    after, counts = _without_counts(after)
    return CallTemplate(before, after, choice, index, delta, counts)


def _around(raw: bytes, keys: Sequence[bytes], text: str) -> tuple[bytes, bytes] | None:
    """What stands before and behind the text in an event: it is the value of the one key that stands there, once."""
    written = text.encode("utf-8", "surrogatepass")
    places = [(raw.find(key), key) for key in keys if raw.count(key) == 1]
    if len(places) != 1:
        return None
    at, key = places[0]
    start = at + len(key)
    start += len(raw[start:]) - len(raw[start:].lstrip(b" "))
    if raw[start : start + 2 + len(written)] != b'"' + written + b'"':
        return None
    if any(mark in written for mark in (b'"', b"\\")):
        return None
    return raw[: start + 1], raw[start + 1 + len(written) :]
