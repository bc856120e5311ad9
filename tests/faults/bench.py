"""Test bench of the fault matrix: a real proxy, a scripted model server, and the checks after each request."""

from __future__ import annotations

import http.client
import itertools
import json
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPResponse
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

from tests.conftest import Proxy, start
from tests.support.dialects import DIALECTS, Dialect, Told
from tests.support.scripted import PATIENCE, Act, Action, Client, Gate, Script, Seen, Upstream, answer

MODELS = answer({"object": "list", "data": [{"id": "tiny", "object": "model", "owned_by": "vllm"}]})


class Shown:
    """In a script: wait until the client has received a part of the answer."""


SHOWN = Shown()
Faulty: TypeAlias = "Sequence[Action | Shown]"
_numbers = itertools.count(1)


@dataclass
class Answer:
    """A client's answer: all bytes of the body, and whether the body is complete by its framing."""

    dialect: Dialect
    streamed: bool
    id: str
    status: int
    headers: dict[str, str]
    data: bytes
    ended: bool
    at: float = field(default_factory=time.monotonic)

    @property
    def told(self) -> Told:
        """Return a strict client's view of it."""
        if self.status != 200:
            assert self.headers["content-type"] == "application/json", self.headers
            return self.dialect.error(self.data, self.status)
        kind = "text/event-stream" if self.streamed else "application/json"
        assert self.headers["content-type"].startswith(kind), self.headers
        return self.dialect.stream(self.data) if self.streamed else self.dialect.whole(self.data)

    def fails(self, status: int, *, event: bool = False) -> Told:
        """Return its view as an error of this status (as in chat), or as an error event in a stream."""
        wanted = 200 if event else self.dialect.status(status)
        assert (self.status, self.ended) == (wanted, True), (self.status, self.ended, self.data[:2000])
        told = self.told
        assert told.failed, self.data[:2000]
        return told

    def succeeds(self) -> Told:
        assert (self.status, self.ended) == (200, True), (self.status, self.ended, self.data[:2000])
        told = self.told
        assert told.finish and not told.error, self.data[:2000]
        return told


class PatientClient(Client):
    """A client whose timeout is long enough for the largest answers."""

    def __init__(self, port: int, request: bytes) -> None:
        super().__init__(port, request)
        self._sock.settimeout(6 * PATIENCE)


@dataclass
class Bench:
    """A proxy in front of a scripted model server."""

    upstream: Upstream
    proxy: Proxy
    _checked: int = 0

    def play(self, *scripts: Script) -> None:
        self.upstream.play(*scripts)
        self.upstream.paths["/v1/models"] = [MODELS]

    def ask(
        self, dialect: Dialect, script: Faulty, *, streamed: bool, tools: bool = True, asked: int = 1, **more: Any
    ) -> Answer:
        """Send a request that the model server answers with this script, and check the invariants.

        The model server may get up to `asked` requests, because the proxy retries unreadable calls.
        """
        gate = self.upstream.gate() if SHOWN in script else None
        self.play([gate if isinstance(each, Shown) else each for each in script])  # type: ignore[misc]
        given = self.sent(dialect, dialect.ask(streamed=streamed, tools=tools, **more), streamed=streamed, shown=gate)
        assert 1 <= len(self.upstream.seen) <= asked
        if Act.EXPECT_CLOSE in script:
            assert gone(self.upstream.seen[0], given.at)
        self.settled(given)
        return given

    def sent(self, dialect: Dialect, body: Any, *, streamed: bool, shown: Gate | None = None) -> Answer:
        """Send a body (bytes verbatim, others as JSON). The gate opens once a part of the answer has arrived."""
        id_ = f"fault-{next(_numbers)}"
        with PatientClient(self.proxy.port, request(dialect, body, id_)) as client, client.answer() as response:
            return read(dialect, response, streamed=streamed, id_=id_, shown=shown)

    def settled(self, *answers: Answer) -> None:
        """Assert that no request is in progress, that each has one log line, and that the log has no defect."""
        assert self.proxy.idle()
        log = self.proxy.log.read_text()
        for given in answers:
            told = re.findall(rf"(?m)^.* id={re.escape(given.id)} method=.*$", log)
            assert len(told) == 1, told
        # Start where the last check ended.
        log, self._checked = log[self._checked :], len(log)
        wrong = re.search(r"Traceback|ERROR|ResourceWarning", log)
        assert wrong is None, log[max(0, wrong.start() - 500) : wrong.end() + 3000]


def request(dialect: Dialect, body: Any, id_: str = "", *, headers: str = "") -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = f"X-Request-Id: {id_}\r\n" if id_ else ""
    lines = f"Host: x\r\nContent-Type: application/json\r\n{named}{headers}"
    length = "" if "chunked" in headers or "Content-Length" in headers else f"Content-Length: {len(data)}\r\n"
    return f"POST {dialect.path} HTTP/1.1\r\n{lines}{length}\r\n".encode() + data


def read(
    dialect: Dialect, response: HTTPResponse, *, streamed: bool, id_: str = "", shown: Gate | None = None
) -> Answer:
    parts: list[bytes] = []
    ended = True
    try:
        if shown is not None:
            parts.append(response.read1())
            shown.open()
        parts.append(response.read())
    except http.client.IncompleteRead as cut:
        parts.append(cut.partial)
        ended = False
    except ConnectionError:
        ended = False
    headers = {name.lower(): value for name, value in response.getheaders()}
    return Answer(dialect, streamed, id_, response.status, headers, b"".join(parts), ended)


class Benches:
    """Benches by the flags of their proxies, each created once and stopped with the stack."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._made: dict[tuple[str, ...], Bench] = {}

    def __call__(self, *flags: str, url: str = "") -> Bench:
        """Return the bench for these flags, without scripts. With `url`, its proxy uses that server."""
        key = (url, *flags)
        if key not in self._made:
            upstream = self._stack.enter_context(Upstream())
            folder = self._folder / f"proxy-{len(self._made)}"
            proxy = start(url or upstream.url, *flags, folder=folder, stack=self._stack)
            self._made[key] = Bench(upstream, proxy)
        self._made[key].play()
        return self._made[key]


class Watch:
    """Context manager that polls /health; each answer must be a 200."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self.slowest, self.answered, self.wrong = 0.0, 0, list[object]()

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(2 * PATIENCE)
        if error is None:
            assert self.wrong == []
            assert self.slowest < PATIENCE, f"/health took {self.slowest:.1f} s"

    def _ask(self) -> None:
        while True:
            began = time.monotonic()
            try:
                status = self._proxy.get("/health")[0]
            except (OSError, http.client.HTTPException) as failure:
                self.wrong.append(failure)
            else:
                self.answered += 1
                if status != 200:
                    self.wrong.append(status)
            self.slowest = max(self.slowest, time.monotonic() - began)
            if self._stop.wait(0.02):
                return


@contextmanager
def many(port: int, requests: Sequence[bytes]) -> Iterator[list[Client]]:
    """Yield clients that have sent these bytes and keep their connections open."""
    with ExitStack() as stack:
        yield [stack.enter_context(Client(port, each)) for each in requests]


def every(*, streamed: bool | None = None) -> list[tuple[Dialect, bool]]:
    """Return all dialects, streamed and whole, or only one of the two."""
    ways = (True, False) if streamed is None else (streamed,)
    return [(dialect, way) for dialect in DIALECTS.values() for way in ways]


def gone(seen: Seen, moment: float) -> bool:
    """Return whether the model server's connection was closed soon after the moment."""
    return seen.gone_after(moment)
