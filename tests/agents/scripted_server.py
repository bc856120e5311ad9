"""A model server that sends one row's stream, and in the second turn, behind a tool's result, a plain last text.

It is asked in chat completions, in Messages and in Responses alike, owns one model, and refuses what vLLM would refuse.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.agents import chat_replies as chat
from tests.agents import checks
from tests.agents import messages_replies as messages
from tests.agents import responses_replies as responses
from tests.agents.agent import FINAL, MODEL, Agent
from tests.agents.rows import Row
from tests.agents.shape import DIALECTS
from tests.real.replay import events
from tests.real.threaded import Threaded

TEXTS = {"chat": chat.text, "messages": messages.text, "responses": responses.text}
WHOLE = {"chat": chat.whole, "messages": messages.whole, "responses": responses.whole}
# What Codex tells the model of a call that it does not know, whatever else it ran; and what the model makes of it.
UNKNOWN = "unsupported call"
GAVE_UP = "A call was not run."
CARD = {"id": MODEL, "object": "model", "created": 7, "owned_by": "vllm", "root": MODEL, "max_model_len": 131072}


def results(body: dict[str, Any]) -> Iterator[str]:
    """Give the tools' results in the history of a request of any dialect, as JSON."""
    for item in body.get("input") or body.get("messages") or ():
        if item.get("role") == "tool" or item.get("type") == "function_call_output":
            yield json.dumps(item)
        elif isinstance(item.get("content"), list):
            yield from (json.dumps(part) for part in item["content"] if part.get("type") == "tool_result")


def refusal(dialect: str, body: dict[str, Any]) -> tuple[int, str]:
    """Return the status and the words with which a request is refused; 200 if it is not."""
    if body.get("model") != MODEL:
        return 404, f"The model `{body.get('model')}` does not exist."
    found = [*checks.faults(body)] if dialect == "chat" else []
    return (400, "; ".join(found)) if found else (200, "")


class _Server(ThreadingHTTPServer):
    """The listening socket; knows the row and whose it is."""

    daemon_threads = True
    block_on_close = False  # a client that keeps its connection open must not hold up the end
    row: Row
    agent: Agent


class _Handler(BaseHTTPRequestHandler):
    """One connection, with any number of requests."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        """Answer what a proxy asks before it begins."""
        if self.path == "/health":
            self._send(200, b"")
        elif self.path == "/v1/models":
            self._send(200, json.dumps({"object": "list", "data": [CARD]}).encode())
        else:
            self._refuse(404, "Not Found")

    def do_HEAD(self) -> None:
        """Answer as a server that knows no such method here."""
        self.send_response(405)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        """Send the row's stream, or the last text once the call has a result."""
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        dialect = DIALECTS.get(self.path.partition("?")[0], "")
        if dialect not in self.server.row.bodies:
            self._refuse(404, "Not Found")
            return
        body = json.loads(data)
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
            self._stream(TEXTS[dialect](GAVE_UP), cut=False)
        elif told:
            self._stream(TEXTS[dialect](FINAL), cut=False)
        else:
            self._stream(row.bodies[dialect](agent), cut=row.cut)

    def _answer_whole(self, dialect: str, done: bool) -> None:
        """Answer what is not to be streamed: agents ask so when a stream failed. Only streaming is broken here;
        but a server that dies does it again, and a model that writes its calls as text too.
        """
        row, agent = self.server.row, self.server.agent
        said = FINAL if done else row.written(agent) if row.written else ""
        data = WHOLE[dialect](said, None if said else agent.call())
        self._send(200, data, cut=row.cut and not done)

    def _stream(self, data: bytes, cut: bool) -> None:
        """Send an event stream, an event to a chunk; one that is cut has no last chunk."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events(data):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
        if cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _refuse(self, status: int, message: str) -> None:
        """Answer with an error object."""
        error = {"message": message, "type": "invalid_request_error", "param": None, "code": status}
        self._send(status, json.dumps({"type": "error", "error": error}).encode())

    def _send(self, status: int, data: bytes, cut: bool = False) -> None:
        """Answer with a whole body; of one that is cut half is sent."""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if cut else data)
        self.close_connection = self.close_connection or cut

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: what came is recorded on the way."""


class ScriptedServer(Threaded[_Server]):
    """A context manager: the server of one row at `url`, for one agent's tools."""

    def __init__(self, row: Row, agent: Agent) -> None:
        super().__init__(_Server(("127.0.0.1", 0), _Handler))
        self._server.row, self._server.agent = row, agent
