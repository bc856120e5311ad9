"""Events that differ from one that was parsed by a text alone: known by their bytes, one by one or in batches.

    data: {"id":"a","choices":[{"index":0,"delta":{"content":" it"},"finish_reason":null}]}
    |--------------------- before -------------------------||- -||----------- after ----------|

Servers send hundreds of such chunks. Once one of them was parsed, the bytes before and after its text show that another
one has the same shape. If its text has no quotation mark and no backslash, the text is the whole difference, but for
the numbers of a usage that counts on with each chunk.

Where no call can begin, whole batches of them leave after one look at their bytes; the engine is told afterwards
(`Engine.catch_up`) and would have made the same of them. While a call in the text is held, batches only wait with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from proxy.codec.json_text import load_json
from proxy.engine.events import CallArguments, Chunk, Reasoning, Text
from proxy.engine.reading import CallDelta

# An escape in a string of JSON.
PLAIN_ESCAPE = rb'\\["\\/nrt]'
# A text that says anything at all, as it is in a string of JSON.
ANY_TEXT = re.compile(rb'(?:[^"\\\x00-\x1f]++|%b)++' % PLAIN_ESCAPE)
# What continues a string of a call's arguments, which are themselves in a string: `\\\\n` is its escape of a line end,
# `\\\\\\"` that of a quotation mark, while `\\"` would end it.
IN_STRING = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\\\[nrtbf/]|\\\\\\\\|\\\\\\"|\\\\u%b)++' % (rb"[0-9a-fA-F]" * 4))
# The text of a held call in which no end tag and no token begins.
WAITING = re.compile(rb'(?!\Z)[^"\\\x00-\x1f<\[\]]*(?:%b[^"\\\x00-\x1f<\[\]]*)*' % PLAIN_ESCAPE)
# A string of JSON, whatever it says, and one without anything that is an escape, or must be one.
_ANY_STRING = rb'[^"\\\x00-\x1f]*+(?:\\[^\x00-\x1f][^"\\\x00-\x1f]*+)*+'
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]++')
_START, _END = b"data: ", b"\n\n"
_CONTENT, _REASONING, _ARGUMENTS = (b'"content":',), (b'"reasoning":', b'"reasoning_content":'), (b'"arguments":',)
_USAGE = b'"usage":{'


@dataclass(frozen=True, slots=True)
class Template:
    """The bytes before and after the text in the chunks of one choice; `reasoning` if it is the model's reasoning.

    `counts` matches what follows `after`, with any numbers; None if nothing does.
    """

    before: bytes
    after: bytes
    choice: int
    reasoning: bool
    counts: re.Pattern[bytes] | None = None

    def text(self, raw: bytes) -> bytes | None:
        """Return the text of an event of this shape; None for any other, and for a text that is empty or not plain."""
        end = _end_of_fixed(self, raw)
        if end < len(self.before) + len(self.after) or not raw.startswith(self.before):
            return None
        start, end = len(self.before), end - len(self.after)
        return raw[start:end] if raw.startswith(self.after, end) and _PLAIN.fullmatch(raw, start, end) else None


@dataclass(frozen=True, slots=True)
class CallTemplate:
    """The bytes before and after the fragment in chunks that say nothing but the next of one call's arguments.

    `delta` is such a piece, `index` the number of the call in the engine's events; `counts` as in `Template`.
    """

    before: bytes
    after: bytes
    choice: int
    index: int
    delta: CallDelta
    counts: re.Pattern[bytes] | None = None


def fits(template: Template | CallTemplate, raw: bytes) -> bool:
    """Return whether an event has this shape, whatever its text is."""
    return raw.startswith(template.before) and raw.endswith(template.after, 0, max(_end_of_fixed(template, raw), 0))


def _end_of_fixed(template: Template | CallTemplate, raw: bytes) -> int:
    """Return where the fixed part of an event ends, -1 if its counts have another shape."""
    if template.counts is None:
        return len(raw)
    end = raw.rfind(_USAGE) + len(_USAGE)
    return end if template.counts.fullmatch(raw, end) else -1


def learn(chunk: Chunk, choice: int, text: str, *, reasoning: bool) -> Template | None:
    """Return the template of a chunk that says this text and nothing else; None if its place is not clear."""
    around = _around(chunk.raw, _REASONING if reasoning else _CONTENT, text)
    return None if around is None else Template(*around[:2], choice, reasoning, around[2])


def learn_call(chunk: Chunk, choice: int, index: int, delta: CallDelta) -> CallTemplate | None:
    """Return the template of a chunk that says this piece of a call; None if others may be of another call."""
    around = _around(chunk.raw, _ARGUMENTS, delta.fragment) if delta.plain and not delta.complete else None
    return None if around is None else CallTemplate(*around[:2], choice, index, delta, around[2])


def _around(raw: bytes, keys: Sequence[bytes], text: str) -> tuple[bytes, bytes, re.Pattern[bytes] | None] | None:
    """Return what is before and after the text in an event, and what matches the counts behind that.

    None unless the text is the value of the one key that is there, once.
    """
    written = text.encode("utf-8", "surrogatepass")
    places = [raw.find(key) + len(key) for key in keys if raw.count(key) == 1]
    if len(places) != 1 or b'"' in written or b"\\" in written:
        return None
    start = places[0]
    start += len(raw[start:]) - len(raw[start:].lstrip(b" "))
    if not raw.startswith(b'"' + written + b'"', start):
        return None
    before, after = raw[: start + 1], raw[start + 1 + len(written) :]
    fixed, counted, counts = after.rpartition(_USAGE)
    if not counted:
        return before, after, None
    return before, fixed + counted, re.compile(re.sub(rb"[0-9]+", rb"[0-9]+", re.escape(counts)))


@dataclass(frozen=True, slots=True)
class Lane:
    """The shape of the events that pass: the bytes before and after their texts, which `plain` matches.

    `counted` matches a whole event of those that count tokens, too, and differ by these numbers as well; what they
    count until then the events that are parsed say again, as the last one does. `held` is a chunk of this shape if
    nothing leaves, as a call is held; then the texts may have `room` characters.
    """

    template: Template | CallTemplate
    plain: re.Pattern[bytes]
    joint: bytes
    counted: re.Pattern[bytes] | None = None
    held: Chunk | None = None
    room: int = 0

    def texts(self, body: bytes) -> list[bytes] | None:
        """Return the texts of a body that is nothing but whole events of this shape; None for any other."""
        if not body.isascii():
            try:
                body.decode()
            except UnicodeDecodeError:
                # What is not UTF-8 cannot be separated once it is joined.
                return None
        if self.counted is not None:
            return self._counted_texts(self.counted, body)
        before, after = self.template.before, self.template.after
        if not body.startswith(before) or not body.endswith(after) or len(body) < len(before) + len(after):
            return None
        texts = body[len(before) : -len(after)].split(self.joint)
        matches = self.plain.fullmatch
        for text in texts:
            if matches(text) is None:
                return None
        return texts

    def _counted_texts(self, event: re.Pattern[bytes], body: bytes) -> list[bytes] | None:
        texts = []
        at = 0
        while at < len(body):
            match = event.match(body, at)
            if match is None or self.plain.fullmatch(match[1]) is None:
                return None
            texts.append(match[1])
            at = match.end()
        return texts or None

    def events(self, text: bytes) -> tuple[Text | Reasoning | CallArguments, ...]:
        """Return the events that such texts, joined, say."""
        template = self.template
        if isinstance(template, CallTemplate):
            return (CallArguments(template.choice, template.index, unescaped(text)),)
        return ((Reasoning if template.reasoning else Text)(template.choice, unescaped(text)),)


def unescaped(text: bytes) -> str:
    """Return the text that JSON strings of a lane, joined, stand for."""
    if b"\\" not in text:
        return text.decode("utf-8", "replace")
    decoded = load_json(b'"%b"' % text)
    assert isinstance(decoded, str)
    return decoded


def lane_of(template: Template | CallTemplate, plain: re.Pattern[bytes]) -> Lane | None:
    """Return the lane for events of this shape; None if their ends are not plain to see."""
    before, after, counts = template.before, template.after, template.counts
    fixed, end = before + after, _END
    if counts is not None:
        fixed, end = fixed + counts.pattern, re.escape(_END)
    if not before.startswith(_START) or not fixed.endswith(end) or b"\r" in fixed or fixed.count(b"\n") != len(_END):
        return None
    if counts is None:
        return Lane(template, plain, after + before)
    event = re.escape(before), _ANY_STRING, re.escape(after), counts.pattern
    return Lane(template, plain, b"", re.compile(b"%b(%b)%b%b" % event))
