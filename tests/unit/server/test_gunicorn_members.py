"""What our worker overrides or uses of gunicorn's loop: a new gunicorn without it is met here, not by users."""

from __future__ import annotations

import inspect

import pytest
from gunicorn import util
from gunicorn.http.parser import RequestParser
from gunicorn.workers.gthread import TConn, ThreadWorker

METHODS = {
    "init_process": "self",
    "run": "self",
    "handle_quit": "self sig frame",
    "handle_exit": "self sig frame",
    "set_accept_enabled": "self enabled",
    "accept": "self listener",
    "wait_for_and_dispatch_events": "self timeout",
    "enqueue_req": "self conn",
    "finish_request": "self conn fs",
    "handle_request": "self req conn",
    "_keepalive_after": "self conn keepalive",
    "murder_pending": "self",
    "on_pending_socket_readable": "self conn client",
    "on_client_socket_readable": "self conn client",
}
ATTRIBUTES = ("nr_conns", "poller", "pending_conns", "keepalived_conns", "worker_connections")
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


def test_what_else_our_worker_calls_is_there() -> None:
    assert "deadline" in inspect.signature(RequestParser.finish_body).parameters
    assert callable(TConn.set_timeout)
    assert callable(TConn.close)
    assert callable(util.close)
