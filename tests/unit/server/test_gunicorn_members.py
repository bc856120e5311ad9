"""What our worker overrides or uses of gunicorn's loop: a new gunicorn without it is met here, not by users.

What it uses is found in the source (`used`), and must be in these tables.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from gunicorn import util
from gunicorn.config import Config
from gunicorn.glogging import Logger
from gunicorn.http import wsgi
from gunicorn.http.message import Message, Request
from gunicorn.http.parser import RequestParser
from gunicorn.http.unreader import Unreader
from gunicorn.workers.base import Worker as BaseWorker
from gunicorn.workers.gthread import PollableMethodQueue, TConn, ThreadWorker

PACKAGE = Path(__file__).parents[3] / "proxy"
METHODS = {
    "__init__": "self args kwargs",
    "init_process": "self",
    "run": "self",
    "handle_quit": "self sig frame",
    "handle_exit": "self sig frame",
    "set_accept_enabled": "self enabled",
    "accept": "self listener",
    "notify": "self",
    "wait_for_and_dispatch_events": "self timeout",
    "enqueue_req": "self conn",
    "get_thread_pool": "self",
    "handle": "self conn",
    "handle_error": "self req client addr exc",
    "handle_request": "self req conn",
    "_keepalive_after": "self conn keepalive",
    "_cap_keepalive": "self deadline",
    "murder_pending": "self",
    "on_pending_socket_readable": "self conn client",
    "on_client_socket_readable": "self conn client",
}
ATTRIBUTES = (
    *("nr_conns", "poller", "pending_conns", "keepalived_conns", "worker_connections", "max_keepalived"),
    *("method_queue", "nr", "max_requests", "wsgi", "tpool", "sockets", "alive", "cfg", "log"),
)
OF_A_RESPONSE = ("chunked", "headers_sent", "response_length")
METHODS_OF_A_RESPONSE = {
    "write": "self arg",
    "close": "self",
    "force_close": "self",
    "should_close": "self",
    "start_response": "self status headers exc_info",
}
# What the parser says of a head (server/request_head.py).
OF_A_REQUEST = ("method", "uri", "path", "query", "fragment", "version", "headers", "limit_request_fields")
OF_A_CONNECTION = ("sock", "parser", "timeout", "client", "server")
METHODS_OF_A_CONNECTION = {"init": "self", "set_timeout": "self", "close": "self graceful"}
SETTINGS = ("graceful_timeout", "keepalive", "post_request", "pre_request", "threads")
OF_THE_LOG = ("access", "access_log_enabled", "error", "exception", "info")
OF_UTIL = ("close", "close_graceful")


def used(what: str, *files: str) -> set[str]:
    """The attributes of `what`, a pattern for the text before the dot, in these files of the package."""
    return {name for file in files for name in re.findall(rf"\b{what}\.(\w+)", (PACKAGE / file).read_text())}


def members() -> Iterator[str]:
    """What our worker uses of itself, or overrides, and does not bring along."""
    tree = ast.parse((PACKAGE / "gunicorn_conf.py").read_text())
    (ours,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Worker")
    methods = {node.name for node in ours.body if isinstance(node, ast.FunctionDef)}
    attributes = [node for node in ast.walk(ours) if isinstance(node, ast.Attribute)]
    assigned = {each.attr for each in attributes if isinstance(each.ctx, ast.Store) and each.attr[:1] == "_"}
    yield from (name for name in methods if hasattr(ThreadWorker, name))
    for each in attributes:
        match each.value:
            case ast.Name(id="self") if each.attr not in methods | assigned:
                yield each.attr
            case ast.Call(func=ast.Name(id="super")):
                yield each.attr
    yield from used("worker", "server/wsgi_answer.py")


def test_all_that_our_worker_uses_is_looked_for() -> None:
    conf, answers, waits = "gunicorn_conf.py", "server/wsgi_answer.py", "server/client_waits.py"
    assert set(members()) == {*METHODS, *ATTRIBUTES}
    assert used("_?conn", conf, answers, waits) == {*OF_A_CONNECTION, *METHODS_OF_A_CONNECTION}
    assert used("_response", answers) == {*OF_A_RESPONSE, *METHODS_OF_A_RESPONSE}
    assert used("cfg", conf, answers) == {*SETTINGS}
    assert used("log", conf, answers) == {*OF_THE_LOG}
    assert used(r"(?<!importlib\.)util", conf, waits) == {*OF_UTIL}
    assert used("parser", conf, waits) == {"mesg", "finish_body", "unreader"}
    assert used("method_queue", conf) == {"defer"}


@pytest.mark.parametrize(("name", "parameters"), METHODS_OF_A_RESPONSE.items())
def test_a_method_of_a_response_takes_what_our_worker_gives(name: str, parameters: str) -> None:
    assert " ".join(inspect.signature(getattr(wsgi.Response, name)).parameters) == parameters


@pytest.mark.parametrize(("name", "parameters"), METHODS_OF_A_CONNECTION.items())
def test_a_method_of_a_connection_takes_what_our_worker_gives(name: str, parameters: str) -> None:
    assert " ".join(inspect.signature(getattr(TConn, name)).parameters) == parameters


@pytest.mark.parametrize("name", METHODS)
def test_a_method_of_the_loop_takes_what_our_worker_gives(name: str) -> None:
    assert " ".join(inspect.signature(getattr(ThreadWorker, name)).parameters) == METHODS[name]


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_the_loop_has_the_attributes_that_our_worker_uses(name: str) -> None:
    assert f"self.{name}" in inspect.getsource(ThreadWorker) + inspect.getsource(BaseWorker)


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
    assert "callback, *args" in inspect.getsource(PollableMethodQueue.defer)
    assert callable(Request.force_close)
    assert list(inspect.signature(Request.parse).parameters) == ["self", "unreader"]
    read = inspect.getsource(Request) + inspect.getsource(Message)
    assert all(f"self.{name} = " in read for name in OF_A_REQUEST)
    assert "unused = self.parse(self.unreader)" in read
    assert "self.mesg_class(" in inspect.getsource(RequestParser.__next__)
    assert "response_class" in inspect.signature(wsgi.create).parameters
    assert "tosend = self.default_headers()" in inspect.getsource(wsgi.Response.send_headers)
    assert callable(Unreader.unread) and "self.unreader = " in inspect.getsource(RequestParser.__init__)
    assert Config().settings.keys() >= {*SETTINGS}
    assert all(callable(getattr(util, name)) for name in OF_UTIL)
    assert all(hasattr(Logger, name) for name in OF_THE_LOG)
    assert isinstance(Logger.access_log_enabled, property)
    assert "if not self.mesg:" in inspect.getsource(RequestParser.finish_body)
    assert "if self.mesg and self.mesg.should_close():" in inspect.getsource(RequestParser.__next__)
