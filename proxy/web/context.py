"""The context of one client request, from its first byte to its log line."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from flask import Request, Response
from flask.globals import request_ctx

from proxy.config.api_keys import ClientKey
from proxy.config.rules import Profile
from proxy.dialects.base import Dialect
from proxy.dialects.chat.request import ChatRequest
from proxy.exchange.outcome import Outcome
from proxy.exchange.recording import Recording
from proxy.healing.families import Family
from proxy.healing.heal import HealPlan
from proxy.notations.thoughts import Thoughts
from proxy.server.logging_setup import keep_secrets
from proxy.server.snapshot import Snapshot
from proxy.server.state import WorkerState
from proxy.upstream.answer_wait import AnswerWait, HasDescriptor, HasTurn, Timeouts
from proxy.upstream.client import ModelServer
from proxy.web.headers import JSON_TYPE, MAX_SECRETS, fresh_bytes
from proxy.web.routes import Route


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A client's request in the internal form, with its server and the dialect of its reply.

    `headers` are all headers for `server`. `thoughts` describes how reasoning is marked in the text of the reply.
    `family` is the model's family.
    """

    chat: ChatRequest
    profile: Profile
    dialect: Dialect
    server: ModelServer
    headers: Mapping[str, str]
    thoughts: Thoughts
    family: Family | None


@dataclass(slots=True)
class RequestContext:
    """One client request: the rules in force when it arrived, its sender, its resources and its results.

    - `socket`: the client's socket under gunicorn; None for a test client, where only the upstream is watched.
    - `turn`: the turn to compute, released while the request waits; or None.
    - `held`: functions that release the request's resources (`give_back`).
    - `in_messages`: the answer or error is in the Messages dialect.
    - `route`: None until it is found. `prepared`: None unless the request asks a model through a dialect.
    - `key`: the accepted client key. `denied`: the reason of a rejection. `upstream_key`: the key to send upstream.
    - `secrets`: values that no log may show.
    - `seed`: the seed for call ids.
    - `cors`: headers for the web page that sent the request.
    - `sent`: the number of bytes sent. `recording`: the bodies, if they are captured or the live page may show them.
    """

    id: str
    worker: WorkerState
    snapshot: Snapshot
    socket: HasDescriptor | None = None
    turn: HasTurn | None = None
    method: str = ""
    path: str = ""
    route: Route | None = None
    client: str = ""
    key: ClientKey | None = None
    denied: str = ""
    in_messages: bool = False
    upstream_key: str = field(default="", repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    seed: bytes = field(default_factory=partial(fresh_bytes, 16), repr=False)
    body: bytes = b""
    cors: Mapping[str, str] = field(default_factory=dict)
    prepared: PreparedRequest | None = None
    began: float = field(default_factory=time.monotonic)
    first_byte: float = 0.0
    sent: int = 0
    recording: Recording | None = None
    outcome: Outcome = field(default_factory=Outcome)
    held: list[Callable[[], object]] = field(default_factory=list)

    @property
    def dialect(self) -> str:
        """The route's dialect, for the log and the metrics; `own` without a route."""
        return "own" if self.route is None else self.route.dialect

    def server_key(self, model: str | None) -> str:
        """Return the key for the server of a model (None: the main server), or "", and mask it in logs and errors."""
        key = self.snapshot.server_key(model, self.upstream_key)
        self.add_secret(key)
        return key

    def add_secret(self, secret: str) -> None:
        """Mask a secret in all further logs and errors. Ignores ""."""
        if secret and secret not in self.secrets:
            self.secrets = (secret, *self.secrets)[:MAX_SECRETS]
            keep_secrets(self.secrets)

    def heal_plan(self, model: str, family: Family | None = None) -> HealPlan:
        """Return the healings for a model from its family, the rules and earlier errors of its server."""
        return self.snapshot.rules.heal_plan(model, family).learnt(self.worker.lessons_of(model))

    def wait(self, timeouts: Timeouts) -> AnswerWait:
        """Return a wait object for a response. Its wait ends if the client disconnects or the worker stops."""
        return AnswerWait(self.socket, timeouts, self.worker.drain, turn=self.turn)

    def take_thread(self) -> None:
        """Count the request as one that may use a thread for long. Raises Unavailable if there are too many."""
        self.worker.take_thread()
        self.held.append(self.worker.return_thread)

    def return_thread(self) -> None:
        """Stop counting the request as one that uses a thread."""
        with contextlib.suppress(ValueError):
            self.held.remove(self.worker.return_thread)
            self.worker.return_thread()

    def take_stream(self) -> None:
        """Count the request as a stream. Raises Unavailable."""
        self.worker.take_stream()
        self.held.append(self.worker.return_stream)

    def give_back(self) -> None:
        """Release all resources, newest first, even if one of the functions fails."""
        try:
            while self.held:
                self.held.pop()()
        finally:
            if self.held:
                self.give_back()

    def check_model(self, model: str) -> None:
        """Raise Forbidden if the client key may not use a model, given by its upstream name."""
        if self.key is not None:
            self.key.check_model(model)


class ClientRequest(Request):
    """Flask's request with its context. The environ does not refer to it, so both are freed when the request ends."""

    context: RequestContext

    def __init__(self, environ: dict[str, Any]) -> None:
        super().__init__(environ, populate_request=False)


def current_request() -> ClientRequest:
    """Return this thread's request. Flask's `request` looks it up again for each attribute."""
    current = request_ctx.request
    assert isinstance(current, ClientRequest)
    return current


def request_context() -> RequestContext:
    """Return the context of this thread's request."""
    return current_request().context


def json_response(data: bytes, status: int = 200) -> Response:
    """Return a response with this JSON."""
    return Response(data, status, content_type=JSON_TYPE)
