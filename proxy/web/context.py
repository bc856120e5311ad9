"""One request of a client, from its first byte to its log line."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from flask import Request, Response
from flask.globals import request_ctx

from proxy.activity.recording import Recording
from proxy.config.api_keys import ClientKey
from proxy.config.rules import Profile
from proxy.dialects.base import Dialect
from proxy.dialects.chat.request import ChatRequest
from proxy.exchange.outcome import Outcome
from proxy.healing.families import Family
from proxy.healing.heal import HealPlan
from proxy.notations.thoughts import Thoughts
from proxy.upstream.answer_wait import HasDescriptor, HasTurn
from proxy.upstream.client import ModelServer
from proxy.web.fresh_ids import fresh_bytes
from proxy.web.headers import JSON_TYPE, with_secret
from proxy.web.routes import Route
from proxy.worker.logging_setup import keep_secrets
from proxy.worker.snapshot import Snapshot
from proxy.worker.state import WorkerState

_UNKNOWN = Thoughts(unknown=True)
_SEED_BYTES = 16


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A client's request in chat completions, and the way of its reply.

    `server` is where it goes, chosen once, and `headers` are all that it goes up with. `family` is the model's,
    and `thoughts` says how it marks reasoning in the text of the reply.
    """

    chat: ChatRequest
    profile: Profile
    dialect: Dialect
    server: ModelServer
    headers: Mapping[str, str]
    thoughts: Thoughts = _UNKNOWN
    family: Family | None = None


class HeldThread:
    """A request counts as one that may need its thread for long, until it is given back.

    To make one raises Unavailable where too many do.
    """

    __slots__ = ("_worker",)

    def __init__(self, worker: WorkerState) -> None:
        worker.take_thread()
        self._worker: WorkerState | None = worker

    def give_back(self) -> None:
        """It needs its thread no more; nothing a second time."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.return_thread()


@dataclass(slots=True)
class RequestContext:
    """One request of a client: what was in force when it came, who sent it, and what its log line will say.

    `socket` is the client's under gunicorn; None elsewhere (test client), where only the upstream is watched. `turn` is
    given back where the request waits; None elsewhere. `held` are the steps by which the request gives back what it
    has when it has ended (`give_back`), `thread` is the one that it counts as needing, None where it needs none.
    `in_messages`: what it is told, errors included, is in the Messages dialect.
    `route` is None until one is found, `prepared` where no model is asked through a dialect. `key` is the client key
    that let it in, `denied` why it was not let in, `upstream_key` goes up with it; no log may show its `secrets`.
    `seed` is for the ids of its calls, `cors` are the headers for the web page that asks. `events` have been sent of a
    stream; `recording` has what was said, where the live page may show that. How it ended says its `outcome`.
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
    seed: bytes = field(default_factory=partial(fresh_bytes, _SEED_BYTES), repr=False)
    body: bytes = b""
    cors: Mapping[str, str] = field(default_factory=dict)
    prepared: PreparedRequest | None = None
    began: float = field(default_factory=time.monotonic)
    first_byte: float = 0.0
    sent: int = 0
    events: int = 0
    recording: Recording | None = None
    outcome: Outcome = field(default_factory=Outcome)
    held: list[Callable[[], object]] = field(default_factory=list)
    thread: HeldThread | None = None

    @property
    def dialect(self) -> str:
        """The route's dialect, for the log and the metrics; `own` where there is no route."""
        return "own" if self.route is None else self.route.dialect

    def server_key(self, model: str | None) -> str:
        """Return the key for the server of a model (None: the main server), or ""; no log or error shows it."""
        key = self.snapshot.server_key(model, self.upstream_key)
        request_secrets = with_secret(self.secrets, key)
        if request_secrets is not self.secrets:
            self.secrets = request_secrets
            keep_secrets(request_secrets)
        return key

    def heal_plan(self, model: str, family: Family | None = None) -> HealPlan:
        """The healings of requests for a model: by its family, by the rules, and by refusals."""
        return self.snapshot.rules.heal_plan(model, family).learnt(self.worker.lessons_of(model))

    def hold_thread(self, thread: HeldThread) -> None:
        """Keep what `admit` has taken for it."""
        self.thread = thread
        self.held.append(thread.give_back)

    def return_thread(self) -> None:
        """It needs its thread no more, though it has not ended."""
        if self.thread is not None:
            self.thread.give_back()

    def take_stream(self) -> None:
        """It asks for a stream. Raises Unavailable."""
        self.worker.take_stream()
        self.held.append(self.worker.return_stream)

    def give_back(self) -> None:
        """It has ended: give back what it has, the last first, whatever goes wrong with one of them."""
        try:
            while self.held:
                self.held.pop()()
        finally:
            if self.held:
                self.give_back()

    def check_model(self, model: str) -> None:
        """Raise Forbidden if its key may not use this model, by the name that the model server knows."""
        if self.key is not None:
            self.key.check_model(model)


class ClientRequest(Request):
    """A request as Flask has it, with the context that it is given before its view.

    Its environ does not refer to it: it is given back, with its body, as soon as the request has ended.
    """

    context: RequestContext

    def __init__(self, environ: dict[str, Any]) -> None:
        super().__init__(environ, populate_request=False)


def current_request() -> ClientRequest:
    """The request that this thread works on. Flask's `request` looks for it anew at each of its attributes."""
    current = request_ctx.request
    assert isinstance(current, ClientRequest)
    return current


def request_context() -> RequestContext:
    """The context of the request that this thread works on."""
    return current_request().context


def json_response(data: bytes, status: int = 200) -> Response:
    """A JSON answer of these very bytes."""
    return Response(data, status, content_type=JSON_TYPE)
