"""Flask with less: what it finds is what Flask finds, whatever the request says."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask, Request
from werkzeug.exceptions import HTTPException
from werkzeug.routing import Map, Rule
from werkzeug.test import EnvironBuilder

from proxy.web.flask_app import App

RULES = ("/a", "/b/<path:name>", "/for/<client>/a")


def app() -> App:
    made = App("proxy")
    made.url_map = Map([Rule(rule, endpoint=rule, methods=("GET", "POST")) for rule in RULES], merge_slashes=False)
    return made


def found(adapter: Any) -> object:
    """What an adapter says of its request."""
    try:
        return adapter.match(), adapter.server_name, adapter.url_scheme, adapter.query_args
    except HTTPException as error:
        return type(error), adapter.server_name, adapter.url_scheme, adapter.query_args


@pytest.mark.parametrize("host", ["a", "A:80", "a.b:8000", "127.0.0.1:1", "[::1]:9", "", "x y", "b\xfccher.de", "a..b"])
@pytest.mark.parametrize("path", ["/a", "/a/", "//a", "/b/x/y", "/b/%C3%A9", "/b/%FF", "/for/pi/a", "/c"])
def test_a_route_is_found_as_flask_finds_it(host: str, path: str) -> None:
    ours = app()
    for method in ("GET", "POST", "PATCH"):
        environ = EnvironBuilder(path=path, method=method, query_string="x=%41").get_environ()
        environ["HTTP_HOST"] = host
        expected, again, known = (each(ours, environ) for each in (by_flask, by_ours, by_ours))
        assert expected == again == known


def by_flask(ours: App, environ: dict[str, Any]) -> object:
    try:
        return found(Flask.create_url_adapter(ours, Request(environ)))
    except HTTPException as error:
        return type(error)


def by_ours(ours: App, environ: dict[str, Any]) -> object:
    try:
        return found(ours.create_url_adapter(Request(environ)))
    except HTTPException as error:
        return type(error)


@pytest.mark.parametrize("host", [None, "a"])
@pytest.mark.parametrize("header", ["HTTP_UPGRADE", "HTTP_X"])
def test_another_protocol_is_left_to_flask(host: str | None, header: str) -> None:
    ours = app()
    environ = {**EnvironBuilder(path="/a").get_environ(), header: "websocket", "HTTP_CONNECTION": "upgrade"}
    environ |= {"HTTP_HOST": host}
    if host is None:
        del environ["HTTP_HOST"]
    assert by_flask(ours, environ) == by_ours(ours, environ) == by_ours(ours, environ)


def test_hosts_that_clients_invent_are_not_all_known() -> None:
    ours = app()
    for number in range(1000):
        by_ours(ours, {**EnvironBuilder(path="/a").get_environ(), "HTTP_HOST": f"a{number}"})
    assert len(ours._hosts) < 100


def test_nothing_can_be_put_in_a_session() -> None:
    ours = app()
    with ours.test_request_context("/a") as one, ours.test_request_context("/a") as other:
        assert one.session is other.session and not one.session
        with pytest.raises(RuntimeError):
            one.session["a"] = 1
