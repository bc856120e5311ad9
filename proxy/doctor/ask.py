"""Requests of the doctor's to a model server, one after the other, and what they cost.

No request changes anything there: models and versions are read, prompts rendered, a few tokens generated.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from proxy.codec.json_access import as_object, as_text
from proxy.codec.json_text import Json, JsonObject, dump_request, load_json
from proxy.codec.secrets import masked
from proxy.doctor.reply import Reply
from proxy.errors import ProxyError
from proxy.upstream.answer_wait import AnswerWait, Timeouts
from proxy.upstream.client import ModelServer, Waiting
from proxy.upstream.paths import CHAT_COMPLETIONS
from proxy.upstream.responses import decoded, read_body

# Bytes of one answer. None that is asked for is so long.
_MAX_ANSWER = 4 * 1024 * 1024
# So many requests in a row that are not answered in time, and no further one is sent.
MAX_TIMEOUTS = 3
_TIMEOUT = 504


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the server; `status` is 0 and `trouble` says why if none came."""

    status: int
    body: bytes = b""
    trouble: str = ""
    timed_out: bool = False

    @property
    def json(self) -> JsonObject:
        """The body if it is a JSON object, else an empty one."""
        return as_object(self.value)

    @property
    def value(self) -> Json:
        """The body if it is JSON, else None."""
        try:
            return load_json(self.body)
        except ValueError:
            return None

    @property
    def error(self) -> str:
        """The words of an error: OpenAI's `error.message`, vLLM's older flat `message`, FastAPI's `detail`."""
        body = self.json
        error = body.get("error")
        words = as_text(as_object(error).get("message")) or as_text(error) or as_text(body.get("message"))
        return words or as_text(body.get("detail")) or self.body[:300].decode("utf-8", "replace").strip()


@dataclass(slots=True)
class Spent:
    """The cost of an examination: requests, tokens as far as the server counts them, seconds."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.began


class Asker:
    """Asks one model server, with its `key` if it has one; each answer has to come within so many `seconds`, the whole
    of it, and all of them within the `budget`, in seconds too. The key is masked in an error that repeats it.
    """

    def __init__(self, server: ModelServer, key: str, seconds: float, budget: float = math.inf) -> None:
        self.spent = Spent()
        self._server = server
        self._key = key
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.seconds = seconds
        self.budget = budget
        # An answer did not come, or was not asked for, as the budget is spent.
        self.is_over = False
        self._timeouts = 0

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._server.target.url

    def get(self, path: str, seconds: float | None = None) -> Answer:
        """The answer to a GET."""
        return self._ask("GET", path, None, seconds)

    def post(self, path: str, body: JsonObject) -> Answer:
        """The answer to a POST of JSON."""
        return self._ask("POST", path, body, None)

    def chat(self, body: JsonObject) -> Reply:
        """The reply to a chat request."""
        answer = self.post(CHAT_COMPLETIONS, body)
        reply = Reply(answer.status, answer.body, streamed=body.get("stream") is True, trouble=answer.trouble)
        self.spent.prompt_tokens += reply.prompt_tokens or 0
        self.spent.completion_tokens += reply.completion_tokens or 0
        return reply

    def _ask(self, method: str, path: str, body: JsonObject | None, seconds: float | None) -> Answer:
        left = self.budget - self.spent.seconds
        if left <= 0:
            self.is_over = True
            return Answer(0, trouble="the time for all of them is over", timed_out=True)
        if self._timeouts >= MAX_TIMEOUTS:
            return Answer(0, trouble="the server did not answer the requests before this one", timed_out=True)
        self.spent.requests += 1
        seconds = min(left, self.seconds if seconds is None else min(seconds, self.seconds))
        try:
            answer = self._answer(method, path, body, seconds)
        except ProxyError as error:
            timed_out = error.status == _TIMEOUT
            self._timeouts += timed_out
            if timed_out and seconds == left:
                self.is_over = True
            trouble = f"there was no answer within {seconds:g} s" if timed_out else error.message
            return Answer(0, trouble=trouble, timed_out=timed_out)
        self._timeouts = 0
        return answer

    def _answer(self, method: str, path: str, body: JsonObject | None, seconds: float) -> Answer:
        headers = self._headers
        data = None
        if body is not None:
            data = dump_request(body)
            headers = {**headers, "Content-Type": "application/json"}
        wait = AnswerWait(None, Timeouts(seconds, total=seconds))
        with self._server.open(method, path, headers, data, Waiting(seconds)) as call:
            whole = read_body(decoded(call, wait.receive(call)), _MAX_ANSWER)
            while True:
                try:
                    next(whole)
                except StopIteration as done:
                    is_error = call.status >= 400
                    return Answer(call.status, masked(done.value, (self._key,)) if is_error else done.value)
