"""The parts of gunicorn that the worker overrides or uses: an incompatible gunicorn fails here, not at users."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from gunicorn.glogging import Logger
from gunicorn.http import wsgi
from gunicorn.http.parser import RequestParser
from gunicorn.workers.base import Worker
from gunicorn.workers.gthread import PollableMethodQueue, TConn, ThreadWorker

from proxy.server.pump_worker import PumpWorker

METHODS = {
    "init_process": "self",
    "run": "self",
    "handle_quit": "self sig frame",
    "handle_exit": "self sig frame",
    "accept": "self listener",
    "wait_for_and_dispatch_events": "self timeout",
    "enqueue_req": "self conn",
    "finish_request": "self conn fs",
    "handle": "self conn",
    "handle_error": "self req client addr exc",
    "handle_request": "self req conn",
    "murder_pending": "self",
    "on_pending_socket_readable": "self conn client",
    "_cap_keepalive": "self deadline",
}


@pytest.mark.parametrize("name", METHODS)
def test_gunicorns_worker_has_the_methods_that_ours_overrides_or_calls(name: str) -> None:
    assert " ".join(inspect.signature(getattr(ThreadWorker, name)).parameters) == METHODS[name]


def test_every_override_is_in_the_table() -> None:
    ours = {name for name in vars(PumpWorker) if hasattr(ThreadWorker, name) and not name.startswith("__")}
    assert ours <= METHODS.keys()


USED: list[tuple[Any, tuple[str, ...]]] = [
    (ThreadWorker, ("self.murder_pending()", "self._cap_keepalive(", "self.enqueue_req(", "self.nr_conns += 1")),
    (ThreadWorker, (".defer(self.finish_request,", "self.pending_conns.append(", "self.keepalived_conns.append(")),
    (ThreadWorker, ("not conn.initialized and not conn.data_ready", "self.tpool.shutdown(", "self.poller.register(")),
    (ThreadWorker.handle_request, ("self.wsgi(environ, resp.start_response)", "for item in respiter:")),
    (ThreadWorker.handle_request, ("respiter.close()", "except (Exception, SystemExit):")),
    (Worker, ("self.wsgi = self.app.wsgi()", "util.write_error(client, status_int, reason, mesg)")),
    (TConn, ("self.parser", "self.timeout = ", "def set_timeout(self)", "def close(self, graceful=False)")),
    (wsgi.Response, ("self.chunked = ", "self.response_length = ", "def should_close(self)", "def force_close(self)")),
    (RequestParser, ("self.unreader = ", "deadline=None", "if not self.mesg:", "self.mesg.should_close()")),
    (PollableMethodQueue, ("def defer(self, callback, *args)",)),
    (Logger, ("def setup(self, cfg)", "logging.StreamHandler(stream)", "h._gunicorn = True")),
]


@pytest.mark.parametrize(("where", "used"), USED, ids=lambda each: getattr(each, "__qualname__", ""))
def test_gunicorn_still_contains_the_code_that_the_worker_relies_on(where: Any, used: tuple[str, ...]) -> None:
    source = "".join(inspect.getsource(each) for each in getattr(where, "__mro__", (where, object))[:-1])
    assert [words for words in used if words not in source] == []
