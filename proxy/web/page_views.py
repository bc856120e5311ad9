"""The live page: its views, and its data as JSON.

What clients and models wrote is never part of the HTML: it is sent as JSON, and the page's script inserts it as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources

from flask import Response, request

from proxy import __version__
from proxy.errors import NotFound
from proxy.json import Json, JsonObject, dump_json, objects_in
from proxy.library import reasons
from proxy.server.activity import TOTALS, Activity, Record, verdict
from proxy.web.context import request_context
from proxy.web.headers import JSON_TYPE

_NUMBER = re.compile(r"[0-9]{1,15}")
_TITLES = {
    "asked": "What the client sent",
    "up": "What was sent upstream",
    "capture": "What the model server answered",
    "sent": "What the client got",
}
# The fields of a row that the page shows, searches or counts.
_ROW = ("at", "model", "client", "tools", "result", "tokens", "ms", "status", "error", "id", "refused")


def number_in(text: str) -> int:
    """Return the number of a request, or 0 if the text is not one."""
    return int(text) if _NUMBER.fullmatch(text) else 0


def _steps(record: Record) -> Iterator[JsonObject]:
    for name, data in record.parts.items():
        kind, _, number = name.partition(" ")
        title = f"{_TITLES[kind]}, try {number}" if number else _TITLES[kind]
        # The first line of a capture describes the request.
        text = data.partition(b"\n")[2] if kind == "capture" else data
        yield {"title": title, "text": text.decode("utf-8", "replace")}


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
_ASSETS = {"page.css": "text/css", **dict.fromkeys(("page.js", "dom.js", "diff.js", "story.js"), "text/javascript")}


def _activity() -> Activity:
    """Return the activity to show. Raises NotFound if the page is off."""
    ctx = request_context()
    activity = ctx.worker.activity
    if ctx.snapshot.settings.no_ui or activity is None:
        raise NotFound("the live page is off (no_ui)")
    return activity


def _secured(data: bytes, content_type: str = JSON_TYPE) -> Response:
    return Response(data, content_type=content_type, headers=_HEADERS)


def _file(name: str, kind: str) -> Response:
    data = resources.files("proxy").joinpath("web", "assets", name).read_bytes()
    return _secured(data, f"{kind}; charset=utf-8")


def page() -> Response:
    """`GET /_ui`: the static page, whose script requests the data."""
    _activity()
    return _file("page.html", "text/html")


def asset(name: str) -> Response:
    """`GET /_ui/assets/{asset}`: a file of the page. None is secret."""
    _activity()
    if name not in _ASSETS:
        raise NotFound(f"the live page has no file {name[:100]!r}")
    return _file(name, _ASSETS[name])


def state() -> Response:
    """`GET /_ui/state`: what is in force and what is wrong, the totals, and the newest requests.

    With `?after=NUMBER`, only requests with higher numbers.
    """
    activity, worker = _activity(), request_context().worker
    snapshot, ring = worker.current(), activity.ring
    activity.flush()
    newest, models = ring.newest(number_in(request.args.get("after", ""))), ring.totals()
    totals = {field: sum(each[field] for each in models.values()) for field in TOTALS}
    shown: JsonObject = {
        "version": __version__,
        "values": snapshot.settings.audit_values,
        "reasons": {**reasons()},
        "servers": [{"url": url, "ready": snapshot.is_ready(url)} for url in snapshot.servers],
        "rules": {"source": snapshot.rules.source, "error": worker.published.error},
        "requests": [{"number": each, **{field: one.get(field) for field in _ROW}} for each, one in newest],
        "verdict": verdict(totals),
        "totals": {**totals},
        "models": [{"model": model, **counts} for model, counts in models.items()],
    }
    return _secured(dump_json(shown))


def one_request(name: str) -> Response:
    """`GET /_ui/requests/{request}`: a request in steps: what the client sent, each try, and what the client got."""
    record = _record(name)
    return _secured(dump_json({**record.summary, "number": number_in(name), "steps": [*_steps(record)]}))


def _record(name: str) -> Record:
    record = _activity().ring.record(number_in(name))
    if record is None:
        raise NotFound("there is no such request; only the newest are kept")
    if request_context().snapshot.settings.audit_values:
        return record
    # Values may have been recorded before a reload that forbids showing them.
    listed = objects_in(record.summary.get("repairs"))
    repairs: list[Json] = [{key: each[key] for key in each if key not in ("before", "after")} for each in listed]
    return Record({**record.summary, "repairs": repairs, "values": False})
