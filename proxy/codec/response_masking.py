"""Which bytes of a response are masked on their way to the client.

The model's output never is: a client's key may be a placeholder (`lm-studio`, `not-needed`, `token-abc123`) that stands
in the very code which its agent edits, and a masked tool call would write `*********` into that file. What is no model
output is masked: a model server quotes the key that it does not like in an error, or in a comment.

| response | masked |
| --- | --- |
| status 400 and more | all of it |
| an event stream | comments, events without JSON data, `event: error` and `response.failed`, data that is an error |
| lines of JSON (`application/x-ndjson`) | lines that are errors, or no JSON |
| a transcription as text, speech | nothing |
| any other body | if it is an error; one longer than MAX_ERROR_BODY in parts: only if it is no JSON object |
| a body that is compressed | nothing: it cannot be searched |

An error is what is no JSON object or array, or an object with an `error` that is not null, with nothing but a `detail`,
with `"object": "error"`, or with the type `error` or `response.failed`:

    {"error": {"message": "Incorrect API key provided: sk-...", "type": "invalid_request_error", "code": 401}}
    {"object": "error", "message": "...", "code": 40101}      (vLLM, FastChat)
    {"detail": "Invalid token sk-..."}                        (FastAPI)
    {"type": "error", "error": {"type": "authentication_error", "message": "..."}}

Everything else leaves as the very bytes that came. All of it is linear, and what waits is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from proxy.codec.json_text import load_chunk
from proxy.codec.masking import Mask, Masking
from proxy.codec.sse import BLANK_LINE, ServerSentEvent, parse_event
from proxy.limits import MAX_ERROR_BODY

# Bytes of an event that has not ended. A client cannot use half an event, so that it waits costs nobody anything.
MAX_UNFINISHED = 1024 * 1024
_NO_OBJECT = re.compile(rb"[ \t\r\n]*+[^ \t\r\n{\[]")
_ERROR_TYPES = ("error", "response.failed")
_LINE_END = re.compile(rb"\n")
# What a model says beside JSON: a transcription as text or subtitles, speech.
_MEDIA = ("text/plain", "text/vtt", "text/srt", "application/x-subrip", "audio/")
_JSON_LINES = ("application/x-ndjson", "application/jsonl", "application/x-jsonlines")


class BodyMasking(Protocol):
    """A response's body on its way to the client, part by part."""

    def feed(self, data: bytes) -> bytes:
        """Take the next part; give what can leave."""

    def finish(self) -> bytes:
        """The body ended; give the rest."""


def body_masking(mask: Mask, status: int, content_type: str, content_coding: str = "") -> BodyMasking:
    """The masking of a response's body: by its status and the values of its `Content-...` headers."""
    media_type = content_type.partition(";")[0].strip().lower()
    if status >= 400:
        return Masking(mask)
    if mask.empty or content_coding:
        return _Unmasked()
    if media_type.startswith(_MEDIA):
        return _Unmasked()
    if media_type == "text/event-stream":
        return RecordMasking(mask, BLANK_LINE, (b"\n\n", b"\r\n\r\n"), _mask_event)
    if media_type in _JSON_LINES:
        return RecordMasking(mask, _LINE_END, (b"\n",), _mask_json)
    return ErrorMasking(mask)


def mask_body(mask: Mask, status: int, data: bytes) -> bytes:
    """A whole body without the secrets, if it is masked; else the very same."""
    if status >= 400:
        return mask.whole(data, cut_off=True)
    return _mask_json(mask, data, cut_off=True)


class _Unmasked:
    """Everything leaves as it came."""

    def feed(self, data: bytes) -> bytes:
        return data

    def finish(self) -> bytes:
        return b""


