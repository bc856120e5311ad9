"""What happens to a request before its view, step by step; none of it asks the network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from flask import Request
from flask import request as current

from proxy.config.api_keys import ClientKey
from proxy.config.settings import Settings
from proxy.errors import NotFound
from proxy.web import admission as steps
from proxy.web.app import make_app
from proxy.web.context import RequestContext
from proxy.worker.state import WorkerState
from tests.support.worker_state import make_state, read_rules


def worker(**settings: Any) -> WorkerState:
    return make_state(Settings(upstream="http://127.0.0.1:9", **settings), read_rules(None))


@contextmanager
def requested(path: str, method: str = "GET", *, of: WorkerState | None = None, **given: Any) -> Iterator[Request]:
    with make_app(of or worker()).test_request_context(path, method=method, **given):
        yield current


def context(of: WorkerState, key: ClientKey | None = None, method: str = "POST") -> RequestContext:
    return RequestContext("r1", of, of.current(), method=method, key=key)


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


def test_all_is_given_back_the_last_first_whatever_goes_wrong() -> None:
    done: list[str] = []

    def fails() -> None:
        raise OSError("no")

    ctx = context(worker())
    ctx.held += [lambda: done.append("first"), fails, lambda: done.append("last")]
    with pytest.raises(OSError, match="no"):
        ctx.give_back()
    assert done == ["last", "first"] and not ctx.held
