"""One request's context: what it holds, and gives back."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from proxy.config.api_keys import ClientKey, Forbidden
from proxy.config.settings import Settings
from proxy.errors import Unavailable
from proxy.limits import RESERVED_THREADS
from proxy.web import routes
from proxy.web.app import make_app
from proxy.web.context import RequestContext, current_request, json_response, request_context
from proxy.worker.state import WorkerState
from tests.support.worker_state import make_state, read_rules


def worker(**settings: Any) -> WorkerState:
    return make_state(Settings(upstream="http://h:1", **settings), read_rules(None))


def context(of: WorkerState, **more: Any) -> RequestContext:
    return RequestContext("r1", of, of.current(), **more)


def test_the_dialect_is_the_routes() -> None:
    of = worker()
    assert context(of).dialect == "own"
    assert context(of, route=routes.MESSAGES).dialect == "messages"
    assert context(of, route=routes.PASSED[0]).dialect == "passed"


def test_a_model_is_checked_where_a_key_let_the_request_in() -> None:
    of = worker()
    key = ClientKey("alice", hashlib.sha256(b"a").digest(), models=("large*",))
    context(of).check_model("tiny")
    context(of, key=key).check_model("large-1")
    with pytest.raises(Forbidden):
        context(of, key=key).check_model("tiny")


def test_a_thread_is_given_back_once_however_the_request_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.worker.state.THREADS", RESERVED_THREADS + 1)
    of = worker()
    first, second = context(of), context(of)
    first.return_thread()
    first.take_thread()
    with pytest.raises(Unavailable):
        second.take_thread()
    first.return_thread()
    second.take_thread()
    first.give_back()
    with pytest.raises(Unavailable):
        context(of).take_thread()
    second.give_back()
    context(of).take_thread()


def test_a_stream_is_given_back_at_the_end() -> None:
    of = worker(max_streams=1)
    first = context(of)
    first.take_stream()
    with pytest.raises(Unavailable):
        context(of).take_stream()
    first.give_back()
    context(of).take_stream()


def test_what_was_learnt_of_a_model_is_healed() -> None:
    of = worker()
    learnt = context(of).heal_plan("m")
    assert of.learn("m", ("plain_schemas",))
    assert context(of).heal_plan("m") != learnt
    assert context(of).heal_plan("n") == learnt


def test_the_context_is_that_of_the_request_at_work() -> None:
    of = worker()
    with make_app(of).test_request_context("/"):
        asked = current_request()
        asked.context = made = context(of)
        assert request_context() is made and asked.path == "/"


def test_a_json_answer_has_these_very_bytes() -> None:
    response = json_response(b'{"a":1}', 201)
    assert (response.data, response.status_code, response.content_type) == (b'{"a":1}', 201, "application/json")
