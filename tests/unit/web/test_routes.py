"""The table of routes: who may use what, and what counts."""

from __future__ import annotations

import pytest

from proxy.web import routes
from proxy.web.routes import BY_PATH, Access, Route

# Of the live page: what is the same for all, and what nobody has signed in for yet.
OF_THE_PAGE = {"/_ui/assets/{asset}", "/_ui/sign-in"}


def paths(**is_: object) -> set[str]:
    """The paths of the routes whose fields are so."""
    return {path for path, route in BY_PATH.items() if is_ == {name: getattr(route, name) for name in is_}}


def test_all_but_these_need_a_client_s_key() -> None:
    assert paths(access=Access.ANYONE) == {"/", "/for/<client>/", "/health", "/_health", "/_ready"} | OF_THE_PAGE
    assert paths(access=Access.ADMIN) == {"/_reload", "/metrics"}
    assert paths(access=Access.PAGE) == {route.path for route in routes.LIVE_PAGE} - OF_THE_PAGE


def test_what_is_answered_here_takes_no_thread_and_no_slot() -> None:
    own = paths(access=Access.ANYONE) | paths(access=Access.ADMIN) | paths(access=Access.PAGE)
    assert paths(dialect="own") == own
    # The events of an open page take a thread as long as it is open.
    assert paths(takes_thread=False) == own - {"/_ui/events"}
    assert not paths(dialect="own") & (paths(names_model=True) | paths(keeps_model_busy=True))


def test_counting_and_listing_keep_no_model_busy() -> None:
    api = {route.path for route in routes.API}
    idle = {"/v1/messages/count_tokens", "/tokenize", "/detokenize", "/v1/models", "/v1/models/{id}"}
    idle |= {"/v1/responses/input_tokens", *(route.path for route in (routes.RESPONSE, *routes.UNSUPPORTED))}
    assert api - paths(keeps_model_busy=True) == idle


def test_a_listed_path_is_passed_and_counts() -> None:
    assert routes.listed_route("/v1/rerank") == Route(
        "/v1/rerank", routes.LISTED_METHODS, "passed", names_model=True, keeps_model_busy=True
    )


@pytest.mark.parametrize(
    ("path", "plain"),
    [("/v1/models", "/v1/models"), ("/for/a/v1/models", "/v1/models"), ("/for/a", "/for/a"), ("/for/a/", "/")],
)
def test_the_client_of_a_path_is_none_of_its_route(path: str, plain: str) -> None:
    assert routes.without_client(path) == plain


@pytest.mark.parametrize(
    ("path", "named", "messages"),
    [
        ("/v1/messages", False, True),
        ("/for/a/v1/messages/count_tokens", False, True),
        ("/v1/messages/batches", False, True),
        ("/v1/models", False, False),
        ("/v1/models", True, True),
        ("/v1/models/a", True, True),
        ("/v1/chat/completions", True, False),
        ("/tokenize", True, False),
        ("/nothing", True, True),
        ("/nothing", False, False),
    ],
)
def test_the_dialect_of_an_answer_is_told_by_the_path_and_else_by_the_header(
    path: str, named: bool, messages: bool
) -> None:
    assert routes.asks_in_messages(path, names_version=named) is messages


def test_the_paths_that_are_shown_are_all_of_them() -> None:
    shown = routes.shown_paths(("/v1/rerank",))
    refused = {route.path for route in (routes.RESPONSE, *routes.UNSUPPORTED)}
    of_the_page = {route.path for route in routes.LIVE_PAGE} - {"/_ui"}
    own = {*BY_PATH} - refused - of_the_page - {"/for/<client>/"}
    assert {*shown} == own | {"/v1/rerank", "/for/{client}/v1/…"}
