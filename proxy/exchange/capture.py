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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from proxy import __version__
from proxy.dialects.chat.request import ChatRequest, read_chat
from proxy.errors import RulesError
from proxy.exchange.recording import TryRecording
from proxy.json import JsonObject, as_list, as_object, as_text, dump_json, load_json
from proxy.limits import CAPTURE_SECONDS, CAPTURES_MAX, MAX_CAPTURE
from proxy.notations.thoughts import Thoughts
from proxy.secrets import masked

log = logging.getLogger("proxy")

# The maximum number of captures in one folder.
MAX_CAPTURES = 1000
# Seconds after which an unfinished file counts as abandoned.
UNFINISHED_SECONDS = 3600.0

# The results of captures that the metrics count.
WRITTEN, REMOVED, LOST = "written", "removed", "lost"

_NAME = re.compile(
    r"[0-9]{4}(?:0[1-9]|1[0-2])[0-3][0-9]T[0-2][0-9]([0-5][0-9]){2}\.[0-9]{6}Z-[A-Za-z0-9._-]{1,64}\.capture(\.part)?"
)
_MOMENT = "%Y%m%dT%H%M%S.%f"
# The folders whose failure has already been logged.
_logged: set[str] = set()


@dataclass(frozen=True, slots=True)
class CaptureFolder:
    """The capture folder at `path`. `count` is called with `captures`, a number of captures, and their result."""

    path: str
    count: Callable[[str, int, str], object]

    def keep(self, id_: str, make: Callable[[], bytes]) -> None:
        """Write the capture of one request. A failure is counted, and logged once per folder."""
        try:
            self._write(f"{datetime.now(UTC):{_MOMENT}Z}-{id_}.capture", make())
        except Exception as error:  # the outermost boundary: a capture is never worth a request
            self.count("captures", 1, LOST)
            if self.path not in _logged:
                _logged.add(self.path)
                exc_info = None if isinstance(error, OSError) else error
                log.error("no capture can be written to %s: %s", self.path, error, exc_info=exc_info)
            return
        self.count("captures", 1, WRITTEN)
        self.tidy()

    def tidy(self) -> None:
        """Remove captures beyond the limits, oldest first."""
        now, count, size, removed = datetime.now(UTC), 0, 0, 0
        # The names begin with the time, so they are in its order.
        oldest = f"{now - timedelta(seconds=CAPTURE_SECONDS):{_MOMENT}}"
        abandoned = f"{now - timedelta(seconds=UNFINISHED_SECONDS):{_MOMENT}}"
        with contextlib.suppress(OSError):
            for name, path, length in sorted(self._files(), reverse=True):
                if name.endswith(".part"):
                    is_over = name < abandoned
                else:
                    count += 1
                    size += length
                    is_over = name < oldest or count > MAX_CAPTURES or size > CAPTURES_MAX
                if is_over:
                    with contextlib.suppress(FileNotFoundError):  # another worker was faster
                        os.unlink(path)
                        removed += 1
        if removed:
            self.count("captures", removed, REMOVED)

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

    def _files(self) -> Iterator[tuple[str, str, int]]:
        """Yield the name, path and size of each capture of the current user."""
        with os.scandir(self.path) as entries:
            for entry in entries:
                if _NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                    about = entry.stat(follow_symlinks=False)
                    if about.st_uid == os.geteuid():
                        yield entry.name, entry.path, about.st_size


SSE_TYPE = "text/event-stream"

_FORM = 1
# Fields of the request body that are stored unchanged.
_KEPT = ("model", "tools", "tool_choice", "response_format", "parallel_tool_calls")


@dataclass(frozen=True, slots=True)
class Captured:
    """One capture, read back.

    `raw_text`: only the proxy looked for calls. `complete`: the body ended properly. `truncated`: the body was too
    long to be kept in full. The other fields are those of `request_facts`.
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
    begun: str = ""
    unknown: bool = False
    family: str = ""

    @property
    def streamed(self) -> bool:
        """True if the answer is an event stream."""
        return is_stream(self.content_type)


def capture_bytes(
    request: JsonObject, answer: TryRecording, secrets: tuple[str, ...], most: int | None = None
) -> bytes:
    """Return the capture of an answer, at most `most` bytes (MAX_CAPTURE), with secrets masked.

    `request` is the result of `request_facts`.
    """
    most = most or MAX_CAPTURE
    about: JsonObject = {
        **{"capture": _FORM, "version": __version__, "truncated": answer.answer.cut, "status": answer.status},
        **{"content_type": answer.call.header("Content-Type") if answer.call else "", "complete": answer.complete},
    }
    body = answer.answer.data if answer.status < 400 else masked(answer.answer.data, secrets)
    head = masked(dump_json({**about, **request}), secrets)
    if len(head) + len(body) >= most:
        request = request if len(head) <= most // 2 else {}  # without it the answer cannot be read again
        head = masked(dump_json({**about, "truncated": True, **request}), secrets)
        room = max(0, most - len(head) - 1)
        if len(body) > room:
            body = body[: body.rfind(b"\n", 0, room) + 1 or room]
    return head + b"\n" + body


def is_stream(content_type: str) -> bool:
    """True for the content type of an event stream."""
    return content_type.lower().startswith(SSE_TYPE)


def read_capture(data: bytes, source: str) -> Captured:
    """Read a capture. Raises RulesError naming `source` if `data` is not a capture."""
    line, end, body = data.partition(b"\n")
    about: JsonObject = {}
    with contextlib.suppress(ValueError):
        about = as_object(load_json(line)) if end else {}
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
    status, thoughts = about.get("status"), as_object(about.get("thoughts"))
    return Captured(
        chat=chat,
        raw_text=about.get("raw_text") is True,
        status=status if isinstance(status, int) else 200,
        content_type=as_text(about.get("content_type")),
        complete=about.get("complete") is not False,
        truncated=about.get("truncated") is True,
        body=body,
        client=as_text(about.get("client")),
        ordered=about.get("ordered") is True,
        begun=as_text(thoughts.get("begun")),
        unknown=thoughts.get("unknown") is True,
        family=as_text(thoughts.get("family")),
    )


def request_facts(
    request: ChatRequest, *, raw_text: bool, client: str, ordered: bool, thoughts: Thoughts
) -> JsonObject:
    """Return the members of a capture that describe the request and the engine's other inputs.

    `client` is the client's name in the rules. `ordered`: text and reasoning share one order. `thoughts` is the
    reasoning format of the model's family.
    """
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
    return [entry for entry in as_list(about.get(name)) if isinstance(entry, str)]
