"""A model server that answers as a test says, without a socket, to an exchange or to the whole application."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from proxy.config.rules import StripFields
from proxy.dialects.chat.answer import ChatDialect
from proxy.dialects.chat.request import ChatRequest, read_chat
from proxy.dialects.chat.writer import ChatOptions
from proxy.engine.engine import Engine
from proxy.engine.task import Task
from proxy.exchange.attempt import Exchange
from proxy.exchange.plan import Plan
from proxy.upstream.answer_wait import AnswerWait, Timeouts
from proxy.upstream.client import USUAL, ModelServer, Waiting
from proxy.upstream.paths import MODELS
from tests.support.helpers import OFFERED, SEED, offered
from tests.support.scripted import chat

SSE = "text/event-stream"
JSON = "application/json"
# Where nothing has come, and a heartbeat is due.
BEAT = None


@dataclass
class Answer:
    """What the model server says to one request, in these parts; an error is raised where it stands."""

    parts: Sequence[bytes | Exception | None]
    type: str = SSE
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    closed: bool = False
    coding: str = ""

    def __enter__(self) -> Answer:
        return self

    def fileno(self) -> int:
        """There is nothing to poll."""
        return -1

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nobody waits for the rest of it."""
        self.closed = True

    @property
    def length(self) -> int | None:
        """The length of the body, if it said so."""
        return int(self.headers["Content-Length"]) if "Content-Length" in self.headers else None

    def header(self, name: str) -> str:
        """A header of the answer."""
        return {"Content-Type": self.type, **self.headers}.get(name, "")


@dataclass
class Server:
    """A model server that gives these answers, one after the other; `asked` are the bodies that went up, `seen` the
    method, the path and the headers of each. Its `models` are listed whenever they are asked for; the proxy's own
    question about a model that it forwards a request for gets no list if there are none.
    """

    answers: list[Answer | Exception]
    asked: list[bytes] = field(default_factory=list)
    seen: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    models: tuple[str, ...] = ()

    def open(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None, waiting: Waiting = USUAL
    ) -> Answer:
        """The next answer."""
        asked_for_a_request = headers.get("Content-Type") == JSON
        if path == MODELS and (self.models or asked_for_a_request):
            cards = [{"id": name, "object": "model", "owned_by": "vllm"} for name in self.models]
            return Answer([json.dumps({"object": "list", "data": cards}).encode()], JSON)
        self.asked.append(body or b"")
        self.seen.append((method, path, dict(headers)))
        answer = self.answers[len(self.asked) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


def parts_of(answer: Answer) -> Iterator[bytes | None]:
    """The parts of an answer, up to an error."""
    for part in answer.parts:
        if isinstance(part, Exception):
            raise part
        yield part


class Wait(AnswerWait):
    """Waits for nothing: what an answer says is there at once, and before each None a heartbeat is due."""

    def __init__(self) -> None:
        super().__init__(None, Timeouts(60.0))
        self._is_due_now = False

    @property
    def heartbeat_due(self) -> bool:
        """True where nothing has come, once."""
        return self._is_due_now

    def wrote(self) -> None:
        """A heartbeat has gone to the client."""
        self._is_due_now = False

    def receive(self, call: Any) -> Iterator[bytes | None]:
        """The parts of the answer."""
        for part in parts_of(call):
            self._is_due_now = part is None
            yield part


@dataclass
class Known:
    """The model server, and what was remembered of it."""

    server: ModelServer
    healings: list[tuple[str, ...]] = field(default_factory=list)
    parser_failures: int = 0

    def kind(self) -> str:
        """What the server is."""
        return "vllm"

    def remember_parser_failure(self) -> None:
        """It cannot find calls."""
        self.parser_failures += 1

    def learnt_healings(self) -> frozenset[str]:
        return frozenset()

    def remember_healings(self, ids: tuple[str, ...]) -> None:
        """It takes only what was healed so."""
        self.healings.append(ids)


@dataclass
class Answered:
    """An exchange, and what its server was asked."""

    exchange: Exchange
    server: Server
    known: Known


def request(**more: object) -> ChatRequest:
    """A request for a stream, with tools."""
    body = chat(**{"stream": True, "tools": [*OFFERED], **more})
    return read_chat(b'{"as": "it came"}', body)


def answered(*answers: Answer | Exception, ask: ChatRequest | None = None, **more: Any) -> Answered:
    """An exchange whose requests are answered so; `more` are fields of the exchange."""
    server = Server([*answers])
    known = Known(cast(ModelServer, server))
    wanted = ask or request()
    options = ChatOptions(model="m", usage=True, clean=StripFields(), parsed=True)
    given: dict[str, Any] = {
        "upstream": known,
        "path": "/v1/chat/completions",
        "headers": {},
        "request": wanted,
        "plan": Plan(),
        "wait": Wait(),
        "engine": lambda raw_text, forced: Engine(Task(tools=offered(), seed=SEED, raw_text=raw_text)),
        "dialect": ChatDialect(options),
        "hold_timeout": 30.0,
    }
    return Answered(Exchange(**{**given, **more}), server, known)


def answering(
    monkeypatch: pytest.MonkeyPatch, *answers: Answer | Exception, models: tuple[str, ...] = ()
) -> Server:
    """Whoever asks any model server from now on has these answers, one after the other."""
    server = Server([*answers], models=models)
    monkeypatch.setattr(ModelServer, "open", lambda _, *given, **more: server.open(*given, **more))
    monkeypatch.setattr(AnswerWait, "receive", lambda _, call: parts_of(call))
    return server
