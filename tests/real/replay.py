"""A server that answers chat requests with the recorded bytes of real servers (see `tests/recordings`).

It replaces the real llama.cpp server if that cannot be installed. The recording is selected by the last marker
`[[script:NAME]]` in the messages, by `stream`, and by `tool_choice: "none"`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.real.threaded import Handler, Listener, Threaded

RECORDINGS = Path(__file__).parents[1] / "recordings"
DEFAULT_FOLDER = "llama-server-agents"
MARKER = re.compile(r"\[\[script:([\w.-]+)\]\]")


def script_of(messages: list[dict[str, Any]]) -> str:
    """Return the name in the last marker in `messages`, or ""."""
    for message in reversed(messages):
        content = message.get("content") or ""
        text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        if found := MARKER.findall(text):
            return str(found[-1])
    return ""


def recording(folder: Path, body: dict[str, Any]) -> Path | None:
    """Return the file in `folder` that answers the chat request `body`, or None.

    For `tool_choice: "none"`, a recording with it is preferred to the ordinary one. A server that does not parse the
    call gives both the same answer.
    """
    shape = f"{script_of(body['messages'])}-chat-{'stream' if body.get('stream') else 'plain'}"
    names = [f"{shape}-none-*.txt"] if body.get("tool_choice") == "none" else []
    # Only the status may follow, so that an ordinary request never gets a recording with `none`.
    for name in [*names, f"{shape}-[0-9]*.txt"]:
        if found := sorted(folder.glob(name)):
            return found[0]
    return None


def events(data: bytes) -> Iterator[bytes]:
    """Yield the events of `data`, each with its blank line."""
    start = 0
    while start < len(data):
        end = data.find(b"\n\n", start)
        end = len(data) if end < 0 else end + 2
        yield data[start:end]
        start = end


class _Server(Listener):
    """The listening socket, with the folder of recordings."""

    folder: Path


class _Handler(Handler):
    server: _Server

    def do_GET(self) -> None:
        """Answer /health, and list one model, owned by the recorded kind of server."""
        owner = "vllm" if self.server.folder.name.startswith("vllm") else "llamacpp"
        answers = {
            "/health": {"status": "ok"},
            "/v1/models": {"object": "list", "data": [{"id": "recorded", "object": "model", "owned_by": owner}]},
        }
        if self.path in answers:
            self.send_whole(200, answers[self.path])
        else:
            self._refuse(f"GET {self.path} is not supported")

    def do_POST(self) -> None:
        """Send the recording that answers a chat request, with its status."""
        body = self.body()
        if self.path != "/v1/chat/completions":
            self._refuse(f"POST {self.path} is not supported")
            return
        path = recording(self.server.folder, body)
        if path is None:
            self._refuse(f"no recording for script {script_of(body['messages'])!r}")
            return
        data = path.read_bytes()
        if data.startswith(b"data:"):
            self.send_stream(events(data))
        else:
            self.send_whole(int(path.stem[-3:]), data)

    def _refuse(self, message: str) -> None:
        self.send_whole(404, {"error": {"message": message, "type": "not_found_error", "param": None, "code": 404}})


class ReplayServer(Threaded[_Server]):
    """Context manager: a server at `url` that replays one folder of `tests/recordings`."""

    def __init__(self, folder: str = DEFAULT_FOLDER) -> None:
        super().__init__(_Server(("127.0.0.1", 0), _Handler))
        self._server.folder = RECORDINGS / folder
