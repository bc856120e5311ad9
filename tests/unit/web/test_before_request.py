"""What happens to a request before its view, step by step; none of it asks the network."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from flask import Request
from flask import request as current

from proxy.config.api_keys import ClientKey, Forbidden, TooMany
from proxy.config.rules import parse_rules
from proxy.config.settings import Settings
from proxy.errors import NotFound, Unavailable
from proxy.limits import RESERVED_THREADS
from proxy.web import admission as steps
from proxy.web import routes
from proxy.web.app import make_app
from proxy.web.context import RequestContext
from proxy.web.routes import Route
from proxy.worker.state import WorkerState
from tests.support.worker_state import make_state, read_rules

KEY = ClientKey("alice", hashlib.sha256(b"alice").digest(), models=("tiny*",), requests_per_minute=2, streams=1)


def worker(**settings: Any) -> WorkerState:
    return make_state(Settings(upstream="http://127.0.0.1:9", **settings), read_rules(None))


@contextmanager
def requested(path: str, method: str = "GET", *, of: WorkerState | None = None, **given: Any) -> Iterator[Request]:
    with make_app(of or worker()).test_request_context(path, method=method, **given):
        yield current


def context(of: WorkerState, key: ClientKey | None = None, method: str = "POST") -> RequestContext:
    return RequestContext("r1", of, of.current(), method=method, key=key)


def environ(body: bytes) -> dict[str, Any]:
    return {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body)), "CONTENT_TYPE": "application/json"}


@pytest.mark.parametrize(
    ("path", "method", "route", "client"),
    [
        ("/v1/chat/completions", "POST", routes.CHAT, None),
        ("/for/agent/v1/chat/completions", "POST", routes.CHAT, "agent"),
        ("/v1/responses/resp_1", "DELETE", routes.RESPONSE, None),
        ("/v1/chat/completions", "GET", None, None),
        ("/nothing", "GET", None, None),
        ("/v1/rerank", "POST", routes.listed_route("/v1/rerank"), None),
        ("/for/agent/v1/rerank", "POST", routes.listed_route("/v1/rerank"), "agent"),
        ("/v1/rerank", "OPTIONS", None, None),
        ("/v1/rerank/", "POST", None, None),
    ],
)
def test_a_request_is_for_the_route_of_its_path_and_method(
    path: str, method: str, route: Route | None, client: str | None
) -> None:
    served = worker(pass_through=("/v1/rerank", "/v1/messages"))
    with requested(path, method, of=served) as given:
        assert steps.find_target(given, served.current().settings) == (route, client)


def test_no_listed_path_takes_the_place_of_one_of_the_tables() -> None:
    settings = worker(pass_through=("/v1/rerank", "/v1/messages")).current().settings
    assert [steps.is_listed(path, settings) for path in ("/v1/rerank", "/v1/messages", "/v1/other")] == [
        *(True, False, False)
    ]


def test_what_flask_would_redirect_is_not_there() -> None:
    with requested("/for/agent", "GET") as given, pytest.raises(NotFound, match="'/for/agent'"):
        steps.find_target(given, worker().current().settings)


@pytest.mark.parametrize(
    ("path", "origin", "is_own"),
    [
        ("/_ui/assets/page.js", "http://127.0.0.1:8003", True),
        ("/_ui/assets/page.js", "http://elsewhere.example", False),
        ("/_ui/assets/page.js", "", False),
        ("/health", "http://127.0.0.1:8003", False),
        ("/nothing", "http://127.0.0.1:8003", False),
    ],
)
def test_the_live_page_is_known_by_its_path_and_its_own_origin(path: str, origin: str, is_own: bool) -> None:
    from proxy.ui.page import PAGE  # noqa: PLC0415 (the layer above)

    app = make_app(worker(), PAGE)
    headers = {"Host": "127.0.0.1:8003", **({"Origin": origin} if origin else {})}
    with app.test_request_context(path, headers=headers):
        assert steps.is_of_live_page(current) is is_own


def test_a_request_counts_as_active_until_its_context_is_closed() -> None:
    served = worker()
    headers = {"Authorization": "Bearer sk-secret-0123456789", "X-Request-Id": "mine"}
    with requested("/v1/chat/completions?a=b", "POST", of=served, headers=headers) as given:
        ctx, other = steps.begin(served, given), steps.begin(served, given)
    assert (ctx.id, ctx.method, ctx.path) == ("mine", "POST", "/v1/chat/completions")
    assert "sk-secret-0123456789" in ctx.secrets
    # The one that asks for this does not count.
    assert served.health()["active_requests"] == 1
    ctx.give_back()
    assert served.health()["active_requests"] == 0
    other.give_back()


def test_a_key_has_its_share_of_requests() -> None:
    served = worker()
    ctx = context(served, replace(KEY, models=()), method="GET")
    for _ in range(2):
        steps.let_in(ctx, routes.MODELS, {}, None)
    with pytest.raises(TooMany) as caught:
        steps.let_in(ctx, routes.MODELS, {}, None)
    assert caught.value.reason == "rate"
    steps.let_in(context(served, method="GET"), routes.MODELS, {}, None)


def test_what_may_take_long_takes_a_thread_and_gives_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.worker.state.THREADS", RESERVED_THREADS + 4)
    served = worker()
    taken: list[RequestContext] = []
    with pytest.raises(Unavailable):
        for _ in range(10):
            ctx = context(served, method="GET")
            steps.let_in(ctx, routes.MODELS, {}, None)
            taken.append(ctx)
    steps.let_in(context(served, method="GET"), routes.HEALTH[0], {}, None)
    taken[0].return_thread()
    taken[0].give_back()
    steps.let_in(context(served, method="GET"), routes.MODELS, {}, None)
    with pytest.raises(Unavailable):
        steps.let_in(context(served, method="GET"), routes.MODELS, {}, None)


def test_the_client_of_a_request_is_named_in_its_path_or_by_its_key_or_by_the_setting() -> None:
    rules = parse_rules(b"clients: {agent: {parse: proxy}}", "rules.yaml", read_rules(None))
    served = make_state(Settings(upstream="http://127.0.0.1:9", client="usual"), rules)
    of_key = ClientKey("bob", b"", client="keyed")

    def name(key: ClientKey | None, named: str | None) -> str:
        ctx = context(served, key, method="GET")
        steps.let_in(ctx, routes.HEALTH[0], {}, named)
        return ctx.client

    assert name(None, None) == name(replace(KEY, models=()), None) == "usual"
    assert name(of_key, None) == "keyed"
    assert name(of_key, "agent") == "agent"
    with pytest.raises(NotFound, match=r"no client 'agemt'.*agent"):
        name(None, "agemt")


@pytest.mark.parametrize(
    ("method", "route", "body"),
    [
        ("POST", routes.CHAT, b'{"model": "tiny"}'),
        ("GET", routes.CHAT, b""),
        ("POST", routes.RELOAD, b""),
        ("DELETE", routes.RESPONSE, b""),
    ],
)
def test_a_body_is_read_where_one_means_something(method: str, route: Route, body: bytes) -> None:
    ctx = context(worker(), method=method)
    steps.let_in(ctx, route, environ(b'{"model": "tiny"}'), None)
    assert ctx.body == body


def test_a_body_that_passes_names_a_model_that_its_key_may_use() -> None:
    (passed, *_) = routes.PASSED
    served = worker()
    steps.let_in(context(served, replace(KEY, streams=0)), passed, environ(b'{"model": "tiny-2"}'), None)
    with pytest.raises(Forbidden, match="alice"):
        steps.let_in(context(served, KEY), passed, environ(b'{"model": "large"}'), None)


def test_a_key_has_so_many_requests_under_way_until_they_end() -> None:
    served, body, key = worker(), b'{"model": "tiny"}', replace(KEY, requests_per_minute=0)
    first = context(served, key)
    steps.let_in(first, routes.CHAT, environ(body), None)
    with pytest.raises(TooMany) as caught:
        steps.let_in(context(served, key), routes.CHAT, environ(body), None)
    assert (caught.value.reason, caught.value.retry_after) == ("streams", "2")
    steps.let_in(context(served, key, "GET"), routes.RESPONSE, {}, None)
    first.held.pop()()
    steps.let_in(context(served, key), routes.CHAT, environ(body), None)


def test_all_is_given_back_the_last_first_whatever_goes_wrong() -> None:
    done: list[str] = []

    def fails() -> None:
        raise OSError("no")

    ctx = context(worker())
    ctx.held += [lambda: done.append("first"), fails, lambda: done.append("last")]
    with pytest.raises(OSError, match="no"):
        ctx.give_back()
    assert done == ["last", "first"] and not ctx.held
