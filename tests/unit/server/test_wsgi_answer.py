"""One request's answer in steps, without a socket: each step once, in gunicorn's order, and what it may not lose."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from gunicorn.config import Config
from gunicorn.http import wsgi
from gunicorn.http.message import Request
from gunicorn.http.unreader import IterUnreader

from proxy.server.wsgi_answer import HAND_OVER, TURN, Answer, Response

Application = Callable[[dict[str, Any], Any], Any]
CLOSING = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


@dataclass
class Bench:
    """An answer of an application, what was done in which order, and what was sent; `gone`: nothing can be."""

    application: Application
    keepalive: int = 2
    max_requests: int = 100
    alive: bool = True
    asked: bytes = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    hook: Callable[[], None] = lambda: None
    done: list[str] = field(default_factory=list)
    sent: bytes = b""
    gone: bool = False

    def __post_init__(self) -> None:
        cfg = Config()
        cfg.set("keepalive", self.keepalive)
        cfg.set("pre_request", lambda worker, req: self.done.append("pre_request"))
        cfg.set("post_request", lambda worker, req, environ, response: self._post())
        log = SimpleNamespace(
            access=lambda *_: self.done.append("logged"),
            access_log_enabled=False,
            info=self.done.append,
            exception=self.done.append,
        )
        self.worker = SimpleNamespace(
            cfg=cfg, log=log, nr=0, max_requests=self.max_requests, alive=self.alive, keepalived_conns=[]
        )
        self.worker.max_keepalived = 10
        self.worker.wsgi = self.application
        self.turn = SimpleNamespace(
            take=lambda: self.done.append("take"), give_back=lambda: self.done.append("give back")
        )
        sock = SimpleNamespace(
            turn=self.turn,
            sendall=self._send,
            gather=lambda: self.done.append("gather"),
            send_gathered=lambda: self.done.append("send"),
        )
        conn = SimpleNamespace(sock=sock, client=("127.0.0.1", 1), server=("127.0.0.1", 2))
        request = Request(cfg, IterUnreader(iter([self.asked])), ("127.0.0.1", 1))
        self.answer = Answer(self.worker, request, conn)

    def _post(self) -> None:
        self.done.append("post_request")
        self.hook()

    def _send(self, data: bytes) -> None:
        if self.gone:
            raise ConnectionResetError
        self.sent += data

    def count(self, step: str) -> int:
        """How often this was done."""
        return self.done.count(step)


def says(*parts: bytes, length: int | None = None) -> Application:
    """An application that answers so."""

    def answer(environ: dict[str, Any], start: Any) -> list[bytes]:
        start("200 OK", [] if length is None else [("Content-Length", str(length))])
        return [*parts]

    return answer


def test_an_answer_is_written_logged_closed_and_told_to_the_hook() -> None:
    bench = Bench(says(b"a", b"b"))
    answer = bench.answer
    answer.call()
    assert (answer.begun, answer.chunked, answer.keeps_connection) == (False, True, True)
    assert type(answer._response) is Response
    answer.write_first()
    assert answer.begun and bench.sent.endswith(b"1\r\na\r\n")
    answer.write_rest()
    assert bench.sent.endswith(b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n")
    answer.close()
    steps = [step for step in bench.done if step in ("pre_request", "gather", "send", "logged", "post_request")]
    assert steps == ["pre_request", "gather", "send", "logged", "post_request"]


@pytest.mark.parametrize("asked", [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", CLOSING, b"GET / HTTP/1.0\r\n\r\n"])
@pytest.mark.parametrize("headers", [[], [("Content-Length", "1")], [("Connection", "upgrade"), ("A", "b")]])
def test_a_head_is_gunicorns_own_with_the_date_of_its_second(
    asked: bytes, headers: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def head(kind: type[wsgi.Response], now: float) -> list[str]:
        monkeypatch.setattr("time.time", lambda: now)
        cfg = Config()
        unused: Any = None
        response = kind(Request(cfg, IterUnreader(iter([asked])), ("127.0.0.1", 1)), unused, cfg)
        response.start_response("200 OK", headers)
        return [*response.default_headers()]

    heads = [head(Response, now) for now in (1e9 + 0.1, 1e9 + 0.9, 1e9 + 1, 1e9)]
    assert heads == [head(wsgi.Response, now) for now in (1e9 + 0.1, 1e9 + 0.9, 1e9 + 1, 1e9)]
    assert heads[0] == heads[1] != heads[2]


def test_an_answer_without_a_body_has_a_head_all_the_same() -> None:
    for parts in ((), (b"",)):
        bench = Bench(says(*parts, length=0))
        bench.answer.call()
        bench.answer.write_first()
        bench.answer.write_rest()
        assert bench.sent.startswith(b"HTTP/1.1 200 OK\r\n") and bench.sent.endswith(b"\r\n\r\n")


def test_the_application_finds_its_turn_and_what_it_hands_its_wait_over_to() -> None:
    wait = object()

    def handing_over(environ: dict[str, Any], start: Any) -> list[bytes]:
        environ[HAND_OVER](wait)
        assert environ[TURN] is bench.turn and environ["wsgi.multithread"]
        return list(says(b"a")(environ, start))

    bench = Bench(handing_over)
    bench.answer.call()
    assert bench.answer.wait is wait


@pytest.mark.parametrize(("length", "hands_over"), [(1, True), (None, False)])
def test_a_body_of_known_length_and_one_without_a_wait_is_none_for_the_pump(
    length: int | None, hands_over: bool
) -> None:
    def application(environ: dict[str, Any], start: Any) -> list[bytes]:
        if hands_over:
            environ[HAND_OVER](object())
        return list(says(b"a", length=length)(environ, start))

    bench = Bench(application)
    bench.answer.call()
    assert bench.answer.wait is None


@pytest.mark.parametrize(
    ("given", "keeps"),
    [
        ({}, True),
        ({"keepalive": 0}, False),
        ({"alive": False}, False),
        ({"max_requests": 1}, False),
        ({"asked": b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"}, False),
    ],
    ids=["usually", "no keepalive", "the worker ends", "its last request", "the client ends it"],
)
def test_the_connection_serves_another_request_unless_something_ends_it(given: dict[str, Any], keeps: bool) -> None:
    bench = Bench(says(b"a"), **given)
    bench.answer.call()
    assert bench.answer.keeps_connection is keeps


def test_a_worker_with_as_many_open_connections_as_it_may_have_keeps_no_more() -> None:
    bench = Bench(says(b"a"))
    bench.worker.keepalived_conns = [None] * 10
    bench.answer.call()
    assert not bench.answer.keeps_connection


def test_the_last_request_of_a_worker_ends_it_and_says_so_once() -> None:
    bench = Bench(says(b"a"), max_requests=1)
    bench.answer.call()
    assert (bench.worker.nr, bench.worker.alive) == (1, False)
    assert bench.count("Autorestarting worker after current request.") == 1


def test_an_answer_that_broke_is_closed_in_its_turn() -> None:
    def broken(environ: dict[str, Any], start: Any) -> list[bytes]:
        raise RuntimeError("a defect")

    bench = Bench(broken)
    with pytest.raises(RuntimeError):
        bench.answer.call()
    bench.answer.close()
    assert bench.done[-3:] == ["take", "give back", "post_request"]
    assert bench.count("logged") == 0


@pytest.mark.parametrize(("length", "gives_back"), [(1, 0), (None, 1)])
def test_a_stream_that_the_pump_does_not_drive_gives_its_turn_back(length: int | None, gives_back: int) -> None:
    """Its next part may be hours away; an answer of known length is sent at once."""
    bench = Bench(says(b"a", length=length))
    bench.answer.call()
    bench.answer.write_rest()
    assert bench.count("give back") == gives_back


def test_what_the_application_gave_is_closed_once_and_a_hook_that_breaks_is_told() -> None:
    closed: list[str] = []

    class Body:
        """Says when it is closed."""

        def __iter__(self) -> Iterator[bytes]:
            return iter([b"a"])

        def close(self) -> None:
            closed.append("closed")

    def application(environ: dict[str, Any], start: Any) -> Body:
        start("200 OK", [])
        return Body()

    def broken() -> None:
        raise RuntimeError("a defect")

    bench = Bench(application, hook=broken)
    bench.answer.call()
    bench.answer.write_rest()
    bench.answer.close()
    assert closed == ["closed"]
    assert bench.done[-1] == "Exception in post_request hook"


def test_gathering_ends_also_where_the_client_is_gone() -> None:
    bench = Bench(says(b"a"), gone=True)
    bench.answer.call()
    with pytest.raises(ConnectionResetError):
        bench.answer.write_first()
    assert bench.done[-2:] == ["gather", "send"]


def test_an_answer_that_the_pump_has_keeps_nothing_of_its_request() -> None:
    for asked, keeps in ((b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", True), (CLOSING, False)):
        bench = Bench(says(b"a"), asked=asked)
        answer = bench.answer
        answer.call()
        answer.write_first()
        request = weakref.ref(answer._req)
        answer.let_go_of_request()
        assert request() is None
        assert answer.keeps_connection is keeps
        answer.close()
        assert bench.done[-1] == "post_request" and bench.count("logged") == 1


def test_an_access_log_of_gunicorns_own_has_all_of_the_request() -> None:
    bench = Bench(says(b"a"))
    bench.worker.log.access_log_enabled = True
    bench.answer.call()
    bench.answer.write_first()
    bench.answer.let_go_of_request()
    assert bench.answer._req is not None
