"""The views of the live page. Nothing of what clients and models said is ever part of a page: it goes as JSON, and the
page's script sets it as text.
"""

from __future__ import annotations

import re
import select
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib import resources
from typing import Any

from flask import Response, request
from werkzeug.datastructures import Headers

from proxy.activity.activity import TICK, Activity
from proxy.activity.ring import Story
from proxy.codec import sse
from proxy.codec.json_text import dump_json
from proxy.errors import Denied, Forbidden, NotFound, Unavailable
from proxy.ui.sign_in import expired_cookie, given_key, session_cookie
from proxy.ui.state import PageState, without_values
from proxy.web import routes
from proxy.web.access import authenticate, begin_session, comes_from_elsewhere, cookie_of, end_session, is_of_own_page
from proxy.web.context import RequestContext, json_response, request_context
from proxy.worker.state import PAGES

# Pages that are open at the same time; each has a thread of its worker's.
MAX_PAGES = 16
# An open page asks anew after so many seconds.
PAGE_SECONDS = 600.0
# Wrong keys that may be tried to sign in, a minute, by all browsers together.
SIGN_INS = 30
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Without its own origin in them the page's POSTs would be anybody's.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_HTML = "text/html; charset=utf-8"
_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
_ASSETS = ("page.css", "page.js", "dom.js", "diff.js", "chart.js", "story.js")
_NUMBER = re.compile(r"[0-9]{1,15}")


def _activity() -> Activity:
    """The activity to show. Raises NotFound where the page is off."""
    ctx = request_context()
    activity = ctx.worker.activity
    if ctx.snapshot.settings.no_ui or activity is None:
        raise NotFound("the live page is off (no_ui)")
    return activity


def _secured(response: Response) -> Response:
    response.headers.update(_HEADERS)
    return response


def _file(name: str) -> bytes:
    return resources.files("proxy").joinpath("ui", "assets", name).read_bytes()


def page() -> Response:
    """`GET /_ui`: the page, which is the same for all; what it shows it asks for."""
    _activity()
    return _secured(Response(_file("page.html"), content_type=_HTML))


def sign_in_page(message: bytes = b"") -> Response:
    """The page for a browser that has not signed in."""
    _activity()
    return _secured(Response(_file("sign_in.html").replace(b"<!-- message -->", message), 401, content_type=_HTML))


def asset(name: str) -> Response:
    """`GET /_ui/assets/{asset}`: a file of the page. There is nothing in them that anybody might not see."""
    _activity()
    if name not in _ASSETS:
        raise NotFound(f"the live page has no file {name[:100]!r}")
    return _secured(Response(_file(name), content_type=_TYPES[name.rpartition(".")[2]]))


def sign_in() -> Response:
    """`POST /_ui/sign-in`: a cookie for who knows the admin's key."""
    ctx, activity = request_context(), _activity()
    if not is_of_own_page(request.environ) or comes_from_elsewhere(request.environ):
        raise Forbidden("sign in on the live page itself", "page")
    admin = ctx.snapshot.keys.admin
    if not ctx.snapshot.keys.is_admin(given_key(ctx.body)):
        return _wrong_key(ctx)
    response = Response(status=303, headers=Headers([("Location", routes.UI.path)]))
    response.headers["Set-Cookie"] = session_cookie(begin_session(activity, admin), secure=request.is_secure)
    return _secured(response)


def _wrong_key(ctx: RequestContext) -> Response:
    """A wrong key counts, and too many are a 429; a right one always signs in, whoever tries others meanwhile."""
    wait = ctx.worker.shared.rate_limit("live page", SIGN_INS)
    if not wait:
        ctx.denied = "admin"
        return sign_in_page(b"This is not the admin's key.")
    ctx.denied = "rate"
    refused = sign_in_page(b"Too many wrong keys were tried; wait a moment before you try another one.")
    refused.status_code = 429
    refused.headers["Retry-After"] = str(int(wait))
    return refused


def sign_out() -> Response:
    """`POST /_ui/sign-out`: the cookie holds no more."""
    ctx, activity = request_context(), _activity()
    end_session(activity, ctx.snapshot.keys.admin, cookie_of(request.environ))
    response = Response(status=303, headers=Headers([("Location", routes.UI.path)]))
    response.headers["Set-Cookie"] = expired_cookie(secure=request.is_secure)
    return _secured(response)


