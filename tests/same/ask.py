"""Send all cases to one tree's application in all dialects. It runs as a script in that tree.

It uses only stable interfaces: `proxy.app:create_app()`, settings in the environment, and the paths of the APIs.
Arguments: the file of cases (JSON lines), and the file for the answers (JSON lines: name, status, body in base64).
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import json
import os
import re
import secrets
import sys
import threading
import uuid
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
# Two runs of one tree differ only in these times.
_TIMES = re.compile(rb'"(created_at|completed_at)":\d+')
MODELS = {"object": "list", "data": [{"id": "tiny", "object": "model", "owned_by": "vllm", "max_model_len": 65536}]}


class Server(BaseHTTPRequestHandler):
    """A model server that sends the answer of the case named in `user`."""

    answers: ClassVar[dict[str, tuple[str, bytes]]] = {}

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        self._send(200 if self.path.startswith("/v1/models") else 404, "application/json", json.dumps(MODELS).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kind, answer = self.answers[body["user"] + ("/stream" if body.get("stream") else "/whole")]
        self._send(200, kind, answer)

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def in_messages(body: dict[str, Any]) -> dict[str, Any] | None:
    """Return a chat request as a Messages request, or None if it has tool results."""
    if len(body["messages"]) > 1:
        return None
    asked: dict[str, Any] = {"model": "tiny", "max_tokens": 4096, "messages": body["messages"]}
    asked["stream"] = body.get("stream", False)
    asked["metadata"] = {"user_id": body["user"]}
    functions = [tool["function"] for tool in body.get("tools", [])]
    if functions:
        asked["tools"] = [
            {
                "name": function["name"],
                "description": function.get("description") or "a tool",
                "input_schema": {"type": "object", **(function.get("parameters") or {})},
            }
            for function in functions
        ]
    return asked


def in_responses(body: dict[str, Any]) -> dict[str, Any] | None:
    """Return a chat request as a Responses request, or None if it has tool results."""
    if len(body["messages"]) > 1:
        return None
    asked: dict[str, Any] = {"model": "tiny", "input": body["messages"], "stream": body.get("stream", False)}
    tools = [{"type": "function", **tool["function"]} for tool in body.get("tools", [])]
    if tools:
        asked["tools"] = tools
    return {**asked, "store": False, "user": body["user"]}


def answers_of(cases: Iterable[dict[str, Any]]) -> Iterable[tuple[str, int, bytes]]:
    """Yield name, status and body of this tree's answer to each case."""
    from proxy.app import create_app  # noqa: PLC0415  # reads the environment that main() sets

    client = create_app().test_client()
    for case in cases:
        asked = [
            ("chat", CHAT, case["body"]),
            ("messages", MESSAGES, in_messages(case["body"])),
            ("responses", RESPONSES, in_responses(case["body"])),
        ]
        for dialect, path, body in asked:
            if body is not None:
                with client.post(path, json=body) as response:
                    answer = _TIMES.sub(rb'"\1":0', response.get_data())
                    yield f"{dialect}/{case['name']}", response.status_code, answer


def main(given: str, taken: str) -> None:
    """Read the cases from one file, and write the answers to another."""
    secrets.token_bytes = lambda nbytes=None: bytes(nbytes or 32)
    secrets.token_hex = lambda nbytes=None: bytes(nbytes or 32).hex()
    uuid.uuid4 = lambda: uuid.UUID(int=0)
    os.urandom = lambda size: b"\0" * size
    for module in ("headers", "fresh_ids"):  # older trees have one of them
        with contextlib.suppress(ImportError, AttributeError):
            importlib.import_module(f"proxy.web.{module}").fresh_bytes.__code__ = (lambda size: b"\0" * size).__code__
    with open(given, encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    for case in cases:
        kind = "text/event-stream" if case["stream"] else "application/json"
        key = case["body"]["user"] + ("/stream" if case["stream"] else "/whole")
        Server.answers[key] = (kind, base64.b64decode(case["answer"]))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ["TOOL_PROXY_UPSTREAM"] = f"http://127.0.0.1:{server.server_port}"
    with open(taken, "w", encoding="utf-8") as out:
        for name, status, body in answers_of(cases):
            out.write(json.dumps([name, status, base64.b64encode(body).decode()]) + "\n")
    server.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
