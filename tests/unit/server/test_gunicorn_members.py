"""What our worker overrides or uses of gunicorn's loop: a new gunicorn without it is met here, not by users."""

from __future__ import annotations

import inspect

import pytest
from gunicorn import util
from gunicorn.glogging import Logger
from gunicorn.http import wsgi
from gunicorn.http.parser import RequestParser
from gunicorn.workers.gthread import TConn, ThreadWorker

METHODS = {
    "init_process": "self",
    "run": "self",
    "handle_quit": "self sig frame",
    "handle_exit": "self sig frame",
    "set_accept_enabled": "self enabled",
    "accept": "self listener",
    "notify": "self",
    "wait_for_and_dispatch_events": "self timeout",
    "enqueue_req": "self conn",
    "finish_request": "self conn fs",
    "handle_request": "self req conn",
    "_keepalive_after": "self conn keepalive",
    "murder_pending": "self",
    "on_pending_socket_readable": "self conn client",
    "on_client_socket_readable": "self conn client",
}
ATTRIBUTES = (
    *("nr_conns", "poller", "pending_conns", "keepalived_conns", "worker_connections", "max_keepalived"),
    *("method_queue", "nr", "max_requests", "wsgi"),
)
OF_A_RESPONSE = ("chunked", "headers_sent", "response_length")
OF_A_CONNECTION = ("sock", "parser", "timeout")


@pytest.mark.parametrize("name", METHODS)
def test_a_method_of_the_loop_takes_what_our_worker_gives(name: str) -> None:
    assert " ".join(inspect.signature(getattr(ThreadWorker, name)).parameters) == METHODS[name]


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_the_loop_has_the_attributes_that_our_worker_uses(name: str) -> None:
    assert f"self.{name}" in inspect.getsource(ThreadWorker)


@pytest.mark.parametrize("name", OF_A_CONNECTION)
def test_a_connection_has_the_attributes_that_our_worker_uses(name: str) -> None:
    assert f"self.{name} = " in inspect.getsource(TConn)


@pytest.mark.parametrize("name", OF_A_RESPONSE)
def test_a_response_has_the_attributes_that_our_worker_uses(name: str) -> None:
    assert f"self.{name} = " in inspect.getsource(wsgi.Response)


def test_a_request_is_answered_by_the_steps_that_our_worker_takes_one_by_one() -> None:
    """What gunicorn does in one go (server/wsgi_answer.py): a step that is new there would be left out here."""
    given = inspect.getsource(ThreadWorker.handle_request)
    steps = (
        *("self.cfg.pre_request(", "wsgi.create(", "self.nr += 1", "resp.force_close()", "self.wsgi(environ,"),
        *("resp.write(item)", "resp.close()", "self.log.access(", "respiter.close()", "resp.should_close()"),
        "self.cfg.post_request(",
    )
    assert [given.find(step) for step in steps] == sorted(given.find(step) for step in steps)
    assert all(step in given for step in steps) and len(given.splitlines()) <= 57
    assert list(inspect.signature(wsgi.create).parameters)[:5] == ["req", "sock", "client", "server", "cfg"]


def test_what_else_our_worker_calls_is_there() -> None:
    assert "deadline" in inspect.signature(RequestParser.finish_body).parameters
    assert callable(TConn.set_timeout)
    assert callable(TConn.close)
    assert callable(util.close)
    assert isinstance(Logger.access_log_enabled, property)
    assert "if not self.mesg:" in inspect.getsource(RequestParser.finish_body)
    assert "if self.mesg and self.mesg.should_close():" in inspect.getsource(RequestParser.__next__)