def state() -> Response:
    """`GET /_ui/state`: all that the page shows, once."""
    shown = PageState(request_context().worker, _activity())
    return _secured(json_response(dump_json(shown.news())))


def events() -> Response:
    """`GET /_ui/events`: the same, and once a second what is new."""
    ctx, activity = request_context(), _activity()
    # Each holds a thread: clients have the rest of them.
    if not ctx.worker.shared.acquire_slot(PAGES, MAX_PAGES):
        raise Unavailable(f"{MAX_PAGES} live pages are open already; close one")
    ctx.held.append(partial(ctx.worker.shared.release_slot, PAGES))
    shown = PageState(ctx.worker, activity)
    shown.go_on(request.headers.get("Last-Event-ID", ""))
    news = _sent(ctx, shown, request.environ)
    response = Response(news, content_type="text/event-stream; charset=utf-8")
    response.headers["X-Accel-Buffering"] = "no"
    return _secured(response)


def _sent(ctx: RequestContext, shown: PageState, environ: Mapping[str, Any]) -> Iterator[bytes]:
    until = time.monotonic() + PAGE_SECONDS
    # Where the ring cannot be used now the page asks anew, as it does whenever its events end.
    with suppress(Unavailable):
        while time.monotonic() < until and _may_look(ctx, environ):
            data = sse.encode(dump_json(shown.news()))
            yield f"id: {shown.event_id}\n".encode() + data
            if _has_left(ctx):
                return


def _may_look(ctx: RequestContext, environ: Mapping[str, Any]) -> bool:
    """True if who has this page open may see it still: nobody has signed out, and no reload has changed it."""
    snapshot = ctx.worker.current()
    if snapshot.settings.no_ui:
        return False
    try:
        authenticate(routes.UI_EVENTS, dict(environ), snapshot, ctx.worker.activity)
    except Denied:
        return False
    return True


def _has_left(ctx: RequestContext) -> bool:
    """Wait for the next tick; True if the page is gone before, or the worker ends."""
    poll = select.poll()
    if ctx.socket is not None:
        poll.register(ctx.socket.fileno(), select.POLLRDHUP)
    if ctx.worker.stopping is not None:
        poll.register(ctx.worker.stopping, select.POLLIN)
    return bool(poll.poll(int(TICK * 1000)))


def one_request(name: str) -> Response:
    """`GET /_ui/requests/{request}`: its whole story."""
    from proxy.ui.story import story_json  # noqa: PLC0415 (loaded only when a request is opened)

    number, story = _story(name)
    return _secured(json_response(dump_json(story_json(number, story))))


def capture(name: str) -> Response:
    """`GET /_ui/requests/{request}/capture`: its last answer, as `serve --capture` would have written it."""
    from proxy.ui.story import last_capture  # noqa: PLC0415

    _, story = _story(name)
    data = last_capture(story)
    if data is None:
        raise NotFound("nothing was kept of this request's answer; that is done under audit_values")
    response = Response(data, content_type="application/octet-stream")
    response.headers["Content-Disposition"] = f'attachment; filename="{_file_name(story)}"'
    return _secured(response)


def _file_name(story: Story) -> str:
    """As `exchange/capture.py` calls its files."""
    at = story.summary.get("at")
    moment = time.gmtime(at if isinstance(at, float) else 0)
    return f"{time.strftime('%Y%m%dT%H%M%S', moment)}.000000Z-{story.summary['id']}.capture"


def _story(name: str) -> tuple[int, Story]:
    number = _number(name)
    story = _activity().ring.story(number)
    if story is None:
        raise NotFound("this request is not there, or not any more: only the newest are kept")
    if request_context().snapshot.settings.audit_values:
        return number, story
    return number, Story(without_values(story.summary), {})


def _number(text: str) -> int:
    return int(text) if _NUMBER.fullmatch(text) else 0


VIEWS: dict[routes.Route, Callable[..., Response]] = {
    routes.UI: page,
    routes.UI_ASSET: asset,
    routes.UI_SIGN_IN: sign_in,
    routes.UI_SIGN_OUT: sign_out,
    routes.UI_STATE: state,
    routes.UI_EVENTS: events,
    routes.UI_REQUEST: one_request,
    routes.UI_CAPTURE: capture,
}
