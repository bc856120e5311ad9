"""Requests to the examined model server, their cost, and its replies as clients read them.

No request changes the server: they read models and versions, render prompts, and generate a few tokens.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from proxy.config.settings import Settings, origin
from proxy.dialects.chat.answer import entries
from proxy.dialects.chat.client_view import ChoiceView, view_reply
from proxy.display import cut
from proxy.errors import ProxyError
from proxy.json import JsonObject, as_object, as_text, dump_request, object_in, objects_in
from proxy.secrets import masked
from proxy.upstream.api import CHAT_COMPLETIONS
from proxy.upstream.client import ModelServer
from proxy.upstream.model_list import listed
from proxy.upstream.responses import error_of, fetch

_TIMEOUT = 504
_CONNECT_SECONDS = 2.0
_START = "start the model server, or pass its URL with --upstream"
# Maximum number of characters shown of a server's text.
_SHOWN = 160
_REASONING = ("reasoning_content", "reasoning")


def unreachable(url: str, seconds: float = _CONNECT_SECONDS, usual: str = "", remedy: str = _START) -> str:
    """Return one sentence on why no connection to a server can be made; "" if one can.

    `usual` is the usual URL of such a server; it defaults to the model server's default URL.
    """
    _, host, port = origin(url)
    try:
        socket.create_connection((host, port), seconds).close()
    except (socket.gaierror, UnicodeError):
        return f"unknown host {host}"
    except TimeoutError:
        return f"no connection to {url} within {seconds:g} s"
    except ConnectionRefusedError:
        usual = usual or Settings().upstream
        if url.rstrip("/") != usual and host in ("localhost", "127.0.0.1", "::1") and not unreachable(usual, seconds):
            return f"connection refused at {url}; did you mean {usual}?"
        return f"connection refused at {url}; {remedy}"
    except OSError as error:
        return f"no connection to {url} ({error.strerror or error})"
    return ""


def key_refused(status: int, key_from: str) -> str:
    """Return one sentence on a server's 401 or 403. `key_from` names the source of the key, if there is one."""
    if key_from:
        return f"the server refuses the key in {key_from} ({status})"
    return f"the server wants a key ({status}); name its variable with --key-env"


def no_model(model: str, names: Sequence[str]) -> str:
    """Return one sentence on a missing model, with the models that the server has."""
    return f"no model {model!r}; the server has: {listed(names)}"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the server. If none was received, `status` is 0 and `trouble` is the reason."""

    status: int
    body: bytes = b""
    trouble: str = ""
    timed_out: bool = False

    @property
    def json(self) -> JsonObject:
        """The body if it is a JSON object, otherwise an empty one."""
        return object_in(self.body)

    @property
    def error(self) -> str:
        """The error message of an answer other than 200."""
        return error_of(self.status, self.body).message


@dataclass(slots=True)
class Spent:
    """The cost of an examination: requests, tokens reported by the server, seconds."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.began


class Asker:
    """Sends requests to one model server, with its `key` if it has one. `key_from` names the source of the key.

    Each answer must be complete within `seconds`, and all of them within `budget` seconds, after which `is_over` is
    true. The key is masked in errors that quote it.
    """

    def __init__(
        self, server: ModelServer, key: str, seconds: float, budget: float = math.inf, key_from: str = ""
    ) -> None:
        self.spent = Spent()
        self.seconds = seconds
        self.budget = budget
        self.key_from = key_from
        self.is_over = False
        self._server = server
        self._key = key
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    @property
    def url(self) -> str:
        """The URL of the server."""
        return self._server.target.url

    def chat(self, body: JsonObject) -> Reply:
        """Return the reply to a chat request."""
        answer = self.request(CHAT_COMPLETIONS, body)
        reply = Reply(answer, streamed=body.get("stream") is True)
        self.spent.prompt_tokens += reply.count("prompt_tokens") or 0
        self.spent.completion_tokens += reply.count("completion_tokens") or 0
        return reply

    def request(self, path: str, body: JsonObject | None = None, seconds: float = math.inf) -> Answer:
        """Return the answer to a GET or, with a body, to a POST of JSON. `seconds` may only shorten the time limit."""
        left = self.budget - self.spent.seconds
        if left <= 0:
            self.is_over = True
            return Answer(0, trouble="the time for all probes is over", timed_out=True)
        self.spent.requests += 1
        seconds = min(left, seconds, self.seconds)
        headers, data = self._headers, None
        if body is not None:
            headers, data = {**headers, "Content-Type": "application/json"}, dump_request(body)
        try:
            status, whole = fetch(self._server, path, headers, seconds, data)
        except ProxyError as error:
            timed_out = error.status == _TIMEOUT
            self.is_over |= timed_out and seconds == left
            trouble = f"no answer within {seconds:g} s" if timed_out else error.message
            return Answer(0, trouble=trouble, timed_out=timed_out)
        return Answer(status, masked(whole, (self._key,)) if status >= 400 else whole)


class Reply:
    """An answer to `POST /v1/chat/completions`: its first choice, or why it has none."""

    def __init__(self, answer: Answer, *, streamed: bool) -> None:
        self.status = answer.status
        self.body = answer.body
        self._answer = answer
        view = view_reply(answer.body, streamed=streamed and self.status == 200)
        choice = view.choices.get(0, ChoiceView())
        self.text, self.reasoning = choice.text, choice.reasoning
        self.calls, self.ids = choice.calls, choice.ids
        self.finish = choice.finish or ""
        self.error = view.error or (answer.error if self.status != 200 else "")
        # Whether it is a success without an error in its body, and whether a stream ended with `[DONE]`.
        self.taken = self.status == 200 and not self.error and bool(view.choices)
        self.done = view.done
        self._chunks = view.chunks
        place = "delta" if streamed else "message"
        self._messages = [as_object(entry.get(place)) for chunk in view.chunks for entry in entries(chunk)]

    @property
    def is_silent(self) -> bool:
        """Whether it has neither a call nor text, except blanks."""
        return not self.calls and not self.text.strip()

    @property
    def why_not(self) -> str:
        """The reason why it is not a reply, for people."""
        if self._answer.trouble:
            return self._answer.trouble
        return f"status {self.status}: {shown(self.error) or 'it is not a reply'}"

    @property
    def reasoning_field(self) -> str:
        """The field that contains its reasoning, or ""."""
        named = (name for message in self._messages for name in _REASONING if as_text(message.get(name)).strip())
        return next(named, "")

    @property
    def bare_deltas(self) -> int:
        """The number of call deltas without an index, which strict clients cannot assign to a call."""
        entries = [call for message in self._messages for call in objects_in(message.get("tool_calls"))]
        return sum(type(call.get("index")) is not int for call in entries)

    def count(self, name: str) -> int | None:
        """Return one token count of its usage; None if it is missing."""
        counts = (as_object(chunk.get("usage")).get(name) for chunk in reversed(self._chunks))
        return next((count for count in counts if type(count) is int), None)


def shown(text: str) -> str:
    """Return a text of the server or the model on one line, shortened for a report."""
    return cut(" ".join(text.split()), _SHOWN)
