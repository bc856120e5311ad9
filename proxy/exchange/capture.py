"""Captures: one answer of the model server in a file, with what `parse --capture` needs to read it again.

A capture is one line, a JSON object (`capture` is the version of the form), then the answer's body verbatim. Of the
request it holds only what the engine uses; of the headers only the content type. Secrets are masked in that line, and
in the body of an error (`codec/secrets.py`).

Each capture is a file of its own, written whole or not at all; their folder is bounded in number, size and age. Only
files that the proxy made are ever removed: those with such a name, plain, and of the same user.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from proxy import __version__
from proxy.codec.json_access import as_list, as_object, as_text
from proxy.codec.json_text import JsonObject, dump_json, load_json
from proxy.codec.secrets import masked
from proxy.dialects.chat.request import ChatRequest, KnownFields, read_chat
from proxy.errors import RulesError
from proxy.exchange.outcome import Outcome
from proxy.limits import CAPTURE_SECONDS, CAPTURES_MAX, MAX_CAPTURE
from proxy.notations.thoughts import Thoughts
from proxy.upstream.client import UpstreamCall

log = logging.getLogger("proxy")

# Files in one folder.
MAX_CAPTURES = 1000
# What was begun so long ago, in seconds, and is not finished, never will be.
UNFINISHED_SECONDS = 3600.0

# What becomes of captures, as the metrics count it.
WRITTEN, REMOVED, LOST = "written", "removed", "lost"

_NAME = re.compile(r"([0-9]{8}T[0-9]{6}\.[0-9]{6})Z-[A-Za-z0-9._-]{1,64}\.capture(\.part)?")
_MOMENT = "%Y%m%dT%H%M%S.%f"
# The folders whose failure was told already.
_logged: set[str] = set()


def count_nothing(what: str, number: int) -> None:
    """Nobody counts."""


@dataclass(frozen=True, slots=True)
class _File:
    """A file that the proxy made; `at` is when, in seconds since 1970."""

    path: str
    at: float
    size: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class CaptureFolder:
    """The folder at `path`; `count` is told what became of how many captures."""

    path: str
    count: Callable[[str, int], None] = count_nothing

    def keep(self, id_: str, data: bytes) -> None:
        """Write a capture of the request of this id. What cannot be written is logged, once per folder, and counted."""
        try:
            self._write(f"{datetime.now(UTC):{_MOMENT}Z}-{id_}.capture", data)
        except Exception as error:  # the outermost boundary: a capture is never worth a request
            self.lose(error)
            return
        self.count(WRITTEN, 1)
        self.tidy()

    def lose(self, error: Exception) -> None:
        """A capture could not be made."""
        self.count(LOST, 1)
        if self.path in _logged:
            return
        _logged.add(self.path)
        expected = isinstance(error, OSError)
        log.error("no capture can be written to %s: %s", self.path, error, exc_info=None if expected else error)

    def tidy(self) -> None:
        """Remove what is over the bounds, the oldest first."""
        removed = 0
        with contextlib.suppress(OSError):
            for path in _over(sorted(self._files(), key=_newest_first), time.time()):
                with contextlib.suppress(FileNotFoundError):  # another worker was faster
                    os.unlink(path)
                    removed += 1
        if removed:
            self.count(REMOVED, removed)

    def _write(self, name: str, data: bytes) -> None:
        """One new file, for its owner alone; it has its name once it is whole."""
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
            with contextlib.suppress(OSError):  # half a capture is none
                unfinished.unlink()
            raise

    def _files(self) -> Iterator[_File]:
        """The files that the proxy made."""
        with os.scandir(self.path) as entries:
            for entry in entries:
                match = _NAME.fullmatch(entry.name)
                if match is None or not entry.is_file(follow_symlinks=False):
                    continue
                about = entry.stat(follow_symlinks=False)
                at = _moment(match[1])
                if at is not None and about.st_uid == os.geteuid():
                    yield _File(entry.path, at, about.st_size, is_whole=not match[2])


def _newest_first(file: _File) -> tuple[float, str]:
    return -file.at, file.path


def _moment(text: str) -> float | None:
    """When a file says that it was made; None for digits that are no time."""
    try:
        return datetime.strptime(text, _MOMENT).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _over(files: list[_File], now: float) -> Iterator[str]:
    """The paths of what is over the bounds; `files` begins with the newest."""
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
# What of the request's body is kept as it came.
_KEPT = ("model", "tools", "tool_choice", "response_format", "parallel_tool_calls")
_UNKNOWN = Thoughts(unknown=True)


@dataclass(frozen=True, slots=True)
class Capture:
    """Where the answers to one request are written: the folder, the request's id, and its secrets, which are masked.

    `client`, `ordered` and `thoughts` are what the engine was told beside the request: the client's name in the rules,
    that text and reasoning have one order, the thoughts of the model's family.
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

    `raw_text`: the proxy alone parsed; `complete`: the body ended properly; `truncated`: it was too long to be kept.
    `client`, `ordered`, `begun`, `unknown` and `family` are as in `Capture` and its thoughts; `begun` and `unknown` are
    None where they are not recorded.
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
    """Listens to one answer, however it ends; leaving it puts the writing of its capture on the list of what is done
    later, when the client has its answer.

    Without a `capture` it does nothing.
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
        """True if there is an answer that is to be written."""
        return self._call is not None

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
    """An answer of the model server, as a capture has it. `most` are the bytes that the capture may have; `cut`: there
    was more of the body.
    """

    status: int
    content_type: str
    body: bytes
    most: int
    complete: bool
    cut: bool = False


def capture_bytes(request: JsonObject, answer: Answer, secrets: tuple[str, ...]) -> bytes:
    """Return the capture of an answer, its secrets masked; `request` is what `request_facts` returned."""
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
    """Read a capture's bytes; raises RulesError that names `source` if they are none."""
    line, end, body = data.partition(b"\n")
    about = _read_about(line) if end else {}
    if about.get("capture") != _FORM:
        raise RulesError(f"{source} is no capture; give a file that serve --capture DIR wrote")
    request: JsonObject = {name: about.get(name) for name in (*_KEPT, "stream")}
    request["stream_options"] = {"include_usage": True}
    made = (pair for pair in as_list(about.get("made_calls")) if isinstance(pair, list) and len(pair) == 2)
    known = KnownFields(
        sources=tuple(_strings(about, "sources")),
        made=tuple((as_text(name), arguments) for name, arguments in made),
        ids=frozenset(_strings(about, "call_ids")),
    )
    chat = read_chat(line, request, known)
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
    """The first line of a capture; an empty object for what is none."""
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
    """The members of a capture that describe a request: what the engine needs of it, and was told beside it."""
    # A call can only be copied from a text that names its tool: nothing else of what users wrote is kept.
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
    """Return as much as there is room for, without half an event at its end."""
    if len(body) <= room:
        return body
    at = body.rfind(b"\n", 0, max(0, room))
    return body[: max(0, room)] if at < 0 else body[: at + 1]
