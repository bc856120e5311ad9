"""Captures: what the model server said to one request, in a file from which `replay` can tell what the proxy did.

A capture is one line, a JSON object (`capture` is the version of this form), then the very bytes of the answer's body.
Of the request it holds only what the engine uses, of headers only the content type. Secrets are starred
(`codec/redaction.py`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from proxy import __version__
from proxy.codec.json_text import Json, JsonObject, dump_json, load_json
from proxy.codec.masking import Secrets
from proxy.codec.redaction import redact, redact_end, redact_stream
from proxy.dialects.chat.request import ChatRequest, read_chat
from proxy.errors import RulesError
from proxy.upstream.client import UpstreamCall

log = logging.getLogger("proxy")

SSE_TYPE = "text/event-stream"
# Bytes of one file, and files in one folder.
MAX_CAPTURE = 64 * 1024 * 1024
MAX_CAPTURES = 1000

_FORM = 1
_NAME = re.compile(r"[0-9]{8}T[0-9]{6}\.[0-9]{6}Z-[A-Za-z0-9._-]{1,64}\.capture")
# What of the request's body is kept as it came.
_KEPT = ("model", "tools", "tool_choice", "response_format", "parallel_tool_calls")
# Of a whole answer that is cut somewhere, this much of its end may hold half of a secret.
_TAIL = 4096
# The folders whose failure was told already.
_logged: set[str] = set()


@dataclass(frozen=True, slots=True)
class Capture:
    """Where the answers to one request are written: the folder, the request's id, and its credentials, never shown."""

    folder: str
    id: str
    credential: Secrets = ""


@dataclass(frozen=True, slots=True)
class Captured:
    """One capture, read back.

    `raw_text`: the proxy alone parsed; `complete`: the body ended properly; `truncated`: it was too long to be kept.
    """

    wanted: ChatRequest
    raw_text: bool
    status: int
    content_type: str
    complete: bool
    truncated: bool
    body: bytes

    @property
    def streamed(self) -> bool:
        """True if the answer is an event stream."""
        return is_stream(self.content_type)


class Recorder:
    """Listens to one answer, however it ends; leaving it puts the writing of its capture on the list of what is done
    `later`, when the client has its answer.

    Without a `capture` it does nothing. What cannot be written is logged, once per folder, and disturbs nobody.
    """

    def __init__(
        self, capture: Capture | None, request: ChatRequest, later: list[Callable[[], None]], *, raw_text: bool
    ) -> None:
        self._capture = capture
        self._later = later
        self._request = request
        self._raw_text = raw_text
        self._call: UpstreamCall | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._complete = False

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        capture, call = self._capture, self._call
        if capture is None or call is None:
            return
        if call.status:
            self._later.append(lambda: self._save(capture, call.status, call.header("Content-Type")))

    def listen(self, call: UpstreamCall, parts: Iterator[bytes | None]) -> Iterator[bytes | None]:
        """The parts of the answer, unchanged."""
        if self._capture is None:
            return parts
        self._call = call
        return self._listened(parts)

    def _listened(self, parts: Iterator[bytes | None]) -> Iterator[bytes | None]:
        for part in parts:
            if part:
                self.note(part)
            yield part
        self._complete = True

    def note(self, part: bytes) -> None:
        """Take the next part of the answer."""
        if self._call is not None and self._size <= MAX_CAPTURE:
            self._parts.append(part)
            self._size += len(part)

    def _save(self, capture: Capture, status: int, content_type: str) -> None:
        try:
            _write(capture, self._file(capture, status, content_type))
        except Exception as error:  # the outermost boundary: a capture is never worth a request
            _log_once(capture.folder, error)

    def _file(self, capture: Capture, status: int, content_type: str) -> bytes:
        about: JsonObject = {
            **{"capture": _FORM, "version": __version__, "truncated": False, "status": status},
            **{"content_type": content_type, "complete": self._complete},
        }
        asked = {**_about(self._request), "raw_text": self._raw_text}
        head = redact(dump_json({**about, **asked}), capture.credential)
        body = b"".join(self._parts)
        if len(head) + len(body) >= MAX_CAPTURE:
            asked = asked if len(head) <= MAX_CAPTURE // 2 else {}  # such a request cannot be replayed
            head = redact(dump_json({**about, "truncated": True, **asked}), capture.credential)
            body = _cut(body, MAX_CAPTURE - len(head) - 1)
        # What looks complete may be cut off: a body whose end is that of the connection.
        clean = redact_stream if is_stream(content_type) else redact_end
        return head + b"\n" + clean(body, capture.credential)


def is_stream(content_type: str) -> bool:
    """True for the content type of an event stream."""
    return content_type.lower().startswith(SSE_TYPE)


def read_capture(data: bytes, source: str) -> Captured:
    """Read a capture's bytes; raises RulesError that names `source` if they are none."""
    line, end, body = data.partition(b"\n")
    about = _read_about(line) if end else {}
    if about.get("capture") != _FORM:
        raise RulesError(f"{source} is no capture; give a file that serve --capture DIR wrote")
    asked: JsonObject = {name: about.get(name) for name in (*_KEPT, "stream")}
    asked["stream_options"] = {"include_usage": True}
    wanted = replace(
        read_chat(line, asked), results=tuple(_strings(about, "results")), ids=frozenset(_strings(about, "call_ids"))
    )
    status, content_type = about.get("status"), about.get("content_type")
    return Captured(
        wanted=wanted,
        raw_text=about.get("raw_text") is True,
        status=status if isinstance(status, int) else 200,
        content_type=content_type if isinstance(content_type, str) else "",
        complete=about.get("complete") is not False,
        truncated=about.get("truncated") is True,
        body=body,
    )


def _read_about(line: bytes) -> JsonObject:
    """The first line of a capture; an empty object for what is none."""
    if not line.startswith(b"{"):
        return {}
    try:
        about = load_json(line)
    except ValueError:
        return {}
    return about if isinstance(about, dict) else {}


def _about(request: ChatRequest) -> JsonObject:
    """What the engine needs of a request."""
    kept: JsonObject = {name: request.body.get(name) for name in _KEPT}
    ids: list[Json] = [*sorted(request.ids)]
    results: list[Json] = [*request.results]
    return {**kept, "stream": request.stream, "call_ids": ids, "results": results}


def _strings(about: JsonObject, name: str) -> list[str]:
    listed = about.get(name)
    return [entry for entry in listed if isinstance(entry, str)] if isinstance(listed, list) else []


def _cut(body: bytes, room: int) -> bytes:
    """As much as there is room for, without half an event or half a secret at its end."""
    if len(body) <= room:
        return body
    at = body.rfind(b"\n", 0, room)
    if at < 0:
        return body[: max(0, room - _TAIL)]
    return body[: at + 1]


def _write(capture: Capture, data: bytes) -> None:
    """One new file, for its owner alone; then the oldest go."""
    folder = Path(capture.folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{capture.id}.capture"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
    except OSError:
        with contextlib.suppress(OSError):  # half a capture is none
            path.unlink()
        raise
    for name in sorted(name for name in os.listdir(folder) if _NAME.fullmatch(name))[:-MAX_CAPTURES]:
        with contextlib.suppress(FileNotFoundError):  # another worker was faster
            (folder / name).unlink()


def _log_once(folder: str, error: Exception) -> None:
    if folder not in _logged:
        _logged.add(folder)
        known = isinstance(error, OSError)
        log.error("no capture can be written to %s: %s", folder, error, exc_info=None if known else error)
