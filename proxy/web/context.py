"""One request of a client, from its first byte to its log line."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from flask import Response, g

from proxy.config.api_keys import ClientKey
from proxy.config.rules import Profile
from proxy.dialects.base import Dialect
from proxy.dialects.chat.request import ChatRequest
from proxy.exchange.exchange import Outcome
from proxy.upstream.client import ModelServer
from proxy.upstream.pump import HasDescriptor
from proxy.web.headers import JSON_TYPE
from proxy.worker.snapshot import Snapshot
from proxy.worker.state import WorkerState


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """What a client asks of a model, in chat completions, and how the reply goes back to it.

    `server` is where it goes, chosen once, and `headers` are all that it goes up with.
    """

    chat: ChatRequest
    profile: Profile
    dialect: Dialect
    server: ModelServer
    headers: Mapping[str, str]


@dataclass(slots=True)
class RequestContext:
    """One request of a client: what was in force when it came, who sent it, and what its log line will say.

    `socket` is the client's under gunicorn; None elsewhere (test client), where only the upstream is watched.
    `prepared` is None where no model is asked through a dialect. `threaded`: it has one of the threads that replies may
    take. `route` is the rule of its path, `key` the client key that let it in,
    `holds` that it is one of those that the key may have under way, `denied` why it was not let in; `secrets` are what
    no log may show of it; `cors` are the headers for the web page that asks; `failure` is the error that it ended
    with, and `gone` that the client did not wait for its end.
    """

    id: str
    worker: WorkerState
    snapshot: Snapshot
    socket: HasDescriptor | None = None
    method: str = ""
    path: str = ""
    route: str = ""
    dialect: str = "own"
    client: str = ""
    key: ClientKey | None = None
    holds: bool = False
    denied: str = ""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    body: bytes = b""
    cors: Mapping[str, str] = field(default_factory=dict)
    prepared: PreparedRequest | None = None
    threaded: bool = False
    began: float = field(default_factory=time.monotonic)
    first_byte: float = 0.0
    sent: int = 0
    error: str = ""
    failure: BaseException | None = None
    gone: bool = False
    outcome: Outcome = field(default_factory=Outcome)

    def check_model(self, model: str) -> None:
        """Raise Forbidden if its key may not use this model, by the name that the model server knows."""
        if self.key is not None:
            self.key.check_model(model)


def request_context() -> RequestContext:
    """The context of the request that this thread works on."""
    current: RequestContext = g.context
    return current


def json_response(data: bytes, status: int = 200) -> Response:
    """A JSON answer of these very bytes."""
    return Response(data, status, content_type=JSON_TYPE)