class ErrorMasking:
    """A body that is masked if it is an error: it waits until that is known."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._held = bytearray()
        # What the rest of the body takes, once it is known.
        self._decided: BodyMasking | None = None

    def feed(self, data: bytes) -> bytes:
        """Take the next part; give what can leave."""
        if self._decided is not None:
            return self._decided.feed(data)
        self._held += data
        self._decided = self._decide()
        if self._decided is None:
            return b""
        return self._decided.feed(self._take())

    def _decide(self) -> BodyMasking | None:
        """The masking that the beginning of the body decides; None if it decides none."""
        if _is_no_object(self._held):
            return Masking(self._mask)
        if len(self._held) > MAX_ERROR_BODY:
            return _Unmasked()
        return None

    def finish(self) -> bytes:
        """The body ended; give the rest."""
        if self._decided is not None:
            return self._decided.finish()
        return _mask_json(self._mask, self._take(), cut_off=True)

    def _take(self) -> bytes:
        held = bytes(self._held)
        self._held.clear()
        return held


class RecordMasking:
    """A body of records, each of which leaves at its end, masked or as it came.

    `end` matches the end of a record, and `ends` are the bytes that a part of whole records ends with, nearly always.
    `mask_record` gives a record as it leaves. Of a record that is longer than MAX_UNFINISHED when its end has not come
    yet nothing can be known; it is masked.
    """

    def __init__(
        self, mask: Mask, end: re.Pattern[bytes], ends: tuple[bytes, ...], mask_record: Callable[..., bytes]
    ) -> None:
        self._mask = mask
        self._end = end
        self._ends = ends
        self._mask_record = mask_record
        self._unfinished = bytearray()
        # Up to here no record ends.
        self._searched = 0
        # What the rest of a record takes that is too long.
        self._too_long: Masking | None = None

    def feed(self, data: bytes) -> bytes:
        """Take the next part; give what can leave."""
        # Nearly every part of every stream: whole records without a secret.
        if not self._unfinished and data.endswith(self._ends) and self._mask.clean(data):
            return data
        self._unfinished += data
        ready = []
        start = 0
        while match := self._end.search(self._unfinished, self._searched):
            ready.append(self._finished(bytes(self._unfinished[start : match.end()])))
            start = self._searched = match.end()
        del self._unfinished[:start]
        if self._too_long is not None or len(self._unfinished) > MAX_UNFINISHED:
            ready.append(self._overflow())
        # The longest end is four bytes: it may have begun in the last three.
        self._searched = max(0, len(self._unfinished) - 3)
        return b"".join(ready)

    def finish(self) -> bytes:
        """The body ended; give the rest."""
        rest = bytes(self._unfinished)
        self._unfinished.clear()
        return self._finished(rest, cut_off=True)

    def _finished(self, record: bytes, *, cut_off: bool = False) -> bytes:
        """A record, or the rest of one that is too long."""
        if self._too_long is None:
            return self._mask_record(self._mask, record, cut_off=cut_off)
        masking, self._too_long = self._too_long, None
        return masking.feed(record) + masking.finish(cut_off=cut_off)

    def _overflow(self) -> bytes:
        """The part of a too long record that can leave: all but what may be the beginning of its end."""
        if self._too_long is None:
            self._too_long = Masking(self._mask)
        ready = bytes(self._unfinished[:-3])
        del self._unfinished[:-3]
        return self._too_long.feed(ready)


def _mask_event(mask: Mask, raw: bytes, *, cut_off: bool = False) -> bytes:
    """An event of a stream as it leaves. Comments are masked also in an event that is the model's."""
    masked = mask.whole(raw, cut_off=cut_off)
    if masked == raw:
        return raw
    if is_error_event(parse_event(raw)):
        return masked
    lines = raw.splitlines(keepends=True)
    return b"".join(mask.whole(line, cut_off=cut_off) if line.startswith(b":") else line for line in lines)


def _mask_json(mask: Mask, data: bytes, *, cut_off: bool = False) -> bytes:
    """A JSON text as it leaves."""
    masked = mask.whole(data, cut_off=cut_off)
    if masked != data and is_error(data):
        return masked
    return data


def is_error_event(event: ServerSentEvent) -> bool:
    """True for an event that is none of the model's output."""
    if event.data is None or event.name in _ERROR_TYPES:
        return True
    return is_error(event.data)


def is_error(data: bytes) -> bool:
    """True for a JSON text that says an error, and for what is no JSON object or array."""
    if _is_no_object(data):
        return True
    try:
        body, _ = load_chunk(data)
    except ValueError:
        return True
    if not isinstance(body, dict):
        return False
    if body.get("error"):
        return True
    if body.get("choices") or body.get("output"):
        return False  # the model speaks, whatever the kind of the object
    if body.get("object") == "error":
        return True
    if body.get("type") in _ERROR_TYPES:
        return True
    if body.keys() == {"detail"}:
        return body["detail"] is not None
    return False


def _is_no_object(data: bytes | bytearray) -> bool:
    """True for what cannot even be the beginning of a JSON object or array."""
    return _NO_OBJECT.match(data) is not None
