"""Helpers of Messages tests: requests as Claude Code sends them, and a model server that lists its models."""

from __future__ import annotations

from typing import Any

from werkzeug.test import TestResponse

from tests.support.messages_checker import check_message, check_stream
from tests.support.scripted import (
    DONE,
    ROLE,
    USAGE,
    WRITE_FILE,
    Action,
    Script,
    Upstream,
    answer,
    arguments,
    completion,
    delta,
    finish,
    opened,
    stream,
    text,
)

MESSAGES = "/v1/messages"
COUNT = "/v1/messages/count_tokens"
MODELS = "/v1/models"
CHAT = "/v1/chat/completions"
VERSION = {"anthropic-version": "2023-06-01"}
# WRITE_FILE in the form of this API.
TOOL: dict[str, Any] = {
    "name": "write_file",
    "description": "Write a file.",
    "input_schema": WRITE_FILE["function"]["parameters"],
}
HERMES = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a.txt", "content": "hi"}}\n</tool_call>'
INPUT = {"path": "a.txt", "content": "hi"}


def ask(content: object = "Hi", **more: Any) -> dict[str, Any]:
    """Return a Messages request; by default it asks for a stream and offers no tools."""
    messages = [{"role": "user", "content": content}]
    return {"model": "claude-x", "max_tokens": 1000, "messages": messages, "stream": True, **more}


def cards(*names: str, owner: str = "vllm", **more: object) -> list[Action]:
    """Return the answer to GET /v1/models."""
    listed = [{"id": name, "object": "model", "created": 1795223438, "owned_by": owner, **more} for name in names]
    return [answer({"object": "list", "data": listed})]


def serving(*scripts: Script, models: Script = (), **tls: Any) -> Upstream:
    """Return an upstream with these scripts. It lists one model, `tiny`, unless `models` is another answer."""
    server = Upstream(*scripts, **tls)
    server.paths[MODELS] = models or cards("tiny")
    return server


def message(response: TestResponse, *, status: int = 200) -> dict[str, Any]:
    """Return the message, or the error in its stream, that a strict client reads. The status must be `status`."""
    assert response.status_code == status, response.data
    if response.headers["Content-Type"].startswith("text/event-stream"):
        return check_stream(response.data)
    assert response.headers["Content-Type"] == "application/json"
    return check_message(response.data)


def said(made: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the kind and content of each block of a message."""
    fields = {"tool_use": "input", "text": "text", "thinking": "thinking"}
    return [(block["type"], block[fields[block["type"]]]) for block in made["content"]]


def call(id_: str, arguments_: str, name: str = "write_file") -> dict[str, Any]:
    """Return a structured call as in a whole answer."""
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments_}}


def reply(streamed: bool, said_: str = "", *calls: dict[str, Any], end: str = "stop", **more: Any) -> Script:
    """Return a server's answer with this text and these calls, as a stream of small parts or whole.

    `more` are further string fields of the message, which also arrive in parts.
    """
    if not streamed:
        whole = {"role": "assistant", "content": said_ or None, **more, **({"tool_calls": [*calls]} if calls else {})}
        return [answer(completion(whole, end))]
    events = [ROLE]
    for name, value in more.items():
        events += [delta({name: part}) for part in _parts(value)]
    events += [text(part) for part in _parts(said_)]
    for index, made in enumerate(calls):
        events.append(opened(index, made["id"], made["function"]["name"]))
        events += [arguments(index, part) for part in _parts(made["function"]["arguments"])]
    return stream(*events, finish(end), USAGE, DONE)


def _parts(value: str) -> list[str]:
    return [value[at : at + 5] for at in range(0, len(value), 5)]
