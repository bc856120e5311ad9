"""One request of a client, from its first byte to its log line."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from flask import Response, g

from .dialects import Dialect
from .fleet import Way
from .keys import ClientKey
from .pump import HasDescriptor
from .rewrite import ChatRequest
from .rules import Profile
from .service import Service
from .snapshot import Snapshot
from .stream import Outcome

JSON_TYPE = "application/json"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a client asks of a model, in chat completions, and how the reply goes back to it."""

    chat: ChatRequest
    profile: Profile
    dialect: Dialect


@dataclass(slots=True)
class Visit:
    """One request of a client: what was in force when it came, who sent it, and what its log line will say.

    `socket` is the client's under gunicorn; None elsewhere (test client), where only the upstream is watched. `asked`
    is None where no model is asked through a dialect, `way` where no model server was chosen yet. `threaded`: it has
    one of the threads that replies may take. `route` is the rule of its path, `key` the client key that let it in,
    `holds` that it is one of those that the key may have under way, `denied` why it was not let in; `secrets` are what
    no log may show of it; `cors` are the headers for the web page that asks; `failure` is the error that it ended
    with, and `gone` that the client did not wait for its end.
    """

    id: str
    service: Service
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
    asked: Asked | None = None
    way: Way | None = None
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


def visit() -> Visit:
    """The visit of the request that this thread works on."""
    current: Visit = g.visit
    return current


def json_response(data: bytes, status: int = 200) -> Response:
    """A JSON answer of these very bytes."""
    return Response(data, status, content_type=JSON_TYPE)
