"""Captures: files that each hold one answer of the model server and what `parse --capture` needs to read it again.

A capture is one line of JSON (`capture` is the format version), then the answer's body verbatim. The line holds only
the request fields that the engine uses and the content type. Secrets are masked in the line and in the body of an
error (`secrets.py`).

A capture is written atomically. The folder is limited by number of files, size and age. The proxy removes only its
own captures: regular files of the same user whose names match `_NAME`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from proxy import __version__
from proxy.dialects.chat.request import ChatRequest, read_chat
from proxy.errors import RulesError
from proxy.exchange.outcome import Outcome
from proxy.json import JsonObject, as_list, as_object, as_text, dump_json, load_json
from proxy.limits import CAPTURE_SECONDS, CAPTURES_MAX, MAX_CAPTURE
from proxy.notations.thoughts import Thoughts
from proxy.secrets import masked
from proxy.upstream.client import UpstreamCall

log = logging.getLogger("proxy")

# The maximum number of captures in one folder.
MAX_CAPTURES = 1000
# Seconds after which an unfinished file counts as abandoned.
UNFINISHED_SECONDS = 3600.0

# The results of captures that the metrics count.
WRITTEN, REMOVED, LOST = "written", "removed", "lost"

_NAME = re.compile(r"([0-9]{8}T[0-9]{6}\.[0-9]{6})Z-[A-Za-z0-9._-]{1,64}\.capture(\.part)?")
_MOMENT = "%Y%m%dT%H%M%S.%f"
# The folders whose failure has already been logged.
_logged: set[str] = set()


def count_nothing(what: str, number: int) -> None:
    """Ignore a count."""


@dataclass(frozen=True, slots=True)
class _File:
    """A capture file, created at `at` (Unix time)."""

    path: str
    at: float
    size: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class CaptureFolder:
    """The capture folder at `path`. `count` is called with a result and a number of captures."""

    path: str
    count: Callable[[str, int], None] = count_nothing

    def keep(self, id_: str, data: bytes) -> None:
        """Write the capture of one request. A failure is counted, and logged once per folder."""
        try:
            self._write(f"{datetime.now(UTC):{_MOMENT}Z}-{id_}.capture", data)
        except Exception as error:  # the outermost boundary: a capture is never worth a request
            self.lose(error)
            return
        self.count(WRITTEN, 1)
        self.tidy()

    def lose(self, error: Exception) -> None:
        """Count a failed capture, and log the first one in this folder."""
        self.count(LOST, 1)
        if self.path in _logged:
            return
        _logged.add(self.path)
        expected = isinstance(error, OSError)
        log.error("no capture can be written to %s: %s", self.path, error, exc_info=None if expected else error)

    def tidy(self) -> None:
        """Remove captures beyond the limits, oldest first."""
        removed = 0
        with contextlib.suppress(OSError):
            files = sorted(self._files(), key=lambda file: (-file.at, file.path))
            for path in _over(files, time.time()):
                with contextlib.suppress(FileNotFoundError):  # another worker was faster
                    os.unlink(path)
                    removed += 1
        if removed:
            self.count(REMOVED, removed)

    def _write(self, name: str, data: bytes) -> None:
        """Create a file with mode 0600. It is renamed from `.part` to `name` once it is complete."""
        folder = Path(self.path)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = folder / f"{name}.part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(unfinished, flags, 0o600)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
            unfinished.rename(folder / name)
        except OSError:
            with contextlib.suppress(OSError):  # never leave a partial capture
                unfinished.unlink()
            raise

    def _files(self) -> Iterator[_File]:
        """Yield the capture files of the current user."""
        with os.scandir(self.path) as entries:
            for entry in entries:
                match = _NAME.fullmatch(entry.name)
                if match is None or not entry.is_file(follow_symlinks=False):
                    continue
                about = entry.stat(follow_symlinks=False)
                at = _moment(match[1])
                if at is not None and about.st_uid == os.geteuid():
                    yield _File(entry.path, at, about.st_size, is_whole=not match[2])


def _moment(text: str) -> float | None:
    """Return the Unix time in a file name, or None if the digits are not a valid time."""
    try:
        return datetime.strptime(text, _MOMENT).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _over(files: list[_File], now: float) -> Iterator[str]:
    """Yield the paths of captures beyond the limits. `files` must be sorted newest first."""
    count, size = 0, 0
    for file in files:
        if not file.is_whole:
            if file.at < now - UNFINISHED_SECONDS:
                yield file.path
            continue
        count += 1
        size += file.size
        is_old = file.at < now - CAPTURE_SECONDS
        if is_old or count > MAX_CAPTURES or size > CAPTURES_MAX:
            yield file.path


SSE_TYPE = "text/event-stream"

_FORM = 1
# Fields of the request body that are stored unchanged.
_KEPT = ("model", "tools", "tool_choice", "response_format", "parallel_tool_calls")
_UNKNOWN = Thoughts(unknown=True)


@dataclass(frozen=True, slots=True)
class Capture:
    """Where the answers to one request are captured, and which secrets are masked in them.

    `client`, `ordered` and `thoughts` are the engine's other inputs: the client's name in the rules, whether text and
    reasoning share one order, and the reasoning format of the model's family.
    """

    folder: CaptureFolder
    id: str
    secrets: tuple[str, ...] = ()
    client: str = ""
    ordered: bool = False
    thoughts: Thoughts = _UNKNOWN


@dataclass(frozen=True, slots=True)
class Captured:
    """One capture, read back.

    `raw_text`: only the proxy looked for calls. `complete`: the body ended properly. `truncated`: the body was too
    long to be kept in full. The other fields are those of `Capture` and its `Thoughts`; `begun` and `unknown` are None
    if the capture does not record them.
    """

    chat: ChatRequest
    raw_text: bool
    status: int
    content_type: str
    complete: bool
    truncated: bool
    body: bytes
    client: str = ""
    ordered: bool = False
    begun: str | None = None
    unknown: bool | None = None
    family: str = ""

    @property
    def streamed(self) -> bool:
        """True if the answer is an event stream."""
        return is_stream(self.content_type)


class Recorder:
    """Context manager that records one answer, whether or not it is complete.

    The capture is written later, once the client has its answer (`Outcome.later`). Without a `capture`, nothing is
    recorded.
    """

    __slots__ = (*("_call", "_capture", "_complete", "_outcome", "_parts", "_raw_text", "_request", "_size"),)

    def __init__(self, capture: Capture | None, request: ChatRequest, outcome: Outcome, *, raw_text: bool) -> None:
        self._capture = capture
        self._outcome = outcome
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
            self._outcome.later.append(lambda: self._save(capture, call.status, call.header("Content-Type")))

    @property
    def listens(self) -> bool:
        """True if an answer is being recorded."""
        return self._call is not None

    def listen(self, call: UpstreamCall, parts: Iterator[bytes | None]) -> Iterator[bytes | None]:
        """Record the parts of the answer while passing them on unchanged."""
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
        """Record the next part of the answer."""
        if self._call is not None and self._size <= MAX_CAPTURE:
            self._parts.append(part)
            self._size += len(part)

    def _save(self, capture: Capture, status: int, content_type: str) -> None:
        try:
            about = request_facts(
                self._request,
                raw_text=self._raw_text,
                client=capture.client,
                ordered=capture.ordered,
                thoughts=capture.thoughts,
            )
            answer = Answer(status, content_type, b"".join(self._parts), MAX_CAPTURE, complete=self._complete)
            data = capture_bytes(about, answer, capture.secrets)
        except Exception as error:  # the outermost boundary: a capture is never worth a request
            capture.folder.lose(error)
            return
        capture.folder.keep(capture.id, data)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the model server. `most` limits the capture in bytes; `cut` means that the body was longer."""

    status: int
    content_type: str
    body: bytes
    most: int
    complete: bool
    cut: bool = False


