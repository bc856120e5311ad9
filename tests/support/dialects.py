"""The dialects from a client's view: how it builds requests and reads responses.

A line in `DIALECTS` adds a dialect to the fault matrix and the soak. `tests/support/translated.py` reads replies with
these classes too. They use no code of the proxy, not even the lenient `proxy/dialects/chat/client_view.py`: a strict
client's errors must show, even if the proxy's reader has the same defect as its writer.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.support import responses_checker
from tests.support.messages_checker import StreamReading, check_error, check_message, need
from tests.support.scripted import WRITE_FILE


@dataclass
class Told:
    """A client's result of an answer.

    `finish` is "" without a finish reason. `odd` counts events that the dialect does not have. `calls` are names and
    arguments as far as they arrived, `ids` their ids. `error` is the kind of the final error, or "", and `words` is its
    message. `thoughts`: the answer has reasoning in addition to text.
    """

    text: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    finish: str = ""
    error: str = ""
    words: str = ""
    odd: int = 0
    thoughts: bool = False

    @property
    def failed(self) -> bool:
        """Whether the answer ends in an error and has no sign of success."""
        return bool(self.error) and not self.finish

    @property
    def whole_calls(self) -> list[tuple[str, Any]]:
        """Return the calls that a client could run: those whose arguments are an object."""
        return [(name, read) for name, given in self.calls if isinstance(read := _read(given), dict)]


def _read(given: str) -> Any:
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(given)
    return None


class Dialect(Protocol):
    """A dialect. The readers raise AssertionError for anything that a strict client would reject."""

    name: str
    path: str
    beat: bytes
    first_beat: bytes
    statuses: Mapping[int, int]

    def ask(self, *, streamed: bool, tools: bool, **more: Any) -> dict[str, Any]:
        """Return the body of a request, with or without a tool."""

    def stream(self, data: bytes) -> Told:
        """Read a stream until its end: it has an error or a finish, but not both."""

    def whole(self, data: bytes) -> Told:
        """Read a whole answer."""

    def error(self, data: bytes, status: int) -> Told:
        """Read the body of an answer with an error status."""

    def status(self, status: int) -> int:
        """Return the status that this dialect uses for a status of the proxy."""


class Chat:
    name = "chat"
    path = "/v1/chat/completions"
    beat = first_beat = b": ping\n\n"
    statuses: Mapping[int, int] = {}
    _finishes: Mapping[str, str] = {"tool_calls": "calls"}

    def status(self, status: int) -> int:
        return self.statuses.get(status, status)

    def ask(self, *, streamed: bool, tools: bool, **more: Any) -> dict[str, Any]:
        offered = {"tools": [WRITE_FILE]} if tools else {}
        return {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], "stream": streamed, **offered, **more}

    def stream(self, data: bytes) -> Told:
        """Read events until `[DONE]` or an error, which must be last. Only usage may follow a finish."""
        told, done = Told(), False
        for said in events(data):
            need(not done and not told.error, f"{said!r} follows the end")
            if said == "[DONE]":
                done = True
                continue
            body = _read(said)
            if isinstance(body, dict) and body.get("error"):
                self._fail(told, body["error"])
                told.finish = ""  # an error after the finish is an error, because `[DONE]` is missing
            elif isinstance(body, dict) and isinstance(body.get("choices"), list):
                for choice in body["choices"]:
                    self._take_choice(told, choice)
            else:
                told.odd += 1
        need(done is not bool(told.error), "the stream must end with either [DONE] or an error")
        need(told.error or told.finish, "[DONE] without a finish reason")
        return told

    def _take_choice(self, told: Told, choice: dict[str, Any]) -> None:
        need(not told.finish, f"{choice} follows the finish")
        need(choice["index"] == 0, "a choice other than the first")
        said = choice["delta"]
        told.text += said.get("content") or ""
        for call in said.get("tool_calls") or ():
            self._take_call(told, call["index"], call)
        told.finish = self._finish(choice.get("finish_reason"))

    def _take_call(self, told: Told, index: int, call: dict[str, Any]) -> None:
        given = call["function"]
        if index == len(told.calls):
            need(isinstance(call["id"], str) and call["id"] not in told.ids, f"missing or duplicate id: {call}")
            told.ids.append(call["id"])
            told.calls.append((given["name"], given.get("arguments") or ""))
            return
        need(type(index) is int and 0 <= index < len(told.calls), f"index {index!r}")
        need(not call.get("id") and not given.get("name"), f"{call} repeats its id or name")
        name, before = told.calls[index]
        told.calls[index] = (name, before + (given.get("arguments") or ""))

    def _finish(self, reason: str | None) -> str:
        return self._finishes.get(reason or "", reason or "")

    def whole(self, data: bytes) -> Told:
        body = json.loads(data.decode("utf-8", "replace"))
        need("error" not in body, "the answer has status 200 and an error")
        (choice,) = body["choices"]
        said = choice["message"]
        told = Told(text=said.get("content") or "", finish=self._finish(choice["finish_reason"]))
        for call in said.get("tool_calls") or ():
            need(isinstance(call["id"], str) and call["id"] not in told.ids, f"missing or duplicate id: {call}")
            told.ids.append(call["id"])
            told.calls.append((call["function"]["name"], call["function"]["arguments"]))
        need(told.finish, "the whole answer has no finish reason")
        return told

    def error(self, data: bytes, status: int) -> Told:
        told = Told()
        self._fail(told, json.loads(data)["error"])
        return told

    @staticmethod
    def _fail(told: Told, error: Any) -> None:
        need(isinstance(error, dict), f"the error is {error!r}")
        need(isinstance(error["message"], str) and error["message"], "the error has no message")
        need(isinstance(error["type"], str) and error["type"], "the error has no type")
        told.error, told.words = error["type"], error["message"]


class Messages:
    name = "messages"
    path = "/v1/messages"
    beat = first_beat = b'event: ping\ndata: {"type":"ping"}\n\n'
    # This API has its own status for an overloaded server. Statuses that it lacks become a bad request.
    statuses: Mapping[int, int] = {503: 529, 415: 400, 422: 400, 414: 413, 417: 400, 431: 413, 501: 400}
    _finishes: Mapping[str, str] = {"end_turn": "stop", "tool_use": "calls", "max_tokens": "length"}

    def status(self, status: int) -> int:
        """Return the status as this API has it."""
        return self.statuses.get(status, status)

    def ask(self, *, streamed: bool, tools: bool, **more: Any) -> dict[str, Any]:
        tool = {"name": "write_file", "input_schema": WRITE_FILE["function"]["parameters"]}
        body = {"model": "tiny", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}], "stream": streamed}
        return {**body, **({"tools": [tool]} if tools else {}), **more}

    def stream(self, data: bytes) -> Told:
        """Read the message from its events, or its part before the error."""
        reading = StreamReading()
        made = reading.read(data)
        told = Told(text="".join(block.said for block in reading.blocks if block.kind == "text"))
        told.thoughts = any(block.kind == "thinking" for block in reading.blocks)
        for block in reading.blocks:
            if block.kind == "tool_use":
                told.ids.append(block.start["id"])
                told.calls.append((block.start["name"], block.said))
        if made["type"] == "error":
            told.error, told.words = made["error"]["type"], made["error"]["message"]
        else:
            told.finish = self._finish(made["stop_reason"])
        return told

    def _finish(self, reason: str) -> str:
        return self._finishes.get(reason, reason)

    def whole(self, data: bytes) -> Told:
        made = check_message(data)
        told = Told(finish=self._finish(made["stop_reason"]))
        for block in made["content"]:
            if block["type"] == "tool_use":
                told.ids.append(block["id"])
                told.calls.append((block["name"], json.dumps(block["input"])))
            elif block["type"] == "thinking":
                told.thoughts = True
            else:
                told.text += block.get("text", "")
        return told

    def error(self, data: bytes, status: int) -> Told:
        """Read Anthropic's error object, whose type must match the status."""
        given = check_error(data, status)["error"]
        return Told(error=given["type"], words=given["message"])


