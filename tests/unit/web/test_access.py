"""Who may come in, asked of the route that was found; and how much of both."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from proxy.config.api_keys import ClientKey, Forbidden, Keys, Unauthorized
from proxy.config.settings import Settings
from proxy.errors import BadRequest
from proxy.web import routes
from proxy.web.access import authenticate
from proxy.web.admission import check_named_model, check_target
from proxy.web.routes import Route
from proxy.worker.snapshot import Snapshot, make_snapshot
from tests.support.worker_state import read_rules

ALICE = {"HTTP_AUTHORIZATION": "Bearer alice's"}
LOCAL = {"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "127.0.0.1:8003"}
ELSEWHERE = {"REMOTE_ADDR": "10.0.0.1", "HTTP_HOST": "127.0.0.1:8003"}


def digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def client_key(**limits: Any) -> ClientKey:
    return ClientKey("alice", digest("alice's"), **limits)


def snapshot(keys: Keys, **settings: Any) -> Snapshot:
    return make_snapshot(Settings(upstream="http://h:1", **settings), read_rules(None), keys)


@pytest.mark.parametrize(
    "environ",
    [
        {"SERVER_PROTOCOL": "HTTP/1.1", "HTTP_HOST": "a", "RAW_URI": "/v1/models?a=http://b"},
        {"SERVER_PROTOCOL": "HTTP/1.0", "RAW_URI": "/"},
        {"SERVER_PROTOCOL": "HTTP/1.1", "HTTP_HOST": "a", "RAW_URI": "*", "REQUEST_METHOD": "OPTIONS"},
        {},
    ],
    ids=["a path", "an old client without a Host", "all of the server", "no gunicorn"],
)
def test_what_every_reader_takes_for_the_same_comes_in(environ: dict[str, Any]) -> None:
    check_target(environ)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"SERVER_PROTOCOL": "HTTP/1.1", "RAW_URI": "/"}, "no Host"),
        ({"SERVER_PROTOCOL": "HTTP/1.1", "HTTP_HOST": "", "RAW_URI": "/"}, "no Host"),
        ({"HTTP_HOST": "a", "RAW_URI": "http://b/v1/models"}, "must be a path"),
        ({"HTTP_HOST": "a", "RAW_URI": "b:443", "REQUEST_METHOD": "CONNECT"}, "must be a path"),
        ({"HTTP_HOST": "a", "RAW_URI": "*", "REQUEST_METHOD": "GET"}, "must be a path"),
    ],
)
def test_what_two_readers_may_take_for_two_things_does_not(environ: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        check_target(environ)


@pytest.mark.parametrize("route", [routes.CHAT, routes.MODELS, routes.PASSED[0]])
def test_where_there_are_client_keys_one_is_needed(route: Route) -> None:
    key = client_key()
    at = snapshot(Keys(clients=(key,)))
    assert authenticate(route, {**ALICE}, at) is key
    for given in ({}, {"HTTP_AUTHORIZATION": "Bearer bob's"}):
        with pytest.raises(Unauthorized):
            authenticate(route, {**given}, at)


def test_where_there_are_none_everybody_comes_in() -> None:
    assert authenticate(routes.CHAT, {}, snapshot(Keys())) is None
    assert authenticate(routes.CHAT, {**ALICE}, snapshot(Keys())) is None


def test_that_the_proxy_is_there_everybody_may_know() -> None:
    assert authenticate(routes.READY, {}, snapshot(Keys(clients=(client_key(),)))) is None


@pytest.mark.parametrize("route", [routes.METRICS, routes.UI])
def test_a_clients_key_opens_no_admin_path(route: Route) -> None:
    keys = Keys(clients=(client_key(),), admin=digest("admin's"))
    with pytest.raises(Unauthorized):
        authenticate(route, {**LOCAL, **ALICE}, snapshot(keys))
    assert authenticate(route, {**ELSEWHERE, "HTTP_AUTHORIZATION": "Bearer admin's"}, snapshot(keys)) is None


@pytest.mark.parametrize("route", [routes.METRICS, routes.UI])
def test_without_an_admins_key_only_this_machine_may(route: Route) -> None:
    assert authenticate(route, {**LOCAL}, snapshot(Keys())) is None
    with pytest.raises(Forbidden):
        authenticate(route, {**ELSEWHERE}, snapshot(Keys()))


@pytest.mark.parametrize("body", [b'{"model": "tiny"}', b'{"messages": []}', b"", b"no JSON"])
def test_a_key_with_models_of_its_own_may_use_no_other(body: bytes) -> None:
    key = client_key(models=("large*",))
    with pytest.raises(BadRequest):
        check_named_model(key, routes.PASSED[0], body)
    check_named_model(key, routes.PASSED[0], b'{"model": "large-1"}')


def test_where_two_readers_may_find_two_models_none_is_found() -> None:
    key = client_key(models=("large*",))
    with pytest.raises(BadRequest):
        check_named_model(key, routes.PASSED[0], b'{"model": "large-1", "model": "tiny"}')
    with pytest.raises(BadRequest):
        check_named_model(key, routes.CHAT, b'{"model": "large-1", "model": "tiny"}')


@pytest.mark.parametrize(
    ("key", "route"),
    [
        (client_key(), routes.PASSED[0]),
        (client_key(models=("*",)), routes.PASSED[0]),
        (client_key(models=("large*",)), routes.MODELS),
        (client_key(models=("large*",)), routes.CHAT),
    ],
    ids=["all models", "any model", "no model is named", "the dialect asks"],
)
def test_where_the_body_says_nothing_of_it_another_model_passes(key: ClientKey, route: Route) -> None:
    check_named_model(key, route, b'{"model": "tiny"}')