def capture_bytes(request: JsonObject, answer: Answer, secrets: tuple[str, ...]) -> bytes:
    """Return the capture of an answer with secrets masked. `request` is the result of `request_facts`."""
    about: JsonObject = {
        **{"capture": _FORM, "version": __version__, "truncated": answer.cut, "status": answer.status},
        **{"content_type": answer.content_type, "complete": answer.complete},
    }
    most = answer.most
    body = answer.body if answer.status < 400 else masked(answer.body, secrets)
    head = masked(dump_json({**about, **request}), secrets)
    if len(head) + len(body) >= most:
        request = request if len(head) <= most // 2 else {}  # without it the answer cannot be read again
        head = masked(dump_json({**about, "truncated": True, **request}), secrets)
        body = _cut(body, most - len(head) - 1)
    return head + b"\n" + body


def is_stream(content_type: str) -> bool:
    """True for the content type of an event stream."""
    return content_type.lower().startswith(SSE_TYPE)


def read_capture(data: bytes, source: str) -> Captured:
    """Read a capture. Raises RulesError naming `source` if `data` is not a capture."""
    line, end, body = data.partition(b"\n")
    about = _read_about(line) if end else {}
    if about.get("capture") != _FORM:
        raise RulesError(f"{source} is no capture; give a file that serve --capture DIR wrote")
    request: JsonObject = {name: about.get(name) for name in (*_KEPT, "stream")}
    request["stream_options"] = {"include_usage": True}
    made = (pair for pair in as_list(about.get("made_calls")) if isinstance(pair, list) and len(pair) == 2)
    chat = replace(
        read_chat(line, request),
        sources=tuple(_strings(about, "sources")),
        made=tuple((as_text(name), arguments) for name, arguments in made),
        ids=frozenset(_strings(about, "call_ids")),
    )
    status, content_type = about.get("status"), about.get("content_type")
    thoughts = as_object(about.get("thoughts"))
    begun, unknown = thoughts.get("begun"), thoughts.get("unknown")
    return Captured(
        chat=chat,
        raw_text=about.get("raw_text") is True,
        status=status if isinstance(status, int) else 200,
        content_type=content_type if isinstance(content_type, str) else "",
        complete=about.get("complete") is not False,
        truncated=about.get("truncated") is True,
        body=body,
        client=as_text(about.get("client")),
        ordered=about.get("ordered") is True,
        begun=begun if isinstance(begun, str) else None,
        unknown=unknown if isinstance(unknown, bool) else None,
        family=as_text(thoughts.get("family")),
    )


