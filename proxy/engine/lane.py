"""The lane: events that differ from one that was parsed by a text alone, in which nothing can begin, or by a fragment
of a call's arguments that goes on a string.

Where nothing waits, such events leave as they came, whole batches of them, after one look at their bytes; what they say
is told to the engine afterwards (`Engine.catch_up`), joined: it would have made the same of it piece by piece.

    data: {"id":"a","choices":[{"index":0,"delta":{"content":" it"},"finish_reason":null}]}
    |--------------------- before -------------------------||- -||----------- after ----------|
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from proxy.codec.json_text import load_json
from proxy.engine.events import CallArguments, Reasoning, Text
from proxy.engine.fast_path import CallTemplate, Template

# An escape in a string of JSON.
PLAIN_ESCAPE = rb'\\["\\/nrt]'
# A text that says anything at all, as it is in a string of JSON.
ANY_TEXT = re.compile(rb'(?:[^"\\\x00-\x1f]++|%b)++' % PLAIN_ESCAPE)
# What goes on a string of a call's arguments, which are themselves in a string: `\\n` is its escape of a line end, and
# `\\\"` that of a quotation mark, while `\"` would end it.
IN_STRING = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\\\[nrtbf/]|\\\\\\\\|\\\\\\"|\\\\u%b)++' % (rb"[0-9a-fA-F]" * 4))
# The text of a call in which no end tag and no token begins.
WAITING = re.compile(rb'(?!\Z)[^"\\\x00-\x1f<\[\]]*(?:%b[^"\\\x00-\x1f<\[\]]*)*' % PLAIN_ESCAPE)
# A string of JSON, whatever it says.
_ANY_STRING = rb'[^"\\\x00-\x1f]*+(?:\\[^\x00-\x1f][^"\\\x00-\x1f]*+)*+'
_START, _END = b"data: ", b"\n\n"


@dataclass(frozen=True, slots=True)
class Lane:
    """The shape of the events that pass: the bytes before and after their texts, which `plain` matches.

    `counted` matches a whole event of those that count tokens, too, and differ by these numbers as well; what they
    count until then the events that are parsed say again, as the last one does.
    """

    template: Template | CallTemplate
    plain: re.Pattern[bytes]
    joint: bytes
    counted: re.Pattern[bytes] | None = None

    def texts(self, body: bytes) -> list[bytes] | None:
        """The texts of a body that is nothing but whole events of this shape; None for any other."""
        if self.counted is not None:
            return self._counted_texts(self.counted, body)
        before, after = self.template.before, self.template.after
        if not body.startswith(before) or not body.endswith(after):
            return None
        if len(body) < len(before) + len(after) or not _is_unicode(body):
            return None
        texts = body[len(before) : -len(after)].split(self.joint)
        matches = self.plain.fullmatch
        for text in texts:
            if matches(text) is None:
                return None
        return texts

    def _counted_texts(self, event: re.Pattern[bytes], body: bytes) -> list[bytes] | None:
        if not _is_unicode(body):
            return None
        texts = []
        at = 0
        while at < len(body):
            match = event.match(body, at)
            if match is None:
                return None
            if self.plain.fullmatch(match[1]) is None:
                return None
            texts.append(match[1])
            at = match.end()
        return texts or None

    def events(self, text: bytes) -> tuple[Text | Reasoning | CallArguments, ...]:
        """The events that such texts, joined, say."""
        if isinstance(self.template, CallTemplate):
            return (CallArguments(self.template.choice, self.template.index, unescaped(text)),)
        kind = Reasoning if self.template.reasoning else Text
        return (kind(self.template.choice, unescaped(text)),)


def unescaped(text: bytes) -> str:
    """The text that JSON strings of a lane, joined, stand for."""
    if b"\\" not in text:
        return text.decode("utf-8", "replace")
    decoded = load_json(b'"%b"' % text)
    assert isinstance(decoded, str)
    return decoded


def _is_unicode(body: bytes) -> bool:
    """True for UTF-8: what is none cannot be told apart once it is joined."""
    if body.isascii():
        return True
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def lane_of(template: Template | CallTemplate, plain: re.Pattern[bytes]) -> Lane | None:
    """The lane for events of this shape; None if their ends are not plain to see."""
    before, after = template.before, template.after
    if template.counts is not None:
        return _counted_lane(template, template.counts, plain)
    if not before.startswith(_START) or not after.endswith(_END):
        return None
    if b"\n" in before or b"\r" in before or b"\r" in after or after.index(b"\n") != len(after) - len(_END):
        return None
    return Lane(template, plain, after + before)


def _counted_lane(
    template: Template | CallTemplate, counts: re.Pattern[bytes], plain: re.Pattern[bytes]
) -> Lane | None:
    """The same for events that count tokens behind their text."""
    fixed = template.before + template.after
    end = re.escape(_END)
    if not fixed.startswith(_START) or not counts.pattern.endswith(end):
        return None
    if b"\r" in fixed + counts.pattern:
        return None
    if (fixed + counts.pattern).count(b"\n") != len(_END):
        return None
    around = re.escape(template.before), _ANY_STRING, re.escape(template.after), counts.pattern
    return Lane(template, plain, b"", re.compile(b"%b(%b)%b%b" % around))
