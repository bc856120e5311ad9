"""A server that answers chat requests with the recorded bytes of real servers (see `tests/recordings`).

It stands in for the real llama.cpp server where that cannot be installed. The recording is picked by the
marker `[[script:NAME]]` of the last message that has one, by `stream`, and by `tool_choice: "none"`.
"""

from __future__ import annotations

import json
import re
import socketserver
from collections.abc import Iterator
from http import client
from pathlib import Path
from typing import Any

from tests.real.threaded import Threaded

RECORDINGS = Path(__file__).parents[1] / "recordings"
DEFAULT_FOLDER = "llama-server-agents"
MARKER = re.compile(r"\[\[script:([\w.-]+)\]\]")


def script_of(messages: list[dict[str, Any]]) -> str:
    """Return the script that the last marker in `messages` names, or nothing."""
    for message in reversed(messages):
        content = message.get("content") or ""
        text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        if found := MARKER.findall(text):
            return str(found[-1])
    return ""


def recording(folder: Path, body: dict[str, Any]) -> Path | None:
    """Return the file in `folder` that answers the chat request `body`.

    With `tool_choice: "none"` that is the recording made so, if there is one, and else the ordinary one:
    where the server did not parse the call, it says the same either way.
    """
    shape = f"{script_of(body['messages'])}-chat-{'stream' if body.get('stream') else 'plain'}"
    names = [f"{shape}-none-*.txt"] if body.get("tool_choice") == "none" else []
    # The status alone follows, so that an ordinary request never gets what was recorded with `none`.
    for name in [*names, f"{shape}-[0-9]*.txt"]:
        if found := sorted(folder.glob(name)):
            return found[0]
    return None


def events(data: bytes) -> Iterator[bytes]:
    """Cut an event stream after the blank line of each event; the pieces together are `data`."""
    start = 0
    while start < len(data):
        end = data.find(b"\n\n", start)
        end = len(data) if end < 0 else end + 2
        yield data[start:end]
        start = end


class _Server(socketserver.ThreadingTCPServer):
    """The listening socket; knows the folder of recordings."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False  # a client that keeps its connection open must not hold up the end
    folder: Path


class _Handler(socketserver.StreamRequestHandler):
    """One connection, with any number of requests."""

    disable_nagle_algorithm = True
    server: _Server

    def handle(self) -> None:
        """Answer requests until the client leaves."""
        try:
            while self._answer_one():
                pass
        except (ConnectionError, ValueError):
            return  # the client left, or speaks something else

    def _answer_one(self) -> bool:
        """Answer one request; say whether there was one and another may follow."""
        request = self.rfile.readline(65536).decode("latin-1").split()
        if len(request) != 3:
            return False
        headers = client.parse_headers(self.rfile)
        body = self.rfile.read(int(headers.get("content-length", 0)))
        method, path, _ = request
        if method == "POST" and path == "/v1/chat/completions":
            self._replay(json.loads(body))
        elif method == "GET" and path == "/health":
            self._send(200, b'{"status":"ok"}')
        elif method == "GET" and path == "/v1/models":
            self._send(200, json.dumps(self._models()).encode())
        else:
            self._refuse(f"no {method} {path} here")
        return headers.get("connection", "").lower() != "close"

    def _models(self) -> dict[str, Any]:
        """Return the list of models: one, owned by the kind of server that was recorded."""
        owner = "vllm" if self.server.folder.name.startswith("vllm") else "llamacpp"
        return {"object": "list", "data": [{"id": "recorded", "object": "model", "owned_by": owner}]}

    def _replay(self, body: dict[str, Any]) -> None:
        """Send the recording that answers `body`, with its status."""
        path = recording(self.server.folder, body)
        if path is None:
            self._refuse(f"no recording for script {script_of(body['messages'])!r}")
            return
        data, status = path.read_bytes(), int(path.stem[-3:])
        if data.startswith(b"data:"):
            self._send_events(data)
        else:
            self._send(status, data)

    def _refuse(self, message: str) -> None:
        """Answer 404 with an error object."""
        error = {"message": message, "type": "not_found_error", "param": None, "code": 404}
        self._send(404, json.dumps({"error": error}).encode())

    def _send(self, status: int, data: bytes) -> None:
        """Answer with a whole JSON body."""
        head = f"HTTP/1.1 {status} {client.responses[status]}\r\nContent-Type: application/json\r\n"
        self.wfile.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)

    def _send_events(self, data: bytes) -> None:
        """Answer with an event stream: each event a chunk, as soon as the one before is out."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for event in events(data):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
        self.wfile.write(b"0\r\n\r\n")


class ReplayServer(Threaded[_Server]):
    """A context manager: a server at `url` that replays one folder of `tests/recordings`."""

    def __init__(self, folder: str = DEFAULT_FOLDER) -> None:
        super().__init__(_Server(("127.0.0.1", 0), _Handler))
        self._server.folder = RECORDINGS / folder
