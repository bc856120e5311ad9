"""The live page as the application has it: its views are loaded when one of them is first asked for.

A worker's start does without them, and so do the requests that it is there for.
"""

from __future__ import annotations

from collections.abc import Callable

from flask import Response

from proxy.web.app import LivePage
from proxy.web.routes import LIVE_PAGE, Route


def _view_of(route: Route) -> Callable[..., Response]:
    def view(**values: str) -> Response:
        from proxy.ui.views import VIEWS  # noqa: PLC0415

        return VIEWS[route](**values)

    return view


def _sign_in() -> Response:
    from proxy.ui.views import sign_in_page  # noqa: PLC0415

    return sign_in_page()


PAGE = LivePage({route: _view_of(route) for route in LIVE_PAGE}, _sign_in)
