"""The context of one client request, from its first byte to its log line."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from flask import Request, Response
from flask.globals import request_ctx

from proxy import __version__
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
from proxy.upstream.api import CONVERSATION
from proxy.upstream.client import ModelServer
from proxy.web.headers import JSON_TYPE, MAX_SECRETS
from proxy.web.routes import Route

View = Callable[..., Response]


@dataclass(frozen=True, slots=True)
class TargetModel:
    """The model of a request, with its server. `requested` is the client's name for the model.

    `headers` are all headers for `server`. `context` is the number of tokens of the model's context, or None if it is
    unknown.
    """

    requested: str
    profile: Profile
    server: ModelServer
    headers: Mapping[str, str]
    family: Family | None
    context: int | None = None

    def server_kind(self, snapshot: Snapshot) -> str:
        """Return the kind of the server, from the rules or from its list of models."""
        return self.profile.server_kind or snapshot.server_kind(self.headers, self.server)


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A client's request in the internal form, with its model and the dialect of its reply.

    `thoughts` describes how reasoning is marked in the text of the reply.
    """

    target: TargetModel
    chat: ChatRequest
    dialect: Dialect
    thoughts: Thoughts


@dataclass(slots=True)
class RequestContext:
    """One client request: the rules in force when it arrived, its sender, its resources and its results.

    - `socket`: the client's socket under gunicorn; None for a test client, where only the upstream is watched.
    - `turn`: the turn to compute, released while the request waits; or None.
    - `held`: releases the request's resources, newest first, when it is closed. `thread`: the same for its
      thread, which a stream returns early.
    - `in_messages`: the answer or error is in the Messages dialect.
    - `route`: None until it is found. `prepared`: None unless the request asks a model through a dialect.
    - `key`: the accepted client key. `upstream_key`: the key to send upstream.
    - `owner`: the digest of the client's credential. `user_agent`: the client's program.
    - `forwarded`: the client's headers that are sent upstream.
    - `secrets`: values that no log may show.
    - `seed`: the seed for call ids.
    - `cors`: headers for the web page that sent the request.
    - `first_byte`: seconds until the first byte of the answer, or None before it. `sent`: the number of bytes sent.
    - `recording`: the bodies, if they are captured or the live page may show them.
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
    in_messages: bool = False
    upstream_key: str = field(default="", repr=False)
    owner: bytes = field(default=b"", repr=False)
    user_agent: str = ""
    forwarded: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    seed: bytes = field(default_factory=partial(os.urandom, 16), repr=False)
    body: bytes = b""
    cors: Mapping[str, str] = field(default_factory=dict)
    prepared: PreparedRequest | None = None
    began: float = field(default_factory=time.monotonic)
    first_byte: float | None = None
    sent: int = 0
    recording: Recording | None = None
    outcome: Outcome = field(default_factory=Outcome)
    held: ExitStack = field(default_factory=ExitStack)
    thread: ExitStack = field(default_factory=ExitStack)

    @property
    def dialect(self) -> str:
        """The route's dialect, for the log and the metrics; `own` without a route."""
        return "own" if self.route is None else self.route.dialect

    def upstream_headers(self, model: str | None, content_type: str = "", conversation: str = "") -> dict[str, str]:
        """Return the headers for a request to the server of a model. None selects the main server.

        They are the client's allowed headers, the proxy's own, and the server's key, which logs and errors mask from
        now on. The key is always sent as `Bearer`, the only form that vLLM accepts. A load
        balancer uses the key of the `conversation` to keep it at one server.
        """
        headers = {"User-Agent": f"vllm-tool-proxy/{__version__}", "X-Request-Id": self.id}
        if content_type:
            headers["Content-Type"] = content_type
        headers |= self.forwarded
        key = self.snapshot.server_key(model, self.upstream_key)
        self.add_secret(key)
        if key:
            headers["Authorization"] = f"Bearer {key}"
        if conversation:
            headers[CONVERSATION] = conversation
        return headers

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
        self.thread.callback(self.worker.return_thread)
        self.held.push(self.thread)

    def take_stream(self) -> None:
        """Count the request as a stream. Raises Unavailable."""
        self.worker.take_stream()
        self.held.callback(self.worker.return_stream)

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
