"""The module that gunicorn loads: `proxy.app:create_app()`."""

from __future__ import annotations

from flask import Flask, Response

from proxy.web import app
from proxy.web.app import View
from proxy.web.routes import LIVE_PAGE, Route


def _view_of(route: Route) -> View:
    def view(**values: str) -> Response:
        from proxy.web.page_views import VIEWS  # noqa: PLC0415 - imported at the first request for the page

        return VIEWS[route](**values)

    return view


# The routes of the live page.
PAGE = {route: _view_of(route) for route in LIVE_PAGE}


def create_app() -> Flask:
    """The application for one worker, with its live page; RulesError if settings or rules cannot be used."""
    return app.create_app(PAGE)