class Responses:
    """Responses. Checking without the SDK's `types` takes a third of the time."""

    name = "responses"
    path = "/v1/responses"
    beat = b"event: response.in_progress\n"
    first_beat = b"event: response.created\n"
    statuses: Mapping[int, int] = {}

    def __init__(self, *, types: bool = True) -> None:
        self._types = types

    def status(self, status: int) -> int:
        return self.statuses.get(status, status)

    def ask(self, *, streamed: bool, tools: bool, **more: Any) -> dict[str, Any]:
        offered = {"tools": [{"type": "function", **WRITE_FILE["function"]}]} if tools else {}
        return {"model": "tiny", "max_output_tokens": 5, "input": "Hi", "stream": streamed, **offered, **more}

    def stream(self, data: bytes) -> Told:
        """Read the response from its events, or its part before it failed."""
        return self._result(responses_checker.check_stream(data, types=self._types))

    def whole(self, data: bytes) -> Told:
        return self._result(responses_checker.check_response(data))

    def _result(self, made: dict[str, Any]) -> Told:
        told = Told(text=responses_checker.text_of(made), thoughts=bool(responses_checker.text_of(made, "reasoning")))
        calls = [item for item in made["output"] if item["type"] == "function_call"]
        told.ids = [item["call_id"] for item in calls]
        told.calls = [(item["name"], item["arguments"]) for item in calls]
        if made["status"] == "failed":
            told.error, told.words = made["error"]["code"], made["error"]["message"]
        elif made["status"] == "incomplete":
            told.finish = {"max_output_tokens": "length"}.get(reason := made["incomplete_details"]["reason"], reason)
        else:
            told.finish = "calls" if calls else "stop"
        return told

    def error(self, data: bytes, status: int) -> Told:
        """Read OpenAI's error object, which must have a code."""
        given = responses_checker.check_error(data, status)
        return Told(error=given["code"] or given["type"], words=given["message"])


DIALECTS: Mapping[str, Dialect] = {each.name: each for each in (Chat(), Messages(), Responses())}


def events(data: bytes) -> Iterator[str]:
    """Yield the data of each event as the standard says: any line end, several lines, comments.

    Raises AssertionError if the last event is incomplete.
    """
    text = data.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    blocks = text.split("\n\n")
    need(not blocks[-1].strip("\n"), f"the stream ends within an event: {blocks[-1][:200]!r}")
    for block in blocks:
        lines = [line for line in block.split("\n") if line.startswith("data:") or line == "data"]
        said = "\n".join(line[5:].removeprefix(" ") for line in lines)
        if said:
            yield said
