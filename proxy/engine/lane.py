"""Recognizes events by their bytes if they differ from a parsed event only in their text, singly or in batches.

    data: {"id":"a","choices":[{"index":0,"delta":{"content":" it"},"finish_reason":null}]}
    |--------------------- before -------------------------||- -||----------- after ----------|

Servers send hundreds of such chunks. Once one was parsed, equal bytes before and after the text prove that another has
the same shape. Besides the text, only the numbers in a usage may differ.

If no call can begin in the text, whole batches are forwarded unparsed, and the engine is fed afterwards
(`Engine.catch_up`). While a call in the text is held, batches are held with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from proxy.engine.events import CallArguments, Chunk, Reasoning, Text
from proxy.json import load_json

# A short escape in a JSON string.
PLAIN_ESCAPE = rb'\\["\\/nrt]'
# Any text that is not empty, as written in a JSON string.
ANY_TEXT = re.compile(rb'(?:[^"\\\x00-\x1f]++|%b)++' % PLAIN_ESCAPE)
# Text that continues a string within a call's arguments, which are themselves a JSON string: `\\\\n` is an escaped line
# end and `\\\\\\"` an escaped quotation mark, while `\\"` would end the string.
IN_STRING = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\\\[nrtbf/]|\\\\\\\\|\\\\\\"|\\\\u%b)++' % (rb"[0-9a-fA-F]" * 4))
# Text of a held call in which no closing tag and no special token begins.
WAITING = re.compile(rb'(?!\Z)[^"\\\x00-\x1f<\[\]]*(?:%b[^"\\\x00-\x1f<\[\]]*)*' % PLAIN_ESCAPE)
# The inside of any JSON string, and of one that contains nothing escaped.
_ANY_STRING = rb'[^"\\\x00-\x1f]*+(?:\\[^\x00-\x1f][^"\\\x00-\x1f]*+)*+'
_START, _END = b"data: ", b"\n\n"
_KEYS: dict[type, tuple[bytes, ...]] = {
    Text: (b'"content":',),
    Reasoning: (b'"reasoning":', b'"reasoning_content":'),
    CallArguments: (b'"arguments":',),
}
_USAGE = b'"usage":{'


@dataclass(frozen=True, slots=True)
class Template:
    """The bytes before and after the text in chunks that differ only in their text. `event` is the content of one.

    `joint` is the bytes between two texts. If token counts follow `after`, `counted` matches a whole event, with its
    text as group 1; else it is None. Skipping these counts is safe: parsed events, such as the last one, repeat the
    running totals.
    """

    before: bytes
    after: bytes
    joint: bytes
    event: Text | Reasoning | CallArguments
    counted: re.Pattern[bytes] | None = None

    def fits(self, raw: bytes) -> bool:
        """Return whether an event has this shape, with any text."""
        if self.counted is not None:
            return self.counted.fullmatch(raw) is not None
        return raw.startswith(self.before) and raw.endswith(self.after)


def learn(chunk: Chunk, event: Text | Reasoning | CallArguments) -> Template | None:
    """Return the template of a chunk whose only content is this event.

    Return None unless the chunk is one line of data, exactly one of the event's keys occurs, once, and the text is its
    value.
    """
    raw = chunk.raw
    text = event.fragment if isinstance(event, CallArguments) else event.text
    written = text.encode("utf-8", "surrogatepass")
    places = [raw.find(key) + len(key) for key in _KEYS[type(event)] if raw.count(key) == 1]
    if len(places) != 1 or b'"' in written or b"\\" in written:
        return None
    start = places[0]
    start += len(raw[start:]) - len(raw[start:].lstrip(b" "))
    if not raw.startswith(b'"' + written + b'"', start):
        return None
    before, after = raw[: start + 1], raw[start + 1 + len(written) :]
    if not before.startswith(_START) or not after.endswith(_END) or b"\r" in raw or raw.count(b"\n") != len(_END):
        return None
    fixed, usage, counts = after.rpartition(_USAGE)
    if not usage:
        return Template(before, after, after + before, event)
    after = fixed + usage
    numbers = re.sub(rb"[0-9]+", rb"[0-9]+", re.escape(counts))
    whole = b"%b(%b)%b%b" % (re.escape(before), _ANY_STRING, re.escape(after), numbers)
    return Template(before, after, b"", event, re.compile(whole))


@dataclass(frozen=True, slots=True)
class Lane:
    """The shape of events that may pass unparsed. `plain` matches a text.

    `held` is a chunk of this shape if the lane belongs to a held call; the texts may then have `room` characters.
    """

    template: Template
    plain: re.Pattern[bytes]
    held: Chunk | None = None
    room: int = 0

    def texts(self, body: bytes) -> list[bytes] | None:
        """Return the texts of a body that consists of whole events of this shape, or None for any other body."""
        if not body.isascii():
            try:
                body.decode()
            except UnicodeDecodeError:
                # Invalid UTF-8 cannot be separated again once it is joined.
                return None
        template = self.template
        if template.counted is not None:
            return self._counted_texts(template.counted, body)
        before, after = template.before, template.after
        if not body.startswith(before) or not body.endswith(after) or len(body) < len(before) + len(after):
            return None
        texts = body[len(before) : -len(after)].split(template.joint)
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
        """Return the events for joined texts of this lane."""
        event, said = self.template.event, unescaped(text)
        if isinstance(event, CallArguments):
            return (CallArguments(event.choice, event.index, said),)
        return (type(event)(event.choice, said),)


def unescaped(text: bytes) -> str:
    """Return the text of joined JSON strings of a lane, without escapes."""
    if b"\\" not in text:
        return text.decode("utf-8", "replace")
    decoded = load_json(b'"%b"' % text)
    assert isinstance(decoded, str)
    return decoded
