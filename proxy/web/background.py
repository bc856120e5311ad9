"""`background: true` where responses are kept: the client is answered at once, and asks for the response later.

The response is made by a request of its own: the same once more, through the whole application, on a thread of its own,
as soon as the client's has given back what it held. So it has all that every request has: the limits of threads and
keys, the log's line, audit, metrics, and the end with its worker. While it goes on its row in the store is renewed;
once that is gone, by whichever worker, nobody wants it any more, and it is broken off as if its client had left.
"""

from __future__ import annotations

import io
import logging
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flask import current_app

from proxy.codec.json_access import as_object, as_text
from proxy.codec.json_text import Json, JsonObject, load_json
from proxy.dialects.responses.kept import Pending
from proxy.errors import NotKept
from proxy.web.context import RequestContext
from proxy.web.prepare import RUN
from proxy.worker.response_store import ResponseStore

log = logging.getLogger("proxy")

# Seconds between two looks at whether a response is still wanted.
BEAT = 1.0
# What of the client's request is not the new one's: its connection, and what was made of it.
ITS_OWN = frozenset(
    ("wsgi.input", "wsgi.input_terminated", "gunicorn.socket", "tool_proxy.hand_over", "tool_proxy.turn")
)
_OF_LIBRARIES = ("werkzeug.", "flask.")
_App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def begin(ctx: RequestContext, environ: Mapping[str, Any], store: ResponseStore, pending: Pending) -> None:
    """Keep a response that is not begun, and begin it when the client's request has ended. Raises NotKept."""
    store.begin(pending.response, pending.resumed.items, pending.resumed.conversation)
    copied = {name: value for name, value in environ.items() if _is_copied(name)}
    again = {**copied, "wsgi.input": io.BytesIO(ctx.body), "CONTENT_LENGTH": str(len(ctx.body)), RUN: pending}
    run = BackgroundRun(current_app.wsgi_app, again, store, pending)
    ctx.afterwards.append(run.start)


def _is_copied(name: str) -> bool:
    return name not in ITS_OWN and not name.startswith(_OF_LIBRARIES)


@dataclass(frozen=True, slots=True)
class BackgroundRun:
    """One response that is being made."""

    app: _App
    environ: dict[str, Any]
    store: ResponseStore
    pending: Pending
    _over: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Make it, on a thread of its own; the worker does not end before that has."""
        threading.Thread(target=self._make, name="background-response").start()

    def _make(self) -> None:
        ours, clients = socket.socketpair()
        watch = threading.Thread(target=self._watch, args=(clients,), name="background-watch", daemon=True)
        watch.start()
        try:
            self._settle(*self._ask(ours))
        except NotKept:
            pass  # the log was told; whoever asks is told that its maker is gone
        except Exception:
            log.exception("a response in the background could not be made")
        finally:
            self._over.set()
            watch.join()
            ours.close()
            clients.close()

    def _watch(self, client: socket.socket) -> None:
        """Renew the row of the response; without one, leave as a client does."""
        while not self._over.wait(BEAT):
            try:
                is_wanted = self.store.beat(self.pending.id)
            except NotKept:
                continue  # the file may be usable again before the response ends
            if not is_wanted:
                client.shutdown(socket.SHUT_RDWR)
                return

    def _ask(self, connection: socket.socket) -> tuple[int, bytes]:
        """Status and body of the request; what is a success has been kept by then."""
        self.store.change({**self.pending.response, "status": "in_progress"})
        statuses: list[int] = []

        def start_response(status: str, headers: object, exc_info: object = None) -> None:
            statuses.append(int(status[:3]))

        parts = self.app({**self.environ, "gunicorn.socket": connection}, start_response)
        try:
            body = b"".join(parts)
        finally:
            close = getattr(parts, "close", None)
            if close is not None:
                close()
        return statuses[-1], body

    def _settle(self, status: int, body: bytes) -> None:
        """Keep why there is no response, if there is none."""
        if status == 200:
            return
        error = _error_in(body)
        code = as_text(error.get("code")) or "server_error"
        message = as_text(error.get("message")) or f"the request ended with status {status}"
        failed: JsonObject = {**self.pending.response, "status": "failed", "error": {"code": code, "message": message}}
        self.store.end(failed, self.pending.resumed.items, self.pending.resumed.conversation)


def _error_in(body: bytes) -> JsonObject:
    try:
        answer: Json = load_json(body)
    except ValueError:
        return {}
    return as_object(as_object(answer).get("error"))
