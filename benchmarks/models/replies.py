"""Replies of a served model, each generated once and stored in a file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import requests

from benchmarks.models.questions import Json

PATIENCE = 900  # seconds for one reply: a busy machine writes two tokens a second


@dataclass(frozen=True)
class Reply:
    """A server's reply to one question: its text, its calls, and its cost."""

    text: str
    calls: list[tuple[str, str]]
    finish: str
    tokens: int
    seconds: float
    error: str = ""


class Replies:
    """Replies of one model by request, stored in a file of JSON lines. New replies are appended immediately."""

    def __init__(self, file: Path, model: str) -> None:
        """Read the file. `model` identifies the weights and the chat template, which determine the replies."""
        self._file = file
        self._model = model
        self._known: dict[str, Reply] = {}
        if file.exists():
            for line in file.read_text("utf-8").splitlines():
                try:
                    row = json.loads(line)
                except ValueError:
                    continue  # incomplete line: the disk was full, or the run was stopped during the write
                calls = [(name, arguments) for name, arguments in row["reply"]["calls"]]
                self._known[row["key"]] = Reply(**{**row["reply"], "calls": calls})

    def ask(self, server: Callable[[], str], request: Json) -> Reply:
        """Return the reply to a request. If it is not stored, the server at `server()` generates it."""
        reply = self._known.get(self._key(request))
        if reply is None:
            reply = ask(server(), request)
            key = self._key(request)
            self._known[key] = reply
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a", encoding="utf-8") as out:
                out.write(json.dumps({"key": key, "reply": dataclasses.asdict(reply)}) + "\n")
        return reply

    def _key(self, request: Json) -> str:
        return hashlib.sha256(json.dumps([self._model, request], sort_keys=True).encode()).hexdigest()


def ask(url: str, request: Json) -> Reply:
    """Send a request and return the reply. An error response becomes the reply's error."""
    with requests.Session() as session:
        session.trust_env = False  # a proxy named by the environment must not see 127.0.0.1
        answer = session.post(f"{url}/v1/chat/completions", json=request, timeout=PATIENCE)
    seconds = answer.elapsed.total_seconds()
    if not answer.ok:
        return Reply("", [], "", 0, seconds, f"{answer.status_code} {answer.text[:300]}")
    body = answer.json()
    choice = body["choices"][0]
    functions = [call["function"] for call in choice["message"].get("tool_calls") or ()]
    return Reply(
        choice["message"].get("content") or "",
        [(function["name"], function["arguments"]) for function in functions],
        choice["finish_reason"],
        body.get("usage", {}).get("completion_tokens", 0),
        seconds,
    )
