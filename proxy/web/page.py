"""Routes of the live page. The views are imported at the first request for one of them."""

from __future__ import annotations

from flask import Response

from proxy.web.app import View
from proxy.web.routes import LIVE_PAGE, Route


def _view_of(route: Route) -> View:
    def view(**values: str) -> Response:
        from proxy.web.page_views import VIEWS  # noqa: PLC0415

        return VIEWS[route](**values)

    return view


PAGE = {route: _view_of(route) for route in LIVE_PAGE}
