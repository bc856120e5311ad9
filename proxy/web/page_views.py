"""The views of the live page.

What clients and models wrote is never part of the HTML: it is sent as JSON, and the page's script inserts it as text.
"""

from __future__ import annotations

import time
from importlib import resources

from flask import Response, request

from proxy.errors import NotFound
from proxy.json import dump_json
from proxy.server.activity import Activity
from proxy.server.ring import Story
from proxy.web import routes
from proxy.web.app import View
from proxy.web.context import json_response, request_context
from proxy.web.page_state import last_capture, number_in, state_json, status_json, story_json, without_values

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_ASSETS = ("page.css", "page.js", "dom.js", "diff.js", "story.js")


def _activity() -> Activity:
    """Return the activity to show. Raises NotFound if the page is off."""
    ctx = request_context()
    activity = ctx.worker.activity
    if ctx.snapshot.settings.no_ui or activity is None:
        raise NotFound("the live page is off (no_ui)")
    return activity


def _secured(response: Response) -> Response:
    response.headers.update(_HEADERS)
    return response


def _file(name: str) -> Response:
    data = resources.files("proxy").joinpath("web", "assets", name).read_bytes()
    return _secured(Response(data, content_type=f"{_TYPES[name.rpartition('.')[2]]}; charset=utf-8"))


def page() -> Response:
    """`GET /_ui`: the static page, whose script requests the data."""
    _activity()
    return _file("page.html")


def asset(name: str) -> Response:
    """`GET /_ui/assets/{asset}`: a file of the page. None is secret."""
    _activity()
    if name not in _ASSETS:
        raise NotFound(f"the live page has no file {name[:100]!r}")
    return _file(name)


def state() -> Response:
    """`GET /_ui/state`: the page's data. With `?after=PLACE` only new requests, and no `status` unless requested."""
    after = request.args.get("after", "")
    shown = state_json(_activity(), after)
    if not after or "status" in request.args:
        shown["status"] = status_json(request_context().worker)
    return _secured(json_response(dump_json(shown)))


def one_request(name: str) -> Response:
    """`GET /_ui/requests/{request}`: the story of a request."""
    return _secured(json_response(dump_json(story_json(number_in(name), _story(name)))))


def capture(name: str) -> Response:
    """`GET /_ui/requests/{request}/capture`: the last answer, named and formatted as `serve --capture` does."""
    story = _story(name)
    data = last_capture(story)
    if data is None:
        raise NotFound("the answer of this request was not kept; audit_values: true keeps answers")
    at = story.summary.get("at")
    moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime(at if isinstance(at, float) else 0))
    response = Response(data, content_type="application/octet-stream")
    response.headers["Content-Disposition"] = (
        f'attachment; filename="{moment}.000000Z-{story.summary["id"]}.capture"'
    )
    return _secured(response)


def _story(name: str) -> Story:
    story = _activity().ring.story(number_in(name))
    if story is None:
        raise NotFound("there is no such request; only the newest are kept")
    return story if request_context().snapshot.settings.audit_values else without_values(story)


VIEWS: dict[routes.Route, View] = {
    routes.UI: page,
    routes.UI_ASSET: asset,
    routes.UI_STATE: state,
    routes.UI_REQUEST: one_request,
    routes.UI_CAPTURE: capture,
}
