"""A model server that renders the template which the model's name is, and answers with the prompt.

The prompt is in hexadecimal digits: in the calls of its history the proxy would find calls. What the template refuses
is a 400 in vLLM's words.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from tests.support.chat_templates import Refused, templates


class _Renderer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """The models, and that all is well."""
        cards = [{"id": template.name, "object": "model", "owned_by": "vllm"} for template in templates()]
        self._answer(200, {"object": "list", "data": cards})

    def do_POST(self) -> None:
        """A prompt for a conversation, as the answer to it."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        by_name = {template.name: template for template in templates()}
        try:
            prompt = by_name[body["model"]].render(body)
        except Refused as refused:
            self._answer(400, {"error": {"message": str(refused), "type": "BadRequestError", "code": 400}})
            return
        message = {"role": "assistant", "content": prompt.encode().hex()}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        whole = {"id": "c", "object": "chat.completion", "created": 0, "model": body["model"]}
        self._answer(200, {**whole, "choices": [choice], "usage": usage})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@contextmanager
def rendering() -> Iterator[str]:
    """The URL of such a server, while it lasts."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Renderer)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
