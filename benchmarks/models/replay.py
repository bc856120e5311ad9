"""Fake vLLM without a parser that replays a model's stored replies, and its client."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import requests

from benchmarks.models.questions import Json
from benchmarks.models.replies import PATIENCE, Reply, ask

NO_PARSER = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
PIECE = re.compile(r"\s*\S{1,6}|\s+")  # about a token


class _Server(ThreadingHTTPServer):
    """Server with the data for its handler: the model's name and its replies."""

    daemon_threads = True
    block_on_close = False
    model = ""
    reply: Callable[[Json], Reply]


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        """List the one model."""
        card = {"id": self.server.model, "object": "model", "owned_by": "vllm", "root": self.server.model}
        self._send(200, "application/json", json.dumps({"object": "list", "data": [card]}).encode())

    def do_POST(self) -> None:
        """Answer a chat completion request like vLLM without `--tool-call-parser`."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body.get("tools") and body.get("tool_choice") != "none":
            error = {"error": {"message": NO_PARSER, "type": "BadRequestError", "code": 400}}
            self._send(400, "application/json", json.dumps(error).encode())
            return
        reply = self.server.reply(body)
        usage = {"prompt_tokens": 1, "completion_tokens": reply.tokens, "total_tokens": reply.tokens + 1}
        if not body.get("stream"):
            message = {"role": "assistant", "content": reply.text}
            choice = {"index": 0, "message": message, "finish_reason": reply.finish}
            whole = {**self._envelope("chat.completion"), "choices": [choice], "usage": usage}
            self._send(200, "application/json", json.dumps(whole).encode())
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for delta in ({"role": "assistant"}, *({"content": piece} for piece in PIECE.findall(reply.text))):
            self._send_event(delta, None)
        self._send_event({}, reply.finish)
        self.wfile.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")

    def _envelope(self, kind: str) -> Json:
        return {"id": "chatcmpl-1", "object": kind, "created": 1795223438, "model": self.server.model}

    def _send_event(self, delta: Mapping[str, str], finish: str | None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        event = json.dumps({**self._envelope("chat.completion.chunk"), "choices": [choice]})
        data = f"data: {event}\n\n".encode()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _send(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Do not log requests."""


@contextmanager
def replaying(model: str, reply: Callable[[Json], Reply]) -> Iterator[str]:
    """Serve a model with the replies of `reply` during the block; yield the server's URL."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.model, server.reply = model, reply
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def receive(url: str, request: Json, headers: Mapping[str, str] | None = None) -> Reply:
    """Send a chat completion request, streamed or not, and return the whole reply."""
    if not request.get("stream"):
        return ask(url, request)
    text, finish, calls, error = "", "", list[list[str]](), ""
    began = time.monotonic()
    with requests.Session() as session:
        session.trust_env = False
        where = f"{url}/v1/chat/completions"
        with session.post(where, json=request, headers=headers, stream=True, timeout=PATIENCE) as answer:
            if not answer.ok:
                return Reply("", [], "", 0, answer.elapsed.total_seconds(), f"{answer.status_code} {answer.text[:300]}")
            for line in answer.iter_lines():
                if not line.startswith(b"data: ") or line == b"data: [DONE]":
                    continue
                event = json.loads(line.removeprefix(b"data: "))
                error = str(event.get("error", error))
                for choice in event.get("choices", ()):
                    delta = choice["delta"]
                    text += delta.get("content") or ""
                    finish = choice.get("finish_reason") or finish
                    for part in delta.get("tool_calls") or ():
                        if part["index"] == len(calls):
                            calls.append(["", ""])
                        function = part.get("function") or {}
                        calls[part["index"]][0] += function.get("name") or ""
                        calls[part["index"]][1] += function.get("arguments") or ""
    pairs = [(name, arguments) for name, arguments in calls]
    return Reply(text, pairs, finish, 0, time.monotonic() - began, error)
