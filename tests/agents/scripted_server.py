"""A model server that sends one row's stream, and after a tool's result the final reply.

It supports chat completions, Messages and Responses, has one model, and refuses requests as vLLM does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.agents import chat_replies as chat
from tests.agents import checks
from tests.agents import native_replies as native
from tests.agents.agent import FINAL, MODEL, Agent
from tests.agents.rows import Row
from tests.agents.shape import DIALECTS
from tests.real.replay import events
from tests.real.threaded import Handler, Listener, Threaded

TEXTS: Mapping[str, Callable[[str], bytes]] = {
    "chat": chat.text,
    "messages": lambda said: native.text(native.MESSAGES, said),
    "responses": lambda said: native.text(native.RESPONSES, said),
}
WHOLE = {"chat": chat.whole, "messages": native.MESSAGES.whole, "responses": native.RESPONSES.whole}
# Codex's result for an unknown call, and the model's reply to it.
UNKNOWN = "unsupported call"
GAVE_UP = "A call was not run."
CARD = {"id": MODEL, "object": "model", "created": 7, "owned_by": "vllm", "root": MODEL, "max_model_len": 131072}


def results(body: dict[str, Any]) -> Iterator[str]:
    """Yield the tool results in a request of any dialect, as JSON."""
    for item in body.get("input") or body.get("messages") or ():
        if item.get("role") == "tool" or item.get("type") == "function_call_output":
            yield json.dumps(item)
        elif isinstance(item.get("content"), list):
            yield from (json.dumps(part) for part in item["content"] if part.get("type") == "tool_result")


def refusal(dialect: str, body: dict[str, Any]) -> tuple[int, str]:
    """Return the status and message for a request: 200, or a refusal."""
    if body.get("model") != MODEL:
        return 404, f"The model `{body.get('model')}` does not exist."
    found = [*checks.faults(body)] if dialect == "chat" else []
    return (400, "; ".join(found)) if found else (200, "")


class _Server(Listener):
    """The listening socket, with the row and the agent."""

    row: Row
    agent: Agent


class _Handler(Handler):
    server: _Server

    def do_GET(self) -> None:
        """Answer the requests of a starting proxy."""
        if self.path == "/health":
            self.send_whole(200, b"")
        elif self.path == "/v1/models":
            self.send_whole(200, {"object": "list", "data": [CARD]})
        else:
            self._refuse(404, "Not Found")

    def do_HEAD(self) -> None:
        """Answer as a server without this method."""
        self.send_response(405)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        """Send the row's stream, or the final reply if the call has a result."""
        body = self.body()
        dialect = DIALECTS.get(self.path.partition("?")[0], "")
        if dialect not in self.server.row.bodies:
            self._refuse(404, "Not Found")
            return
        status, why = self.server.row.refusal or refusal(dialect, body)
        told = [*results(body)]
        if status != 200:
            self._refuse(status, why)
        elif body.get("stream"):
            self._answer_stream(dialect, told)
        else:
            self._answer_whole(dialect, bool(told))

    def _answer_stream(self, dialect: str, told: list[str]) -> None:
        row, agent = self.server.row, self.server.agent
        if any(UNKNOWN in each for each in told):
            self.send_stream(events(TEXTS[dialect](GAVE_UP)))
        elif told:
            self.send_stream(events(TEXTS[dialect](FINAL)))
        else:
            self.send_stream(events(row.bodies[dialect](agent)), cut=row.cut)

    def _answer_whole(self, dialect: str, done: bool) -> None:
        """Answer a request for a whole answer, which agents send after a failed stream.

        Of the faults, only the server's death and calls in the text also affect whole answers.
        """
        row, agent = self.server.row, self.server.agent
        said = FINAL if done else row.written(agent) if row.written else ""
        data = WHOLE[dialect](said, None if said else agent.call())
        self.send_whole(200, data, cut=row.cut and not done)

    def _refuse(self, status: int, message: str) -> None:
        error = {"message": message, "type": "invalid_request_error", "param": None, "code": status}
        self.send_whole(status, {"type": "error", "error": error})


class ScriptedServer(Threaded[_Server]):
    """Context manager: the server of one row at `url`, for one agent's tools."""

    def __init__(self, row: Row, agent: Agent) -> None:
        super().__init__(_Server(("127.0.0.1", 0), _Handler))
        self._server.row, self._server.agent = row, agent
