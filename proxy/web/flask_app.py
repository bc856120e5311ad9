"""Flask without what none of our requests needs: views that may be coroutines, sessions, and a new look at the host of
each request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Flask, Request, Response
from flask.sessions import NullSession, SessionInterface
from werkzeug.routing import MapAdapter

# Clients name the proxy in a few ways; whoever invents names is read each time.
_MAX_HOSTS = 64


class NoSessions(SessionInterface):
    """The sessions of an application that has none: the same empty one for each request."""

    _empty = NullSession()

    def open_session(self, app: Flask, request: Request) -> NullSession:
        """The empty session, in which nothing can be put."""
        return self._empty

    def save_session(self, app: Flask, session: Any, response: Response) -> None:
        """Nothing."""


class App(Flask):
    """Flask, whose views are all synchronous: it asks that anew of each function that it calls."""

    session_interface = NoSessions()

    def __init__(self, name: str) -> None:
        super().__init__(name, static_folder=None)
        # How hosts that were asked for are called in URLs.
        self._hosts: dict[tuple[str, str], str] = {}

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """The function as it is."""
        return func

    def create_url_adapter(self, request: Request | None) -> MapAdapter | None:
        """What finds the route of a request. Flask checks its host, and writes it as URLs have it; what it makes of one
        is known from then on. A request that asks for another protocol is left to Flask.
        """
        if request is None:
            return super().create_url_adapter(request)
        environ = request.environ
        host = environ.get("HTTP_HOST")
        if host is None or "HTTP_UPGRADE" in environ:
            return super().create_url_adapter(request)
        scheme = environ["wsgi.url_scheme"]
        known = self._hosts.get((scheme, host))
        if known is None:
            return self._learn_host(request, scheme, host)
        return MapAdapter(
            self.url_map,
            known,
            environ.get("SCRIPT_NAME", ""),
            "",
            scheme,
            environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace"),
            environ["REQUEST_METHOD"],
            environ.get("QUERY_STRING", ""),
        )

    def _learn_host(self, request: Request, scheme: str, host: str) -> MapAdapter | None:
        adapter = super().create_url_adapter(request)
        if adapter is not None and len(self._hosts) < _MAX_HOSTS:
            self._hosts[scheme, host] = adapter.server_name
        return adapter