def _read_about(line: bytes) -> JsonObject:
    """Return the object in the first line of a capture, or {} if the line is not a JSON object."""
    if not line.startswith(b"{"):
        return {}
    try:
        about = load_json(line)
    except ValueError:
        return {}
    return about if isinstance(about, dict) else {}


def request_facts(
    request: ChatRequest, *, raw_text: bool, client: str, ordered: bool, thoughts: Thoughts
) -> JsonObject:
    """Return the members of a capture that describe the request and the engine's other inputs."""
    # Keep as little of the users' text as possible: a call can be copied only from a text that names its tool.
    names = request.tools.names if request.tools else ()
    return {
        **{name: request.body.get(name) for name in _KEPT},
        "stream": request.stream,
        "call_ids": [*sorted(request.ids)],
        "sources": [text for text in request.sources if any(name in text for name in names)],
        "made_calls": [[name, arguments] for name, arguments in request.made],
        "raw_text": raw_text,
        "client": client,
        "ordered": ordered,
        "thoughts": {"begun": thoughts.begun, "unknown": thoughts.unknown, "family": thoughts.family},
    }


def _strings(about: JsonObject, name: str) -> list[str]:
    listed = about.get(name)
    return [entry for entry in listed if isinstance(entry, str)] if isinstance(listed, list) else []


def _cut(body: bytes, room: int) -> bytes:
    """Return at most `room` bytes of the body, cut at the end of a line."""
    if len(body) <= room:
        return body
    at = body.rfind(b"\n", 0, max(0, room))
    return body[: max(0, room)] if at < 0 else body[: at + 1]
