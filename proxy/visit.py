"""One request of a client, from its first byte to its log line."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from flask import Response, g

from .dialects import Dialect
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
    is None where no model is asked through a dialect. `threaded`: it has one of the threads that replies may take.
    """

    id: str
    service: Service
    snapshot: Snapshot
    socket: HasDescriptor | None = None
    method: str = ""
    path: str = ""
    client: str = ""
    body: bytes = b""
    asked: Asked | None = None
    threaded: bool = False
    began: float = field(default_factory=time.monotonic)
    first_byte: float = 0.0
    sent: int = 0
    error: str = ""
    outcome: Outcome = field(default_factory=Outcome)


def visit() -> Visit:
    """The visit of the request that this thread works on."""
    current: Visit = g.visit
    return current


def json_response(data: bytes, status: int = 200) -> Response:
    """A JSON answer of these very bytes."""
    return Response(data, status, content_type=JSON_TYPE)
